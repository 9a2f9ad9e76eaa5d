// The origins of the web pages that may send requests to `dslide serve`: SCHEME://HOST[:PORT]
// (RFC 6454).
//
// A browser sends a page's requests to another origin but hides the answer from the page, unless
// the answer's headers name the page's origin (CORS,
// https://fetch.spec.whatwg.org/#http-cors-protocol). Before a request that a form could not send,
// such as one with JSON or a token, the browser asks for permission by OPTIONS (a preflight). No
// origin is allowed to send cookies, because dslide uses no cookies.
//
// Immutable; any thread may use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/http/http_server.h"

namespace dslide {

class AllowedOrigins {
 public:
  AllowedOrigins() = default;  // allows no origin

  // "*": every origin. Errors (kBadInput) name the origin and the expected form.
  static Result<AllowedOrigins> Parse(const std::vector<std::string>& origins);

  // Whether `origin`, a request's Origin header, is allowed.
  bool Allows(std::string_view origin) const;

  // The further headers of a response to the request.
  HttpResponse::Headers HeadersFor(const HttpRequest& request) const;
  // The response to a request of a page that may not send it: its origin is neither one of these
  // nor this server's own. Nullopt: it may, or the request is not of a page.
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const;
  // The answer to a preflight of a page that may send requests; nullopt: the request is not a
  // preflight.
  std::optional<HttpResponse> AnswerPreflight(const HttpRequest& request) const;

 private:
  std::vector<std::string> origins_;  // as browsers write them
  bool any_ = false;
};

}  // namespace dslide
