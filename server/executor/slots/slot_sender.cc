#include "server/executor/slots/slot_sender.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr std::array kLayers = {LayerKind::kInput, LayerKind::kOutput};

}  // namespace

// Notes which rows of the copied slots of a layer change.
class SlotSender::Follower final : public RowFollower {
 public:
  explicit Follower(const SlotMap& map) : map_(map) {}

  void Clear() { regions_.clear(); }
  void Add(SlotId slot, RowsOfLayer* rows) {
    if (map_.RegionRows(slot) == 0) return;
    const uint32_t region = map_.RegionBegin(slot) / map_.rows_per_slot();
    if (region >= regions_.size()) regions_.resize(region + 1);
    regions_[region] = rows;
  }
  bool empty() const { return regions_.empty(); }

  void BeforeChange(uint32_t local) noexcept override {
    const uint32_t region = local / map_.rows_per_slot();
    if (region >= regions_.size() || regions_[region] == nullptr) return;
    RowsOfLayer& rows = *regions_[region];
    const uint32_t row = local % map_.rows_per_slot();
    DSLIDE_CHECK(row < rows.lacking.rows());
    if (!rows.lacking.Has(row)) rows.again++;
    rows.lacking.Add(row);
    rows.recent.Add(row);
  }

 private:
  const SlotMap& map_;
  std::vector<RowsOfLayer*> regions_;  // null: not copied
};

SlotSender::SlotSender(InputLayer* input, OutputLayer* output)
    : input_(*input),
      output_(*output),
      followers_{std::make_unique<Follower>(input_.layer().map()),
                 std::make_unique<Follower>(output_.layer().map())} {}

SlotSender::~SlotSender() {
  for (const LayerKind kind : kLayers) LayerOf(kind).changed().Follow(nullptr);
}

// Has the followers follow the copied slots that are in the model.
void SlotSender::Follow() {
  for (const LayerKind kind : kLayers) {
    const auto layer = static_cast<size_t>(kind);
    Follower* follower = followers_[layer].get();
    follower->Clear();
    for (auto& [slot, copy] : copies_) {
      if (!Departed(slot)) follower->Add(slot, &copy.layers[layer]);
    }
    LayerOf(kind).changed().Follow(follower->empty() ? nullptr : follower);
  }
}

std::optional<SlotRows> SlotSender::Pull(const SlotPull& pull) {
  const SlotId slot{pull.slot};
  if (pull.part == 0) {
    const auto rows = [&](LayerKind kind) {
      return RowsOfLayer(LayerOf(kind).map().SlotSize(slot));
    };
    copies_.insert_or_assign(
        slot, Copy{{rows(LayerKind::kInput), rows(LayerKind::kOutput)}, std::nullopt});
    Follow();
  }
  const auto found = copies_.find(slot);
  if (found == copies_.end()) return std::nullopt;
  Copy& copy = found->second;
  const uint32_t next = copy.part ? copy.part->part + 1 : 0;
  if (pull.part + 1 != next) {
    if (pull.part != next) return std::nullopt;
    copy.part = NextPart(pull, pull.cold_only && !Departed(slot), copy);
    NoteSent(*copy.part, &copy);  // only now: there may have been no memory for it
  }
  return copy.part;
}

SlotRows SlotSender::NextPart(const SlotPull& pull, bool cold, const Copy& copy) {
  const SlotId slot{pull.slot};
  SlotRows part;
  part.slot = pull.slot;
  part.part = pull.part;
  const uint32_t max_bytes = std::min(pull.max_bytes, kMaxPartBytes);
  uint32_t again = 0, rows = 0;
  for (const LayerKind kind : kLayers) {
    again += copy.layers[static_cast<size_t>(kind)].again;
    rows += LayerOf(kind).map().SlotSize(slot);
  }
  // At first it is not known what changes all the time.
  const bool copies_too_much = cold && (pull.part == 0 || uint64_t{again} * kAgainShare > rows);
  for (const LayerKind kind : kLayers) {
    const RowsOfLayer& of = copy.layers[static_cast<size_t>(kind)];
    if (!copies_too_much) AppendRows(kind, slot, cold, max_bytes, of, &part);
    if (kind == LayerKind::kInput) part.input_rows = static_cast<uint32_t>(part.rows.size());
    part.left += of.lacking.Count();
  }
  part.left -= static_cast<uint32_t>(part.rows.size());
  if (output_.index() != nullptr) part.hash = output_.index()->tables().identity();
  if (const auto departed = departed_.find(slot); departed != departed_.end() && part.left == 0) {
    part.last = true;
    const SlotHistory& history = departed->second;
    part.applied_output = history.batches[static_cast<size_t>(Part::kOutput)].words();
    part.applied_input = history.batches[static_cast<size_t>(Part::kInput)].words();
    part.committed = history.committed;
  }
  return part;
}

void SlotSender::AppendRows(LayerKind kind, SlotId slot, bool cold, uint32_t max_bytes,
                            const RowsOfLayer& rows, SlotRows* part) {
  Layer& layer = LayerOf(kind);
  const NeuronIndex* index = kind == LayerKind::kOutput ? output_.index() : nullptr;
  const size_t row_bytes = layer.RowBytes() + (index == nullptr ? 0 : index->StateBytes());
  for (auto row = rows.lacking.Next(0); row; row = rows.lacking.Next(*row + 1)) {
    if (cold && !rows.IsCold(*row)) continue;
    const size_t begin = part->bytes.size();
    if (begin > 0 && begin + row_bytes > max_bytes) return;
    const uint32_t local = layer.map().LocalRow(slot, *row);
    part->bytes.resize(begin + layer.RowBytes());
    layer.StoreRow(local, part->bytes.data() + begin);
    if (index != nullptr) index->AppendState(local, &part->bytes);
    part->rows.push_back(*row);
    part->ends.push_back(static_cast<uint32_t>(part->bytes.size()));
  }
}

void SlotSender::NoteSent(const SlotRows& part, Copy* copy) noexcept {
  for (size_t i = 0; i < part.rows.size(); ++i) {
    const LayerKind kind = i < part.input_rows ? LayerKind::kInput : LayerKind::kOutput;
    RowsOfLayer& rows = copy->layers[static_cast<size_t>(kind)];
    rows.lacking.Remove(part.rows[i]);
    rows.sent.Add(part.rows[i]);
  }
}

void SlotSender::FollowBatch() {
  if (copies_.empty() || ++batches_ < kRestBatches) return;
  batches_ = 0;
  for (auto& [slot, copy] : copies_) {
    for (RowsOfLayer& rows : copy.layers) {
      std::swap(rows.before, rows.recent);
      rows.recent.Clear();
    }
  }
}

void SlotSender::Depart(SlotId slot, SlotHistory history) {
  departed_.emplace(slot, std::move(history));
  Follow();
}

void SlotSender::Forget(SlotId slot) {
  copies_.erase(slot);
  departed_.erase(slot);
  Follow();
}

void SlotSender::ForgetAttached(SlotId slot) {
  if (Departed(slot) || copies_.erase(slot) == 0) return;
  Follow();
}

void SlotSender::ForgetAttached() {
  std::erase_if(copies_, [this](const auto& copy) { return !Departed(copy.first); });
  Follow();
}

}  // namespace dslide
