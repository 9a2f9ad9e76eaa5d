// Choosing the neurons that a batch is scored against.
//
// The hash part is the samples' labels and hash candidates, and with sharing = batch the popular
// neurons (popular.h); uniform negatives stand for all others (server/README.md, The model). A
// negative that is also in the hash part counts once, as hash part. Owned by one executor thread.
#pragma once

#include <span>
#include <vector>

#include "common/base/random.h"
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
  std::vector<uint32_t> rows;  // [U] local row of each column
  std::vector<uint8_t> drawn;  // [U] 1: drawn as a negative
  std::vector<float> weights;  // [U] how many neurons a column stands for; empty: derived
  uint32_t hash_part = 0;      // columns [0, hash_part) are labels, candidates or popular, if
                               // there are no weights
  uint32_t draws = 0;          // distinct uniform draws, including those in the hash part
  std::vector<uint32_t> label_offsets = {0};  // [B + 1] into label_columns
  uint32_t labelled = 0;                      // columns [0, labelled) are a label of some sample
  std::vector<uint32_t> label_columns;        // columns of each sample's labels that live here
  std::vector<uint32_t> hit_offsets = {0};    // [B + 1] into hit_columns
  std::vector<uint32_t> hit_columns;          // columns of each sample's own hash candidates
  std::vector<uint32_t> slot_ends;  // ends of each slot's columns, which ascend; or not in order
};

// What a batch draws; for all executors the same.
struct Draws {
  uint64_t seed = 0;         // of the batch
  uint32_t expected = 0;     // with active = mass: of all N neurons
  bool only_labels = false;  // none: where centroids are formed
};

class ActiveSetBuilder {
 public:
  // `map` must outlive the builder. `by_slot`: the sets that do not depend on who owns which slot
  // (active = mass, active = all) are ordered by slot.
  ActiveSetBuilder(const ModelConfig& config, const SlotMap& map, bool by_slot = false);
  // Call when the map's slots changed: recomputes this executor's shares of candidates, popular
  // neurons and negatives.
  void FollowMap();

  // Fills *out for a batch with the given labels and distinct `popular` local rows. `codes` ([B x
  // tables.size()]) is null unless active = lsh. `random` draws the negatives. REQUIRES label ids
  // < N.
  void Build(const SparseRows& labels, std::span<const uint32_t> popular, const HashTables* tables,
             const BucketCode* codes, Random* random, ActiveColumns* out);
  // The same with active = mass: the labels, and neurons drawn from `buckets`.
  void Build(const SparseRows& labels, const ImportanceBuckets& buckets, const Draws& draws,
             ActiveColumns* out);

  // The labels alone.
  void BuildLabels(const SparseRows& labels, ActiveColumns* out);

  // Hash candidates per sample of this executor: its share of model.candidates.
  uint32_t candidates() const { return candidates_; }
  // Popular neurons of this executor: its share of model.popular, 0 unless they are in use.
  uint32_t popular() const { return popular_; }

 private:
  void AddLabels(const SparseRows& labels, ActiveColumns* out);
  void AddCandidates(size_t batch, const HashTables& tables, const BucketCode* codes,
                     ActiveColumns* out);
  void AddUniform(Random* random, ActiveColumns* out);
  void AddAll();
  void OrderBySlot(ActiveColumns* out) const;

  const ModelConfig config_;
  const SlotMap& map_;
  const bool by_slot_;
  uint32_t candidates_ = 0;
  uint32_t popular_ = 0;
  uint32_t uniform_ = 0;
  CandidateRanker ranker_;
  RowNumbers columns_;
  std::vector<uint32_t> picked_;
  std::vector<ImportanceBuckets::Draw> draws_;
};

}  // namespace dslide
