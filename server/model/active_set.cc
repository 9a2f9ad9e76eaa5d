#include "server/model/active_set.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace dslide {
namespace {

constexpr uint64_t kCandidateStream = 0xca;

// This executor's share of a number given for all N neurons; at least 1 unless the number is 0.
uint32_t Share(uint32_t number, const SlotMap& map) {
  if (number == 0 || map.size() == 0) return 0;
  const double share = static_cast<double>(number) * map.size() / map.total();
  return std::min(map.size(), std::max(1u, static_cast<uint32_t>(std::lround(share))));
}

// 1 / pi of a row that was drawn by its mass with one probability, and by none of the samples with
// another. The two draws are independent.
float WeightOf(float by_mass, float left_out) {
  return static_cast<float>(1.0 / (1.0 - (1.0 - double{by_mass}) * double{left_out}));
}

}  // namespace

ActiveSetBuilder::ActiveSetBuilder(const ModelConfig& config, const SlotMap& map, bool by_slot)
    : config_(config),
      map_(map),
      by_slot_(by_slot && !HasNeuronIndex(config)),
      ranker_(map.rows()),
      columns_(map.rows()) {
  FollowMap();
}

void ActiveSetBuilder::FollowMap() {
  candidates_ = HasNeuronIndex(config_) ? Share(config_.candidates, map_) : 0;
  ranker_.Resize(map_.rows());
  columns_.Grow(map_.rows());
  left_out_.resize(HasNeuronIndex(config_) ? map_.rows() : 0, 1.0f);
}

void ActiveSetBuilder::Build(const SparseRows& labels, ActiveColumns* out) {
  *out = ActiveColumns();
  columns_.Clear();
  AddLabels(labels, out);
  AddAll();
  UseAsTheyAre(out);
}

void ActiveSetBuilder::Build(const SparseRows& labels, const ImportanceBuckets& buckets,
                             const Draws& draws, const Hashed* hashed, ActiveColumns* out) {
  *out = ActiveColumns();
  columns_.Clear();
  AddLabels(labels, out);
  AddDraws(buckets, draws, out);
  if (hashed != nullptr && candidates_ > 0) AddCandidates(buckets, draws, *hashed, out);
  out->rows = columns_.rows();
  if (by_slot_) OrderBySlot(out);
}

// Labels are in the set whatever is drawn. With sharing = sample they are so for their own samples
// only, and the scorer says which.
void ActiveSetBuilder::AddDraws(const ImportanceBuckets& buckets, const Draws& draws,
                                ActiveColumns* out) {
  draws_.clear();
  buckets.Sample(draws.expected, draws.seed, &draws_);
  out->weights.assign(columns_.size(), 1.0f);
  out->drawn.assign(columns_.size(), 0);
  out->draws = static_cast<uint32_t>(draws_.size());
  for (const ImportanceBuckets::Draw& draw : draws_) columns_.Prefetch(draw.row);
  for (const ImportanceBuckets::Draw& draw : draws_) {
    const uint32_t column = columns_.Of(draw.row);
    out->weights.resize(columns_.size(), 1.0f);
    out->drawn.resize(columns_.size());
    out->drawn[column] = 1;
    if (column >= out->labelled || config_.sharing == Sharing::kSample) {
      out->weights[column] = WeightOf(draw.pi, 1.0f);
    }
  }
}

void ActiveSetBuilder::BuildLabels(const SparseRows& labels, ActiveColumns* out) {
  *out = ActiveColumns();
  columns_.Clear();
  AddLabels(labels, out);
  UseAsTheyAre(out);
}

// Each column stands for itself.
void ActiveSetBuilder::UseAsTheyAre(ActiveColumns* out) const {
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
  out->labelled = columns_.size();
}

// Each sample draws among the neurons of its buckets. All samples of the batch are scored against
// what it draws, or with sharing = sample it alone; the weights are by the probability of that.
void ActiveSetBuilder::AddCandidates(const ImportanceBuckets& buckets, const Draws& draws,
                                     const Hashed& hashed, ActiveColumns* out) {
  const ImportanceBuckets::Chances by_mass = buckets.ChancesOf(draws.expected);
  const bool own_only = config_.sharing == Sharing::kSample;
  const size_t samples = out->label_offsets.size() - 1;
  for (size_t i = 0; i < samples; ++i) {
    if (i + 1 < samples) CandidateRanker::Prefetch(hashed.tables, hashed.CodesOf(i + 1));
    const uint64_t seed = SubSeed(SubSeed(draws.seed, kCandidateStream), i);
    for (const auto& [row, pi] :
         ranker_.Candidates(hashed.tables, hashed.CodesOf(i), candidates_)) {
      const uint32_t id = map_.Global(row);
      // A bucket may list rows whose slot left after the table was built.
      if (id == SlotMap::kNone) continue;
      const bool draws_row = UniformOf(seed, id) < double{pi};
      if (!own_only) {
        left_out_[row] *= 1.0f - pi;
        touched_.push_back(row);
      }
      if (!draws_row && !(own_only && IsDrawn(row, *out))) continue;
      out->hit_columns.push_back(columns_.Of(row));
      if (own_only) out->hit_weights.push_back(WeightOf(by_mass.Of(row), 1.0f - pi));
    }
    out->hit_offsets.push_back(static_cast<uint32_t>(out->hit_columns.size()));
  }
  out->drawn.resize(columns_.size());
  out->weights.resize(columns_.size(), 1.0f);  // with sharing = sample of no meaning
  if (!own_only) WeighCandidates(by_mass, out);
}

// Whether all samples are scored against the row, as far as drawing by mass has it so.
bool ActiveSetBuilder::IsDrawn(uint32_t row, const ActiveColumns& columns) const {
  const std::optional<uint32_t> column = columns_.Find(row);
  return column && *column < columns.drawn.size() && columns.drawn[*column] != 0;
}

void ActiveSetBuilder::WeighCandidates(const ImportanceBuckets::Chances& by_mass,
                                       ActiveColumns* out) {
  for (uint32_t u = out->labelled; u < columns_.size(); ++u) {
    const uint32_t row = columns_.rows()[u];
    out->weights[u] = WeightOf(by_mass.Of(row), left_out_[row]);
  }
  for (const uint32_t row : touched_) left_out_[row] = 1.0f;
  touched_.clear();
}

void ActiveSetBuilder::AddAll() {
  for (uint32_t row = 0; row < map_.rows(); ++row) {
    if (map_.Global(row) != SlotMap::kNone) columns_.Of(row);
  }
}

}  // namespace dslide
