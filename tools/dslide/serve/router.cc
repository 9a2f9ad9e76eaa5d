#include "tools/dslide/serve/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/plural.h"
#include "common/data/text_stream.h"
#include "serve_pages.h"
#include "tools/dslide/serve/json_request.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

HttpResponse Answer(unsigned status, std::string type, std::string body) {
  return {status, std::move(type), std::make_shared<const std::string>(std::move(body))};
}
HttpResponse Described(unsigned status, const Json& json) {
  return JsonAnswer(status, Compact(json) + "\n");
}

Json AnnifProject(const std::string& name) {
  return {{"project_id", name}, {"name", name},
          {"language", ""},     {"backend", {{"backend_id", "dslide"}}},
          {"is_trained", true}, {"modification_time", nullptr}};
}

// Of the Open Inference Protocol. A request has one of the inputs.
Json ModelMetadata(const std::string& name, const Model& model) {
  const bool text = model.preprocessor() != nullptr;
  Json inputs = Json::array();
  inputs.push_back({{"name", text ? "text" : "features"}, {"datatype", "BYTES"}, {"shape", {-1}}});
  if (!text) {
    inputs.push_back(
        {{"name", "vector"}, {"datatype", "FP32"}, {"shape", {-1, model.info().features()}}});
  }
  return {{"name", name},
          {"versions", Json::array()},
          {"platform", "dslide"},
          {"inputs", std::move(inputs)},
          {"outputs",
           {{{"name", "labels"}, {"datatype", "BYTES"}, {"shape", {-1, -1}}},
            {{"name", "probabilities"}, {"datatype", "FP32"}, {"shape", {-1, -1}}},
            {{"name", "scores"}, {"datatype", "FP32"}, {"shape", {-1, -1}}}}}};
}

Json ModelDescription(const std::string& name, const Model& model) {
  const ModelInfo& info = model.info();
  return {{"name", name},
          {"run", info.name},
          {"input", model.preprocessor() == nullptr ? "features" : "text"},
          {"labels", info.labels()},
          {"features", info.features()},
          {"hidden", info.hidden()},
          {"trained_samples", info.samples},
          {"index", info.probes > 0}};
}

// Of what would be read as something else, or overlooked.
std::optional<Refusal> WhyRefused(const HttpRequest& request, const Dialect& dialect) {
  const std::string& whole_type = request.Header("Content-Type");
  std::string type = whole_type.substr(0, whole_type.find('/'));
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (type == "multipart") {
    return Refusal{415, fmt::format("forms of several parts ({}) are not taken; send {}",
                                    whole_type.substr(0, whole_type.find(';')),
                                    &dialect == &AnnifDialect() ? "an urlencoded form" : "JSON")};
  }
  const std::vector<std::string> known = dialect.query_names();
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return Refusal{400,
                   fmt::format("unknown parameter {} in the address; {}", Quoted(name),
                               known.empty() ? "all parameters of this path are in the body"
                                             : fmt::format("there are {}", Joined(known, ", ")))};
  }
  return std::nullopt;
}

}  // namespace

void Router::Handle(HttpRequest request, HttpServer::Respond respond) {
  const Dialect* dialect = DialectAt(request.path);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (dialect == nullptr) {
    HttpResponse page = Page(request.path);
    respond(reads || page.status == 404
                ? std::move(page)
                : RefusalAnswer(405, fmt::format("{} is read with GET", request.path)));
    return;
  }
  if (request.method != "POST") {
    respond(RefusalAnswer(405, fmt::format("{} is asked with POST", request.path)));
  } else if (const std::string& encoding = request.Header("Content-Encoding");
             !encoding.empty() && encoding != "identity") {
    respond(RefusalAnswer(415, "compressed requests are not taken"));
  } else if (const auto refusal = WhyRefused(request, *dialect)) {
    respond(JsonAnswer(refusal->status, dialect->Refuse(*refusal)));
  } else {
    service_.Submit(std::move(request), *dialect, std::move(respond));
  }
}

const Dialect* Router::DialectAt(const std::string& path) const {
  if (path == "/predict") return &OwnDialect();
  if (path == "/v1/projects/" + name_ + "/suggest") return &AnnifDialect();
  if (path == "/v1/projects/" + name_ + "/suggest-batch") return &AnnifBatchDialect();
  if (path == "/v2/models/" + name_ + "/infer") return &InferenceDialect();
  return nullptr;
}

HttpResponse Router::Page(const std::string& path) const {
  const std::string project = "/v1/projects/" + name_, model = "/v2/models/" + name_;
  const std::shared_ptr<const Model> served = service_.model();
  if (path == "/") return Answer(200, "text/html; charset=utf-8", kServeForm);
  if (path == "/openapi.json") return Answer(200, "application/json", kServeOpenApi);
  if (path == "/model") return Described(200, ModelDescription(name_, *served));
  if (path == "/healthz") return HttpResponse::Text(200, "ok\n");
  if (path == "/readyz") {
    return ready_ ? HttpResponse::Text(200, "ready\n") : HttpResponse::Text(503, "stopping\n");
  }
  if (path == "/metrics") return Answer(200, "text/plain; version=0.0.4", metrics_.Text());
  if (path == "/v1" || path == "/v1/") {
    return Described(200, {{"title", "Annif REST API"}, {"version", "dslide"}});
  }
  if (path == "/v1/projects" || path == "/v1/projects/") {
    return Described(200, {{"projects", {AnnifProject(name_)}}});
  }
  if (path == project || path == project + "/") {
    return Described(200, AnnifProject(name_));
  }
  if (path == "/v2") {
    return Described(
        200, {{"name", "dslide"}, {"version", "2"}, {"extensions", {"binary_tensor_data"}}});
  }
  if (path == "/v2/health/live") return Described(200, {{"live", true}});
  if (path == "/v2/health/ready") return Described(ready_ ? 200 : 503, {{"ready", ready_.load()}});
  if (path == model) return Described(200, ModelMetadata(name_, *served));
  if (path == model + "/ready") return Described(ready_ ? 200 : 503, {{"ready", ready_.load()}});
  if (path.starts_with("/v1/projects/") || path.starts_with("/v2/models/")) {
    return RefusalAnswer(404, fmt::format("there is no {}; the model's name is {}", path, name_));
  }
  return RefusalAnswer(404, fmt::format("there is no {}; /openapi.json lists what there is", path));
}

}  // namespace dslide
