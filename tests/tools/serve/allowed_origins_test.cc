// Web pages of other origins (CORS), as browsers ask for them.
#include "tools/dslide/serve/allowed_origins.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/results.h"
#include "tests/tools/serve/serve_fixture.h"

namespace dslide {
namespace {

constexpr char kPage[] = "https://desk.example.org";
constexpr char kAllow[] = "Access-Control-Allow-Origin";

AllowedOrigins Allowing(const std::vector<std::string>& origins) {
  return Ok(AllowedOrigins::Parse(origins));
}

httplib::Headers PreflightOf(const std::string& origin) {
  return {{"Origin", origin},
          {"Access-Control-Request-Method", "POST"},
          {"Access-Control-Request-Headers", "authorization,content-type"}};
}

TEST_CASE("allowed origins: an origin is one as browsers write it, whatever the user wrote") {
  const std::vector<std::pair<std::string, std::string>> same = {
      {"https://a.example", "https://a.example"},
      {"HTTPS://A.Example", "https://a.example"},
      {"https://a.example:443", "https://a.example"},
      {"http://a.example:80", "http://a.example"},
      {"http://a.example:443", "http://a.example:443"},
      {"http://localhost:3000", "http://localhost:3000"},
      {"http://127.0.0.1:8000", "http://127.0.0.1:8000"},
      {"http://[::1]:8000", "http://[::1]:8000"},
      {"https://[2001:DB8::1]:443", "https://[2001:db8::1]"}};
  for (const auto& [given, sent] : same) {
    CAPTURE(given);
    const AllowedOrigins allowed = Allowing({"https://other.example", given});
    CHECK(allowed.Allows(sent));
    CHECK_FALSE(allowed.Allows(sent + ".evil.example"));
    CHECK_FALSE(allowed.Allows(sent + "1"));
    CHECK_FALSE(allowed.Allows("null"));
    CHECK_FALSE(allowed.Allows(""));
  }
  CHECK_FALSE(Allowing({"https://a.example"}).Allows("http://a.example"));
  CHECK_FALSE(Allowing({}).Allows("https://a.example"));
  CHECK(Allowing({"*"}).Allows("https://a.example"));
  for (const char* wrong :
       {"", "a.example", "null", "https://", "https://a.example/", "https://a.example/x",
        "*.example", "https://*.example", "ftp://a.example",
        "https://a.example:", "https://a.example:x", "https://user@a.example",
        "https://a.example?x", "https://bücher.example", "https://a.example b", "https://[::1",
        "https://[]", "https://[x]:1"}) {
    CAPTURE(wrong);
    CHECK(MessageOf(AllowedOrigins::Parse({"https://ok.example", wrong}))
              .find("is not an origin (expected SCHEME://HOST or SCHEME://HOST:PORT") !=
          std::string::npos);
  }
}

TEST_CASE("serve: without allowed origins no web page is told that it may ask") {
  ServeFixture serve;
  const auto preflight = serve.client().Options("/predict", PreflightOf(kPage));
  REQUIRE(preflight);
  CHECK(preflight->status == 403);
  CHECK(preflight->body.find("--allow-origin") != std::string::npos);
  CHECK_FALSE(preflight->has_header(kAllow));
  const auto answer = serve.client().Post("/predict", httplib::Headers{{"Origin", kPage}},
                                          R"({"text": "two"})", "application/json");
  CHECK(answer->status == 403);  // as its preflight
  const std::string why = nlohmann::json::parse(answer->body)["error"];
  CHECK(why.find("--allow-origin") != std::string::npos);
  CHECK_FALSE(answer->has_header(kAllow));
  CHECK_FALSE(answer->has_header("Vary"));
  CHECK(serve.client().Options("/predict")->status == 405);  // no preflight
}

TEST_CASE("serve: pages of allowed origins may ask, and read refusals too; with a token as well") {
  HttpServer::Limits limits;
  limits.body_bytes = 1000;
  const std::string token = "a secret of the test";
  ServeFixture serve(WordModel(), {}, limits,
                     RequestScreen(token, Allowing({kPage, "http://localhost:3000"})));
  httplib::Client& client = serve.client();
  for (const char* path : {"/predict", "/model", "/v2/models/words/infer", "/nothing"}) {
    const auto preflight = client.Options(path, PreflightOf(kPage));
    REQUIRE(preflight);
    CHECK(preflight->status == 204);  // without the token, which browsers do not send with it
    CHECK(preflight->body.empty());
    CHECK(preflight->get_header_value(kAllow) == kPage);
    CHECK(preflight->get_header_value("Vary") == "Origin");
    CHECK(preflight->get_header_value("Access-Control-Allow-Methods") == "GET, HEAD, POST");
    CHECK(preflight->get_header_value("Access-Control-Allow-Headers") ==
          "Authorization, Content-Type, Inference-Header-Content-Length");
    CHECK(preflight->get_header_value("Access-Control-Max-Age") == "600");
    CHECK_FALSE(preflight->has_header("Access-Control-Allow-Credentials"));
  }
  const auto ask = [&](const char* origin, const std::string& with, const std::string& body) {
    httplib::Headers headers = {{"Origin", origin}};
    if (!with.empty()) headers.emplace("Authorization", "Bearer " + with);
    const auto answer = client.Post("/predict", headers, body, "application/json");
    REQUIRE(answer);
    CHECK(answer->get_header_value("Vary") == "Origin");
    return *answer;
  };
  const std::string two = R"({"text": "two"})";
  const std::vector<std::tuple<std::string, std::string, int>> cases = {
      {token, two, 200},
      {token, "{", 400},
      {"", two, 401},
      {"no", two, 401},
      {token, std::string(2000, ' '), 413}};
  for (const auto& [with, body, status] : cases) {
    CAPTURE(status);
    const auto answer = ask(kPage, with, body);
    CHECK(answer.status == status);
    CHECK(answer.get_header_value(kAllow) == kPage);
  }
  CHECK(ask("http://localhost:3000", token, two).get_header_value(kAllow) ==
        "http://localhost:3000");
  const auto other = ask("https://desk.example.org.evil.example", token, two);
  CHECK(other.status == 403);
  CHECK_FALSE(other.has_header(kAllow));
  const auto refused = client.Options("/predict", PreflightOf("http://desk.example.org"));
  CHECK(refused->status == 403);
  CHECK_FALSE(refused->has_header(kAllow));
  // A response that a cache keeps for a request without an origin is not given to others.
  const auto health = client.Get("/healthz");
  CHECK(health->get_header_value("Vary") == "Origin");
  CHECK_FALSE(health->has_header(kAllow));
}

TEST_CASE("serve: every page may ask only where that is asked for") {
  ServeFixture serve(WordModel(), {}, {.body_bytes = 1000}, RequestScreen("", Allowing({"*"})));
  CHECK(serve.client()
            .Options("/predict", PreflightOf("https://any.example"))
            ->get_header_value(kAllow) == "*");
  const auto answer = serve.client().Post("/predict", httplib::Headers{{"Origin", "null"}},
                                          R"({"text": "two"})", "application/json");
  CHECK(answer->get_header_value(kAllow) == "*");
}

TEST_CASE("serve: a page that the server has sent may ask, behind a proxy too") {
  ServeFixture serve;
  const auto ask = [&](const httplib::Headers& headers) {
    const auto answer =
        serve.client().Post("/predict", headers, R"({"text": "two"})", "application/json");
    REQUIRE(answer);
    return answer->status;
  };
  CHECK(ask({{"Host", "127.0.0.1:8080"}, {"Origin", "http://127.0.0.1:8080"}}) == 200);
  CHECK(ask({{"Host", "desk.example.org"}, {"Origin", "https://desk.example.org"}}) == 200);
  // The proxy has its own name for the server.
  CHECK(ask({{"Host", "127.0.0.1:8080"}, {"Origin", kPage}}) == 403);
  CHECK(ask({{"Host", "127.0.0.1:8080"}, {"Origin", kPage}, {"Sec-Fetch-Site", "same-origin"}}) ==
        200);
  for (const char* site : {"cross-site", "same-site", "none", ""}) {
    CHECK(ask({{"Host", "127.0.0.1:8080"}, {"Origin", kPage}, {"Sec-Fetch-Site", site}}) == 403);
  }
  CHECK(ask({{"Host", "localhost:8080"}, {"Origin", "http://localhost:3000"}}) == 403);
  CHECK(ask({{"Host", "localhost:8080"}, {"Origin", "null"}}) == 403);
}

TEST_CASE("serve: a request by a host's name that is not allowed is refused, but for its health") {
  ServeFixture serve(WordModel(), {}, {.body_bytes = 1000},
                     RequestScreen("", {}, AllowedHosts::LoopbackAnd({"desk.example.org"})));
  const auto status_of = [&](const char* path, const char* host) {
    const auto answer = serve.client().Get(path, {{"Host", host}});
    REQUIRE(answer);
    return answer->status;
  };
  for (const char* path : {"/", "/model", "/metrics", "/openapi.json", "/v2/models/words"}) {
    CAPTURE(path);
    for (const char* host : {"localhost:8080", "127.0.0.1", "[::1]:1", "desk.example.org:80"}) {
      CHECK(status_of(path, host) == 200);
    }
    for (const char* host : {"other.example", "other.example:8080", "10.0.0.1", "localhost.a"}) {
      CHECK(status_of(path, host) == 403);
    }
  }
  CHECK(status_of("/healthz", "other.example") == 200);
  CHECK(status_of("/readyz", "other.example") == 200);
  // A page of such a name is of the same origin to its browser.
  const auto answer = serve.client().Post(
      "/predict", httplib::Headers{{"Host", "other.example"}, {"Origin", "http://other.example"}},
      R"({"text": "two"})", "application/json");
  CHECK(answer->status == 403);
  CHECK(answer->body.find("--allow-host") != std::string::npos);
}

}  // namespace
}  // namespace dslide
