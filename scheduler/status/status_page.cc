#include "scheduler/status/status_page.h"

#include <fmt/core.h>

#include <utility>

#include "common/base/address.h"
#include "pages.h"

namespace dslide {
StatusPage::~StatusPage() = default;

Result<std::unique_ptr<StatusPage>> StatusPage::Start(const std::string& bind) {
  std::unique_ptr<StatusPage> page(new StatusPage());
  StatusPage* shared = page.get();  // it outlives its server
  Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      bind,
      [shared](const HttpRequest& request, const HttpServer::Respond& respond) {
        respond(shared->At(request));
      },
      HttpServer::Limits());
  if (!server.ok()) {
    return BadInput(fmt::format("cluster.status_bind = {}: {}", bind, server.error().message));
  }
  const std::string host = ParseTcp(bind)->host;
  page->server_ = std::move(*server);
  page->url_ = fmt::format("http://{}:{}/", host == "*" ? "0.0.0.0" : host, page->server_->port());
  return page;
}

HttpResponse StatusPage::At(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    return HttpResponse::Text(405, "405 Method Not Allowed\n");
  }
  const std::lock_guard lock(mutex_);
  if (request.path == "/") return {200, "text/html; charset=utf-8", page_};
  if (request.path == "/api/status") return {200, "application/json", status_};
  if (request.path == "/api/history") return {200, "application/json", history_};
  if (request.path == "/metrics") return {200, "text/plain; version=0.0.4", metrics_};
  return HttpResponse::Text(404, "404 Not Found\n");
}

StatusPage::StatusPage()
    : page_(std::make_shared<std::string>(kStatusPage)),
      status_(std::make_shared<std::string>("{}")),
      metrics_(std::make_shared<std::string>()),
      history_(std::make_shared<std::string>("{}")) {}

void StatusPage::Publish(std::string status_json, std::string prometheus_text) {
  auto status = std::make_shared<const std::string>(std::move(status_json));
  auto metrics = std::make_shared<const std::string>(std::move(prometheus_text));
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  metrics_ = std::move(metrics);
}

void StatusPage::PublishHistory(std::string json) {
  auto history = std::make_shared<const std::string>(std::move(json));
  const std::lock_guard lock(mutex_);
  history_ = std::move(history);
}

}  // namespace dslide
