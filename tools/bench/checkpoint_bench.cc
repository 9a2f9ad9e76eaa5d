// dslide-checkpoint-bench: the cost of checkpoints of a big model: a full one, an increment,
// restoring.
//
//   dslide-checkpoint-bench DIRECTORY [runs]
//
// N = 670,000 labels, D = 136,000 features, H = 128, Adam, bf16; one server of two executors. Files
// are read and restored with and without the system's file cache. Prints one line per run.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "common/base/process.h"
#include "common/base/random.h"
#include "common/checkpoint/layout.h"
#include "common/run/slot_plan.h"
#include "server/executor/executor_pool.h"
#include "server/server_storage.h"
#include "server/storage/checkpoint.h"
#include "server/storage/shard_directory.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kLabels = 670000, kFeatures = 136000, kExecutors = 2, kShare = 100;

double SecondsSince(int64_t begin_us) {
  return static_cast<double>(MonotonicMicros() - begin_us) / 1e6;
}

Config BigConfig() {
  Config config;
  config.model.hidden = 128;
  config.train.optimizer = OptimizerKind::kAdam;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

ServerLoad LoadOf(const Config& config, std::string restore) {
  ServerLoad load{};
  load.config = config;
  load.train_samples = 1000000;
  load.slots.resize(kExecutors);
  for (uint32_t s = 0; s < config.cluster.slots; ++s) {
    load.slots[s * kExecutors / config.cluster.slots].push_back({s});
  }
  load.restore = std::move(restore);
  load.ticket = 1;
  return load;
}

std::unique_ptr<ExecutorPool> PoolFor(const ServerLoad& load) {
  return std::make_unique<ExecutorPool>(kExecutors, [load](uint32_t i) {
    return std::make_unique<Executor>(load.config, load.train_samples, load.slots[i], i,
                                      Purpose::kTraining, BestKernels());
  });
}

// Collects the parts of one job; false: one is an error.
bool Await(ExecutorPool* pool) {
  bool good = true;
  for (uint32_t missing = kExecutors; missing > 0;) {
    pollfd ready{pool->fd(), POLLIN, 0};
    (void)poll(&ready, 1, 1000);
    while (auto outcome = pool->Collect()) {
      if (const auto* error = std::get_if<Error>(&outcome->part)) {
        fmt::print(stderr, "{}\n", error->message);
        good = false;
      }
      missing--;
    }
  }
  return good;
}

// Every `stride`-th row gets moments as training leaves them: noise.
Done Scramble(Executor& executor, uint32_t stride, uint64_t seed) {
  Random random(seed);
  for (Layer* layer : {&executor.input().layer(), &executor.output().layer()}) {
    std::vector<uint8_t> bytes(layer->RowBytes());
    for (uint32_t row = 0; row < layer->map().rows(); row += stride) {
      layer->changed().BeforeChange(row);
      layer->StoreRow(row, bytes.data());
      for (size_t at = sizeof(RowScalars) + layer->WeightBytes(); at + 8 <= bytes.size(); at += 8) {
        const uint64_t noise = Mix64(random.Below(~uint64_t{0})) & 0x3fff3fff3fff3fff;
        std::memcpy(&bytes[at], &noise, 8);
      }
      layer->LoadRow(row, bytes.data());
    }
  }
  return {};
}

CheckpointDone Save(ServerStorage* storage, ExecutorPool* pool, const std::string& in, uint64_t n) {
  ServerSave save{};
  save.name = CheckpointName(n);
  save.directory = in + "/" + save.name;
  save.shard = ShardName(1, 0);
  if (n > 1) save.keep = {CheckpointName(n - 1)};
  save.ticket = n + 1;
  storage->StartSave(save, pool);
  while (true) {
    while (pool->Collect()) {
    }
    if (auto saved = storage->Collect()) return saved->done;
    pollfd ready[] = {{pool->fd(), POLLIN, 0}, {storage->fd(), POLLIN, 0}};
    (void)poll(ready, 2, 1000);
  }
}

void ForgetFiles(const std::string& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

double ReadFiles(const std::string& directory) {
  std::vector<char> buffer(size_t{1} << 17);
  const int64_t begin_us = MonotonicMicros();
  for (const auto& entry : fs::directory_iterator(directory)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, buffer.data(), buffer.size()) > 0) {
    }
    if (fd >= 0) close(fd);
  }
  return SecondsSince(begin_us);
}

double Restore(const Config& config, const std::string& checkpoint) {
  const ServerLoad load = LoadOf(config, checkpoint);
  ServerStorage storage(load, {"bench-0000000000000002"});
  const auto pool = PoolFor(load);
  (void)pool->RunOnAll([](Executor&) { return Done{}; });  // memory is allocated
  const int64_t begin_us = MonotonicMicros();
  const std::clock_t cpu = std::clock();
  storage.StartLoad(pool.get());
  if (!Await(pool.get())) return -1;
  fmt::print("restore_cpu_s {:.2f} ", static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  return SecondsSince(begin_us);
}

int Run(const std::string& in, int runs) {
  const Config config = BigConfig();
  for (int run = 0; run < runs; ++run) {
    const ServerLoad load = LoadOf(config, "");
    auto storage =
        std::make_unique<ServerStorage>(load, CheckpointStore::Place{"bench-0000000000000001"});
    auto pool = PoolFor(load);
    storage->StartLoad(pool.get());
    if (!Await(pool.get())) return 1;
    (void)pool->RunOnAll([](Executor& e) { return Scramble(e, 1, 1); });
    int64_t begin_us = MonotonicMicros();
    const CheckpointDone full = Save(storage.get(), pool.get(), in, 1);
    const double full_s = SecondsSince(begin_us);
    (void)pool->RunOnAll([](Executor& e) { return Scramble(e, kShare, 2); });
    begin_us = MonotonicMicros();
    const CheckpointDone next = Save(storage.get(), pool.get(), in, 2);
    const double next_s = SecondsSince(begin_us);
    if (!full.error.empty() || !next.error.empty()) {
      fmt::print(stderr, "{}{}\n", full.error, next.error);
      return 1;
    }
    pool.reset();
    storage.reset();
    const std::string checkpoint = in + "/" + CheckpointName(2);
    const std::string shard = checkpoint + "/" + ShardName(1, 0);
    ForgetFiles(shard);
    const double cold_read_s = ReadFiles(shard);
    ForgetFiles(shard);
    const double cold_restore_s = Restore(config, checkpoint);
    const double warm_read_s = ReadFiles(shard);
    const double warm_restore_s = Restore(config, checkpoint);
    fmt::print(
        "full_s {:.2f} full_mb {:.0f} stall_ms {:.1f} increment_s {:.2f} increment_share {:.4f} "
        "read_s {:.2f} restore_s {:.2f} warm_read_s {:.2f} warm_restore_s {:.2f}\n",
        full_s, static_cast<double>(full.bytes) / 1e6, full.stall_us / 1e3, next_s,
        static_cast<double>(next.written_bytes) / static_cast<double>(full.bytes), cold_read_s,
        cold_restore_s, warm_read_s, warm_restore_s);
    std::fflush(stdout);
    for (const uint64_t n : {1, 2}) RemoveCheckpoint(in + "/" + CheckpointName(n));
  }
  return 0;
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: dslide-checkpoint-bench DIRECTORY [runs]\n");
    return 2;
  }
  return dslide::Run(argv[1], argc == 3 ? std::atoi(argv[2]) : 3);
}
