#include "scheduler/balance/model_size.h"

#include <algorithm>

#include "common/run/slot_rows.h"

namespace dslide {

namespace {

// The weights and moments of a row.
uint64_t VectorBytes(const Config& config, uint64_t width) {
  const uint64_t weight = config.model.precision == Precision::kBf16 ? 2 : 4;
  const uint64_t moment = config.train.moments == MomentPrecision::kBf16 ? 2 : 4;
  const uint64_t moments = config.train.optimizer == OptimizerKind::kAdam ? 2 : 0;
  return width * (weight + moments * moment);
}

// The size of the files on disk for all rows (server/rows/tier/row_log.h): sectors, a third more,
// and the numbers of the rows.
uint64_t FileBytes(const Config& config) {
  constexpr uint64_t kSector = 512;
  const auto record = [&](uint64_t width) {
    return (VectorBytes(config, width) + kSector - 1) / kSector * kSector;
  };
  const uint64_t records = InputRowCount(config.model) * record(config.model.hidden) +
                           config.model.labels * record(OutputWidth(config.model));
  return records / 3 * 4 + records / 40;
}

}  // namespace

RowMemory MemoryOfRows(const Config& config) {
  constexpr uint64_t kScalars = 16;  // bias and optimiser scalars of a row
  constexpr uint64_t kCode = 2, kEntry = 4;
  constexpr uint64_t kMass = 13;  // and the neuron's place in its class
  const ModelConfig& model = config.model;
  const auto row = [&](uint64_t width) { return VectorBytes(config, width) + kScalars; };
  // One more table is always being built, with the codes of its counting stage; a flag says whether
  // the row changed.
  const uint64_t hashed = (config.hash.tables + 1) * (kCode + kEntry) + 1;
  const uint64_t index = (HasNeuronIndex(model) ? hashed : 0) + (DrawsByMass(model) ? kMass : 0);
  return {row(model.hidden), row(OutputWidth(model)) + index};
}

std::vector<uint64_t> SlotMemoryBytes(const Config& config) {
  const RowMemory row = MemoryOfRows(config);
  const SlotRange input = InputSlots(config.cluster), output = OutputSlots(config.cluster);
  std::vector<uint64_t> bytes;
  for (uint32_t s = 0; s < config.cluster.slots; ++s) {
    const uint64_t features = RowsOfSlot(InputRowCount(config.model), input, {s});
    bytes.push_back(features * row.input +
                    RowsOfSlot(config.model.labels, output, {s}) * row.neuron);
  }
  return bytes;
}

uint64_t WithDisk(const Config& config, uint64_t memory_bytes, uint64_t disk_bytes) {
  if (!HasFixedSizes(config.train)) return memory_bytes;  // then all rows stay in memory
  constexpr uint64_t kMost = 16;  // times the memory: with less of the rows in it training crawls
  constexpr uint64_t kDiskRow = 17;  // in memory of a row that may be on disk
  constexpr uint64_t kSpare = 8;     // executors have more or less than their share: an eighth
  const uint64_t all = ModelMemoryBytes(config);
  const RowMemory row = MemoryOfRows(config);
  const ModelConfig& model = config.model;
  // Beside the vectors.
  const uint64_t kept =
      InputRowCount(model) * (row.input - VectorBytes(config, model.hidden) + kDiskRow) +
      model.labels * (row.neuron - VectorBytes(config, OutputWidth(model)) + kDiskRow);
  const double times = std::min(static_cast<double>(kMost),
                                0.75 * static_cast<double>(all) / static_cast<double>(kept));
  const auto most = static_cast<uint64_t>(static_cast<double>(memory_bytes) * times);
  const uint64_t bounded = most - most / kSpare;
  // The file has room for all rows, whether they are in memory or not.
  const double on_disk = static_cast<double>(all) * static_cast<double>(disk_bytes) /
                         static_cast<double>(FileBytes(config));
  return std::max(memory_bytes,
                  static_cast<uint64_t>(std::min(static_cast<double>(bounded), on_disk)));
}

uint64_t ModelMemoryBytes(const Config& config) {
  const RowMemory row = MemoryOfRows(config);
  return InputRowCount(config.model) * row.input + config.model.labels * row.neuron;
}

}  // namespace dslide
