// `dslide serve` in this process, with a model of numbers or of words.
#pragma once

#include <doctest/doctest.h>
#include <httplib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/common/model/small_model.h"
#include "tests/tools/serve/word_model.h"
#include "tools/dslide/serve/request_screen.h"
#include "tools/dslide/serve/router.h"

namespace dslide {

class ServeFixture {
 public:
  explicit ServeFixture(std::shared_ptr<const Model> model = WordModel(),
                        PredictionService::Options options = {},
                        HttpServer::Limits limits = {.body_bytes = 10'000},
                        RequestScreen screen = {"", {}})
      : screen_(std::move(screen)),
        service_(Named(std::move(options)), std::move(model), &metrics_),
        router_("words", &service_, &metrics_) {
    limits.keep_alive = true;
    server_ = *HttpServer::Start(
        "tcp://127.0.0.1:*",
        [this](HttpRequest request, HttpServer::Respond respond) {
          router_.Handle(std::move(request), std::move(respond));
        },
        limits, [this](const HttpRequest& request) { return screen_.Answer(request); },
        [this](const HttpRequest& request) { return screen_.HeadersFor(request); });
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
  }

  struct Answer {
    int status;
    nlohmann::json json;
  };
  Answer Post(const std::string& path, const std::string& body,
              const char* type = "application/json") {
    const httplib::Result result = client_->Post(path, body, type);
    REQUIRE(result);
    return {result->status, nlohmann::json::parse(result->body)};
  }
  Answer Get(const std::string& path) {
    const httplib::Result result = client_->Get(path);
    REQUIRE(result);
    return {result->status, nlohmann::json::parse(result->body)};
  }
  // The names that /predict answers with, of each sample.
  std::vector<std::vector<std::string>> Predict(const std::string& body) {
    const Answer answer = Post("/predict", body);
    REQUIRE_MESSAGE(answer.status == 200, answer.json.dump());
    std::vector<std::vector<std::string>> names;
    for (const auto& each : answer.json["predictions"]) {
      names.emplace_back();
      for (const auto& label : each["labels"]) names.back().push_back(label["label"]);
    }
    return names;
  }
  httplib::Client& client() { return *client_; }
  PredictionService& service() { return service_; }
  Router& router() { return router_; }

 private:
  static PredictionService::Options Named(PredictionService::Options options) {
    options.name = "words";
    return options;
  }
  const RequestScreen screen_;
  ServeMetrics metrics_;
  PredictionService service_;
  Router router_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

}  // namespace dslide
