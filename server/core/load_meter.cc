#include "server/core/load_meter.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "server/executor/gather.h"

namespace dslide {
namespace {

constexpr double kNewShare = 0.2;  // of a measurement in the smoothed work of a slot

// An executor without rows in its tables says nothing about them.
bool HasRows(const Body& part) {
  const auto* beat = std::get_if<Heartbeat>(&part);
  return beat != nullptr && beat->bucket_largest > 0;
}

// The mean of the executors' means, the round that all have reached, the largest of the rest.
void GatherTables(const std::vector<Body>& parts, Heartbeat* sum) {
  const auto filled = static_cast<float>(std::ranges::count_if(parts, HasRows));
  if (filled > 0) sum->hash_round = ~0u;
  for (const Body& part : parts) {
    const auto* beat = std::get_if<Heartbeat>(&part);
    if (beat == nullptr) continue;
    if (HasRows(part)) {
      sum->bucket_mean += beat->bucket_mean / filled;
      sum->bucket_empty_share += beat->bucket_empty_share / filled;
      sum->hash_round = std::min(sum->hash_round, beat->hash_round);
    }
    sum->bucket_p99 = std::max(sum->bucket_p99, beat->bucket_p99);
    sum->bucket_largest = std::max(sum->bucket_largest, beat->bucket_largest);
    sum->rehash_lag_batches = std::max(sum->rehash_lag_batches, beat->rehash_lag_batches);
  }
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

void LoadMeter::Take(const LoadMeasuring& measuring, const std::vector<Body>& parts,
                     int64_t now_ms) {
  Heartbeat sum;
  if (measuring.tables) {
    GatherTables(parts, &sum);
  } else {
    sum = figures_.measured;
  }
  sum.batches_in_flight = 0;
  sum.memory_used_bytes = 0;
  for (const Body& part : parts) {
    const auto* beat = std::get_if<Heartbeat>(&part);
    if (beat == nullptr) continue;
    sum.batches_in_flight = std::max(sum.batches_in_flight, beat->batches_in_flight);
    sum.memory_used_bytes += beat->memory_used_bytes;
  }
  sum.load = GatherLoads(parts, static_cast<uint32_t>(now_ms - figures_.since_ms));
  ApplyQuota(&*sum.load);
  for (size_t i = 0; i < sum.load->slots.size() && sum.load->batches > 0; ++i) {
    const double work = double{1.0} * sum.load->work[i] / sum.load->batches;
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
