#include "server/executor/state/snapshot.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dslide {
namespace {

ChangedRows::Store StoreOf(Layer* layer, const NeuronIndex* index) {
  return [layer, index](uint32_t row, std::vector<uint8_t>* out) {
    const size_t begin = out->size();
    out->resize(begin + layer->RowBytes());
    layer->StoreRow(row, out->data() + begin);
    if (index != nullptr) index->AppendState(row, out);
  };
}

}  // namespace

Snapshot::Snapshot(SnapshotSink* sink, uint32_t number, std::string record, InputLayer* input,
                   OutputLayer* output)
    : sink_(*sink),
      number_(number),
      record_(std::move(record)),
      input_(input->layer()),
      output_(output->layer()),
      index_(output->index()),
      built_(index_ == nullptr ? BuiltCodes() : index_->tables().tables().Built()),
      slots_(input_.map().owned().begin(), input_.map().owned().end()),
      layer_(&input_) {
  ChangedRows::Store store_input = StoreOf(&input_, nullptr);
  ChangedRows::Store store_output = StoreOf(&output_, index_);
  input_.changed().Mark(std::move(store_input));  // from here on nothing can fail
  output_.changed().Mark(std::move(store_output));
}

size_t Snapshot::MostAsideBytes(const Layer& layer) {
  constexpr size_t kLeast = size_t{2} << 20, kMost = size_t{64} << 20;
  return std::clamp(static_cast<size_t>(layer.MemoryBytes() / 16), kLeast, kMost);
}

bool Snapshot::lags() const {
  const auto of = [](const Layer& layer) {
    return layer.changed().aside_bytes() > 2 * MostAsideBytes(layer);
  };
  return !finished_ && (of(input_) || of(output_));
}

// Writes the next row; false after the last one. Slots lie in memory in any order, but are written
// in ascending order.
bool Snapshot::WriteRow() {
  if (slot_ == slots_.size()) {
    slot_ = 0;
    return std::exchange(layer_, &output_) != &output_;
  }
  const SlotMap& map = layer_->map();
  const SlotId slot = slots_[slot_];
  const uint32_t begin = map.RegionBegin(slot);
  const std::optional<uint32_t> row =
      layer_->changed().Write(begin + next_, begin + map.SlotSize(slot), &chunk_.bytes);
  if (!row) {
    slot_++;
    next_ = 0;
    return true;
  }
  next_ = *row - begin + 1;
  Complete(layer_, *row, &chunk_);
  return true;
}

// After the bytes of a row were appended to a chunk.
void Snapshot::Complete(Layer* layer, uint32_t row, RowChunk* chunk) {
  // What is stored of a row that is not settled goes out of date by itself.
  if (layer == &output_ && index_ != nullptr &&
      !index_->CompleteState(built_, row, &chunk->bytes)) {
    layer->changed().MarkChanged(row);
  }
  const SlotMap& map = layer->map();
  chunk->keys.push_back({layer->kind(), map.SlotOf(row), map.RowInSlot(row)});
  chunk->ends.push_back(chunk->bytes.size());
}

// Begins to write the copies of a layer, if they take too much.
void Snapshot::BeginEarly(Layer* layer) {
  if (!early_.empty() || layer->changed().aside_bytes() <= MostAsideBytes(*layer)) return;
  const SlotMap& map = layer->map();
  early_layer_ = layer;
  for (const uint32_t row : layer->changed().Aside()) {
    early_.push_back({layer->kind(), map.SlotOf(row), map.RowInSlot(row)});
  }
  std::ranges::sort(early_, std::greater());
}

void Snapshot::WriteEarly(uint32_t rows) {
  RowChunk chunk;
  chunk.early = true;
  for (uint32_t n = 0; n < rows && !early_.empty() && chunk.bytes.size() < kChunkBytes; ++n) {
    const uint32_t row = early_layer_->map().LocalRow(early_.back().slot, early_.back().row);
    early_.pop_back();
    early_layer_->changed().WriteAside(row, &chunk.bytes);
    Complete(early_layer_, row, &chunk);
  }
  sink_.Put(number_, std::move(chunk));
}

bool Snapshot::Advance(uint32_t rows) {
  if (!sink_.HasRoom(number_)) return false;
  BeginEarly(&output_);
  BeginEarly(&input_);
  if (!early_.empty()) {
    WriteEarly(rows);
    return true;
  }
  if (chunk_.bytes.capacity() == 0) chunk_.bytes.reserve(kChunkBytes + kChunkBytes / 16);
  bool more = true;
  for (uint32_t n = 0; n < rows && more && chunk_.bytes.size() < kChunkBytes; ++n) {
    more = WriteRow();
  }
  if (chunk_.bytes.size() >= kChunkBytes || (!more && !chunk_.keys.empty())) PutChunk();
  if (!more) {
    sink_.Finish(number_, std::move(record_));
    built_ = BuiltCodes();
    finished_ = true;
  }
  return true;
}

void Snapshot::PutChunk() { sink_.Put(number_, std::exchange(chunk_, RowChunk())); }

void Snapshot::Abort() {
  input_.changed().Abort();
  output_.changed().Abort();
}

}  // namespace dslide
