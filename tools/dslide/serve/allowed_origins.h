// The web pages that may ask `dslide serve`, by their origins: SCHEME://HOST[:PORT] (RFC 6454).
//
// A browser sends a page's requests to another origin and keeps the answer from the page, unless
// the answer's headers name the page's origin (CORS,
// https://fetch.spec.whatwg.org/#http-cors-protocol). Before a request that a form could not send,
// as one of JSON or with a token, it asks by OPTIONS whether it may (a preflight). No origin is
// ever allowed to send cookies: none are used.
//
// Immutable; any thread may use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/net/http_server.h"

namespace dslide {

class AllowedOrigins {
 public:
  AllowedOrigins() = default;  // none

  // "*": every origin. Errors (kBadInput) name the origin and the form of one.
  static Result<AllowedOrigins> Parse(const std::vector<std::string>& origins);

  // Whether `origin`, a request's header, is one of them.
  bool Allows(std::string_view origin) const;

  // The further headers of a response to the request.
  HttpResponse::Headers HeadersFor(const HttpRequest& request) const;
  // The response to a request of a page that may not ask: of an origin that is neither one of these
  // nor this server's own. Nullopt: it may, or the request is of no page.
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const;
  // The answer to a preflight of a page that may ask; nullopt: the request is none.
  std::optional<HttpResponse> AnswerPreflight(const HttpRequest& request) const;

 private:
  std::vector<std::string> origins_;  // as browsers write them
  bool any_ = false;
};

}  // namespace dslide
