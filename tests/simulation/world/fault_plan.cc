#include "tests/simulation/world/fault_plan.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

namespace dslide::sim {
namespace {

constexpr int64_t kFaultsFromUs = 100 * kMs;
constexpr int64_t kFaultsUntilUs = 15 * kSecond;
constexpr int64_t kFaultsEndUs = 90 * kSecond;
constexpr int64_t kShortestAbsenceUs = 60 * kSecond;

const char* Name(FaultKind kind) {
  constexpr const char* kNames[] = {"crash", "gone",      "pause",        "stop",    "clock jump",
                                    "break", "partition", "disk failure", "weather", "absence"};
  return kNames[static_cast<size_t>(kind)];
}

const char* Name(Point point) {
  constexpr const char* kNames[kPoints] = {
      "before message",  "after message",  "before effects",      "after ledger",
      "before manifest", "after manifest", "before apply",        "after apply",
      "mid-snapshot",    "mid-restore",    "before a slot's job", "after a slot's job"};
  return kNames[static_cast<size_t>(point)];
}

class Draws {
 public:
  Draws(const SimSetup& setup, uint64_t seed) : hosts_(setup), random_(seed) {}

  Fault One() {
    Fault fault;
    // Most runs end within some seconds, and a fault is worst during the recovery from the one
    // before.
    const double share = random_.Uniform();
    const auto spread = static_cast<int64_t>(share * share * (kFaultsUntilUs - kFaultsFromUs));
    fault.at_us =
        random_.Below(2) == 0 ? kFaultsFromUs + spread : last_us_ + Between(0, 3 * kSecond);
    last_us_ = fault.at_us;
    fault.kind = Kind();
    fault.host = Host();
    if (fault.kind == FaultKind::kDisk) {
      fault.host = 1 + static_cast<uint32_t>(random_.Below(hosts_.servers));
    }
    fault.other = Peer(fault.host);
    fault.duration_us = Duration(fault.kind);
    fault.kept = random_.Below(2) == 0;
    fault.weather.loss = 0.1 * random_.Uniform();
    fault.weather.duplicates = 0.1 * random_.Uniform();
    fault.weather.overtaking = 0.2 * random_.Uniform();
    const bool of_process = fault.kind == FaultKind::kCrash || fault.kind == FaultKind::kPause ||
                            fault.kind == FaultKind::kGone;
    if (of_process && random_.Below(3) != 0) AtPoint(&fault);
    return fault;
  }

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(high - low)));
  }
  // As many absences of minutes as of days.
  int64_t Absence(int64_t longest_us) {
    const double ratio = static_cast<double>(longest_us) / kShortestAbsenceUs;
    return static_cast<int64_t>(kShortestAbsenceUs * std::pow(ratio, random_.Uniform()));
  }

 private:
  FaultKind Kind() {
    using enum FaultKind;
    constexpr std::array kOften = {kCrash,     kCrash,   kCrash,     kCrash, kPause,
                                   kPause,     kStop,    kGone,      kBreak, kPartition,
                                   kPartition, kWeather, kClockJump, kDisk,  kDisk};
    return kOften[random_.Below(kOften.size())];
  }

  // Servers most often: their lost state has to be restored.
  uint32_t Host() {
    switch (random_.Below(4)) {
      case 0:
        return 0;
      case 1:
        return 1 + hosts_.servers + static_cast<uint32_t>(random_.Below(hosts_.workers));
      default:
        return 1 + static_cast<uint32_t>(random_.Below(hosts_.servers));
    }
  }

  uint32_t Peer(uint32_t host) {
    const auto other = static_cast<uint32_t>(random_.Below(hosts_.count() - 1));
    return other < host ? other : other + 1;
  }

  // Up to twice the silence after which a member counts as dead.
  int64_t Duration(FaultKind kind) {
    if (kind == FaultKind::kClockJump) return Between(1 * kSecond, 90 * kSecond);
    if (kind == FaultKind::kCrash && random_.Below(8) == 0) {
      return Between(8 * kSecond, 70 * kSecond);  // longer than the others wait for the scheduler
    }
    if (kind == FaultKind::kCrash || kind == FaultKind::kStop) {
      return random_.Below(2) == 0 ? Between(1 * kMs, 300 * kMs) : Between(1 * kMs, 8 * kSecond);
    }
    return random_.Below(2) == 0 ? Between(10 * kMs, 2 * kSecond)
                                 : Between(1 * kSecond, 20 * kSecond);
  }

  void AtPoint(Fault* fault) {
    constexpr std::array kScheduler = {Point::kBeforeMessage,  Point::kAfterMessage,
                                       Point::kBeforeEffects,  Point::kAfterLedger,
                                       Point::kBeforeManifest, Point::kAfterManifest};
    constexpr std::array kServer = {
        Point::kBeforeMessage, Point::kAfterMessage, Point::kBeforeApply,   Point::kAfterApply,
        Point::kMidSnapshot,   Point::kMidRestore,   Point::kBeforeSlotJob, Point::kAfterSlotJob};
    constexpr std::array kWorker = {Point::kBeforeMessage, Point::kAfterMessage};
    constexpr std::array kToScheduler = {"Join",      "Ready",          "LeaseRequest",
                                         "BatchDone", "CheckpointDone", "StepsCommitted",
                                         "MoveReady", "DrainServer"};
    constexpr std::array kToServer = {"Plan",         "EmbedRequest", "ActiveQuery",
                                      "GradientPush", "EmbedPush",    "CheckpointRequest",
                                      "CommitSteps",  "DropBatches",  "MoveSlots",
                                      "SlotPull",     "SlotRows"};
    constexpr std::array kToWorker = {"Plan",          "LeaseGrant", "EmbedReply", "ActiveReply",
                                      "GradientReply", "Ack",        "JoinReply"};
    const auto pick = [&](const auto& from) { return from[random_.Below(from.size())]; };
    if (random_.Below(2) == 0) fault->at_us = 0;
    fault->count = 1 + static_cast<uint32_t>(random_.Below(random_.Below(2) == 0 ? 3 : 40));
    if (fault->host == 0) {
      fault->point = pick(kScheduler);
      fault->message = pick(kToScheduler);
    } else if (hosts_.IsServer(fault->host)) {
      fault->point = pick(kServer);
      fault->message = pick(kToServer);
    } else {
      fault->point = pick(kWorker);
      fault->message = pick(kToWorker);
    }
    if (*fault->point > Point::kAfterMessage) fault->message.clear();
  }

  HostNumbers hosts_;
  Random random_;
  int64_t last_us_ = kFaultsFromUs;
};

}  // namespace

std::string Fault::Describe() const {
  std::string line = fmt::format("{} of host {}", Name(kind), host);
  if (kind == FaultKind::kBreak || kind == FaultKind::kPartition) {
    line += fmt::format(" towards host {}{}", other, kept ? ", messages kept" : "");
  }
  if (kind == FaultKind::kCrash && host == 0 && kept) line += " with its machine";
  if (kind == FaultKind::kAbsence) line += kept ? " by SIGTERM" : " by death";
  line += fmt::format(" for {} ms, from {} ms on", duration_us / kMs, at_us / kMs);
  if (point) line += fmt::format(", {} {}, time {}", Name(*point), message, count);
  return line;
}

// Leaves out faults that no run can survive: the loss for good of the last server, of the scheduler
// or of all workers.
FaultPlan DrawFaults(const SimSetup& setup, uint64_t seed) {
  const HostNumbers hosts(setup);
  Draws draws(setup, SubSeed(seed, 0xfa));
  FaultPlan plan;
  plan.end_us = kFaultsEndUs;
  const uint64_t count = draws.Below(draws.Below(2) == 0 ? 5 : 13);
  uint32_t servers = setup.servers, workers = setup.workers;
  for (uint64_t i = 0; i < count; ++i) {
    Fault fault = draws.One();
    if (fault.kind == FaultKind::kGone) {
      uint32_t& left = hosts.IsServer(fault.host) ? servers : workers;
      if (fault.host == 0 || left == 1) {
        fault.kind = FaultKind::kCrash;
      } else {
        --left;
      }
    }
    plan.faults.push_back(std::move(fault));
  }
  return plan;
}

FaultPlan DrawAbsences(const SimSetup& setup, uint64_t seed, int64_t longest_us) {
  const HostNumbers hosts(setup);
  Draws draws(setup, SubSeed(seed, 0xab));
  FaultPlan plan;
  int64_t time_us = 0;
  for (uint64_t left = 1 + draws.Below(6); left > 0; --left) {
    const int64_t back_us = time_us;
    for (uint64_t i = draws.Below(3); i > 0; --i) {
      Fault fault = draws.One();
      if (fault.kind == FaultKind::kGone) fault.kind = FaultKind::kCrash;
      fault.at_us += back_us;
      plan.faults.push_back(std::move(fault));
    }
    time_us += draws.Between(500 * kMs, 4 * kSecond);
    const int64_t away_us = draws.Absence(longest_us);
    for (uint32_t host = 0; host < hosts.count(); ++host) {
      if (!hosts.IsWorker(host)) continue;
      Fault leaves;
      leaves.kind = FaultKind::kAbsence;
      leaves.host = host;
      leaves.kept = draws.Below(4) != 0;
      leaves.at_us = time_us;
      leaves.duration_us = away_us + draws.Between(0, 2 * kSecond);
      plan.faults.push_back(leaves);
    }
    time_us += away_us;
  }
  plan.end_us = time_us + kFaultsEndUs;
  return plan;
}

}  // namespace dslide::sim
