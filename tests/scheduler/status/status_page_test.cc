#include "scheduler/status/status_page.h"

#include <doctest/doctest.h>
#include <httplib.h>

namespace dslide {
namespace {

TEST_CASE("status page: what was published last is served") {
  const auto page = StatusPage::Start("tcp://127.0.0.1:*");
  REQUIRE(page.ok());
  const std::string& url = (*page)->url();
  REQUIRE(url.starts_with("http://127.0.0.1:"));
  httplib::Client client(url.substr(0, url.size() - 1));
  const auto get = [&](const std::string& path) {
    const httplib::Result answer = client.Get(path);
    REQUIRE(answer);
    CHECK(answer->status == 200);
    return answer->body;
  };
  CHECK(get("/api/status") == "{}");
  (*page)->Publish("{\"phase\": 1}", "dslide_samples 1\n");
  CHECK(get("/api/status") == "{\"phase\": 1}");
  CHECK(get("/metrics") == "dslide_samples 1\n");
  CHECK(get("/").starts_with("<!doctype html>"));
  CHECK(client.Get("/none")->status == 404);
  CHECK(client.Post("/")->status == 405);
}

}  // namespace
}  // namespace dslide
