#include "tools/dslide/serve/allowed_origins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "common/data/text_stream.h"
#include "common/http/allowed_hosts.h"
#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/json_request.h"
#include "tools/dslide/serve/tensor.h"

namespace dslide {
namespace {

constexpr char kEvery[] = "*";
constexpr char kPreflightS[] = "600";  // how long a browser may keep the answer to a preflight

bool IsPort(std::string_view port) {
  return !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The origin as browsers write it, in lower case and without its scheme's own port; nullopt: it is
// not an origin.
std::optional<std::string> Normalised(std::string_view given) {
  std::string origin(given);
  std::ranges::transform(origin, origin.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool secure = origin.starts_with("https://");
  if (!secure && !origin.starts_with("http://")) return std::nullopt;
  const size_t host = origin.find("://") + 3;
  const size_t bracket = origin.find(']', host);
  const size_t colon = origin.find(':', bracket == std::string::npos ? host : bracket);
  if (!IsHost(std::string_view(origin).substr(host, colon - host))) return std::nullopt;
  if (colon == std::string::npos) return origin;
  const std::string port = origin.substr(colon + 1);
  if (!IsPort(port)) return std::nullopt;
  if (port == (secure ? "443" : "80")) origin.resize(colon);
  return origin;
}

// Whether the request is of a page that this server has sent. A proxy may have put its own name
// into Host: then Sec-Fetch-Site tells whether the page has the origin that the browser asked.
bool IsOwnPage(const HttpRequest& request) {
  if (request.Header("Sec-Fetch-Site") == "same-origin") return true;
  const std::optional<std::string> origin = Normalised(request.Header("Origin"));
  if (!origin) return false;
  const std::string scheme = origin->substr(0, origin->find("://") + 3);
  return origin == Normalised(scheme + request.Header("Host"));
}

}  // namespace

Result<AllowedOrigins> AllowedOrigins::Parse(const std::vector<std::string>& origins) {
  AllowedOrigins allowed;
  for (const std::string& each : origins) {
    if (each == kEvery) {
      allowed.any_ = true;
    } else if (const auto origin = Normalised(each)) {
      allowed.origins_.push_back(*origin);
    } else {
      return BadInput(fmt::format(
          "{} is not an origin (expected SCHEME://HOST or SCHEME://HOST:PORT without a path, as "
          "https://www.example.org, or * for every page)",
          Quoted(each)));
    }
  }
  return allowed;
}

bool AllowedOrigins::Allows(std::string_view origin) const {
  return any_ || std::ranges::find(origins_, origin) != origins_.end();
}

std::optional<HttpResponse> AllowedOrigins::Refuse(const HttpRequest& request) const {
  const std::string& origin = request.Header("Origin");
  if (origin.empty() || Allows(origin) || IsOwnPage(request)) return std::nullopt;
  return RefusalAnswer(
      403, fmt::format("web pages of {} may not ask; dslide serve --allow-origin names those that "
                       "may",
                       Quoted(origin)));
}

HttpResponse::Headers AllowedOrigins::HeadersFor(const HttpRequest& request) const {
  if (any_) {
    return {{"Access-Control-Allow-Origin", kEvery},
            {"Access-Control-Expose-Headers", kJsonLengthHeader}};
  }
  if (origins_.empty()) return {};
  // Caches must not give one origin's response to another, nor one without the header.
  HttpResponse::Headers headers = {{"Vary", "Origin"}};
  if (const std::string& origin = request.Header("Origin"); Allows(origin)) {
    headers.push_back({"Access-Control-Allow-Origin", origin});
    headers.push_back({"Access-Control-Expose-Headers", kJsonLengthHeader});
  }
  return headers;
}

std::optional<HttpResponse> AllowedOrigins::AnswerPreflight(const HttpRequest& request) const {
  if (request.method != "OPTIONS" || request.Header("Origin").empty() ||
      request.Header("Access-Control-Request-Method").empty()) {
    return std::nullopt;
  }
  HttpResponse answer{204, "text/plain", std::make_shared<const std::string>()};
  answer.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST"},
                    {"Access-Control-Allow-Headers",
                     fmt::format("Authorization, Content-Type, {}", kJsonLengthHeader)},
                    {"Access-Control-Max-Age", kPreflightS}};
  return answer;
}

}  // namespace dslide
