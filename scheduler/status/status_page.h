// The status page: what a browser and Prometheus see of a run.
//
//   /             a page that draws what the next two say
//   /api/status   the run as it is, as JSON
//   /api/history  the run until now, as JSON: curves, loads, events, checkpoints, examples
//   /metrics      the figures for Prometheus
//
// Serves from a thread of its own what the scheduler's thread last published. Outside loopback all
// but the page itself, which says nothing of the run, want a token ("Authorization: Bearer TOKEN").
// On loopback the name that a browser thinks to talk to must be one of loopback's: otherwise a site
// whose name suddenly means 127.0.0.1 could read the page (DNS rebinding).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"

namespace dslide {

// The address of a page to open, "http://HOST:PORT/". Of one that listens at all addresses the host
// is the scheduler's, or where that is loopback this machine's own.
std::string PageUrl(const std::string& host, int port, const std::string& scheduler);

class StatusPage {
 public:
  // Starts serving at `bind`, tcp://HOST:PORT with * for any free port. `token`: "" on loopback.
  // `scheduler`: the address that members dial. Errors name the address.
  static Result<std::unique_ptr<StatusPage>> Start(const std::string& bind,
                                                   const std::string& token,
                                                   const std::string& scheduler = "");
  ~StatusPage();

  const std::string& url() const { return url_; }  // "http://127.0.0.1:43211/"

  // Replaces what is served. Any thread.
  void Publish(std::string status_json, std::string prometheus_text);
  void PublishHistory(std::string json);

 private:
  explicit StatusPage(std::string token);
  std::optional<HttpResponse> WhyRefused(const HttpRequest& request) const;
  HttpResponse At(const HttpRequest& request);

  const std::string token_;
  std::string url_;
  const std::shared_ptr<const std::string> page_;
  const std::string policy_;  // of the page: its own style and script, no others
  Mutex mutex_;
  std::shared_ptr<const std::string> status_ DSLIDE_GUARDED_BY(mutex_);   // JSON
  std::shared_ptr<const std::string> metrics_ DSLIDE_GUARDED_BY(mutex_);  // for Prometheus
  std::shared_ptr<const std::string> history_ DSLIDE_GUARDED_BY(mutex_);  // JSON
  std::unique_ptr<HttpServer> server_;  // last: its thread uses all of the above
};

}  // namespace dslide
