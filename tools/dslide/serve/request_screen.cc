#include "tools/dslide/serve/request_screen.h"

#include "common/security/token.h"
#include "tools/dslide/serve/dialect.h"

namespace dslide {

std::optional<HttpResponse> RequestScreen::Answer(const HttpRequest& request) const {
  // Probes of the process's health have no token, and any name for it.
  if (request.path == "/healthz" || request.path == "/readyz") {
    return origins_.AnswerPreflight(request);
  }
  if (!hosts_.Allows(request.Header("Host"))) {
    return RefusalAnswer(403,
                         "ask by a name or address of loopback, or by one that dslide serve "
                         "--allow-host names");
  }
  if (auto refusal = origins_.Refuse(request)) return refusal;
  // Browsers send a preflight without the token.
  if (auto preflight = origins_.AnswerPreflight(request)) return preflight;
  if (token_.empty() || IsSameToken(BearerToken(request.Header("Authorization")), token_)) {
    return std::nullopt;
  }
  HttpResponse refusal =
      RefusalAnswer(401, "a request needs the token: Authorization: Bearer TOKEN");
  refusal.headers = {{"WWW-Authenticate", "Bearer"}};
  return refusal;
}

}  // namespace dslide
