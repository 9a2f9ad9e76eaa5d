#include "tools/dslide/serve/request_screen.h"

#include "common/security/token.h"

namespace dslide {

std::optional<HttpResponse> RequestScreen::Answer(const HttpRequest& request) const {
  // Browsers send a preflight without the token.
  if (auto preflight = origins_.AnswerPreflight(request)) return preflight;
  // Probes of the process's health have no token.
  const bool health = request.path == "/healthz" || request.path == "/readyz";
  if (token_.empty() || health ||
      IsSameToken(BearerToken(request.Header("Authorization")), token_)) {
    return std::nullopt;
  }
  return HttpResponse::Unauthorized();
}

}  // namespace dslide
