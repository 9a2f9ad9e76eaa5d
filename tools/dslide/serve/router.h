// Which request goes where. openapi.json lists the same routes.
#pragma once

#include <atomic>
#include <string>

#include "common/http/http_server.h"
#include "tools/dslide/serve/prediction_service.h"
#include "tools/dslide/serve/serve_metrics.h"

namespace dslide {

// Any thread may use it.
class Router {
 public:
  // All must outlive it. `name`: the model's, in paths.
  Router(std::string name, PredictionService* service, const ServeMetrics* metrics)
      : name_(std::move(name)), service_(*service), metrics_(*metrics) {}

  void Handle(HttpRequest request, HttpServer::Respond respond);
  // /readyz says so from now on.
  void StopBeingReady() { ready_ = false; }

 private:
  HttpResponse Page(const std::string& path) const;
  const Dialect* DialectAt(const std::string& path) const;

  const std::string name_;
  PredictionService& service_;
  const ServeMetrics& metrics_;
  std::atomic<bool> ready_ = true;
};

}  // namespace dslide
