// The part of a layer that has rows in a file.
#include <algorithm>
#include <cstring>

#include "server/rows/layer.h"

namespace dslide {

Status Layer::LimitMemory(const TierFile::Options& file, uint32_t places) {
  DSLIDE_CHECK(training_ && places >= RowTier::kLeastPlaces && tier_ == nullptr);
  tier_file_ = file;
  most_places_ = places;
  if (map_.rows() <= places) return {};
  // Nothing has been written to the arrays, so they have taken no memory.
  weights_ = Vectors(bf16_);
  moment1_ = Vectors(narrow_moments_);
  moment2_ = Vectors(narrow_moments_);
  DSLIDE_RETURN_IF_ERROR(StartTier());
  tier_->Grow(map_.rows());
  return {};
}

// The rows in the arrays stay there, each in a place of its number.
Status Layer::StartTier() {
  const size_t vector = VectorBytes(narrow_moments_);
  Result<std::unique_ptr<TierFile>> file = TierFile::Create(tier_file_);
  DSLIDE_RETURN_IF_ERROR(file);
  const auto rows =
      static_cast<uint32_t>((bf16() ? weights_.bf16.size() : weights_.fp32.size()) / dim_);
  GrowVectors(most_places_);
  std::vector<RowTier::Part> parts = {{weights_.At(0), WeightBytes()}};
  if (KeepsMoments()) {
    parts.push_back({moment1_.At(0), vector});
    parts.push_back({moment2_.At(0), vector});
  }
  auto tier = std::make_unique<RowTier>(*std::move(file), std::move(parts), most_places_);
  tier->Adopt(rows);
  tier_ = std::move(tier);
  return {};
}

RowsOnDisk Layer::on_disk() const {
  if (tier_ == nullptr) return {};
  return {tier_->file_bytes(), tier_->figures().rows, tier_->figures().misses};
}

uint32_t Layer::ChangingPlaceOf(uint32_t row) {
  if (tier_ == nullptr) return row;
  const uint32_t place = tier_->Hold(row, *this);
  tier_->MarkChanged(place);
  return place;
}

// Ids of slots that have left have their first weights, too: their rows are sent.
void Layer::DrawRow(uint32_t row, uint8_t* record) const {
  std::memset(record, 0, WeightBytes() + StateBytes());
  const uint32_t id = map_.IdAt(row);
  if (id != SlotMap::kNone && id < draw_.drawn) PutWeights(Drawn(id, draw_, dim_).data(), record);
}

void Layer::FetchPart(std::span<const uint32_t> rows, size_t u) const {
  if (u == 0) Fetch(rows.first(std::min(rows.size(), kFetched)), true);
  const size_t next = std::min(rows.size(), u + kFetched);
  Fetch(rows.subspan(next, std::min(rows.size() - next, kFetched)), true);
}

// The row's weights for a scan: an absent row stays absent. Valid until another row is used.
const uint8_t* Layer::WeightsToRead(uint32_t row) const {
  if (tier_ != nullptr && tier_->Find(row) == RowTier::kNowhere) return tier_->Peek(row, *this);
  return weights_.At(size_t{PlaceOf(row)} * dim_);
}

void Layer::SumFromTier(std::span<const uint32_t> rows, const float* factors, float* out) const {
  places_.resize(rows.size());
  Fetch(rows, true);
  const auto hold = [&] {
    const uint64_t moves = tier_->moves();
    for (size_t e = 0; e < rows.size(); ++e) places_[e] = PlaceOf(rows[e]);
    return moves == tier_->moves();
  };
  // A second time all are there, if all fit.
  if (hold() || hold()) return SumOfPlaces(places_, factors, weights_.At(0), out);
  few_weights_.resize(rows.size() * WeightBytes());
  for (size_t e = 0; e < rows.size(); ++e) {
    const size_t at = size_t{PlaceOf(rows[e])} * dim_;
    std::memcpy(few_weights_.data() + e * WeightBytes(), weights_.At(at), WeightBytes());
    places_[e] = static_cast<uint32_t>(e);
  }
  SumOfPlaces(places_, factors, few_weights_.data(), out);
}

}  // namespace dslide
