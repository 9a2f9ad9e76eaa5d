// Choosing the neurons that a batch is scored against.
//
// Labels are in the set for certain. By model.active the others are all neurons; neurons drawn by
// their mass (importance.h); or these and hash candidates (candidate_ranker.h). A neuron that came
// in by several ways is one column. Owned by one executor thread.
#pragma once

#include <span>
#include <vector>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "server/model/lsh/candidate_ranker.h"
#include "server/model/lsh/hash_tables.h"
#include "server/model/sampling/importance.h"
#include "server/rows/row_numbers.h"
#include "server/rows/slot_map.h"

namespace dslide {

// The columns of a batch's block: distinct local rows, and for each sample the columns of its
// labels and of its hash candidates.
struct ActiveColumns {
  std::vector<uint32_t> rows;                 // [U] local row of each column
  std::vector<uint8_t> drawn;                 // [U] 1: drawn for the whole batch
  std::vector<float> weights;                 // [U] how many neurons a column stands for
  uint32_t draws = 0;                         // distinct rows drawn for the batch
  std::vector<uint32_t> label_offsets = {0};  // [B + 1] into label_columns
  uint32_t labelled = 0;                      // columns [0, labelled) are a label of some sample
  std::vector<uint32_t> label_columns;        // columns of each sample's labels that live here
  std::vector<uint32_t> hit_offsets = {0};    // [B + 1] into hit_columns
  std::vector<uint32_t> hit_columns;          // columns of each sample's own hash candidates
  std::vector<float> hit_weights;             // sharing = sample: a hit's weight for its sample
  std::vector<uint32_t> slot_ends;  // ends of each slot's columns, which ascend; or not in order
};

// What a batch draws; for all executors the same.
struct Draws {
  uint64_t seed = 0;         // of the batch
  uint32_t expected = 0;     // with active = mass or lsh: of all N neurons, by mass
  bool only_labels = false;  // none: where centroids are formed
};

class ActiveSetBuilder {
 public:
  // `map` must outlive the builder. `by_slot`: the sets that do not depend on who owns which slot
  // (active = mass, active = all) are ordered by slot.
  ActiveSetBuilder(const ModelConfig& config, const SlotMap& map, bool by_slot = false);
  // Call when the map's slots changed: recomputes this executor's share of the candidates.
  void FollowMap();

  // The buckets of a batch's samples.
  struct Hashed {
    const HashTables& tables;
    const BucketCode* codes;  // [B x tables.size()]

    std::span<const BucketCode> CodesOf(size_t sample) const {
      return {codes + sample * tables.size(), tables.size()};
    }
  };

  // Fills *out for a batch with the given labels. REQUIRES label ids < N, and active = all.
  void Build(const SparseRows& labels, ActiveColumns* out);
  // The same with active = mass, or with active = lsh: then `hashed` is not null.
  void Build(const SparseRows& labels, const ImportanceBuckets& buckets, const Draws& draws,
             const Hashed* hashed, ActiveColumns* out);

  // The labels alone.
  void BuildLabels(const SparseRows& labels, ActiveColumns* out);

  // Hash candidates per sample of this executor: its share of model.candidates.
  uint32_t candidates() const { return candidates_; }

 private:
  void AddLabels(const SparseRows& labels, ActiveColumns* out);
  void AddDraws(const ImportanceBuckets& buckets, const Draws& draws, ActiveColumns* out);
  void AddCandidates(const ImportanceBuckets& buckets, const Draws& draws, const Hashed& hashed,
                     ActiveColumns* out);
  void WeighCandidates(const ImportanceBuckets::Chances& by_mass, ActiveColumns* out);
  bool IsDrawn(uint32_t row, const ActiveColumns& columns) const;
  void AddAll();
  void UseAsTheyAre(ActiveColumns* out) const;
  void OrderBySlot(ActiveColumns* out) const;

  const ModelConfig config_;
  const SlotMap& map_;
  const bool by_slot_;
  uint32_t candidates_ = 0;
  CandidateRanker ranker_;
  RowNumbers columns_;
  std::vector<float> left_out_;    // [rows] probability that no sample draws the row; 1 at first
  std::vector<uint32_t> touched_;  // rows with another one, some more than once
  std::vector<ImportanceBuckets::Draw> draws_;
};

}  // namespace dslide
