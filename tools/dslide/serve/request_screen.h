// Screens the requests of `dslide serve` by their headers, and adds headers to its responses.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/http/allowed_hosts.h"
#include "common/http/http_server.h"
#include "tools/dslide/serve/allowed_origins.h"

namespace dslide {

// Immutable; any thread may use it.
class RequestScreen {
 public:
  // `token`: the token that requests must have; "": requests need no token.
  RequestScreen(std::string token, AllowedOrigins origins, AllowedHosts hosts = {})
      : token_(std::move(token)), origins_(std::move(origins)), hosts_(std::move(hosts)) {}

  // The response to a request that does not reach the router: a preflight, one of another host or
  // of a page that may not send it, or one without the token. Nullopt: the router handles the
  // request.
  std::optional<HttpResponse> Answer(const HttpRequest& request) const;
  HttpResponse::Headers HeadersFor(const HttpRequest& request) const {
    return origins_.HeadersFor(request);
  }

 private:
  const std::string token_;
  const AllowedOrigins origins_;
  const AllowedHosts hosts_;
};

}  // namespace dslide
