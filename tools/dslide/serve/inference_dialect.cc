// The Open Inference Protocol, version 2: POST /v2/models/{id}/infer.
//
// One input: "text" (BYTES, [n] or [n, 1]), or of a model of numbers "features" (BYTES: "id:value
// id:value") or "vector" (FP32, [n, D]: a list of all values, or of lists). Parameter "k". Outputs:
// "labels" (BYTES, [n, k]), "probabilities" and "scores" (FP32, [n, k]). Where a sample has fewer
// labels, the rest are "" and 0.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/json_request.h"

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

bool IsShape(const Json* shape, size_t dimensions) {
  return shape != nullptr && shape->is_array() && shape->size() == dimensions &&
         std::ranges::all_of(*shape, [](const Json& size) { return size.is_number_unsigned(); });
}

Refusal TooManySamples(uint64_t count) {
  return Refusal{413, fmt::format("the request has {} samples, at most {} are taken", count,
                                  kMostServedSamples)};
}

// Appends samples of the values in `data`, row by row, `length` a sample. False: they are not
// numbers, or too many.
bool AddValues(const Json& data, uint64_t length, uint64_t count,
               std::vector<AskedSample>* samples) {
  for (const Json& value : data) {
    const float number = value.is_number() ? value.get<float>() : NAN;
    if (!std::isfinite(number)) return false;
    if (samples->empty() || samples->back().vector_length == length) {
      if (samples->size() == count) return false;
      samples->emplace_back();
    }
    AddVectorValue(number, &samples->back());
  }
  return true;
}

// The samples of the input "vector".
std::variant<std::vector<AskedSample>, Refusal> ParseVectors(JsonObject* input) {
  if (input->Text("datatype").value_or("") != "FP32") input->Fault("has not the datatype FP32");
  const Json* shape = input->Find("shape");
  const Json* data = input->Find("data");
  if (!IsShape(shape, 2) || (*shape)[1] == 0) input->Fault("has a \"shape\" that is not [n, D]");
  if (data == nullptr || !data->is_array()) input->Fault("has no \"data\"");
  if (input->fault()) return *input->fault();
  const auto count = (*shape)[0].get<uint64_t>(), length = (*shape)[1].get<uint64_t>();
  if (count > kMostServedSamples) return TooManySamples(count);
  std::vector<AskedSample> samples;
  bool fits = true;
  if (!data->empty() && data->front().is_array()) {
    for (const Json& row : *data) {
      fits =
          fits && row.is_array() && row.size() == length && AddValues(row, length, count, &samples);
    }
  } else {
    fits = AddValues(*data, length, count, &samples);
  }
  if (!fits || samples.size() != count || (count > 0 && samples.back().vector_length != length)) {
    input->Fault("has \"data\" that are not n x D numbers, as its shape says");
    return *input->fault();
  }
  return samples;
}

class Inference2 final : public Dialect {
 public:
  std::string_view name() const override { return "infer"; }

  std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const override {
    const auto body = ParseBody(request.body);
    if (const auto* refusal = std::get_if<Refusal>(&body)) return *refusal;
    JsonObject object(std::get<Json>(body), "the request");
    PredictionRequest asked;
    asked.id = object.Text("id").value_or("");
    if (const Json* parameters = object.Find("parameters")) {
      JsonObject given(*parameters, "\"parameters\"");
      asked.k = given.Whole("k", 1, kMostServedLabels).value_or(asked.k);
      if (given.fault()) return *given.fault();
    }
    const Json* inputs = object.Find("inputs");
    if (inputs == nullptr || !inputs->is_array() || inputs->size() != 1) {
      object.Fault("must have one input, \"text\", \"features\" or \"vector\"");
    }
    if (object.fault()) return *object.fault();
    JsonObject input(inputs->front(), "the input");
    const std::string name = input.Text("name").value_or("");
    if (name == "vector") {
      auto samples = ParseVectors(&input);
      if (const auto* refusal = std::get_if<Refusal>(&samples)) return *refusal;
      asked.samples = std::get<std::vector<AskedSample>>(std::move(samples));
      return asked;
    }
    if (name != "text" && name != "features") {
      input.Fault("is none of \"text\", \"features\" and \"vector\"");
    }
    if (input.Text("datatype").value_or("") != "BYTES") input.Fault("has not the datatype BYTES");
    const auto data = input.Texts("data");
    if (!data) input.Fault("has no \"data\"");
    const Json* shape = input.Find("shape");
    const bool fits = data && shape != nullptr && shape->is_array() && !shape->empty() &&
                      (*shape)[0] == data->size() &&
                      (shape->size() == 1 || (shape->size() == 2 && (*shape)[1] == 1));
    if (!fits) input.Fault("has a \"shape\" that is not that of its data, [n] or [n, 1]");
    if (input.fault()) return *input.fault();
    if (data->size() > kMostServedSamples) return TooManySamples(data->size());
    for (const std::string& each : *data) {
      AskedSample sample;
      if (name == "text") {
        sample.record.fields = FieldsOf(each);
      } else if (sample.features = ParseFeatures(each); !sample.features) {
        return Refusal{
            400, fmt::format("sample {} is not \"id:value id:value\"", asked.samples.size() + 1)};
      }
      asked.samples.push_back(std::move(sample));
    }
    return asked;
  }

  std::string Answer(const Model& model, const std::string& name, const PredictionRequest& request,
                     const Predictions& predictions) const override {
    Json labels = Json::array(), probabilities = Json::array(), scores = Json::array();
    for (const auto& predicted : predictions) {
      for (uint32_t rank = 0; rank < request.k; ++rank) {
        const bool there = rank < predicted.size();
        labels.push_back(there ? model.LabelName(predicted[rank].label) : "");
        probabilities.push_back(there ? predicted[rank].probability : 0);
        scores.push_back(there ? predicted[rank].score : 0);
      }
    }
    const auto output = [&](const char* title, const char* type, Json data) {
      return Json{{"name", title},
                  {"datatype", type},
                  {"shape", {predictions.size(), request.k}},
                  {"data", std::move(data)}};
    };
    Json answer = {{"model_name", name},
                   {"outputs",
                    {output("labels", "BYTES", std::move(labels)),
                     output("probabilities", "FP32", std::move(probabilities)),
                     output("scores", "FP32", std::move(scores))}}};
    if (!request.id.empty()) answer["id"] = request.id;
    return Compact(answer) + "\n";
  }
};

}  // namespace

const Dialect& InferenceDialect() {
  static const Inference2 inference;
  return inference;
}

}  // namespace dslide
