// How clients put their questions: one dialect for each API that `dslide serve` speaks.
//
//   own          POST /predict
//   Annif        POST /v1/projects/{id}/suggest, suggest-batch   https://api.annif.org
//   inference    POST /v2/models/{id}/infer https://github.com/kserve/open-inference-protocol
//
// Objects are immutable; any number of threads may use them.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/http/http_server.h"
#include "common/model/model.h"
#include "tools/dslide/serve/prediction.h"

namespace dslide {

class Dialect {
 public:
  virtual ~Dialect() = default;

  virtual std::string_view name() const = 0;
  // The parameters that a request may have in its address, behind '?'.
  virtual std::vector<std::string> query_names() const { return {}; }
  virtual std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const = 0;
  // `name` is the model's.
  virtual HttpResponse Answer(const Model& model, const std::string& name,
                              const PredictionRequest& request,
                              const Predictions& predictions) const = 0;
  // The body of a refusal, in JSON.
  virtual std::string Refuse(const Refusal& refusal) const;
};

// A response with JSON.
HttpResponse JsonAnswer(unsigned status, std::string json);
// The response to a refused request: {"error": message}.
HttpResponse RefusalAnswer(unsigned status, const std::string& message);

const Dialect& OwnDialect();
const Dialect& AnnifDialect();
const Dialect& AnnifBatchDialect();
const Dialect& InferenceDialect();

}  // namespace dslide
