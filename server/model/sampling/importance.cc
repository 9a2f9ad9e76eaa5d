#include "server/model/sampling/importance.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace dslide {
namespace {

// A step of a walk over a slot, in rows whose turn comes one after another.
constexpr double kStepCost = 16;

constexpr auto kPowers = [] {
  std::array<double, ImportanceBuckets::kClasses> powers{};
  for (uint32_t k = 0; k < powers.size(); ++k) powers[k] = static_cast<double>(uint64_t{1} << k);
  return powers;
}();

// The probability of each class, so that `expected` members are expected.
std::array<double, ImportanceBuckets::kClasses> Probabilities(
    const std::array<std::vector<uint32_t>, ImportanceBuckets::kClasses>& members,
    double expected) {
  constexpr uint32_t kClasses = ImportanceBuckets::kClasses;
  std::array<double, kClasses> pi;
  pi.fill(1.0);
  double mass = 0;  // of classes [0, full), in units of class 0
  for (uint32_t k = 0; k < kClasses; ++k) {
    mass += static_cast<double>(members[k].size()) * kPowers[k];
  }
  // Classes from `full` on are drawn completely; the rest shares what is left.
  double left = expected;
  for (uint32_t full = kClasses; full > 0; --full) {
    const auto size = static_cast<double>(members[full - 1].size());
    const double top = kPowers[full - 1];
    const double c = mass > 0 ? std::max(left, 0.0) / mass : 0;
    if (c * top < 1.0) {
      for (uint32_t k = 0; k < full; ++k) pi[k] = c * kPowers[k];
      return pi;
    }
    left -= size;
    mass -= size * top;
  }
  return pi;
}

}  // namespace

ImportanceBuckets::ImportanceBuckets(const Layer& layer) : layer_(layer) { FollowMap(); }

uint8_t ImportanceBuckets::ClassOf(uint32_t row) const {
  // What was never active counts as average.
  const float mass = layer_.mass(row);
  if (mass <= 0) return 2;
  const double relative = static_cast<double>(mass) * layer_.map().total();
  if (relative < 0.25) return 0;
  return static_cast<uint8_t>(std::min<int>(std::ilogb(relative) + 2, kClasses - 1));
}

void ImportanceBuckets::FollowMap() {
  const SlotMap& map = layer_.map();
  const std::vector<SlotId> layout = map.Layout();
  class_.Grow(map.rows());
  place_.Grow(map.rows());
  const size_t regions_before = layout_.size();
  layout_.resize(layout.size());
  slots_.resize(layout.size());
  for (uint32_t region = 0; region < layout.size(); ++region) {
    if (region < regions_before && layout_[region] == layout[region]) continue;
    layout_[region] = layout[region];
    Fill(region);
  }
}

void ImportanceBuckets::FollowResize() {
  class_.Grow(layer_.map().rows());
  place_.Grow(layer_.map().rows());
  FollowLoad();
}

void ImportanceBuckets::FollowLoad() {
  for (uint32_t region = 0; region < layout_.size(); ++region) Fill(region);
}

void ImportanceBuckets::Fill(uint32_t region) {
  const SlotMap& map = layer_.map();
  const uint32_t begin = region * map.rows_per_slot();
  const uint32_t size = layout_[region] == SlotMap::kNoSlot ? 0 : map.SlotSize(layout_[region]);
  Members& members = slots_[region];
  members = {};
  std::fill_n(&class_[begin], map.rows_per_slot(), kNoClass);
  for (uint32_t row = begin; row < begin + size; ++row) Add(&members, row, ClassOf(row));
}

void ImportanceBuckets::FollowMass(uint32_t row) {
  const uint8_t cls = ClassOf(row);
  if (class_[row] == cls) return;
  Members* members = &slots_[row / layer_.map().rows_per_slot()];
  Remove(members, row);
  Add(members, row, cls);
}

void ImportanceBuckets::Add(Members* members, uint32_t row, uint8_t cls) {
  class_[row] = cls;
  place_[row] = static_cast<uint32_t>((*members)[cls].size());
  (*members)[cls].push_back(layer_.map().RowInSlot(row));
}

void ImportanceBuckets::Remove(Members* members, uint32_t row) {
  std::vector<uint32_t>& from = (*members)[class_[row]];
  const uint32_t begin = row - layer_.map().RowInSlot(row);
  from[place_[row]] = from.back();
  place_[begin + from.back()] = place_[row];
  from.pop_back();
}

void ImportanceBuckets::Sample(uint32_t expected, uint64_t seed, std::vector<Draw>* out) const {
  const SlotMap& map = layer_.map();
  std::vector<Stop> stops;
  for (const SlotId slot : map.owned()) {
    if (map.RegionRows(slot) == 0) continue;
    SampleSlot(slot, expected, SubSeed(seed, slot.value), &stops, out);
  }
}

ImportanceBuckets::Chances ImportanceBuckets::ChancesOf(uint32_t expected) const {
  const SlotMap& map = layer_.map();
  Chances chances;
  chances.rows_per_slot_ = map.rows_per_slot();
  chances.class_ = class_.data();
  chances.of_slot_.resize(slots_.size());
  for (const SlotId slot : map.owned()) {
    if (map.RegionRows(slot) == 0) continue;
    chances.of_slot_[map.RegionBegin(slot) / map.rows_per_slot()] = ChancesIn(slot, expected);
  }
  return chances;
}

std::array<double, ImportanceBuckets::kClasses> ImportanceBuckets::ChancesIn(
    SlotId slot, uint32_t expected) const {
  const SlotMap& map = layer_.map();
  const double share = static_cast<double>(expected) * map.SlotSize(slot) / map.total();
  return Probabilities(slots_[map.RegionBegin(slot) / map.rows_per_slot()], share);
}

void ImportanceBuckets::SampleSlot(SlotId slot, uint32_t expected, uint64_t seed,
                                   std::vector<Stop>* stops, std::vector<Draw>* out) const {
  const SlotMap& map = layer_.map();
  const uint32_t begin = map.RegionBegin(slot);
  const uint32_t size = map.SlotSize(slot);
  const Members& members = slots_[begin / map.rows_per_slot()];
  const std::array<double, kClasses> probabilities = ChancesIn(slot, expected);
  const size_t before = out->size();
  stops->clear();
  for (uint32_t k = 0; k < kClasses; ++k) {
    const double pi = probabilities[k];
    if (members[k].empty() || pi <= 0) continue;
    const auto weight = static_cast<float>(pi);
    if (pi >= 1 || static_cast<double>(members[k].size()) <= kStepCost * pi * size) {
      for (const uint32_t row : members[k]) {
        if (UniformOf(seed, row) < pi) out->push_back({begin + row, weight});
      }
      continue;
    }
    // A walk over the whole slot that stops at each row with probability pi.
    const double scale = 1.0 / std::log1p(-pi);
    Random random(SubSeed(seed, uint64_t{k} << 32));
    double at = -1;
    while (true) {
      at += 1.0 + std::floor(std::log(1.0 - random.Uniform()) * scale);
      if (at >= size) break;
      const uint32_t row = begin + static_cast<uint32_t>(at);
      __builtin_prefetch(&class_[row]);
      stops->push_back({row, k});
    }
  }
  for (const auto& [row, k] : *stops) {
    if (class_[row] == k) out->push_back({row, static_cast<float>(probabilities[k])});
  }
  // Members are in the order of their past.
  std::sort(out->begin() + static_cast<std::ptrdiff_t>(before), out->end(),
            [](const Draw& a, const Draw& b) { return a.row < b.row; });
}

void ImportanceBuckets::CheckInvariants() const {
  const SlotMap& map = layer_.map();
  DSLIDE_CHECK(class_.size() == map.rows() && layout_ == map.Layout());
  for (uint32_t row = 0; row < map.rows(); ++row) {
    DSLIDE_CHECK((class_[row] == kNoClass) == (map.Global(row) == SlotMap::kNone));
    if (class_[row] == kNoClass) continue;
    DSLIDE_CHECK(class_[row] == ClassOf(row));
    DSLIDE_CHECK(slots_[row / map.rows_per_slot()][class_[row]].at(place_[row]) ==
                 map.RowInSlot(row));
  }
}

}  // namespace dslide
