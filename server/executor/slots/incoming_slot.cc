#include "server/executor/slots/incoming_slot.h"

#include <fmt/core.h>

#include <span>

namespace dslide {
namespace {

// Calls take(kind, row, bytes) for each row of a part until it returns an error.
template <typename Take>
Status ForEachRow(const SlotRows& part, const Take& take) {
  uint32_t begin = 0;
  for (size_t i = 0; i < part.rows.size(); ++i) {
    const uint32_t end = part.ends[i];
    const LayerKind kind = i < part.input_rows ? LayerKind::kInput : LayerKind::kOutput;
    DSLIDE_RETURN_IF_ERROR(
        take(kind, part.rows[i], std::span(part.bytes).subspan(begin, end - begin)));
    begin = end;
  }
  return {};
}

}  // namespace

IncomingSlot::IncomingSlot(SlotId slot, InputLayer* input, OutputLayer* output)
    : slot_(slot),
      input_(*input),
      output_(*output),
      missing_{RowSet(input->layer().map().SlotSize(slot), true),
               RowSet(output->layer().map().SlotSize(slot), true)} {}

Status IncomingSlot::Check(const SlotRows& part) const {
  const auto refuse = [&](const std::string& why) {
    return BadInput(fmt::format("part {} of slot {} {}", part.part, slot_.value, why));
  };
  if (part.ends.size() != part.rows.size() || part.input_rows > part.rows.size()) {
    return refuse("has not one end for each of its rows");
  }
  uint32_t begin = 0;
  for (const uint32_t end : part.ends) {
    if (end < begin || end > part.bytes.size()) return refuse("has an end out of order");
    begin = end;
  }
  if (begin != part.bytes.size()) return refuse("has bytes behind its last row");
  return ForEachRow(
      part, [&](LayerKind kind, uint32_t row, std::span<const uint8_t> bytes) -> Status {
        const Layer& layer = LayerOf(kind);
        const NeuronIndex* index = kind == LayerKind::kOutput ? output_.index() : nullptr;
        const char* why = nullptr;
        if (row >= layer.map().SlotSize(slot_)) {
          why = "is not in the slot";
        } else if (bytes.size() !=
                   layer.RowBytes() + (index == nullptr ? 0 : index->StateBytes())) {
          why = "has not the size of a row of this model";
        } else if (index != nullptr && part.hash == index->tables().identity() &&
                   !index->IsState(bytes.subspan(layer.RowBytes()))) {
          why = "has no hash codes of this model";
        }
        if (why == nullptr) return Status();
        return refuse(fmt::format("has {} row {}, which {}",
                                  kind == LayerKind::kOutput ? "output" : "input", row, why));
      });
}

Status IncomingSlot::Put(const SlotRows& part) {
  DSLIDE_RETURN_IF_ERROR(Check(part));
  const Status put =
      ForEachRow(part, [&](LayerKind kind, uint32_t row, std::span<const uint8_t> bytes) {
        Layer& layer = LayerOf(kind);
        const uint32_t local = layer.map().LocalRow(slot_, row);
        layer.LoadRow(local, bytes.data());
        missing_[static_cast<size_t>(kind)].Remove(row);
        if (NeuronIndex* index = kind == LayerKind::kOutput ? output_.index() : nullptr) {
          index->TakeState(local, bytes.subspan(layer.RowBytes()),
                           part.hash == index->tables().identity());
        }
        return Status();
      });
  DSLIDE_CHECK(put.ok());
  if (part.last) {
    history_ =
        SlotHistory{{BatchSet(part.applied_output), BatchSet(part.applied_input)}, part.committed};
  }
  return {};
}

std::string IncomingSlot::WhyNotComplete() const {
  for (const LayerKind kind : {LayerKind::kInput, LayerKind::kOutput}) {
    if (const auto row = missing_[static_cast<size_t>(kind)].Next(0)) {
      return fmt::format("slot {} lacks {} row {}", slot_.value,
                         kind == LayerKind::kInput ? "input" : "output", *row);
    }
  }
  return history_ ? "" : fmt::format("the last part of slot {} is missing", slot_.value);
}

}  // namespace dslide
