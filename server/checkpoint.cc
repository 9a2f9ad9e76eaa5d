#include "server/checkpoint.h"

#include <fmt/core.h>

#include <filesystem>

namespace dslide {
namespace {

// Records are stored beside the rows, under their first slot.
constexpr auto kRecords = static_cast<LayerKind>(2);

class WriterSink : public SnapshotSink {
 public:
  WriterSink(CheckpointWriter* writer, SlotId first) : batch_(writer), first_(first) {}

  bool HasRoom(uint32_t) override { return true; }
  void Put(uint32_t, RowChunk chunk) override {
    size_t begin = 0;
    for (size_t i = 0; i < chunk.keys.size(); begin = chunk.ends[i++]) {
      batch_.Put(chunk.keys[i], {chunk.bytes.data() + begin, chunk.ends[i] - begin});
    }
  }
  void Finish(uint32_t, std::string record) override {
    batch_.Put({kRecords, first_, 0},
               {reinterpret_cast<const uint8_t*>(record.data()), record.size()});
  }

 private:
  CheckpointWriter::Batch batch_;
  SlotId first_;
};

}  // namespace

void SaveExecutor(Executor& executor, CheckpointWriter* writer) {
  const auto slots = executor.output().layer().map().owned();
  WriterSink sink(writer, slots.empty() ? SlotId{0} : slots[0]);
  executor.BeginSnapshot(&sink, 0);
  while (executor.AdvanceSnapshot()) {
  }
  executor.AbortSnapshot();  // the next one writes all rows again
}

Result<CheckpointShards> CheckpointShards::Open(const std::string& directory) {
  CheckpointShards shards;
  shards.directory_ = directory;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!entry.path().filename().string().starts_with("shard-")) continue;
    auto reader = CheckpointReader::Open(entry.path());
    DSLIDE_RETURN_IF_ERROR(reader);
    shards.readers_.push_back(std::move(*reader));
  }
  if (shards.readers_.empty()) {
    return BadInput(
        fmt::format("{}: no shard-* directory here; copy the shards from the machines "
                    "that wrote them",
                    directory));
  }
  return shards;
}

Status CheckpointShards::Restore(Executor* executor) const {
  for (Layer* layer : {&executor->input().layer(), &executor->output().layer()}) {
    for (const SlotId slot : layer->map().owned()) {
      const auto load = [&](uint32_t row, std::span<const uint8_t> value) {
        return executor->LoadRow({layer->kind(), slot, row}, value);
      };
      uint64_t found = 0;
      for (const auto& reader : readers_) {
        const Result<uint64_t> rows = reader->ForEachRow(layer->kind(), slot, load);
        DSLIDE_RETURN_IF_ERROR(rows);
        found += *rows;
      }
      const uint32_t size = layer->map().SlotSize(slot);
      if (found != size) {
        return BadInput(
            fmt::format("{}: slot {} has {} of {} rows in the {} shards here; copy "
                        "all shard-* directories of that checkpoint here",
                        directory_, slot.value, found, size, readers_.size()));
      }
    }
  }
  std::vector<std::string> records;
  const auto add = [&](uint32_t, std::span<const uint8_t> value) -> Status {
    records.emplace_back(value.begin(), value.end());
    return {};
  };
  for (const auto& reader : readers_) {
    for (uint32_t slot = 0; slot < executor->output().layer().map().slots(); ++slot) {
      DSLIDE_RETURN_IF_ERROR(reader->ForEachRow(kRecords, {slot}, add));
    }
  }
  return executor->FinishLoad(records);
}

}  // namespace dslide
