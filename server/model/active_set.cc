#include "server/model/active_set.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dslide {
namespace {

// This executor's share of a number given for all N neurons; at least 1 unless the number is 0.
uint32_t Share(uint32_t number, const SlotMap& map) {
  if (number == 0 || map.size() == 0) return 0;
  const double share = static_cast<double>(number) * map.size() / map.total();
  return std::min(map.size(), std::max(1u, static_cast<uint32_t>(std::lround(share))));
}

// SLIDE's own active sets (sharing = sample) contain no popular neurons.
bool UsesPopular(const ModelConfig& config) {
  return config.sharing == Sharing::kBatch &&
         (config.active == ActiveSet::kLsh || config.active == ActiveSet::kSampled);
}

}  // namespace

ActiveSetBuilder::ActiveSetBuilder(const ModelConfig& config, const SlotMap& map, bool by_slot)
    : config_(config),
      map_(map),
      by_slot_(by_slot && (config.active == ActiveSet::kMass || config.active == ActiveSet::kAll)),
      ranker_(map.rows()),
      columns_(map.rows()) {
  FollowMap();
}

void ActiveSetBuilder::FollowMap() {
  candidates_ = config_.active == ActiveSet::kLsh ? Share(config_.candidates, map_) : 0;
  popular_ = UsesPopular(config_) ? Share(config_.popular, map_) : 0;
  uniform_ = config_.active == ActiveSet::kAll ? 0 : Share(config_.uniform, map_);
  ranker_.Resize(map_.rows());
  columns_.Grow(map_.rows());
}

void ActiveSetBuilder::Build(const SparseRows& labels, std::span<const uint32_t> popular,
                             const HashTables* tables, const BucketCode* codes, Random* random,
                             ActiveColumns* out) {
  *out = ActiveColumns();
  columns_.Clear();
  AddLabels(labels, out);
  out->labelled = columns_.size();
  if (config_.active == ActiveSet::kAll) {
    AddAll();
  } else if (codes != nullptr && candidates_ > 0) {
    AddCandidates(labels.rows(), *tables, codes, out);
  }
  for (const uint32_t row : popular) columns_.Of(row);
  out->hash_part = columns_.size();
  AddUniform(random, out);
  out->rows = columns_.rows();
  if (by_slot_) OrderBySlot(out);
}

void ActiveSetBuilder::Build(const SparseRows& labels, const ImportanceBuckets& buckets,
                             const Draws& draws, ActiveColumns* out) {
  *out = ActiveColumns();
  columns_.Clear();
  AddLabels(labels, out);
  out->labelled = out->hash_part = columns_.size();
  draws_.clear();
  buckets.Sample(draws.expected, draws.seed, &draws_);
  // Labels are in the set whatever was drawn.
  out->weights.assign(columns_.size(), 1.0f);
  out->drawn.assign(columns_.size(), 0);
  out->draws = static_cast<uint32_t>(draws_.size());
  for (const ImportanceBuckets::Draw& draw : draws_) {
    const uint32_t column = columns_.Of(draw.row);
    if (column < out->labelled) {
      out->drawn[column] = 1;
    } else {
      out->drawn.push_back(1);
      out->weights.push_back(config_.tail == Tail::kWeighted ? 1.0f / draw.pi : 1.0f);
    }
  }
  out->rows = columns_.rows();
  if (by_slot_) OrderBySlot(out);
}

void ActiveSetBuilder::BuildLabels(const SparseRows& labels, ActiveColumns* out) {
  *out = ActiveColumns();
  columns_.Clear();
  AddLabels(labels, out);
  out->labelled = out->hash_part = columns_.size();
  out->weights.assign(columns_.size(), 1.0f);
  out->drawn.assign(columns_.size(), 0);
  out->rows = columns_.rows();
  if (by_slot_) OrderBySlot(out);
}

// Labels are then anywhere among the columns.
void ActiveSetBuilder::OrderBySlot(ActiveColumns* out) const {
  const std::vector<uint32_t> rows = std::move(out->rows);
  std::vector<uint32_t> order(rows.size());  // the old columns
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t column) { return rows[column]; });
  std::vector<uint32_t> place(rows.size());  // of an old column
  const auto ordered = [&](const auto& of_column) {
    auto result = of_column;
    for (size_t u = 0; u < result.size(); ++u) result[u] = of_column[order[u]];
    return result;
  };
  for (uint32_t u = 0; u < order.size(); ++u) place[order[u]] = u;
  out->rows = ordered(rows);
  out->drawn = ordered(out->drawn);
  out->weights = ordered(out->weights);
  for (uint32_t& column : out->label_columns) column = place[column];
  out->labelled = out->labelled > 0 ? static_cast<uint32_t>(rows.size()) : 0;
  for (uint32_t u = 1; u <= order.size(); ++u) {
    if (u == order.size() || map_.SlotOf(out->rows[u]) != map_.SlotOf(out->rows[u - 1])) {
      out->slot_ends.push_back(u);
    }
  }
}

void ActiveSetBuilder::AddLabels(const SparseRows& labels, ActiveColumns* out) {
  for (uint32_t i = 0; i < labels.rows(); ++i) {
    for (const uint32_t id : labels.Ids(i)) {
      const uint32_t row = map_.Local(id);
      if (row != SlotMap::kNone) out->label_columns.push_back(columns_.Of(row));
    }
    out->label_offsets.push_back(static_cast<uint32_t>(out->label_columns.size()));
  }
}

void ActiveSetBuilder::AddCandidates(size_t batch, const HashTables& tables,
                                     const BucketCode* codes, ActiveColumns* out) {
  const auto codes_of = [&](size_t i) {
    return std::span(codes + i * tables.size(), tables.size());
  };
  for (size_t i = 0; i < batch; ++i) {
    if (i + 1 < batch) CandidateRanker::Prefetch(tables, codes_of(i + 1));
    picked_.clear();
    ranker_.Rank(tables, codes_of(i), candidates_, &picked_);
    for (const uint32_t row : picked_) {
      // A bucket may list rows whose slot left after the table was built.
      if (map_.Global(row) != SlotMap::kNone) out->hit_columns.push_back(columns_.Of(row));
    }
    out->hit_offsets.push_back(static_cast<uint32_t>(out->hit_columns.size()));
  }
}

void ActiveSetBuilder::AddUniform(Random* random, ActiveColumns* out) {
  out->drawn.assign(columns_.size(), 0);
  const std::span<const SlotId> slots = map_.owned();
  const uint32_t slot_rows = map_.rows_per_slot();
  // Drawn without replacement among all neurons here: each has a chance of draws / size().
  while (out->draws < uniform_) {
    const uint64_t place = random->Below(uint64_t{slots.size()} * slot_rows);
    const SlotId slot = slots[place / slot_rows];
    const auto row = static_cast<uint32_t>(place % slot_rows);
    if (row >= map_.SlotSize(slot)) continue;
    const uint32_t column = columns_.Of(map_.LocalRow(slot, row));
    out->drawn.resize(columns_.size());
    if (out->drawn[column]) continue;
    out->drawn[column] = 1;
    out->draws++;
  }
}

void ActiveSetBuilder::AddAll() {
  for (uint32_t row = 0; row < map_.rows(); ++row) {
    if (map_.Global(row) != SlotMap::kNone) columns_.Of(row);
  }
}

}  // namespace dslide
