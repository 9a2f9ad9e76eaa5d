// A trained model that ranks labels and does not change: its rows in the order in which a search
// reads them.
//
// Neurons lie in cells of similar weights (cells.h), one cell after another. A cell begins at a
// multiple of kInt8PanelRows; positions that fill up a cell have no label and a bias of -infinity.
// Every row is there in int8, which a search reads, and unless it is too large in bf16, which the
// best neurons of the search are scored with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/math/int8/int8_scan.h"
#include "common/model/block_checks.h"
#include "common/run/dense_layers.h"
#include "common/run/silence.h"
#include "common/text/preprocessor.h"

namespace dslide {

class NameRanking;

constexpr uint32_t kNoLabel = 0xffffffffu;

// What a model is.
struct ModelInfo {
  std::string name;        // of the run
  Config config;           // of the run; model.features, labels and hidden are D, N and H
  uint64_t samples = 0;    // that it was trained on, over all epochs
  uint32_t probes = 0;     // cells that a search by the index looks into; 0: there is no index
  float index_recall = 0;  // with so many probes: the share of the 10 best neurons that it finds
  // Of a model of numbers, by id; none: labels are numbers.
  std::vector<std::string> label_names = {};
  LogitAdjustment adjustment = {};  // which the arrays do not have
  // Ranks labels by the names in a text, too; its reranker was fitted on logits with the usual
  // adjustment. Null: the model alone ranks labels.
  std::shared_ptr<const NameRanking> name_ranking = {};
  std::string notes;  // what a front end keeps with the model (tools/python: JSON); or empty

  uint32_t features() const { return config.model.features; }
  uint32_t input_width() const { return config.model.hidden; }
  uint32_t hidden() const { return OutputWidth(config.model); }  // H, of the last hidden layer
  uint32_t labels() const { return config.model.labels; }
};

// The arrays of a model with P positions and C cells. Those of a file lie in the file.
struct ModelArrays {
  std::span<const uint16_t> input;     // [(D + 1 + R) x H_1] bf16; row D is the bias, R rows are of
                                       // dense layers (common/run/dense_layers.h)
  std::span<const uint32_t> label_of;  // [P] kNoLabel: none
  std::span<const uint32_t> cell_ends;     // [C] positions, multiples of kInt8PanelRows
  std::span<const float> cell_means;       // [C x H] the mean of the cell's weights
  std::span<const float> cell_biases;      // [C] the mean of the cell's biases
  std::span<const float> bias;             // [P]
  std::span<const int8_t> rows;            // [P x H] in panels (common/math/int8/int8_scan.h)
  std::span<const float> row_scales;       // [P]
  std::span<const uint16_t> weights;       // [P x H] bf16; empty: the model has int8 rows only
  std::span<const uint32_t> label_counts;  // [N] training samples of each label; empty: unknown
};

// Immutable; any number of threads may use it.
class Model {
 public:
  // `owner` keeps the arrays. `preprocessor`: null, if the model's samples are numbers. `checks`:
  // null, if the arrays need no checks before they are read; else of the input, rows and weights.
  // REQUIRES that the rows of dense layers have been checked.
  Model(ModelInfo info, const ModelArrays& arrays, std::shared_ptr<const Preprocessor> preprocessor,
        std::shared_ptr<const void> owner, std::shared_ptr<const BlockChecks> checks = nullptr);

  const ModelInfo& info() const { return info_; }
  // Check() or CheckAll() must have succeeded for a part of input, rows or weights that is read.
  const ModelArrays& arrays() const { return arrays_; }
  // Checks the checksums of a part of arrays().input, rows or weights of a mapped file, unless that
  // was done before. Errors (kBadInput) name the file and the section.
  template <typename T>
  Status Check(std::span<const T> part) const {
    if (checks_ == nullptr) return {};
    return checks_->Check({reinterpret_cast<const char*>(part.data()), part.size_bytes()});
  }
  Status CheckAll() const { return checks_ == nullptr ? Status() : checks_->CheckAll(); }
  const Preprocessor* preprocessor() const { return preprocessor_.get(); }
  const std::shared_ptr<const Preprocessor>& shared_preprocessor() const { return preprocessor_; }

  uint32_t positions() const { return static_cast<uint32_t>(arrays_.label_of.size()); }
  uint32_t cells() const { return static_cast<uint32_t>(arrays_.cell_ends.size()); }
  uint32_t CellBegin(uint32_t cell) const { return cell == 0 ? 0 : arrays_.cell_ends[cell - 1]; }
  uint32_t CellEnd(uint32_t cell) const { return arrays_.cell_ends[cell]; }
  // Where the neuron of a label is. REQUIRES label < N.
  uint32_t PositionOf(uint32_t label) const { return position_of_[label]; }
  // Whether a stream has forgotten the label (common/run/silence.h). REQUIRES label < N.
  bool IsForgotten(uint32_t label) const { return IsSilent(arrays_.bias[PositionOf(label)]); }
  uint32_t live_labels() const { return live_labels_; }  // without those that are forgotten
  // The mean neurons of the cells, filled up to whole panels.
  const Int8Panels& cell_rows() const { return cell_rows_; }
  std::span<const float> cell_biases() const { return cell_biases_; }
  // Null: there are none.
  const DenseWeights* dense() const { return dense_.get(); }
  // A label's name, or its number.
  std::string LabelName(uint32_t label) const;
  // The identifiers in the vocabulary, by label id; null without a vocabulary.
  const std::vector<std::string>* label_uris() const;
  // The inverse, also by number where there are names besides those of text; nullopt: the model has
  // no such label.
  std::optional<uint32_t> LabelId(const std::string& name) const;
  // The labels that a sample with these features ([], ascending) has already: label i of feature i,
  // of a model of text those whose name is a word of the sample.
  std::vector<uint32_t> OwnLabels(std::span<const uint32_t> features) const;

  // The same model with another number of probes.
  std::shared_ptr<const Model> WithProbes(uint32_t probes, float recall) const;
  // Returns the model with biases that have this weight of a logit adjustment
  // (common/data/measures/logit_adjustment.h), relative to the mean label of a training sample.
  // Probabilities are those of the adjusted logits. The result has neither label counts nor an
  // adjustment: nothing adjusts it twice. REQUIRES label counts.
  std::shared_ptr<const Model> WithLogitAdjustment(float weight) const;
  // Returns a copy with this name ranking; null: the model alone ranks labels.
  std::shared_ptr<const Model> WithNameRanking(std::shared_ptr<const NameRanking> ranking) const;
  // The same model with other notes.
  std::shared_ptr<const Model> WithNotes(std::string notes) const;

 private:
  ModelInfo info_;
  ModelArrays arrays_;
  std::vector<uint32_t> position_of_;  // [N]
  uint32_t live_labels_ = 0;
  std::vector<uint32_t> by_name_;  // labels by info_.label_names
  Int8Panels cell_rows_;
  std::vector<float> cell_biases_;
  std::shared_ptr<const DenseWeights> dense_;
  std::shared_ptr<const Preprocessor> preprocessor_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const BlockChecks> checks_;
};

// Returns the model with its logit adjustment for a preference of rare labels from 0 to 1
// (LogitAdjustment::At()); without label counts the model itself. With a name ranking the logits
// have the usual adjustment, and the rest adjusts the scores of the name ranking.
std::shared_ptr<const Model> AdjustedModel(std::shared_ptr<const Model> model, float rare);

// The number of cells for N neurons.
uint32_t DefaultCells(uint32_t labels);

}  // namespace dslide
