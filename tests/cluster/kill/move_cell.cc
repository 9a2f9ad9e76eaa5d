#include "tests/cluster/kill/move_cell.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/base/random.h"

namespace dslide {
namespace {

using Why = MoveCell::Why;
using MoveVictim = MoveCell::Victim;

constexpr const char* kComes = "server-3";
constexpr const char* kLeaves = "server-2";

// Where the victim is killed, and the process that passes that point.
struct MoveRow {
  const char* failpoint;
  MoveVictim host;
  uint32_t max_pass;          // the pass that counts is drawn from 1 to this, ...
  uint32_t max_pass_of_join;  // ... for joins, whose first plan adds a server without slots
  // Only servers that lose slots pass it. A join may take slots from one of two servers only, and
  // even give some to the other, if they differ in speed.
  bool losers_only = false;
};

constexpr std::array kMoveRows = {
    MoveRow{"server.move-pull", MoveVictim::kSource, 3, 2, true},
    MoveRow{"server.move-put", MoveVictim::kTarget, 3, 3},
    MoveRow{"server.before-plan-switch", MoveVictim::kSource, 1, 2},
    MoveRow{"server.plan-switched", MoveVictim::kSource, 1, 1},
    MoveRow{"server.before-attach", MoveVictim::kTarget, 1, 1},
    MoveRow{"server.after-attach", MoveVictim::kTarget, 1, 1},
    MoveRow{"server.release", MoveVictim::kSource, 1, 1, true},
    MoveRow{"scheduler.before-plan-switch", MoveVictim::kScheduler, 1, 2},
    MoveRow{"scheduler.after-plan-switch", MoveVictim::kScheduler, 1, 2},
};

constexpr std::array kVictims = {MoveVictim::kSource, MoveVictim::kTarget, MoveVictim::kScheduler};

const char* WhyName(Why why) {
  return why == Why::kJoin ? "move-join" : why == Why::kDrain ? "move-drain" : "move-term";
}

const char* VictimName(MoveVictim victim) {
  return victim == MoveVictim::kSource   ? "source"
         : victim == MoveVictim::kTarget ? "target"
                                         : "scheduler";
}

// "before-plan-switch" of "server.before-plan-switch". The scheduler has a point of that name, too,
// so its points keep their whole names.
std::string PointName(const MoveRow& row) {
  const std::string name = row.failpoint;
  return row.host == MoveVictim::kScheduler ? name : name.substr(name.find('.') + 1);
}

// The number of slots moved, by the scheduler's log: "..., 5 moved (...".
uint64_t MovedSlots(const std::string& log) {
  uint64_t moved = 0;
  for (size_t at = log.find(" moved ("); at != std::string::npos;
       at = log.find(" moved (", at + 1)) {
    moved += std::stoull(log.substr(log.rfind(' ', at - 1) + 1));
  }
  return moved;
}

// One run of a cell. Where two servers may be the first at the point both are armed, and both are
// killed if both pass it.
class MoveRun {
 public:
  MoveRun(const MoveCell& cell, uint64_t seed, const std::string& directory)
      : cell_(cell),
        row_(kMoveRows[cell.point]),
        random_(SubSeed(seed, 10'000 + cell.point * 100 + static_cast<size_t>(cell.victim) * 10 +
                                  static_cast<size_t>(cell.why))),
        cluster_(directory, {.synchronous = cell.synchronous, .slow = true}) {}

  Status Run(const Undisturbed& expected);

 private:
  bool kills() const { return cell_.victim != MoveVictim::kNobody; }
  bool HitsItself() const { return cell_.victim == row_.host; }
  std::string Gate() const { return cluster_.Path("gate"); }
  bool AtGate() const { return std::filesystem::exists(Gate()); }
  void OpenGate() const { unlink(Gate().c_str()); }
  std::string PausePath(const std::string& host) const { return cluster_.Path("pause." + host); }
  std::string Paused() const;
  std::string FailpointsOf(const std::string& name) const;
  std::string NameOf(MoveVictim role) const;
  void Arm();
  void Begin();
  void Change();
  void Hit();
  Status CheckUndisturbed();

  MoveCell cell_;
  MoveRow row_;
  Random random_;
  KeptCluster cluster_;
  std::string source_;              // a server that slots leave
  std::vector<std::string> hosts_;  // that may be the first to pass the point; empty without a kill
  uint64_t pass_ = 1;               // of each, that counts
  bool early_ = false;              // a process waits at the point before the worker is at the gate
  std::unique_ptr<Process> drain_;
};

std::string MoveRun::NameOf(MoveVictim role) const {
  if (role == MoveVictim::kScheduler) return "scheduler";
  if (role == MoveVictim::kSource) return source_;
  return cell_.why == Why::kJoin ? kComes : "server-1";
}

// The process that waits at the point; empty if none does.
std::string MoveRun::Paused() const {
  for (const std::string& host : hosts_) {
    if (std::filesystem::exists(PausePath(host))) return host;
  }
  return {};
}

std::string MoveRun::FailpointsOf(const std::string& name) const {
  if (std::find(hosts_.begin(), hosts_.end(), name) == hosts_.end()) return {};
  return fmt::format("{}={}@{}", row_.failpoint, HitsItself() ? "kill" : "pause:" + PausePath(name),
                     pass_);
}

void MoveRun::Arm() {
  const bool joins = cell_.why == Why::kJoin;
  source_ = joins ? fmt::format("server-{}", 1 + random_.Below(KeptCluster::kServers)) : kLeaves;
  if (!kills()) return;
  hosts_ = {NameOf(row_.host)};
  if (joins && row_.losers_only) hosts_ = {"server-1", "server-2"};
  pass_ = 1 + random_.Below(joins ? row_.max_pass_of_join : row_.max_pass);
}

// Starts the cluster; a worker waits in the midst of training. If the servers differ enough in
// speed, slots move even earlier, and a process may already wait at the point.
void MoveRun::Begin() {
  Arm();
  cluster_.Start("scheduler", FailpointsOf("scheduler"));
  for (const std::string& host : hosts_) {
    if (host != "scheduler" && host != kComes) cluster_.Start(host, FailpointsOf(host));
  }
  cluster_.Start("worker-1", fmt::format("worker.push=pause:{}@{}", Gate(),
                                         KeptCluster::kWorkers + random_.Below(150)));
  cluster_.StartRest();
  cluster_.Await([&] { return AtGate() || !Paused().empty(); });
  early_ = !AtGate();
}

void MoveRun::Change() {
  if (cell_.why == Why::kJoin) {
    cluster_.Start(kComes, FailpointsOf(kComes));
  } else if (cell_.why == Why::kDrain) {
    drain_ = cluster_.RequestDrain(kLeaves);
  } else {
    cluster_.Retire(kLeaves);
  }
  if (!early_) OpenGate();
}

void MoveRun::Hit() {
  if (HitsItself()) {
    const std::string line = std::string("failpoint ") + row_.failpoint;
    cluster_.Await([&] {
      return std::any_of(hosts_.begin(), hosts_.end(), [&](const std::string& host) {
        return Count(cluster_.AllErrors(host), line) > 0;
      });
    });
    return;
  }
  if (!cluster_.Await([&] { return !Paused().empty(); })) return;
  const std::string victim = NameOf(cell_.victim);
  const int lives = cluster_.Lives(victim);
  cluster_.Strike(victim, SIGKILL);
  cluster_.Await([&] { return cluster_.Lives(victim) > lives; });
  for (const std::string& host : hosts_) cluster_.OpenForGood(PausePath(host));
}

// For cells without a kill: the cluster did not go back to a checkpoint, and the leaving server has
// left.
Status MoveRun::CheckUndisturbed() {
  const std::string log = cluster_.AllErrors("scheduler");
  if (MovedSlots(log) == 0) return Wrong(cluster_, "no slot has moved");
  if (Count(log, "from checkpoint") > 0 || Count(log, "[slots.move.fail]") > 0) {
    return Wrong(cluster_, "the cluster went back to a checkpoint");
  }
  if (cell_.why == Why::kJoin) return {};
  if (drain_ != nullptr && drain_->Wait() != 0) {
    return Wrong(cluster_, "dslide run drain failed: " + drain_->Errors());
  }
  const bool left = Count(cluster_.AllErrors(kLeaves), "[server.drain.done]") == 1;
  if (left && cluster_.Lives(kLeaves) == 1 && cluster_.Now(kLeaves).Wait() == 0) return {};
  return Wrong(cluster_, fmt::format("{} has not left with 0", kLeaves));
}

Status MoveRun::Run(const Undisturbed& expected) {
  Begin();
  Change();
  if (kills()) Hit();
  if (early_ && cluster_.Await([&] { return AtGate(); })) OpenGate();
  if (cluster_.finished()) return Wrong(cluster_, "training ended before the point was reached");
  DSLIDE_RETURN_IF_ERROR(CheckRun(&cluster_, expected));
  return kills() ? Status() : CheckUndisturbed();
}

}  // namespace

std::string MoveCell::Name() const {
  const char* mode = synchronous ? "sync" : "async";
  if (victim == MoveVictim::kNobody) return fmt::format("{}.{}", WhyName(why), mode);
  return fmt::format("{}.{}.{}.{}", WhyName(why), PointName(kMoveRows[point]), VictimName(victim),
                     mode);
}

std::vector<MoveCell> AllMoveCells(bool flip) {
  std::vector<MoveCell> cells;
  const auto add = [&](Why why, MoveVictim victim, size_t point) {
    cells.push_back({why, victim, point, (cells.size() % 2 == 1) != flip});
  };
  for (const Why why : {Why::kJoin, Why::kDrain, Why::kTerm}) {
    for (const bool synchronous : {false, true}) {
      cells.push_back({why, MoveVictim::kNobody, 0, synchronous});
    }
  }
  for (size_t point = 0; point < kMoveRows.size(); ++point) {
    for (const MoveVictim victim : kVictims) add(Why::kJoin, victim, point);
    add(point % 2 == 0 ? Why::kDrain : Why::kTerm, kVictims[point % kVictims.size()], point);
  }
  return cells;
}

Status RunMoveCell(const MoveCell& cell, uint64_t seed, const Undisturbed& expected,
                   const std::string& directory) {
  return MoveRun(cell, seed, directory).Run(expected);
}

}  // namespace dslide
