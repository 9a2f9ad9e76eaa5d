// Requests that would cost much for their bytes.
#include <doctest/doctest.h>

#include <string>

#include "tests/tools/serve/serve_fixture.h"
#include "tools/dslide/serve/form_body.h"
#include "tools/dslide/serve/json_request.h"

namespace dslide::request_limits_test {
namespace {

using Json = nlohmann::json;

constexpr size_t kShort = 1000;  // bytes of an answer

// `count` copies of `text`, with commas between.
std::string List(size_t count, const std::string& text) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += i == 0 ? text : "," + text;
  return list;
}

std::string RefusalOf(const std::string& body) {
  const auto parsed = ParseBody(body);
  const auto* refusal = std::get_if<Refusal>(&parsed);
  if (refusal == nullptr) return "";
  CHECK(refusal->status == 413);
  return refusal->message;
}

TEST_CASE("request limits: parts and values of JSON are counted before it is built") {
  const std::string many =
      "the request has 100001 strings, lists and objects, at most 100000 are "
      "taken; send several requests";
  // The object, the name and the list are parts too.
  for (const char* part : {"\"x\"", "[]", "{}", R"("a,b[\"{")"}) {
    CAPTURE(part);
    CHECK(RefusalOf("{\"a\":[" + List(99'997, part) + "]}").empty());
    CHECK(RefusalOf("{\"a\":[" + List(99'998, part) + "]}") == many);
  }
  CHECK(RefusalOf("{" + List(99'999, "\"k\":1") + "}").empty());
  CHECK(RefusalOf("{" + List(100'000, "\"k\":1") + "}") == many);
  CHECK(RefusalOf("{\"a\":[" + List(500'000, "1") + "]}").empty());
  CHECK(RefusalOf("{\"a\":[" + List(500'001, "1") + "]}") ==
        "the request has 500001 values, at most 500000 are taken; send several requests");
  // The text need not be JSON.
  CHECK(RefusalOf(List(100'001, "[]")) == many);
  // A longer request, where --max-request-kb lets it through, may have more.
  const std::string list = "{\"a\":[" + List(150'000, "\"x\"") + "]}";
  const size_t limit = size_t{kServedRequestKb} << 10;
  CHECK_FALSE(RefusalOf(list + std::string(limit - list.size(), ' ')).empty());
  CHECK(RefusalOf(list + std::string(limit - list.size() + 1, ' ')).empty());
}

TEST_CASE("request limits: an answer does not repeat what was too much") {
  ServeFixture serve(WordModel(), {}, {.body_bytes = 4 << 20});
  const auto refused = [&](const std::string& body) {
    const auto answer = serve.Post("/predict", body);
    CHECK(answer.status == 400);
    const std::string error = answer.json["error"];
    CHECK(error.size() < kShort);
    return error;
  };
  std::string unknown;
  for (int i = 0; i < 20'000; ++i) unknown += ",\"key" + std::to_string(i) + "\":1";
  CHECK(refused("{\"text\":\"two\"" + unknown + "}").find("an unknown member 'key0'") !=
        std::string::npos);
  const std::string large = "[" + List(20'000, "1") + "]";
  (void)refused("{\"features\":{\"0\":" + large + "}}");
  (void)refused("{\"features\":{\"" + std::string(20'000, 'x') + "\":1}}");
  (void)refused("{\"vector\":[" + large + "]}");
}

TEST_CASE("request limits: of many unknown labels the first are named and the rest are counted") {
  ServeFixture serve(WordModel(), {}, {.body_bytes = 4 << 20});
  const auto ask = [&](int count) {
    Json deny = Json::array();
    for (int i = count; i > 0; --i) deny.push_back("x" + std::to_string(100'000 + i));
    return serve.Post("/predict", Json{{"text", "two"}, {"k", 1}, {"deny", deny}}.dump()).json;
  };
  const Json some = ask(100);
  CHECK(some["unknown_labels"].size() == 100);
  CHECK_FALSE(some.contains("unknown_labels_left_out"));
  const Json many = ask(5000);
  REQUIRE(many["unknown_labels"].size() == 100);
  CHECK(many["unknown_labels"][0] == "x100001");
  CHECK(many["unknown_labels"][99] == "x100100");
  CHECK(many["unknown_labels_left_out"] == 4900);
}

TEST_CASE("request limits: a form of many fields is refused") {
  std::string form = "text=two";
  for (int i = 1; i < 100; ++i) form += "&a" + std::to_string(i) + "=";
  CHECK(ParseForm(form)->size() == 100);
  CHECK_FALSE(ParseForm(form + "&b="));
  CHECK_FALSE(ParseForm(std::string(1'000'000, '&')));
}

}  // namespace
}  // namespace dslide::request_limits_test
