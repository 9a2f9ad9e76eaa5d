#include "server/checkpoint.h"

#include <fmt/core.h>

#include <cstring>
#include <filesystem>

namespace dslide {
namespace {

size_t CodeBytes(LayerKind kind, const OutputLayer& output) {
  return kind == LayerKind::kOutput && output.tables() != nullptr
             ? output.tables()->tables().tables() * sizeof(BucketCode)
             : 0;
}

void SaveLayer(Layer& layer, const OutputLayer& output, CheckpointWriter* writer) {
  CheckpointWriter::Batch batch(writer);
  const size_t code_bytes = CodeBytes(layer.kind(), output);
  std::vector<uint8_t> value(layer.RowBytes() + code_bytes);
  std::vector<BucketCode> codes(code_bytes / sizeof(BucketCode));
  for (const SlotId slot : layer.map().owned()) {
    for (uint32_t row = 0; row < layer.map().SlotSize(slot); ++row) {
      const uint32_t local = layer.map().LocalRow(slot, row);
      layer.StoreRow(local, value.data());
      if (code_bytes > 0) {
        output.tables()->CodesNow(local, codes);
        std::memcpy(value.data() + layer.RowBytes(), codes.data(), code_bytes);
      }
      batch.Put({layer.kind(), slot, row}, value);
    }
  }
}

}  // namespace

void SaveExecutor(Executor& executor, CheckpointWriter* writer) {
  // So that a run that goes on from here and one that is restored have the same tables. In
  // synchronous training that would make the result depend on when a checkpoint is written.
  if (executor.output().tables() != nullptr && !executor.synchronous()) {
    executor.output().tables()->CatchUp();
  }
  SaveLayer(executor.input().layer(), executor.output(), writer);
  SaveLayer(executor.output().layer(), executor.output(), writer);
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
  OutputLayer& output = executor->output();
  std::vector<BucketCode> codes;
  for (Layer* layer : {&executor->input().layer(), &output.layer()}) {
    const size_t code_bytes = CodeBytes(layer->kind(), output);
    codes.resize(code_bytes / sizeof(BucketCode));
    for (const SlotId slot : layer->map().owned()) {
      const uint32_t size = layer->map().SlotSize(slot);
      const auto load = [&](uint32_t row, std::span<const uint8_t> value) -> Status {
        if (row >= size || value.size() != layer->RowBytes() + code_bytes) {
          return Failed(fmt::format(
              "{}: row {} of slot {} does not fit the model ({} bytes, expected {})", directory_,
              row, slot.value, value.size(), layer->RowBytes() + code_bytes));
        }
        const uint32_t local = layer->map().LocalRow(slot, row);
        layer->LoadRow(local, value.data());
        if (code_bytes > 0) {
          std::memcpy(codes.data(), value.data() + layer->RowBytes(), code_bytes);
          if (!output.tables()->tables().ValidCodes(codes)) {
            return Failed(
                fmt::format("{}: row {} of slot {} is in no bucket that there is; the "
                            "checkpoint is damaged",
                            directory_, row, slot.value));
          }
          output.tables()->RestoreCodes(local, codes);
        }
        return {};
      };
      uint64_t found = 0;
      for (const auto& reader : readers_) {
        const Result<uint64_t> rows = reader->ForEachRow(layer->kind(), slot, load);
        DSLIDE_RETURN_IF_ERROR(rows);
        found += *rows;
      }
      if (found != size) {
        return BadInput(
            fmt::format("{}: slot {} has {} of {} rows in the {} shards here; copy "
                        "all shard-* directories of that checkpoint here",
                        directory_, slot.value, found, size, readers_.size()));
      }
    }
  }
  if (output.tables() != nullptr) output.tables()->FinishRestore();
  return {};
}

}  // namespace dslide
