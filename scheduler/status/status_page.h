// The status page: what a browser and Prometheus see of a run.
//
//   /             a page that draws what the next two say
//   /api/status   the run as it is, as JSON
//   /api/history  the run until now, as JSON: curves, loads, events, checkpoints, examples
//   /metrics      the figures for Prometheus
//
// Serves from a thread of its own what the scheduler's thread last published.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "common/base/error.h"
#include "common/net/http_server.h"

namespace dslide {

class StatusPage {
 public:
  // Starts serving at `bind`, tcp://HOST:PORT with * for any free port. Errors name the address.
  static Result<std::unique_ptr<StatusPage>> Start(const std::string& bind);
  ~StatusPage();

  const std::string& url() const { return url_; }  // "http://127.0.0.1:43211/"

  // Replaces what is served. Any thread.
  void Publish(std::string status_json, std::string prometheus_text);
  void PublishHistory(std::string json);

 private:
  StatusPage();
  HttpResponse At(const HttpRequest& request);

  std::string url_;
  const std::shared_ptr<const std::string> page_;
  std::mutex mutex_;                            // guards the three below
  std::shared_ptr<const std::string> status_;   // JSON
  std::shared_ptr<const std::string> metrics_;  // for Prometheus
  std::shared_ptr<const std::string> history_;  // JSON
  std::unique_ptr<HttpServer> server_;          // last: its thread uses all of the above
};

}  // namespace dslide
