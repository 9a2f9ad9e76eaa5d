// Tensors of the Open Inference Protocol, as clients may send and want them.
#include "tools/dslide/serve/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tools/serve/serve_fixture.h"

namespace dslide {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;

constexpr char kInfer[] = "/v2/models/words/infer";

Json TextInput(const Json& shape, const Json& data) {
  return {{"name", "text"}, {"datatype", "BYTES"}, {"shape", shape}, {"data", data}};
}

// A request with binary tensors, as tritonclient sends it.
struct Binary {
  Json json;
  std::string data;
};
httplib::Result Send(ServeFixture* serve, const Binary& request) {
  const std::string json = request.json.dump();
  return serve->client().Post(kInfer, {{kJsonLengthHeader, std::to_string(json.size())}},
                              json + request.data, "application/octet-stream");
}
Json BinaryInput(const char* name, const char* type, const Json& shape, size_t bytes) {
  return {{"name", name},
          {"datatype", type},
          {"shape", shape},
          {"parameters", {{"binary_data_size", bytes}}}};
}

// The bytes of the protocol, written out.
const std::string kTwoVier = "\x03\0\0\0two\x04\0\0\0vier"s;

// Elements of a binary output, by the protocol's definition.
std::vector<std::string> TextsIn(std::string_view binary) {
  std::vector<std::string> texts;
  while (binary.size() >= 4) {
    uint32_t length = 0;
    for (int byte = 3; byte >= 0; --byte) length = length << 8 | static_cast<uint8_t>(binary[byte]);
    texts.emplace_back(binary.substr(4, length));
    binary.remove_prefix(4 + length);
  }
  CHECK(binary.empty());
  return texts;
}
std::vector<float> FloatsIn(std::string_view binary) {
  std::vector<float> numbers(binary.size() / 4);
  std::memcpy(numbers.data(), binary.data(), binary.size());
  return numbers;
}

TEST_CASE("infer: data may be nested as the shape says, or flat") {
  ServeFixture serve;
  const Json flat = {"two", "vier"};
  const std::vector<std::pair<Json, Json>> good = {{{2}, flat},
                                                   {{2, 1}, flat},
                                                   {{2, 1, 1}, flat},
                                                   {{2, 1}, {{"two"}, {"vier"}}},
                                                   {{2, 1, 1}, {{{"two"}}, {{"vier"}}}}};
  for (const auto& [shape, data] : good) {
    CAPTURE(shape.dump() + data.dump());
    const auto answer = serve.Post(
        kInfer, Json{{"inputs", {TextInput(shape, data)}}, {"parameters", {{"k", 1}}}}.dump());
    REQUIRE_MESSAGE(answer.status == 200, answer.json.dump());
    CHECK(answer.json["outputs"][0]["data"] == Json{"zwei", "größer"});
    CHECK(answer.json["outputs"][0]["shape"] == Json{2, 1});
  }
  const auto empty =
      serve.Post(kInfer, Json{{"inputs", {TextInput({0, 1}, Json::array())}}}.dump());
  CHECK(empty.status == 200);
  const std::string unlike = "the input has \"data\" that are not strings of the shape ";
  const std::string shapeless = "the input has a \"shape\" that is not [n] or [n, 1]";
  const Json one_row = Json::array({flat}), rows = {{"two"}, {"vier"}};
  const std::vector<std::tuple<Json, Json, std::string>> wrong = {
      {{2, 1}, one_row, unlike + "[2, 1]"},
      {{1, 1}, one_row, unlike + "[1, 1]"},
      {{2}, rows, unlike + "[2]"},
      {{2, 1, 1}, rows, unlike + "[2, 1, 1]"},
      {{2, 1}, {{{"two"}}, {{"vier"}}}, unlike + "[2, 1]"},
      {{2, 1}, {{"two"}, "vier"}, unlike + "[2, 1]"},
      {{2, 1}, {"two", {"vier"}}, unlike + "[2, 1]"},
      {{3, 1}, rows, unlike + "[3, 1]"},
      {{2, 1}, {{"two"}, {4}}, unlike + "[2, 1]"},
      {{0, 1}, {{}}, unlike + "[0, 1]"},
      {{1, 2}, flat, shapeless},
      {{2, 0}, Json::array(), shapeless},
      {{2, -1}, flat, shapeless},
      {{2.0}, flat, shapeless},
      {Json::array(), flat, shapeless},
      {nullptr, flat, shapeless},
      {{2}, "two", "the input has no \"data\""}};
  for (const auto& [shape, data, message] : wrong) {
    CAPTURE(shape.dump() + data.dump());
    const auto answer = serve.Post(kInfer, Json{{"inputs", {TextInput(shape, data)}}}.dump());
    CHECK(answer.status == 400);
    CHECK(answer.json["error"] == message);
  }
  CHECK(serve.Post(kInfer, Json{{"inputs", {TextInput({1001, 1}, rows)}}}.dump()).status == 413);
}

TEST_CASE("infer: nested numbers") {
  const SmallModel small(3, 4, 9, 1);
  ServeFixture serve(small.Build());
  const auto ask = [&](const Json& shape, const Json& data) {
    return serve.Post(
        kInfer,
        Json{{"inputs",
              {{{"name", "vector"}, {"datatype", "FP32"}, {"shape", shape}, {"data", data}}}}}
            .dump());
  };
  const Json flat = {1, 0, 2, 0, 3, 0}, rows = {{1, 0, 2}, {0, 3, 0}},
             deep = {{{1, 0, 2}}, {{0, 3, 0}}}, deeper = {{{1}, {0}, {2}}, {{0}, {3}, {0}}};
  const auto expected = ask({2, 3}, flat);
  REQUIRE(expected.status == 200);
  for (const auto& [shape, data] : std::vector<std::pair<Json, Json>>{
           {{2, 3}, rows}, {{2, 1, 3}, deep}, {{2, 1, 3}, flat}, {{2, 3, 1}, deeper}}) {
    CAPTURE(shape.dump() + data.dump());
    CHECK(ask(shape, data).json == expected.json);
  }
  const std::string unlike = "the input has \"data\" that are not n x D numbers, as its shape says";
  for (const auto& [shape, data] :
       std::vector<std::pair<Json, Json>>{{{2, 3}, deep},
                                          {{2, 1, 3}, rows},
                                          {{3, 2}, rows},
                                          {{2, 3, 1}, deep},
                                          {{1, 2}, Json::array({{1, 2, 3}})},
                                          {{2, 2}, Json::array({{1, 2}, 3})},
                                          {{1, 1}, Json::array()},
                                          {{2, uint64_t{1} << 63}, flat}}) {
    CAPTURE(shape.dump() + data.dump());
    CHECK(ask(shape, data).json["error"] == unlike);
  }
  for (const Json& shape : {Json{2, 3, 2}, Json{6}, Json{2, 0}, Json{2, 0, 3}}) {
    CAPTURE(shape.dump());
    CHECK(ask(shape, flat).json["error"] == "the input has a \"shape\" that is not [n, D]");
  }
}

TEST_CASE("infer: the request's outputs are those of the answer, in their order") {
  ServeFixture serve;
  const auto ask = [&](const Json& outputs) {
    return serve.Post(kInfer,
                      Json{{"inputs", {TextInput({1}, {"two"})}}, {"outputs", outputs}}.dump());
  };
  const auto names = [&](const Json& outputs) {
    const auto answer = ask(outputs);
    REQUIRE_MESSAGE(answer.status == 200, answer.json.dump());
    std::vector<std::string> all;
    for (const Json& output : answer.json["outputs"]) all.push_back(output["name"]);
    return all;
  };
  using Names = std::vector<std::string>;
  CHECK(names(nullptr) == Names{"labels", "probabilities", "scores"});
  CHECK(names(Json::array()) == Names{"labels", "probabilities", "scores"});
  CHECK(names({{{"name", "scores"}}, {{"name", "labels"}}}) == Names{"scores", "labels"});
  CHECK(ask({{{"name", "scores"}}}).json["outputs"][0]["data"][0] == doctest::Approx(4));
  const auto refused = [&](const Json& outputs, const std::string& message) {
    const auto answer = ask(outputs);
    CHECK(answer.status == 400);
    CHECK(answer.json["error"] == message);
  };
  refused({{{"name", "label"}}},
          "an output has the name 'label'; there are labels, probabilities, scores");
  refused({{{"name", "labels"}}, {{"name", "x"}}},
          "an output has the name 'x'; there are labels, probabilities, scores");
  refused({{{"nam", "labels"}}},
          "an output has the name ''; there are labels, probabilities, scores");
  refused({{{"name", "labels"}}, {{"name", "labels"}}}, "an output is named twice: labels");
  refused({"labels"}, "an output is not a JSON object");
  refused("labels", "the request has \"outputs\" that are not a list");
  refused({{{"name", "labels"}, {"parameters", {{"binary_data", 1}}}}},
          "an output's \"parameters\" has a \"binary_data\" that is neither true nor false");
}

TEST_CASE("infer: unknown and further inputs are refused by name") {
  ServeFixture serve;
  const auto error = [&](const Json& inputs) {
    const auto answer = serve.Post(kInfer, Json{{"inputs", inputs}}.dump());
    CHECK(answer.status == 400);
    return answer.json["error"].get<std::string>();
  };
  Json unknown = TextInput({1}, {"two"});
  unknown["name"] = "txt";
  CHECK(error(Json::array({unknown})) ==
        "an input has the name 'txt'; there are text, features, vector");
  CHECK(error({TextInput({1}, {"two"}), unknown}) ==
        "an input has the name 'txt'; there are text, features, vector");
  CHECK(error({TextInput({1}, {"two"}), TextInput({1}, {"two"})}) ==
        "the request has 2 inputs; it must have one of text, features, vector");
}

TEST_CASE("infer: a threshold leaves labels out") {
  ServeFixture serve;
  const auto answer = serve.Post(kInfer, Json{{"inputs", {TextInput({1}, {"two"})}},
                                              {"parameters", {{"k", 2}, {"threshold", 0.5}}}}
                                             .dump());
  REQUIRE(answer.status == 200);
  CHECK(answer.json["outputs"][0]["data"] == Json{"zwei", ""});
}

TEST_CASE("infer: binary texts in, binary labels and numbers out") {
  ServeFixture serve;
  const auto as_json = serve.Post(
      kInfer,
      Json{{"inputs", {TextInput({2, 1}, {"two", "vier"})}}, {"parameters", {{"k", 2}}}}.dump());
  REQUIRE(as_json.status == 200);
  Binary request{{{"inputs", {BinaryInput("text", "BYTES", {2, 1}, kTwoVier.size())}},
                  {"parameters", {{"k", 2}}}},
                 kTwoVier};
  const httplib::Result plain = Send(&serve, request);
  REQUIRE(plain);
  CHECK(plain->status == 200);
  CHECK(plain->get_header_value("Content-Type") == "application/json");
  CHECK(Json::parse(plain->body) == as_json.json);

  request.json["parameters"]["binary_data_output"] = true;
  const httplib::Result binary = Send(&serve, request);
  REQUIRE(binary);
  CHECK(binary->status == 200);
  CHECK(binary->get_header_value("Content-Type") == "application/octet-stream");
  const size_t length = std::stoul(binary->get_header_value(kJsonLengthHeader));
  const Json json = Json::parse(binary->body.substr(0, length));
  std::string_view rest = std::string_view(binary->body).substr(length);
  const auto next = [&](size_t output) {
    const size_t bytes = json["outputs"][output]["parameters"]["binary_data_size"];
    const std::string_view own = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    CHECK_FALSE(json["outputs"][output].contains("data"));
    CHECK(json["outputs"][output]["shape"] == Json{2, 2});
    return own;
  };
  CHECK(Json(TextsIn(next(0))) == as_json.json["outputs"][0]["data"]);
  CHECK(Json(FloatsIn(next(1))) == as_json.json["outputs"][1]["data"]);
  CHECK(Json(FloatsIn(next(2))) == as_json.json["outputs"][2]["data"]);
  CHECK(rest.empty());

  // An output's own wish counts.
  request.json["outputs"] = {{{"name", "scores"}, {"parameters", {{"binary_data", false}}}},
                             {{"name", "labels"}}};
  const httplib::Result mixed = Send(&serve, request);
  const Json some =
      Json::parse(mixed->body.substr(0, std::stoul(mixed->get_header_value(kJsonLengthHeader))));
  CHECK(some["outputs"][0]["data"] == as_json.json["outputs"][2]["data"]);
  CHECK(some["outputs"][1]["parameters"].contains("binary_data_size"));
}

TEST_CASE("infer: binary vectors") {
  const SmallModel small(3, 4, 9, 1);
  ServeFixture serve(small.Build());
  const Json as_json = serve
                           .Post(kInfer, Json{{"inputs",
                                               {{{"name", "vector"},
                                                 {"datatype", "FP32"},
                                                 {"shape", {2, 3}},
                                                 {"data", {1, 0, -2.5, 0, 3, 0}}}}}}
                                             .dump())
                           .json;
  const std::string data =
      "\0\0\x80\x3f\0\0\0\0\0\0\x20\xc0\0\0\0\0\0\0\x40\x40\0\0\0\0"s;  // as IEEE 754 has them
  const httplib::Result binary =
      Send(&serve, {{{"inputs", {BinaryInput("vector", "FP32", {2, 3}, 24)}}}, data});
  REQUIRE(binary);
  CHECK(Json::parse(binary->body) == as_json);
  const auto error = [&](const Json& input, const std::string& bytes) {
    const httplib::Result answer = Send(&serve, {{{"inputs", {input}}}, bytes});
    CHECK(answer->status == 400);
    return Json::parse(answer->body)["error"].get<std::string>();
  };
  const std::string unlike =
      "the input has binary data that are not n x D numbers, as its shape says";
  CHECK(error(BinaryInput("vector", "FP32", {2, 3}, 20), data.substr(0, 20)) == unlike);
  CHECK(error(BinaryInput("vector", "FP32", {2, 3}, 23), data.substr(0, 23)) == unlike);
  CHECK(error(BinaryInput("vector", "FP32", {1, 3}, 24), data) == unlike);
  CHECK(error(BinaryInput("vector", "FP32", {1, 1}, 4), "\0\0\xc0\x7f"s) == unlike);  // NaN
  CHECK(error(BinaryInput("vector", "INT64", {1, 3}, 24), data) ==
        "the input does not have the datatype FP32");
}

TEST_CASE("infer: binary data that do not fit are refused with the reason") {
  ServeFixture serve;
  const auto error = [&](const Binary& request) {
    const httplib::Result answer = Send(&serve, request);
    CHECK(answer->status == 400);
    return Json::parse(answer->body)["error"].get<std::string>();
  };
  const auto input = [](const Json& shape, size_t bytes) {
    return Json{{"inputs", {BinaryInput("text", "BYTES", shape, bytes)}}};
  };
  const std::string unlike = "the input has binary data that are not strings of the shape ";
  CHECK(error({input({1, 1}, 15), kTwoVier}) == unlike + "[1, 1]");
  CHECK(error({input({3}, 15), kTwoVier}) == unlike + "[3]");
  CHECK(error({input({2}, 14), kTwoVier.substr(0, 14)}) == unlike + "[2]");
  CHECK(error({input({1}, 3), "\0\0\0"s}) == unlike + "[1]");
  CHECK(error({input({1}, 4), "\xff\xff\xff\xff"}) == unlike + "[1]");
  CHECK(error({input({2}, 16), kTwoVier}) ==
        "the input has a \"binary_data_size\" of 16, but only 15 bytes are left after the JSON");
  CHECK(error({input({1}, 7), kTwoVier}) ==
        "the request has 8 bytes of binary data that no input uses; \"binary_data_size\" in an "
        "input's parameters is the number of its bytes");
  CHECK(error({{{"inputs", {TextInput({1}, {"two"})}}}, "x"}) ==
        "the request has 1 byte of binary data that no input uses; \"binary_data_size\" in an "
        "input's parameters is the number of its bytes");
  Json both = BinaryInput("text", "BYTES", {2}, 15);
  both["data"] = {"two", "vier"};
  CHECK(error({{{"inputs", {both}}}, kTwoVier}) ==
        "the input has \"data\" and a \"binary_data_size\"");
  CHECK(error({{{"inputs", {BinaryInput("text", "BYTES", {2}, 15)}}, {"parameters", 7}},
               kTwoVier}) == "\"parameters\" is not a JSON object");

  // Without the header, or with a header that is not valid.
  const std::string json = input({2}, 15).dump();
  const auto posted = [&](const httplib::Headers& headers, const std::string& body) {
    const httplib::Result answer =
        serve.client().Post(kInfer, headers, body, "application/octet-stream");
    CHECK(answer->status == 400);
    return Json::parse(answer->body)["error"].get<std::string>();
  };
  CHECK(posted({}, json) ==
        "the input has binary data, and the request has no header Inference-Header-Content-Length, "
        "which says where its JSON ends; set it, or send \"data\" in the JSON");
  CHECK(posted({}, json + kTwoVier) ==
        "the request is not JSON; binary data after JSON require the header "
        "Inference-Header-Content-Length, the number of the JSON's bytes");
  for (const char* length : {"x", "-1", "9999", "1e2"}) {
    CAPTURE(length);
    const std::string message = posted({{kJsonLengthHeader, length}}, json + kTwoVier);
    CHECK(message.starts_with("the header Inference-Header-Content-Length is '"));
  }
}

}  // namespace
}  // namespace dslide
