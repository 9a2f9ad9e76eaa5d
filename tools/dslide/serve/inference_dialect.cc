// The Open Inference Protocol, version 2: POST /v2/models/{id}/infer.
//
// One input: "text" (BYTES, [n] or [n, 1]), or of a model of numbers "features" (BYTES: "id:value
// id:value") or "vector" (FP32, [n, D]). Parameters: "k", "threshold", "binary_data_output".
// Outputs, all of them or those that the request names: "labels" (BYTES, [n, k]), "probabilities"
// and "scores" (FP32, [n, k]). Where a sample has fewer labels, the rest are "" and 0.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "common/base/plural.h"
#include "common/data/text_stream.h"
#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/json_request.h"
#include "tools/dslide/serve/tensor.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

// "id:value id:value"
std::optional<std::vector<std::pair<uint32_t, float>>> ParseFeatures(const std::string& text) {
  std::vector<std::pair<uint32_t, float>> features;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    at = std::find_if(at, end, [](char c) { return c != ' '; });
    if (at == end) break;
    uint32_t id = 0;
    float value = 0;
    const auto first = std::from_chars(at, end, id);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return std::nullopt;
    const auto second = std::from_chars(first.ptr + 1, end, value);
    if (second.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
    features.push_back({id, value});
    at = second.ptr;
    if (at != end && *at != ' ') return std::nullopt;
  }
  std::ranges::sort(features);
  return features;
}

constexpr char kOctets[] = "application/octet-stream";
constexpr const char* kInputs[] = {"text", "features", "vector"};
constexpr const char* kOutputs[] = {"labels", "probabilities", "scores"};

Refusal TooManySamples(uint64_t count) {
  return Refusal{413, fmt::format("the request has {} samples, at most {} are taken", count,
                                  kMostServedSamples)};
}

// Whether a shape is that of `wanted` dimensions with any number of ones between and behind them.
bool HasDimensions(std::span<const uint64_t> shape, size_t wanted) {
  if (shape.size() < wanted) return false;
  const auto longer = std::ranges::count_if(shape.subspan(1), [](uint64_t s) { return s != 1; });
  return static_cast<size_t>(longer) < wanted;
}

// The samples of the input "vector".
std::variant<std::vector<AskedSample>, Refusal> ParseVectors(TensorReader* tensor,
                                                             JsonObject* input) {
  const std::vector<uint64_t>& shape = tensor->shape();
  const bool fits = HasDimensions(shape, 2) &&
                    std::ranges::find(shape.begin() + 1, shape.end(), 0) == shape.end();
  if (!fits) input->Fault("has a \"shape\" that is not [n, D]");
  if (input->fault()) return *input->fault();
  if (shape[0] > kMostServedSamples) return TooManySamples(shape[0]);
  const auto numbers = tensor->Numbers();
  if (!numbers) return *input->fault();
  std::vector<AskedSample> samples(shape[0]);
  for (size_t i = 0; i < numbers->size(); ++i) {
    AddVectorValue((*numbers)[i], &samples[i / (numbers->size() / samples.size())]);
  }
  return samples;
}

// The samples of the inputs "text" and "features".
std::variant<std::vector<AskedSample>, Refusal> ParseTexts(bool features, TensorReader* tensor,
                                                           JsonObject* input) {
  const std::vector<uint64_t>& shape = tensor->shape();
  if (!HasDimensions(shape, 1)) input->Fault("has a \"shape\" that is not [n] or [n, 1]");
  if (input->fault()) return *input->fault();
  if (shape[0] > kMostServedSamples) return TooManySamples(shape[0]);
  const auto texts = tensor->Texts();
  if (!texts) return *input->fault();
  std::vector<AskedSample> samples;
  for (const std::string& each : *texts) {
    AskedSample& sample = samples.emplace_back();
    if (!features) {
      sample.record.fields = FieldsOf(each);
    } else if (sample.features = ParseFeatures(each); !sample.features) {
      return Refusal{400, fmt::format("sample {} is not \"id:value id:value\"", samples.size())};
    }
  }
  return samples;
}

// The samples of the only input, which must use all of *binary.
std::variant<std::vector<AskedSample>, Refusal> ParseInputs(
    JsonObject* request, std::optional<std::string_view>* binary) {
  const Json* inputs = request->Find("inputs");
  if (inputs == nullptr || !inputs->is_array() || inputs->empty()) {
    request->Fault("must have one input, \"text\", \"features\" or \"vector\"");
    return *request->fault();
  }
  for (const Json& each : *inputs) {
    JsonObject input(each, "an input");
    const std::string name = input.Text("name").value_or("");
    if (std::ranges::find(kInputs, name) == std::end(kInputs)) {
      input.Fault(
          fmt::format("has the name {}; there are {}", Quoted(name), Joined(kInputs, ", ")));
    }
    if (input.fault()) return *input.fault();
  }
  if (inputs->size() > 1) {
    request->Fault(fmt::format("has {} inputs; it must have one of {}", inputs->size(),
                               Joined(kInputs, ", ")));
    return *request->fault();
  }
  JsonObject input(inputs->front(), "the input");
  const std::string name = *input.Text("name");
  TensorReader tensor(&input, binary);
  auto samples = name == "vector" ? ParseVectors(&tensor, &input)
                                  : ParseTexts(name == "features", &tensor, &input);
  if (std::holds_alternative<Refusal>(samples) || !*binary || (*binary)->empty()) return samples;
  request->Fault(
      fmt::format("has {} of binary data that no input uses; \"binary_data_size\" in "
                  "an input's parameters is the number of its bytes",
                  Plural((*binary)->size(), "byte")));
  return *request->fault();
}

// The outputs that the request names, or all. `binary`: the default of an output's binary_data.
std::variant<std::vector<WantedOutput>, Refusal> ParseOutputs(JsonObject* request, bool binary) {
  std::vector<WantedOutput> wanted;
  const Json* outputs = request->Find("outputs");
  if (outputs != nullptr && !outputs->is_array())
    request->Fault("has \"outputs\" that are not a list");
  if (request->fault()) return *request->fault();
  if (outputs == nullptr || outputs->empty()) {
    for (const char* name : kOutputs) wanted.push_back({name, binary});
    return wanted;
  }
  for (const Json& each : *outputs) {
    JsonObject output(each, "an output");
    WantedOutput one{output.Text("name").value_or(""), binary};
    if (std::ranges::find(kOutputs, one.name) == std::end(kOutputs)) {
      output.Fault(
          fmt::format("has the name {}; there are {}", Quoted(one.name), Joined(kOutputs, ", ")));
    } else if (std::ranges::find(wanted, one.name, &WantedOutput::name) != wanted.end()) {
      output.Fault(fmt::format("is named twice: {}", one.name));
    }
    if (output.fault()) return *output.fault();
    if (const Json* parameters = output.Find("parameters")) {
      JsonObject given(*parameters, "an output's \"parameters\"");
      one.binary = given.Flag("binary_data").value_or(binary);
      if (given.fault()) return *given.fault();
    }
    wanted.push_back(std::move(one));
  }
  return wanted;
}

// An output of all samples, in JSON or appended to *binary.
template <typename T>
Json OutputJson(const WantedOutput& wanted, const char* type, const Json& shape,
                const std::vector<T>& elements, std::string* binary) {
  Json output = {{"name", wanted.name}, {"datatype", type}, {"shape", shape}};
  if (wanted.binary) {
    const size_t before = binary->size();
    AppendBinary(elements, binary);
    output["parameters"] = {{"binary_data_size", binary->size() - before}};
  } else {
    output["data"] = elements;
  }
  return output;
}

class Inference2 final : public Dialect {
 public:
  std::string_view name() const override { return "infer"; }

  std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const override {
    auto parts = SplitTensorBody(request);
    if (const auto* refusal = std::get_if<Refusal>(&parts)) return *refusal;
    auto& [text, binary] = std::get<TensorBody>(parts);
    const auto body = ParseBody(text);
    if (const auto* refusal = std::get_if<Refusal>(&body)) {
      const bool octets = request.Header("Content-Type") == kOctets && !binary;
      return octets
                 ? Refusal{400, fmt::format("the request is not JSON; binary data after JSON "
                                            "require the header {}, the number of the JSON's bytes",
                                            kJsonLengthHeader)}
                 : *refusal;
    }
    JsonObject object(std::get<Json>(body), "the request");
    PredictionRequest asked;
    asked.id = object.Text("id").value_or("");
    bool binary_outputs = false;
    if (const Json* parameters = object.Find("parameters")) {
      JsonObject given(*parameters, "\"parameters\"");
      asked.k = given.Whole("k", 1, kMostServedLabels).value_or(asked.k);
      asked.threshold = static_cast<float>(given.Number("threshold", 0, 1).value_or(0));
      binary_outputs = given.Flag("binary_data_output").value_or(false);
      if (given.fault()) return *given.fault();
    }
    if (object.fault()) return *object.fault();
    auto samples = ParseInputs(&object, &binary);
    if (const auto* refusal = std::get_if<Refusal>(&samples)) return *refusal;
    auto outputs = ParseOutputs(&object, binary_outputs);
    if (const auto* refusal = std::get_if<Refusal>(&outputs)) return *refusal;
    asked.samples = std::get<std::vector<AskedSample>>(std::move(samples));
    asked.outputs = std::get<std::vector<WantedOutput>>(std::move(outputs));
    return asked;
  }

  HttpResponse Answer(const Model& model, const std::string& name, const PredictionRequest& request,
                      const Predictions& predictions) const override {
    std::vector<std::string> labels;
    std::vector<float> probabilities, scores;
    for (const auto& predicted : predictions) {
      for (uint32_t rank = 0; rank < request.k; ++rank) {
        const bool there = rank < predicted.size();
        labels.push_back(there ? model.LabelName(predicted[rank].label) : "");
        probabilities.push_back(there ? predicted[rank].probability : 0);
        scores.push_back(there ? predicted[rank].score : 0);
      }
    }
    Json answer = {{"model_name", name}, {"outputs", Json::array()}};
    if (!request.id.empty()) answer["id"] = request.id;
    const Json shape = {predictions.size(), request.k};
    std::string binary;
    bool is_binary = false;
    for (const WantedOutput& wanted : request.outputs) {
      is_binary = is_binary || wanted.binary;
      answer["outputs"].push_back(wanted.name == "labels"
                                      ? OutputJson(wanted, "BYTES", shape, labels, &binary)
                                      : OutputJson(wanted, "FP32", shape,
                                                   wanted.name == "scores" ? scores : probabilities,
                                                   &binary));
    }
    const std::string json = Compact(answer) + "\n";
    if (!is_binary) return JsonAnswer(200, json);
    HttpResponse response = JsonAnswer(200, json + binary);
    response.type = kOctets;
    response.headers = {{kJsonLengthHeader, std::to_string(json.size())}};
    return response;
  }
};

}  // namespace

const Dialect& InferenceDialect() {
  static const Inference2 inference;
  return inference;
}

}  // namespace dslide
