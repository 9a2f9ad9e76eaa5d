#include "scheduler/status/status_page.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "common/base/address.h"
#include "common/http/allowed_hosts.h"
#include "common/net/local_address.h"
#include "common/security/token.h"
#include "pages.h"

namespace dslide {
namespace {

// What is between a tag and its end in the page.
std::string_view Within(std::string_view page, std::string_view tag) {
  const size_t begin = page.find(fmt::format("<{}>", tag)) + tag.size() + 2;
  return page.substr(begin, page.find(fmt::format("</{}>", tag), begin) - begin);
}

std::string PolicyOf(std::string_view page) {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; "
      "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      Sha256Base64(Within(page, "style")), Sha256Base64(Within(page, "script")));
}

}  // namespace

StatusPage::~StatusPage() = default;

std::string PageUrl(const std::string& host, int port, const std::string& scheduler) {
  const bool everywhere = host == "*" || host == "0.0.0.0" || host == "[::]";
  const std::optional<TcpAddress> members = ParseTcp(scheduler);
  const bool is_known = members && !IsLoopback(scheduler) && WhyNotAdvertisable(scheduler).empty();
  return fmt::format("http://{}:{}/",
                     !everywhere ? host
                     : is_known  ? members->host
                                 : OwnHost(),
                     port);
}

Result<std::unique_ptr<StatusPage>> StatusPage::Start(const std::string& bind,
                                                      const std::string& token,
                                                      const std::string& scheduler) {
  std::unique_ptr<StatusPage> page(new StatusPage(token));
  StatusPage* shared = page.get();  // it outlives its server
  HttpServer::Limits limits;
  if (!IsLoopback(bind)) limits.of_address = limits.connections / 4;
  Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      bind,
      [shared](const HttpRequest& request, const HttpServer::Respond& respond) {
        respond(shared->At(request));
      },
      limits, [shared](const HttpRequest& request) { return shared->WhyRefused(request); });
  if (!server.ok()) {
    return BadInput(fmt::format("cluster.status_bind = {}: {}", bind, server.error().message));
  }
  const std::string host = ParseTcp(bind)->host;
  page->server_ = std::move(*server);
  page->url_ = PageUrl(host, page->server_->port(), scheduler);
  return page;
}

std::optional<HttpResponse> StatusPage::WhyRefused(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse refusal = HttpResponse::Text(405, "405 Method Not Allowed\n");
    refusal.headers = {{"Allow", "GET, HEAD"}};
    return refusal;
  }
  if (token_.empty()) {
    if (AllowedHosts::LoopbackAnd().Allows(request.Header("Host"))) return std::nullopt;
    return HttpResponse::Text(403, "403 Forbidden: ask by a name or address of loopback\n");
  }
  if (request.path == "/" || IsSameToken(BearerToken(request.Header("Authorization")), token_)) {
    return std::nullopt;
  }
  HttpResponse refusal = HttpResponse::Text(401, "401 Unauthorized\n");
  refusal.headers = {{"WWW-Authenticate", "Bearer"}};
  return refusal;
}

HttpResponse StatusPage::At(const HttpRequest& request) {
  const auto recent = [](const char* type, std::shared_ptr<const std::string> body) {
    return HttpResponse{200, type, std::move(body), {{"Cache-Control", "no-store"}}};
  };
  const MutexLock lock(mutex_);
  if (request.path == "/") {
    return {200, "text/html; charset=utf-8", page_, {{"Content-Security-Policy", policy_}}};
  }
  if (request.path == "/api/status") return recent("application/json", status_);
  if (request.path == "/api/history") return recent("application/json", history_);
  if (request.path == "/metrics") return recent("text/plain; version=0.0.4", metrics_);
  return HttpResponse::Text(404, "404 Not Found\n");
}

StatusPage::StatusPage(std::string token)
    : token_(std::move(token)),
      page_(std::make_shared<std::string>(kStatusPage)),
      policy_(PolicyOf(*page_)),
      status_(std::make_shared<std::string>("{}")),
      metrics_(std::make_shared<std::string>()),
      history_(std::make_shared<std::string>("{}")) {}

void StatusPage::Publish(std::string status_json, std::string prometheus_text) {
  auto status = std::make_shared<const std::string>(std::move(status_json));
  auto metrics = std::make_shared<const std::string>(std::move(prometheus_text));
  const MutexLock lock(mutex_);
  status_ = std::move(status);
  metrics_ = std::move(metrics);
}

void StatusPage::PublishHistory(std::string json) {
  auto history = std::make_shared<const std::string>(std::move(json));
  const MutexLock lock(mutex_);
  history_ = std::move(history);
}

}  // namespace dslide
