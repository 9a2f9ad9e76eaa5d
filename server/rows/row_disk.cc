#include "server/rows/row_disk.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dslide {
namespace {

uint64_t BytesOf(const Layer& layer) { return layer.WeightBytes() + layer.StateBytes(); }

// How many rows of the input and of the output layer may be in memory.
Result<std::array<uint64_t, 2>> Divide(uint64_t bytes, uint64_t index_bytes, const Layer& input,
                                       const Layer& output) {
  const uint64_t of_input = BytesOf(input), of_output = BytesOf(output);
  const uint64_t rows_in = input.map().rows(), rows_out = output.map().rows();
  const uint64_t all = of_input * rows_in + of_output * rows_out;
  // In memory of `in` and `out` rows, whatever is on the disk. RowNumbers take 8 bytes.
  const auto kept = [&](uint64_t in, uint64_t out) {
    return (input.FixedBytes() + 8) * in + (output.FixedBytes() + 8 + index_bytes) * out;
  };
  const uint64_t disk_only = (RowTier::kRowBytes + 8) * (rows_in + rows_out);
  const uint64_t most = bytes / 4 * 3;
  if (kept(rows_in, rows_out) - disk_only + all <= bytes) {
    // Slots that come may need the files. Then as much is left beside for them as they may bring.
    const auto possible = static_cast<double>(of_input) * input.map().all_rows();
    const double both = possible + static_cast<double>(of_output) * output.map().all_rows();
    const uint64_t others =
        std::min(kept(input.map().all_rows(), output.map().all_rows()), most / 2);
    const auto more = static_cast<double>(most - std::min(most, others + all));
    const auto more_in = static_cast<uint64_t>(more * possible / std::max(1.0, both));
    return std::array{(of_input * rows_in + more_in) / of_input,
                      (of_output * rows_out + static_cast<uint64_t>(more) - more_in) / of_output};
  }
  const uint64_t place_in = of_input + RowTier::kPlaceBytes;
  const uint64_t place_out = of_output + RowTier::kPlaceBytes;
  const uint64_t buffers = std::min(uint64_t{10} << 20, bytes / 16);
  const uint64_t beside = kept(rows_in, rows_out) + buffers;
  const uint64_t least = beside + RowTier::kLeastPlaces * (place_in + place_out);
  if (most < least) {
    return BadInput(fmt::format(
        "{:.1f} MB for the rows of an executor are too few even with the disk tier, it needs {}; "
        "raise cluster.memory_mb or start more servers",
        static_cast<double>(bytes) / (1 << 20), (least / 3 * 4 >> 20) + 1));
  }
  // A batch needs several times as many input rows as neurons: these go first.
  const uint64_t left = most - beside;
  const uint64_t neurons = std::min(left, place_out * rows_out);
  const uint64_t first =
      std::clamp(place_in * rows_in, left / 16, std::max(left / 6 * 5, left - neurons));
  return std::array{first / place_in, (left - first) / place_out};
}

}  // namespace

Result<RowDisk> DiskForRows(const Config& config, std::string* why_none) {
  const std::string& named = config.cluster.disk_tier;
  if (named == "off" || named.empty()) return RowDisk();
  const bool any = named == "auto";
  const std::string directory = any ? "/var/tmp" : named;
  const Result<uint64_t> free = FreeForTier(directory);
  if (!free.ok() && !any) return free.error();
  if (!free.ok()) {
    *why_none = free.error().message;
    return RowDisk();
  }
  if (any && *free == 0) return RowDisk();
  const uint64_t bytes = *free / 10 * 8, given = uint64_t{config.idle.disk_mb} << 20;
  return RowDisk{directory, given > 0 ? std::min(bytes, given) : bytes};
}

Result<RowPlaces> LimitMemory(uint32_t executor, const RowDisk& disk, uint64_t bytes,
                              uint64_t index_bytes, Layer* input, Layer* output) {
  const auto most = Divide(bytes, index_bytes, *input, *output);
  DSLIDE_RETURN_IF_ERROR(most);
  RowPlaces places;
  for (const auto& [layer, limit] : {std::pair(input, (*most)[0]), {output, (*most)[1]}}) {
    TierFile::Options file;
    file.directory = disk.directory;
    DSLIDE_RETURN_IF_ERROR(
        layer->LimitMemory(file, static_cast<uint32_t>(std::clamp<uint64_t>(
                                     limit, RowTier::kLeastPlaces, SlotMap::kNone / 2))));
    if (layer->tier() == nullptr) continue;
    places.in_memory += layer->tier()->places();
    places.rows += layer->tier()->rows();
    places.disk_bytes += layer->tier()->file_bytes();
  }
  if (places.disk_bytes > disk.bytes) {
    return Failed(fmt::format(
        "the disk tier of executor {} needs {} MB in {}, {} are free for it (80 % of what is free, "
        "or idle.disk_mb); make room there, or name another directory (cluster.disk_tier)",
        executor, (places.disk_bytes >> 20) + 1, disk.directory, disk.bytes >> 20));
  }
  return places;
}

}  // namespace dslide
