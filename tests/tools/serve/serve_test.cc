#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <set>

#include "common/model/model_file.h"
#include "tests/support/change_byte.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"
#include "tests/tools/serve/serve_fixture.h"

namespace dslide::serve_test {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::vector<std::string>>;

TEST_CASE("serve: a text gets names with probabilities, best first") {
  ServeFixture serve;
  const auto answer = serve.Post("/predict", R"({"text": "vier", "k": 2, "id": "a"})");
  CHECK(answer.status == 200);
  CHECK(answer.json["model"] == "words");
  CHECK(answer.json["id"] == "a");
  const Json& labels = answer.json["predictions"][0]["labels"];
  REQUIRE(labels.size() == 2);
  CHECK(labels[0]["label"] == "größer");
  CHECK(labels[0]["id"] == 3);
  CHECK(labels[0]["score"] == doctest::Approx(4));
  CHECK(labels[0]["probability"] == doctest::Approx(std::exp(4) / (std::exp(4) + 3)));
  CHECK(labels[1]["probability"] == doctest::Approx(1 / (std::exp(4) + 3)));
}

TEST_CASE("serve: samples of all kinds, filters, a threshold, every search") {
  ServeFixture serve;
  CHECK(
      serve.Predict(R"({"samples": ["two", {"title": "three", "text": ""}, {"features": {"0": 1}}],
                          "k": 1})") == Names{{"zwei"}, {"drei"}, {"eins"}});
  CHECK(serve.Predict(R"({"samples": []})") == Names{});
  CHECK(serve.Predict(R"({"text": "two", "k": 1, "deny": ["zwei", "fünf"]})")[0][0] != "zwei");
  CHECK(serve.Predict(R"({"text": "two", "allow": ["drei", "zwei", "fünf"]})") ==
        Names{{"zwei", "drei"}});
  CHECK(serve.Predict(R"({"text": "two", "allow": []})") == Names{{}});
  const auto unknown = serve.Post(
      "/predict", R"({"text": "two", "allow": ["fünf", "zwei"], "deny": ["sechs", "fünf"]})");
  CHECK(unknown.json["unknown_labels"] == Json{"fünf", "sechs"});
  CHECK_FALSE(serve.Post("/predict", R"({"text": "two", "deny": ["zwei"]})")
                  .json.contains("unknown_labels"));
  // "vier" is a word, and no label's name.
  CHECK(serve.Predict(R"({"text": "two vier", "k": 1, "exclude_own": true})")[0][0] == "zwei");
  CHECK(serve.Predict(R"({"text": "two", "threshold": 0.5})") == Names{{"zwei"}});
  for (const char* search : {"exact", "scan", "index"}) {
    CHECK(serve.Predict(R"({"text": "two", "k": 1, "search": ")" + std::string(search) + "\"}") ==
          Names{{"zwei"}});
  }
}

TEST_CASE("serve: a model of numbers takes features, and says so when it gets a text") {
  const SmallModel small(30, 24, 500, 1);
  ServeFixture serve(small.Build());
  const SparseRows samples = SmallSamples(5, 30, 2);
  for (uint32_t i = 0; i < samples.rows(); ++i) {
    Json features = Json::object();
    for (size_t e = 0; e < samples.Ids(i).size(); ++e) {
      features[std::to_string(samples.Ids(i)[e])] = samples.Values(i)[e];
    }
    const auto order = SmallModel::Order(small.Logits(samples, i));
    const Names names = serve.Predict(Json{{"features", features}, {"k", 3}}.dump());
    for (size_t r = 0; r < 3; ++r) CHECK(names[0][r] == std::to_string(order[r]));
    // A vector says the same as features do.
    Json vector(std::vector<float>(30, 0.0f));
    for (const auto& [id, value] : features.items()) vector[std::stoul(id)] = value;
    CHECK(serve.Predict(Json{{"vector", vector}, {"k", 3}}.dump()) == names);
    CHECK(serve.Predict(Json{
              {"samples", {{{"vector", vector}}, {{"features", features}}}},
              {"k", 3}}.dump()) == Names{names[0], names[0]});
  }
  const auto refused = serve.Post("/predict", R"({"text": "two"})");
  CHECK(refused.status == 400);
  CHECK(refused.json["error"] ==
        "the model was trained on numbers: give \"features\" or a \"vector\", not a text");
  const auto zeros = [](size_t count) {
    return Json{{"vector", std::vector<int>(count, 0)}, {"k", 1}}.dump();
  };
  CHECK(serve.Post("/predict", zeros(30)).status == 200);
  CHECK(serve.Post("/predict", zeros(29)).json["error"] ==
        "a vector has 29 values; the model's have 30");
  CHECK(serve.Post("/predict", zeros(31)).json["error"] ==
        "a vector has 31 values; the model's have 30");
  CHECK(serve.Post("/predict", R"({"vector": [1]})").json["error"] ==
        "a vector has 1 value; the model's have 30");
  CHECK(serve.Post("/predict", R"({"features": {"30": 1}})").json["error"] ==
        "feature 30 is not below the model's 30");
}

TEST_CASE("serve: labels that a sample has already are left out") {
  const SmallModel small(30, 24, 500, 1);
  ServeFixture serve(small.Build());
  const std::string ask = R"({"features": {"0": 1, "7": 2}, "k": 500)";
  const Names all = serve.Predict(ask + "}"),
              others = serve.Predict(ask + R"(, "exclude_own": true})");
  CHECK(all[0].size() == 500);
  CHECK(others[0].size() == 498);
  CHECK(std::ranges::find(others[0], "7") == others[0].end());
  // Each sample its own, and all of them what the request denies.
  const Names several = serve.Predict(R"({"samples": [{"features": {"0": 1}},
      {"features": {"7": 2}}], "k": 500, "deny": ["7", "9"], "exclude_own": true})");
  REQUIRE(several.size() == 2);
  CHECK(several[0].size() == 497);
  CHECK(several[1].size() == 498);
  // Features that are no labels, with an index.
  const SmallModel wide(600, 24, 500, 1);
  ModelBuilder::Options options;
  options.cells = 25;
  ServeFixture indexed(wide.Build(options)->WithProbes(1, 0.5f));
  CHECK(indexed
            .Predict(R"({"features": {"0": 1, "500": 1, "599": 2}, "k": 500,
      "exclude_own": true})")[0]
            .size() == 499);
}

TEST_CASE("serve: requests that are not understood get 400 and one line") {
  ServeFixture serve;
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "the request has no body"},
      {"{", "the request is not JSON"},
      {"[1]", "the request is not a JSON object"},
      {"{\"text\": " + std::string(101, '[') + std::string(101, ']') + "}",
       "the request is nested deeper than 100 levels"},
      {"{}", "the request has no \"text\", no \"title\", no \"features\" and no \"vector\""},
      {R"({"texts": "x"})", "the request has an unknown member 'texts'; did you mean \"text\"?"},
      {R"({"text": 7})", "the request has a \"text\" that is not a string"},
      {R"({"text": "x", "k": 0})", "the request has a \"k\" that is not a number from 1 to 1000"},
      {R"({"text": "x", "k": 1.5})", "the request has a \"k\" that is not a whole number"},
      {R"({"text": "x", "threshold": 2})",
       "the request has a \"threshold\" that is not a number from 0 to 1"},
      {R"({"text": "x", "search": "fast"})",
       "the request has a \"search\" that is not auto, exact, scan or index"},
      {R"({"text": "x", "allow": "y"})",
       "the request has a \"allow\" that is not a list of strings"},
      {R"({"text": "x", "exclude_own": 1})",
       "the request has a \"exclude_own\" that is neither true nor false"},
      {R"({"text": "x", "samples": []})", "the request has samples and a text"},
      {R"({"samples": "x"})", "the request has \"samples\" that are not a list"},
      {R"({"samples": ["x", 7]})", "sample 2 is not a JSON object"},
      {R"({"samples": [{"features": {"a": 1}}]})",
       "sample 1 has features that are not numbers by feature id: {\"a\":1}"},
      {R"({"features": {"1": "x"}})",
       "the request has features that are not numbers by feature id: {\"1\":\"x\"}"},
      {R"({"features": [1]})", "the request has \"features\" that are not an object"},
      {R"({"text": "x", "features": {}})", "the request has features and a text"},
      {R"({"vector": {"0": 1}})", "the request has a \"vector\" that is not a list of numbers"},
      {R"({"vector": []})", "the request has a \"vector\" that is not a list of numbers"},
      {R"({"vector": [1, "x"]})",
       "the request has a vector of which value 1 is not a number: \"x\""},
      {R"({"vector": [1e300]})",
       "the request has a vector of which value 0 is not a number: 1e+300"},
      {R"({"samples": [{"vector": [null]}]})",
       "sample 1 has a vector of which value 0 is not a number: null"},
      {R"({"vector": [1], "title": "x"})", "the request has a vector and a text"},
      {R"({"vector": [1], "features": {}})", "the request has features and a vector"},
      {R"({"vector": [1], "samples": []})", "the request has samples and a vector"},
      {R"({"features": {}, "samples": []})", "the request has samples and features"},
      {R"({"vector": [1, 0, 0, 0]})",
       "the model was trained on text: give a text, not a \"vector\""},
      {R"({"features": {"1": 1e38}})",
       "feature 1 has the value 1e+38; values lie between -1e+09 and 1e+09"},
      {R"({"features": {"99": 1}})", "feature 99 is not below the model's 4"},
  };
  for (const auto& [body, message] : wrong) {
    CAPTURE(body);
    const auto answer = serve.Post("/predict", body);
    CHECK(answer.status == 400);
    CHECK(answer.json["error"] == message);
  }
  const auto many = serve.Post(
      "/predict", R"({"samples": [)" + [] {
        std::string samples = "\"x\"";
        for (int i = 0; i < 1000; ++i) samples += ",\"x\"";
        return samples;
      }() + "]}");
  CHECK(many.status == 413);
  const httplib::Result longer = serve.client().Post("/predict", std::string(10'001, ' '), "x/y");
  REQUIRE(longer);
  CHECK(longer->status == 413);
  CHECK(longer->get_header_value("Content-Type") == "application/json");
  CHECK(longer->body == "{\"error\":\"a request has at most 10000 bytes\"}\n");
  const auto query = serve.Post("/predict?k=3", R"({"text": "two"})");
  CHECK(query.status == 400);
  CHECK(query.json["error"] ==
        "unknown parameter 'k' in the address; all parameters of this path are in the body");
  const auto multipart =
      serve.Post("/predict", "--b\r\n\r\n\r\n--b--", "Multipart/form-data; boundary=b");
  CHECK(multipart.status == 415);
  CHECK(multipart.json["error"] ==
        "forms of several parts (Multipart/form-data) are not taken; send JSON");
  CHECK(serve.Post("/predic", "{}").status == 404);
  CHECK(serve.Get("/predict").status == 405);
  CHECK(serve.Post("/model", "{}").status == 405);
  CHECK(serve.Post("/v1/projects/other/suggest", "text=x").json["error"] ==
        "there is no /v1/projects/other/suggest; the model's name is words");
  const httplib::Headers gzip = {{"Content-Encoding", "gzip"}};
  CHECK(serve.client().Post("/predict", gzip, "xx", "application/json")->status == 415);
  CHECK(serve.Predict(R"({"text": "two", "k": 1})") == Names{{"zwei"}});  // all is well after it
}

TEST_CASE("serve: a request for too many labels of all samples together is refused") {
  HttpServer::Limits limits;
  limits.body_bytes = 100'000;
  ServeFixture serve(WordModel(), {}, limits);
  const auto ask = [](size_t samples, int k) {
    return Json{{"samples", std::vector<std::string>(samples, "two")}, {"k", k}}.dump();
  };
  CHECK(serve.Post("/predict", ask(100, 1000)).status == 200);
  CHECK(serve.Post("/predict", ask(1000, 100)).status == 200);
  const auto refused = serve.Post("/predict", ask(101, 1000));
  CHECK(refused.status == 413);
  CHECK(refused.json["error"] ==
        "the request asks for 1000 labels of each of 101 samples, at most 100000 in all are given");
  const Json infer = {{"inputs",
                       {{{"name", "text"},
                         {"datatype", "BYTES"},
                         {"shape", {101}},
                         {"data", std::vector<std::string>(101, "two")}}}},
                      {"parameters", {{"k", 1000}}}};
  CHECK(serve.Post("/v2/models/words/infer", infer.dump()).status == 413);
  const Json batch = {{"documents", std::vector<Json>(101, Json{{"text", "two"}})},
                      {"limit", 1000}};
  CHECK(serve.Post("/v1/projects/words/suggest-batch", batch.dump()).status == 413);
}

TEST_CASE(
    "serve: a body with a NUL byte or too deep JSON is refused, in every dialect that takes JSON") {
  ServeFixture serve;
  const std::vector<std::pair<std::string, std::string>> asked = {
      {"/predict", R"({"text": "two"})"},
      {"/v1/projects/words/suggest-batch", R"({"documents": [{"text": "two"}]})"},
      {"/v2/models/words/infer",
       R"({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["two"]}]})"}};
  for (const auto& [path, body] : asked) {
    CAPTURE(path);
    CHECK(serve.Post(path, body).status == 200);
    for (const std::string& more : {std::string(1, '\0'), '\0' + body}) {
      const auto answer = serve.Post(path, body + more);
      CHECK(answer.status == 400);
      CHECK(answer.json.dump().find("the request has a NUL byte (byte " +
                                    std::to_string(body.size() + 1)) != std::string::npos);
    }
    const auto deep = serve.Post(path, R"({"text":)" + std::string(9000, '[') + "}");
    CHECK(deep.status == 400);
    CHECK(deep.json.dump().find("the request is nested deeper than 100 levels") !=
          std::string::npos);
  }
}

TEST_CASE("serve: as Annif's http back end asks") {
  ServeFixture serve;
  const httplib::Params form = {{"text", "zwei und \"two\" & mehr"}, {"limit", "2"}};
  const httplib::Result result = serve.client().Post("/v1/projects/words/suggest", form);
  REQUIRE(result);
  CHECK(result->status == 200);
  const Json results = Json::parse(result->body)["results"];
  REQUIRE(results.size() == 2);
  CHECK(results[0]["uri"] == "zwei");
  CHECK(results[0]["label"] == "zwei");
  CHECK(results[0]["notation"].is_null());
  CHECK(results[0]["score"] == doctest::Approx(std::exp(4) / (std::exp(4) + 3)));
  const auto form_type = "application/x-www-form-urlencoded";
  const std::string suggest = "/v1/projects/words/suggest";
  CHECK(serve.Post(suggest, "text=two&threshold=0.5", form_type).json["results"].size() == 1);
  CHECK(serve.Post(suggest, "text=gr%C3%B6%C3%9Fer+vier&limit=1", form_type)
            .json["results"][0]["uri"] == "größer");
  for (const char* body :
       {"limit=2", "text=%zz", "text=x&limit=0", "text=x&limit=many", "text=x&threshold=-1"}) {
    CAPTURE(body);
    const auto refused = serve.Post(suggest, body, form_type);
    CHECK(refused.status == 400);
    CHECK(refused.json["status"] == 400);
    CHECK(refused.json["detail"].get<std::string>().size() > 10);
  }
  const auto batch = serve.Post(suggest + "-batch", R"({"documents":
      [{"text": "two", "document_id": "a"}, {"text": "vier"}], "limit": 1})");
  CHECK(batch.status == 200);
  CHECK(batch.json[0]["document_id"] == "a");
  CHECK(batch.json[0]["results"][0]["uri"] == "zwei");
  CHECK(batch.json[1]["document_id"].is_null());
  CHECK(batch.json[1]["results"][0]["uri"] == "größer");
  const std::string one = R"({"documents": [{"text": "two"}]})";
  const Json limited = serve.Post(suggest + "-batch?limit=1&threshold=0.1", one).json;
  CHECK(limited[0]["results"].size() == 1);
  CHECK(serve.Post(suggest + "-batch?limit=0", one).status == 400);
  CHECK(serve.Post(suggest + "-batch?limits=1", one).json["detail"] ==
        "unknown parameter 'limits' in the address; there are limit, threshold");
  CHECK(serve.Post(suggest, "x", "multipart/form-data; boundary=x").json["detail"] ==
        "forms of several parts (multipart/form-data) are not taken; send an urlencoded form");
  CHECK(serve.Post(suggest + "-batch", R"({"documents": [{}]})").json["detail"] ==
        "document 1 has no \"text\"");
  const Json project = serve.Get("/v1/projects/words").json;
  CHECK(project["project_id"] == "words");
  CHECK(project["is_trained"] == true);
  CHECK(project["backend"]["backend_id"] == "dslide");
  CHECK(serve.Get("/v1/projects").json["projects"][0] == project);
}

TEST_CASE("serve: with a vocabulary a label has an identifier and a name") {
  ServeFixture serve(WordModel(false, Vocabulary({"http://e.org/1", "http://e.org/2", "n:3", "n:4"},
                                                 {"eins", "zwei", "duo", "drei"}, {0, 1, 1, 2})));
  const auto suggested = serve.Post("/v1/projects/words/suggest", "text=two&limit=1",
                                    "application/x-www-form-urlencoded");
  CHECK(suggested.json["results"][0]["uri"] == "http://e.org/2");
  CHECK(suggested.json["results"][0]["label"] == "zwei");
  // Labels are asked for by identifier, name or synonym.
  for (const char* only : {"https://e.org/2/", "zwei", "duo"}) {
    const Json body = {{"text", "vier"}, {"allow", {only}}};
    CAPTURE(only);
    const auto ranked = serve.Post("/predict", body.dump());
    REQUIRE(ranked.json["predictions"][0]["labels"].size() == 1);
    CHECK(ranked.json["predictions"][0]["labels"][0]["uri"] == "http://e.org/2");
    CHECK(ranked.json["predictions"][0]["labels"][0]["label"] == "zwei");
  }
  const auto nameless = serve.Post("/predict", R"({"text": "vier", "k": 1})");
  CHECK(nameless.json["predictions"][0]["labels"][0]["label"] == "4");
}

TEST_CASE("serve: as the Open Inference Protocol asks") {
  ServeFixture serve;
  CHECK(serve.Get("/v2/health/live").status == 200);
  CHECK(serve.Get("/v2/health/ready").status == 200);
  CHECK(serve.Get("/v2").json["name"] == "dslide");
  CHECK(serve.Get("/v2/models/words/ready").status == 200);
  const Json metadata = serve.Get("/v2/models/words").json;
  CHECK(metadata["inputs"][0]["name"] == "text");
  CHECK(metadata["outputs"][0]["datatype"] == "BYTES");
  const std::string infer = "/v2/models/words/infer";
  const auto answer = serve.Post(infer, R"({"id": "7", "inputs": [{"name": "text", "shape": [2, 1],
      "datatype": "BYTES", "data": ["two", "vier"]}], "parameters": {"k": 6}})");
  CHECK(answer.status == 200);
  CHECK(answer.json["id"] == "7");
  CHECK(answer.json["model_name"] == "words");
  const Json& outputs = answer.json["outputs"];
  CHECK(outputs[0]["shape"] == Json{2, 6});
  REQUIRE(outputs[0]["data"].size() == 12);
  CHECK(outputs[0]["data"][0] == "zwei");
  CHECK(outputs[0]["data"][5] == "");  // there are four labels
  CHECK(outputs[0]["data"][6] == "größer");
  CHECK(outputs[1]["data"][6] == doctest::Approx(std::exp(4) / (std::exp(4) + 3)));
  CHECK(outputs[2]["data"][6] == doctest::Approx(4));
  const auto features = serve.Post(infer, R"({"inputs": [{"name": "features", "shape": [1],
      "datatype": "BYTES", "data": ["3:2  0:1"]}]})");
  CHECK(features.json["outputs"][0]["data"][0] == "größer");
  for (const char* body :
       {R"({})", R"({"inputs": []})",
        R"({"inputs": [{"name": "text", "shape": [1], "datatype": "FP32", "data": ["x"]}]})",
        R"({"inputs": [{"name": "features", "shape": [1], "datatype": "BYTES", "data": ["x"]}]})",
        R"({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["x"]}],
            "parameters": {"k": 0}})"}) {
    CAPTURE(body);
    CHECK(serve.Post(infer, body).status == 400);
  }
}

TEST_CASE("serve: vectors as the Open Inference Protocol asks") {
  const SmallModel small(30, 24, 500, 1);
  ServeFixture serve(small.Build());
  const Json metadata = serve.Get("/v2/models/words").json;
  REQUIRE(metadata["inputs"].size() == 2);
  CHECK(metadata["inputs"][0]["name"] == "features");
  CHECK(metadata["inputs"][1] ==
        Json{{"name", "vector"}, {"datatype", "FP32"}, {"shape", {-1, 30}}});
  const SparseRows samples = SmallSamples(2, 30, 2);
  Json flat = Json::array(), nested = Json::array();
  std::vector<std::string> best;
  for (uint32_t i = 0; i < 2; ++i) {
    std::vector<float> row(30, 0.0f);
    for (size_t e = 0; e < samples.Ids(i).size(); ++e)
      row[samples.Ids(i)[e]] = samples.Values(i)[e];
    for (const float value : row) flat.push_back(value);
    nested.push_back(row);
    best.push_back(std::to_string(SmallModel::Order(small.Logits(samples, i))[0]));
  }
  const auto infer = [&](const Json& shape, const Json& data, const char* type = "FP32") {
    const Json input = {{"name", "vector"}, {"shape", shape}, {"datatype", type}, {"data", data}};
    return serve.Post("/v2/models/words/infer",
                      Json{{"inputs", {input}}, {"parameters", {{"k", 1}}}}.dump());
  };
  for (const Json& data : {flat, nested}) {
    const auto answer = infer({2, 30}, data);
    REQUIRE_MESSAGE(answer.status == 200, answer.json.dump());
    CHECK(answer.json["outputs"][0]["data"] == Json(best));
  }
  CHECK(infer({0, 30}, Json::array()).status == 200);
  const auto refused = [&](const Json& shape, const Json& data, const std::string& message) {
    const auto answer = infer(shape, data);
    CHECK(answer.status == 400);
    CHECK(answer.json["error"] == message);
  };
  const std::string unlike = "the input has \"data\" that are not n x D numbers, as its shape says";
  refused({2, 29}, flat, unlike);
  refused({1, 2}, Json::array({1, "x"}), unlike);
  refused({1, 60}, flat, "a vector has 60 values; the model's have 30");
  refused({-1, 30}, flat, "the input has a \"shape\" that is not [n, D]");
  refused({1, 1}, 7, "the input has no \"data\"");
  CHECK(infer({2, 30}, flat, "FP64").json["error"] == "the input does not have the datatype FP32");
  CHECK(infer({1001, 30}, flat).status == 413);
}

TEST_CASE("serve: pages, health and metrics") {
  ServeFixture serve;
  CHECK(serve.client().Get("/")->body.starts_with("<!doctype html>"));
  CHECK(serve.client().Get("/healthz")->status == 200);
  CHECK(serve.client().Get("/readyz")->status == 200);
  CHECK(serve.Get("/model").json["labels"] == 4);
  serve.Predict(R"({"samples": ["two", "vier"]})");
  serve.Post("/predict", "{");
  const std::string metrics = serve.client().Get("/metrics")->body;
  for (const char* line : {"dslide_serve_requests_total{code=\"200\",endpoint=\"predict\"} 1\n",
                           "dslide_serve_requests_total{code=\"400\",endpoint=\"predict\"} 1\n",
                           "dslide_serve_batch_samples_sum 2\n"}) {
    CHECK_MESSAGE(metrics.find(line) != std::string::npos, metrics);
  }
  serve.router().StopBeingReady();
  CHECK(serve.client().Get("/readyz")->status == 503);
  CHECK(serve.client().Get("/healthz")->status == 200);
}

TEST_CASE("serve: openapi.json lists the paths that there are, and no others") {
  ServeFixture serve;
  const Json api = serve.Get("/openapi.json").json;
  CHECK(api["openapi"] == "3.0.3");
  for (const auto& [path, item] : api["paths"].items()) {
    CAPTURE(path);
    std::string real = path;
    if (const size_t at = real.find("{name}"); at != std::string::npos) {
      real.replace(at, 6, "words");
    }
    const bool gets = item.contains("get"), posts = item.contains("post");
    CHECK(gets != posts);
    const int got = serve.client().Get(real)->status;
    CHECK(got == (gets ? 200 : 405));
    const int posted = serve.client().Post(real, "", "application/json")->status;
    CHECK(posted == (posts ? 400 : 405));
    // Every status that was seen is described.
    const Json& responses = item[gets ? "get" : "post"]["responses"];
    CHECK(responses.contains("200"));
    if (posts) CHECK(responses.contains("400"));
  }
  // References lead somewhere.
  const std::string text = api.dump();
  for (size_t at = 0; (at = text.find("\"$ref\":\"#", at)) != std::string::npos; ++at) {
    const size_t begin = at + 9;
    const std::string pointer = text.substr(begin, text.find('"', begin) - begin);
    CHECK_MESSAGE(api.contains(Json::json_pointer(pointer)), pointer);
  }
}

TEST_CASE("serve: requests that came before a newer model are answered, all of them") {
  const SmallModel small(30, 24, 500, 1), other(30, 24, 500, 2);
  ServeFixture serve(small.Build());
  const SparseRows samples = SmallSamples(1, 30, 3);
  Json features = Json::object();
  for (size_t e = 0; e < samples.Ids(0).size(); ++e) {
    features[std::to_string(samples.Ids(0)[e])] = samples.Values(0)[e];
  }
  const std::string body = Json{{"features", features}, {"k", 1}}.dump();
  const auto best = [&](const SmallModel& model) {
    return std::to_string(SmallModel::Order(model.Logits(samples, 0))[0]);
  };
  REQUIRE(best(small) != best(other));
  const auto next = other.Build();
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    if (i == 100) serve.service().SetModel(next);
    const std::string name = serve.Predict(body)[0][0];
    CHECK(name == best(i < 100 ? small : other));
  }
}

TEST_CASE("serve: threads that have nothing to do keep no model that was replaced") {
  const SmallModel small(30, 24, 500, 1);
  std::promise<void> gone;
  const auto built = small.Build();
  std::shared_ptr<const void> owner(built.get(), [built, &gone](const void*) { gone.set_value(); });
  auto model = std::make_shared<const Model>(built->info(), built->arrays(), nullptr, owner);
  owner.reset();
  PredictionService::Options options;
  options.threads = 3;
  ServeFixture serve(std::move(model), options);
  for (int i = 0; i < 20; ++i) serve.Predict(R"({"features": {"1": 1}})");
  serve.service().SetModel(small.Build());
  CHECK(gone.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready);
}

TEST_CASE("serve: damage that is met while it predicts gives 500, and no answer") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/m.dslide";
  REQUIRE(WriteModelFile(*SmallModel(30, 24, 500, 1).Build(), path).ok());
  testing::ChangeByte(path, 64, 1);  // the first section, input
  auto model = Ok(OpenModelFile(path, ModelMemory::kMapped));
  ServeFixture serve(model);
  const std::string body = R"({"features": {"1": 1}})";
  for (int again = 0; again < 2; ++again) {
    const auto answer = serve.Post("/predict", body);
    CHECK(answer.status == 500);
    CHECK(answer.json["error"] == "the model's file is damaged; the server's log says where");
  }
  serve.service().SetModel(SmallModel(30, 24, 500, 1).Build());
  CHECK(serve.Post("/predict", body).status == 200);
}

TEST_CASE("serve: more requests than may wait get 503, and so do those that waited too long") {
  PredictionService::Options options;
  options.most_waiting = 0;
  ServeFixture full(WordModel(), options);
  CHECK(full.Post("/predict", R"({"text": "two"})").status == 503);
  options.most_waiting = 10;
  options.limit_ms = -1;
  ServeFixture late(WordModel(), options);
  CHECK(late.Post("/predict", R"({"text": "two"})").json["error"] ==
        "the server is too busy; try again later");
}

}  // namespace
}  // namespace dslide::serve_test
