#include "scheduler/status/status_page.h"

#include <doctest/doctest.h>
#include <httplib.h>

#include "common/security/token.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

TEST_CASE("status page: what was published last is served") {
  const auto page = Ok(StatusPage::Start("tcp://127.0.0.1:*", ""));
  const std::string& url = page->url();
  REQUIRE(url.starts_with("http://127.0.0.1:"));
  httplib::Client client(url.substr(0, url.size() - 1));
  const auto get = [&](const std::string& path) {
    const httplib::Result answer = client.Get(path);
    REQUIRE(answer);
    CHECK(answer->status == 200);
    return answer->body;
  };
  CHECK(get("/api/status") == "{}");
  page->Publish("{\"phase\": 1}", "dslide_samples 1\n");
  CHECK(get("/api/status") == "{\"phase\": 1}");
  CHECK(get("/metrics") == "dslide_samples 1\n");
  CHECK(get("/").starts_with("<!doctype html>"));
  CHECK(client.Get("/none")->status == 404);
  CHECK(client.Post("/")->status == 405);
}

TEST_CASE("status page: on loopback only names of loopback are asked for, and nothing is changed") {
  const auto page = Ok(StatusPage::Start("tcp://127.0.0.1:*", ""));
  const std::string& url = page->url();
  httplib::Client client(url.substr(0, url.size() - 1));
  const auto status_for = [&](const std::string& host) {
    const auto answer = client.Get("/api/status", {{"Host", host}});
    REQUIRE(answer);
    return answer->status;
  };
  for (const char* host : {"localhost", "localhost:1", "127.0.0.1", "127.1.2.3:80", "[::1]:8080"}) {
    CAPTURE(host);
    CHECK(status_for(host) == 200);
  }
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                           "127.0.0.1.evil.example:1", "[::2]", "10.0.0.1", ":", "a b"}) {
    CAPTURE(host);
    CHECK(status_for(host) == 403);
  }
  for (const auto& answer :
       {client.Put("/"), client.Delete("/api/status"), client.Post("/", "x", "text/plain")}) {
    REQUIRE(answer);
    CHECK(answer->status == 405);
    CHECK(answer->get_header_value("Allow") == "GET, HEAD");
  }
  const auto html = client.Get("/");
  REQUIRE(html);
  CHECK(html->get_header_value("X-Content-Type-Options") == "nosniff");
  CHECK(html->get_header_value("X-Frame-Options") == "DENY");
  CHECK(html->get_header_value("Cross-Origin-Resource-Policy") == "same-origin");
  CHECK(html->get_header_value("Referrer-Policy") == "no-referrer");
  CHECK_FALSE(html->has_header("Access-Control-Allow-Origin"));
  const std::string policy = html->get_header_value("Content-Security-Policy");
  CHECK(policy.find("script-src 'sha256-") != std::string::npos);
  CHECK(policy.find("unsafe") == std::string::npos);
}

TEST_CASE("status page: with a token only the page itself is shown without it") {
  const std::string token = DrawToken();
  const auto page = Ok(StatusPage::Start("tcp://127.0.0.1:*", token));
  page->Publish("{\"phase\": 1}", "dslide_samples 1\n");
  const std::string& url = page->url();
  httplib::Client client(url.substr(0, url.size() - 1));
  const auto ask = [&](const std::string& path, const httplib::Headers& headers) {
    const auto answer = client.Get(path, headers);
    REQUIRE(answer);
    return std::pair(answer->status, answer->body);
  };
  const httplib::Headers right = {{"Authorization", "Bearer " + token}};
  for (const char* path : {"/api/status", "/api/history", "/metrics", "/none"}) {
    CAPTURE(path);
    CHECK(ask(path, {}) == std::pair(401, std::string("401 Unauthorized\n")));
    for (const std::string& wrong :
         {std::string("Bearer "), "Bearer " + token + "x", "Bearer " + DrawToken(),
          "Basic " + token, token, std::string("Bearer")}) {
      CHECK(ask(path, {{"Authorization", wrong}}).first == 401);
    }
    CHECK(ask(path + ("?token=" + token), {}).first == 401);
    CHECK(ask(path, right).first == (path == std::string("/none") ? 404 : 200));
  }
  CHECK(ask("/metrics", {{"Authorization", "bearer " + token}}).second == "dslide_samples 1\n");
  CHECK(ask("/", {{"Host", "any.example"}}).second.starts_with("<!doctype html>"));
  CHECK(ask("/", {}).second.find(token) == std::string::npos);
}

TEST_CASE("status page: an address that can be opened, also of one that listens everywhere") {
  CHECK(PageUrl("127.0.0.1", 80, "tcp://10.0.0.2:7700") == "http://127.0.0.1:80/");
  for (const char* host : {"*", "0.0.0.0", "[::]"}) {
    CHECK(PageUrl(host, 80, "tcp://10.0.0.2:7700") == "http://10.0.0.2:80/");
    CHECK(PageUrl(host, 80, "tcp://head.example:7700") == "http://head.example:80/");
    const std::string own = PageUrl(host, 80, "tcp://127.0.0.1:7700");
    CHECK(own != "http://127.0.0.1:80/");
    CHECK(own.find("0.0.0.0") == std::string::npos);
  }
}

}  // namespace
}  // namespace dslide
