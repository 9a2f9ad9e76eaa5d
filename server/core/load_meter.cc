#include "server/core/load_meter.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr double kNewShare = 0.2;  // of a measurement in the smoothed work of a slot

// The mean of the executors' means, the round that all have reached, the largest of the rest. An
// executor without rows in its tables says nothing about them.
void GatherTables(const std::vector<Measured>& parts, Heartbeat* sum) {
  const auto has_rows = [](const Measured& part) {
    return part.tables && part.tables->buckets.largest > 0;
  };
  const auto filled = static_cast<float>(std::ranges::count_if(parts, has_rows));
  if (filled > 0) sum->hash_round = ~0u;
  for (const Measured& part : parts) {
    if (!part.tables) continue;
    const BucketOccupancy& buckets = part.tables->buckets;
    if (has_rows(part)) {
      sum->bucket_mean += static_cast<float>(buckets.mean) / filled;
      sum->bucket_empty_share += static_cast<float>(buckets.empty_share) / filled;
      sum->hash_round = std::min(sum->hash_round, part.tables->hash_round);
    }
    sum->bucket_p99 = std::max(sum->bucket_p99, buckets.p99);
    sum->bucket_largest = std::max(sum->bucket_largest, buckets.largest);
    sum->rehash_lag_batches = std::max(sum->rehash_lag_batches, part.tables->lag_batches);
  }
}

// The executors' loads as the server's, ascending by slot.
LoadReport GatherLoads(const std::vector<Measured>& parts, uint32_t interval_ms) {
  struct Place {
    const SlotCost* cost;
    uint16_t executor;
  };
  LoadReport sum;
  sum.interval_ms = interval_ms;
  std::vector<Place> places;
  for (const Measured& part : parts) {
    const auto executor = static_cast<uint16_t>(sum.busy.size());
    sum.busy.push_back(
        static_cast<float>(1000.0 * part.load.busy_seconds / std::max(1u, interval_ms)));
    sum.batches = std::max(sum.batches, part.load.batches);
    for (const SlotCost& cost : part.load.slots) places.push_back({&cost, executor});
  }
  std::ranges::sort(places, {}, [](const Place& place) { return place.cost->slot; });
  for (const auto& [cost, executor] : places) {
    sum.slots.push_back(cost->slot.value);
    sum.executor.push_back(executor);
    sum.retrieved.push_back(cost->retrieved);
    sum.used.push_back(cost->used);
    sum.updated.push_back(cost->updated);
    sum.work.push_back(cost->work);
    sum.service_us.push_back(cost->service_us);
    sum.bytes.push_back(cost->bytes);
  }
  return sum;
}

}  // namespace

void LoadMeter::Begin(int64_t now_ms) {
  figures_.began = true;
  figures_.since_ms = now_ms;
  figures_.since_cpu_seconds = cpu_seconds_;
}

LoadMeasuring LoadMeter::Measure(int64_t now_ms) {
  DSLIDE_CHECK(figures_.began && !figures_.measuring);
  figures_.measuring = true;
  const bool tables = now_ms - tables_ms_ >= kTablesMs;
  if (tables) tables_ms_ = now_ms;
  return {tables};
}

void LoadMeter::Take(const LoadMeasuring& measuring, const std::vector<JobReply>& replies,
                     int64_t now_ms) {
  std::vector<Measured> parts;
  for (const JobReply& reply : replies) {
    const auto* part = std::get_if<Measured>(&reply);
    parts.push_back(part == nullptr ? Measured() : *part);  // an executor without memory: nothing
  }
  Heartbeat sum;
  if (measuring.tables) {
    GatherTables(parts, &sum);
  } else {
    sum = figures_.measured;
  }
  sum.batches_in_flight = 0;
  sum.memory_used_bytes = 0;
  sum.on_disk = {};
  for (const Measured& part : parts) {
    sum.on_disk += part.on_disk;
    sum.batches_in_flight = std::max(sum.batches_in_flight, part.batches_in_flight);
    sum.memory_used_bytes += part.memory_bytes;
  }
  sum.load = GatherLoads(parts, static_cast<uint32_t>(now_ms - figures_.since_ms));
  ApplyQuota(&*sum.load);
  for (size_t i = 0; i < sum.load->slots.size() && sum.load->batches > 0; ++i) {
    const double work = static_cast<double>(sum.load->work[i]) / sum.load->batches;
    const auto [known, is_new] = figures_.slot_work.try_emplace({sum.load->slots[i]}, work);
    if (!is_new) known->second += kNewShare * (work - known->second);
  }
  figures_.since_ms = now_ms;
  figures_.since_cpu_seconds = cpu_seconds_;
  figures_.measured = std::move(sum);
  figures_.measuring = false;
}

// Under a CPU quota a server that has little to do works in bursts as fast as any, and one that has
// used its quota up stands still: the share of the quota that is used tells how busy it is. Without
// that, slots that a server gives away would seem to make it faster, and come back.
void LoadMeter::ApplyQuota(LoadReport* load) const {
  double busy = 0;
  for (const float share : load->busy) busy += double{share};
  const double used =
      (cpu_seconds_ - figures_.since_cpu_seconds) / std::max(1u, load->interval_ms) * 1000;
  if (cpu_quota_ <= 0 || busy <= 0 || used <= 0) return;
  const double of_quota = std::min(1.0, used / cpu_quota_);
  const double factor = std::max(1.0, of_quota * static_cast<double>(load->busy.size()) / busy);
  for (float& share : load->busy) share = static_cast<float>(std::min(1.0, factor * double{share}));
}

Heartbeat LoadMeter::TakeFigures() {
  Heartbeat beat = figures_.measured;
  figures_.measured.load.reset();
  return beat;
}

void LoadMeter::CheckInvariants() const {
  DSLIDE_CHECK(figures_.began || !figures_.measuring);
  DSLIDE_CHECK(figures_.began || figures_.slot_work.empty());
}

}  // namespace dslide
