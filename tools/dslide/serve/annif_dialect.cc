// The REST API of Annif, as its `http` back end and its web page use it:
// https://api.annif.org/v1/ui.
//
//   POST /v1/projects/{id}/suggest        text=...&limit=10&threshold=0, in a form
//   POST /v1/projects/{id}/suggest-batch  ?limit=10&threshold=0
//                                         {"documents": [{"text": "...", "document_id": "..."}]}
//
// A label's name is its URI if it looks like one, and its label in any case. A score is a
// probability.
#include <fmt/format.h>

#include <charconv>

#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/form_body.h"
#include "tools/dslide/serve/json_request.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kLimit = 10;

Json Results(const Model& model, const std::vector<PredictedLabel>& predicted) {
  Json results = Json::array();
  for (const PredictedLabel& p : predicted) {
    const std::string name = model.LabelName(p.label);
    const auto* uris = model.label_uris();
    results.push_back({{"uri", uris == nullptr ? name : (*uris)[p.label]},
                       {"label", name},
                       {"notation", nullptr},
                       {"score", p.probability}});
  }
  return results;
}

template <typename T>
bool Read(const std::string& text, T least, T most, T* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= least &&
         *number <= most;
}

// Of a form, or of a query: "" if it is understood, else what is wrong.
template <typename Fields>
std::string ReadLimits(const Fields& fields, PredictionRequest* asked) {
  for (const auto& [name, value] : fields) {
    if (name == "limit" && !Read(value, 1u, kMostServedLabels, &asked->k)) {
      return fmt::format("limit must be a whole number from 1 to {}", kMostServedLabels);
    }
    if (name == "threshold" && !Read(value, 0.0f, 1.0f, &asked->threshold)) {
      return "threshold must be a number from 0 to 1";
    }
  }
  return "";
}

class Annif : public Dialect {
 public:
  std::string_view name() const override { return "suggest"; }

  std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const override {
    const auto form = ParseForm(request.body);
    if (!form || !form->contains("text")) {
      return Refusal{400, fmt::format("the request is not a form with a field \"text\" and "
                                      "fewer than {} others",
                                      kMostFormFields)};
    }
    PredictionRequest asked;
    asked.k = kLimit;
    if (const std::string wrong = ReadLimits(*form, &asked); !wrong.empty()) {
      return Refusal{400, wrong};
    }
    asked.samples.emplace_back();
    asked.samples.back().record.fields = FieldsOf(form->at("text"));
    return asked;
  }

  HttpResponse Answer(const Model& model, const std::string&, const PredictionRequest&,
                      const Predictions& predictions) const override {
    return JsonAnswer(200, Compact(Json{{"results", Results(model, predictions.front())}}) + "\n");
  }

  // RFC 7807, as Annif's server does.
  std::string Refuse(const Refusal& refusal) const override {
    return Compact(Json{{"status", refusal.status},
                        {"title", "Refused"},
                        {"type", "about:blank"},
                        {"detail", refusal.message}}) +
           "\n";
  }
};

class AnnifBatch final : public Annif {
 public:
  std::string_view name() const override { return "suggest-batch"; }
  std::vector<std::string> query_names() const override { return {"limit", "threshold"}; }

  std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const override {
    const auto body = ParseBody(request.body);
    if (const auto* refusal = std::get_if<Refusal>(&body)) return *refusal;
    JsonObject object(std::get<Json>(body), "the request");
    PredictionRequest asked;
    asked.k = object.Whole("limit", 1, kMostServedLabels).value_or(kLimit);
    asked.threshold = static_cast<float>(object.Number("threshold", 0, 1).value_or(0));
    if (const std::string wrong = ReadLimits(request.query, &asked); !wrong.empty()) {
      return Refusal{400, wrong};
    }
    const Json* documents = object.Find("documents");
    if (documents == nullptr || !documents->is_array()) object.Fault("has no list \"documents\"");
    if (object.fault()) return *object.fault();
    if (documents->size() > kMostServedSamples) {
      return Refusal{413, fmt::format("the request has {} documents, at most {} are taken",
                                      documents->size(), kMostServedSamples)};
    }
    for (const Json& each : *documents) {
      JsonObject document(each, fmt::format("document {}", asked.samples.size() + 1));
      AskedSample sample;
      const auto text = document.Text("text");
      if (!text) document.Fault("has no \"text\"");
      sample.id = document.Text("document_id").value_or("");
      if (document.fault()) return *document.fault();
      sample.record.fields = FieldsOf(*text);
      asked.samples.push_back(std::move(sample));
    }
    return asked;
  }

  HttpResponse Answer(const Model& model, const std::string&, const PredictionRequest& request,
                      const Predictions& predictions) const override {
    Json answers = Json::array();
    for (size_t i = 0; i < predictions.size(); ++i) {
      const std::string& id = request.samples[i].id;
      answers.push_back({{"document_id", id.empty() ? Json() : Json(id)},
                         {"results", Results(model, predictions[i])}});
    }
    return JsonAnswer(200, Compact(answers) + "\n");
  }
};

}  // namespace

const Dialect& AnnifDialect() {
  static const Annif annif;
  return annif;
}

const Dialect& AnnifBatchDialect() {
  static const AnnifBatch batch;
  return batch;
}

}  // namespace dslide
