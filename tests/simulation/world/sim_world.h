// What the processes of a simulation share: time, network, disk, randomness and oracles.
#pragma once

#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "common/base/random.h"
#include "tests/simulation/world/applied_shadow.h"
#include "tests/simulation/world/fault_plan.h"
#include "tests/simulation/world/oracles.h"
#include "tests/simulation/world/sim_clock.h"
#include "tests/simulation/world/sim_disk.h"
#include "tests/simulation/world/sim_host.h"
#include "tests/simulation/world/sim_network.h"
#include "tests/simulation/world/sim_setup.h"
#include "tests/simulation/world/sim_trace.h"

namespace dslide::sim {

struct SimWorld {
  SimWorld(const SimSetup& s, uint64_t seed, std::FILE* trace_out)
      : setup(s),
        trace(&clock, trace_out),
        network(&clock, SubSeed(seed, 1)),
        random(SubSeed(seed, 2)),
        job_us(std::array{2 * kMs, 20 * kMs, 100 * kMs}[SubSeed(seed, 3) % 3]),
        oracles(&setup, &trace) {}

  const SimSetup& setup;
  SimClock clock;
  SimTrace trace;
  SimNetwork network;
  SimDisk disk;
  Random random;
  const int64_t job_us;  // the longest job of an executor
  Oracles oracles;
  bool slots_moved = false;  // or a server reserved places for them
  // The batches seen in a slot when it left a server with the plan of this version.
  std::map<std::tuple<uint32_t, LayerKind, SlotId>, BatchCounts> moved = {};

  // A process calls this when it reaches a point of its work; `kind`: Body::index() of the message,
  // at points that concern one. True: the process has been ended, and its function must return.
  std::function<bool(SimHost* host, Point point, size_t kind)> reached;

  // Decodes a message to `host`. A malformed one is a violation and gives nullopt.
  std::optional<Message> Read(const SimHost& host, const Bytes& bytes) {
    Result<Message> message = Decode(bytes);
    if (message.ok()) return std::move(*message);
    oracles.Violated(host.name() + " got a malformed message: " + message.error().message);
    return std::nullopt;
  }

  // Uniform in [low, high).
  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high - low)));
  }
  Incarnation DrawIncarnation() { return {random.Next() | 1}; }
};

constexpr const char* kSchedulerAddress = "sim://scheduler";
constexpr size_t kNoKind = ~size_t{0};

}  // namespace dslide::sim
