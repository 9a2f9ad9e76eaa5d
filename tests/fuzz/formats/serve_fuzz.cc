// Requests to `dslide serve`: an address, a type, parameters and a body, answered by a model of
// words or of numbers.
//
//   input = ("w" | "n") path "\n" type [" " JSON bytes] "\n" parameters "\n" body
//   parameters: a=b&c=d      JSON bytes: the header that binary tensors need
#include <future>

#include "tests/common/model/small_model.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/tools/serve/word_model.h"
#include "tools/dslide/serve/form_body.h"
#include "tools/dslide/serve/json_request.h"
#include "tools/dslide/serve/router.h"
#include "tools/dslide/serve/tensor.h"

namespace dslide::serve_fuzz {
namespace {

using fuzz::Inputs;

class Service {
 public:
  explicit Service(std::shared_ptr<const Model> model)
      : service_({.name = "m"}, std::move(model), &metrics_), router_("m", &service_, &metrics_) {}

  HttpResponse Answer(HttpRequest request) {
    std::promise<HttpResponse> answer;
    router_.Handle(std::move(request),
                   [&](HttpResponse response) { answer.set_value(std::move(response)); });
    return answer.get_future().get();
  }

 private:
  ServeMetrics metrics_;
  PredictionService service_;
  Router router_;
};

Service& ServiceOf(bool numbers) {
  static Service of_words(WordModel());
  static Service of_numbers(SmallModel(6, 4, 9, 1).Build());
  return numbers ? of_numbers : of_words;
}

std::string NextLine(std::string_view* rest) {
  const size_t end = rest->find('\n');
  const std::string line(rest->substr(0, end));
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return line;
}

bool Run(std::string_view input) {
  if (input.empty()) return false;
  const bool numbers = input[0] == 'n';
  input.remove_prefix(1);
  HttpRequest request;
  request.path = NextLine(&input);
  const std::string type = NextLine(&input);
  const size_t blank = std::min(type.find(' '), type.size());
  request.headers = {{"Content-Type", type.substr(0, blank)}};
  if (blank < type.size()) request.headers.push_back({kJsonLengthHeader, type.substr(blank + 1)});
  const auto parameters = ParseForm(NextLine(&input));
  if (parameters) request.query.assign(parameters->begin(), parameters->end());
  request.body = input;
  request.method = "POST";
  const HttpResponse response = ServiceOf(numbers).Answer(request);
  DSLIDE_CHECK(response.body != nullptr);
  if (response.type == "application/json") {
    DSLIDE_CHECK(nlohmann::json::accept(*response.body));
  }
  DSLIDE_CHECK(response.status != 500);
  return response.status == 200;
}

template <typename T>
std::string BinaryOf(const std::vector<T>& elements) {
  std::string binary;
  AppendBinary(elements, &binary);
  return binary;
}

// A request with binary tensors.
std::string Binary(const std::string& model, const std::string& json, const std::string& binary) {
  return model + "/v2/models/m/infer\napplication/octet-stream " + std::to_string(json.size()) +
         "\n\n" + json + binary;
}

Inputs Seeds() {
  const std::string own = "w/predict\napplication/json\n\n",
                    numbers = "n/predict\napplication/json\n\n",
                    annif = "w/v1/projects/m/suggest\napplication/x-www-form-urlencoded\n\n",
                    batch =
                        "w/v1/projects/m/suggest-batch\napplication/json\nlimit=2&threshold=0.1\n",
                    infer = "w/v2/models/m/infer\napplication/json\n\n";
  return {
      own + R"({"text": "vier", "k": 2, "id": "a"})",
      own + R"({"samples": ["two", {"title": "three", "text": "x"}, {"features": {"0": 1}}],
                "allow": ["drei", "nix"], "deny": ["zwei"], "threshold": 0.1, "search": "scan"})",
      own + R"({"text": "two vier", "exclude_own": true, "search": "index"})",
      numbers + R"({"features": {"0": 1, "5": -2.5}, "k": 3})",
      numbers + R"({"vector": [1, 0, 0, 1e3, 0, -1], "search": "exact"})",
      numbers + R"({"samples": [{"vector": [1, 0, 0, 1, 0, 1]}, {"features": {}}]})",
      annif + "text=one+two%20three&limit=3&threshold=0.2",
      annif + "text=%zz",
      batch + R"({"documents": [{"text": "one", "document_id": "d"}, {"text": "vier"}]})",
      infer + R"({"id": "q", "inputs": [{"name": "text", "shape": [2], "datatype": "BYTES",
                  "data": ["one", "two"]}], "parameters": {"k": 2}})",
      "n/v2/models/m/infer\n\n\n" + std::string(R"({"inputs": [{"name": "vector", "shape": [1, 6],
                  "datatype": "FP32", "data": [0, 1, 0, 0, 0, 1]}], "outputs": [{"name": "labels"}]})"),
      "n/v2/models/m/infer\n\n\n" + std::string(R"({"inputs": [{"name": "features", "shape": [1],
                  "datatype": "BYTES", "data": ["0:1 3:2"]}]})"),
      Binary("w", R"({"inputs": [{"name": "text", "shape": [1, 1], "datatype": "BYTES",
                  "parameters": {"binary_data_size": 7}}],
                  "outputs": [{"name": "labels", "parameters": {"binary_data": true}}]})",
             BinaryOf(std::vector<std::string>{"two"})),
      Binary("n", R"({"inputs": [{"name": "vector", "shape": [1, 6], "datatype": "FP32",
                  "parameters": {"binary_data_size": 24}}],
                  "parameters": {"binary_data_output": true}})",
             BinaryOf(std::vector<float>{0, 1, 0, -2, 0, 1})),
      "w/model\n\n\n",
      "w/predict\nmultipart/form-data\n\nx",
      "w/predict\n\na=b\n{}",
      own + R"({"text": )" + std::string(101, '[') + std::string(101, ']') + "}"};
}

const fuzz::Entered kEntered({"serve", Run, Seeds});

}  // namespace
}  // namespace dslide::serve_fuzz
