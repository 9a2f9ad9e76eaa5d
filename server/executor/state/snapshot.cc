#include "server/executor/state/snapshot.h"

#include <utility>

#include "server/model/lsh/hash_state.h"

namespace dslide {
namespace {

ChangedRows::Store StoreOf(Layer* layer, const LiveTables* tables) {
  return [layer, tables](uint32_t row, std::vector<uint8_t>* out) {
    const size_t begin = out->size();
    out->resize(begin + layer->RowBytes());
    layer->StoreRow(row, out->data() + begin);
    if (tables != nullptr) AppendHashState(*tables, row, out);
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
      tables_(output->tables()),
      built_(tables_ == nullptr ? BuiltCodes() : tables_->tables().Built()),
      slots_(input_.map().owned().begin(), input_.map().owned().end()),
      layer_(&input_) {
  ChangedRows::Store store_input = StoreOf(&input_, nullptr);
  ChangedRows::Store store_output = StoreOf(&output_, tables_);
  input_.changed().Mark(std::move(store_input));  // from here on nothing can fail
  output_.changed().Mark(std::move(store_output));
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
  // What is stored of a row that is not settled goes out of date by itself.
  if (layer_ == &output_ && tables_ != nullptr &&
      !CompleteHashState(built_, tables_->tables().size(), *row, &chunk_.bytes)) {
    layer_->changed().MarkChanged(*row);
  }
  chunk_.keys.push_back({layer_->kind(), slot, map.RowInSlot(*row)});
  chunk_.ends.push_back(chunk_.bytes.size());
  return true;
}

bool Snapshot::Advance(uint32_t rows) {
  if (!sink_.HasRoom(number_)) return false;
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
