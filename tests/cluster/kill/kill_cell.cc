#include "tests/cluster/kill/kill_cell.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "common/base/process.h"
#include "common/base/random.h"

namespace dslide {
namespace {

// A stopped process sleeps longer than its lease, and longer than others take to miss it.
constexpr int64_t kStoppedMs = 3 * KeptCluster::kLeaseMs;

// A row of the matrix: where a scheduler, a server, a worker is hit. At a failpoint of its own role
// the victim hits itself; at a failpoint of another role it is hit while the other process waits
// there.
struct Row {
  const char* name;
  std::array<const char*, 3> failpoints;  // [Victim]
  uint32_t min_pass, max_pass;            // the pass that counts is drawn from these
};

constexpr std::array kRows = {
    Row{"join", {"scheduler.join", "server.join", "worker.join"}, 1, 1},
    Row{"embed", {"server.embed", "server.embed", "worker.embed"}, 2, 125},
    Row{"query", {"server.query", "server.query", "worker.query"}, 2, 125},
    Row{"push", {"server.push", "server.push", "worker.push"}, 2, 125},
    Row{"before-apply",
        {"server.before-apply", "server.before-apply", "server.before-apply"},
        2,
        75},
    Row{"after-apply", {"server.after-apply", "server.after-apply", "server.after-apply"}, 2, 75},
    Row{"before-reply",
        {"server.before-reply", "server.before-reply", "server.before-reply"},
        2,
        500},
    Row{"mid-checkpoint",
        {"server.mid-checkpoint", "server.mid-checkpoint", "server.mid-checkpoint"},
        1,
        1},
    Row{"before-manifest",
        {"scheduler.before-manifest", "scheduler.before-manifest", "scheduler.before-manifest"},
        1,
        1},
    Row{"after-manifest",
        {"scheduler.after-manifest", "scheduler.after-manifest", "scheduler.after-manifest"},
        1,
        1},
    Row{"mid-restore", {"server.mid-restore", "server.mid-restore", "server.mid-restore"}, 1, 1},
};
constexpr size_t kMidRestore = kRows.size() - 1;

const char* SignalName(int signal) {
  return signal == SIGKILL ? "kill" : signal == SIGTERM ? "term" : "stop";
}

const char* RoleName(Victim victim) {
  return victim == Victim::kScheduler ? "scheduler"
         : victim == Victim::kServer  ? "server"
                                      : "worker";
}

// One run of a cell.
class CellRun {
 public:
  CellRun(const Cell& cell, uint64_t seed, const std::string& directory)
      : cell_(cell),
        row_(kRows[cell.point]),
        random_(SubSeed(seed, cell.point * 100 + static_cast<size_t>(cell.victim) * 10 +
                                  static_cast<size_t>(cell.signal))),
        takes_over_(cell.signal == SIGSTOP && cell.victim == Victim::kServer && !cell.synchronous),
        cluster_(directory, {.synchronous = cell.synchronous,
                             .takeover = takes_over_,
                             // After a move other negatives are drawn, and the weights differ.
                             .elastic = !cell.synchronous,
                             .slow = cell.signal == SIGSTOP}) {}

  Status Run(const Undisturbed& expected);

 private:
  std::string failpoint() const { return row_.failpoints[static_cast<size_t>(cell_.victim)]; }
  bool HitsItself() const { return failpoint().starts_with(RoleName(cell_.victim)); }
  std::string Gate() const { return cluster_.Path("gate"); }
  std::string PausePath() const { return cluster_.Path("pause"); }
  size_t Plans() const {
    const std::string log = cluster_.AllErrors("scheduler");
    return Count(log, "[slots.map.begin]") + Count(log, "[slots.move.done]");
  }

  std::string One(const std::string& role);
  std::string Arm();
  void Begin();
  void BeginRestore(const std::string& failpoints);
  void Hit();
  void HitOther();
  bool Missed(const std::string& name) const;
  void LetSleep();

  Cell cell_;
  Row row_;
  Random random_;
  bool takes_over_;
  KeptCluster cluster_;
  std::string host_;    // the process that passes the failpoint
  std::string victim_;  // may be the same process
};

// A random name of that role.
std::string CellRun::One(const std::string& role) {
  if (role == "scheduler") return role;
  const int count = role == "server" ? KeptCluster::kServers : KeptCluster::kWorkers;
  return fmt::format("{}-{}", role, 1 + random_.Below(static_cast<uint64_t>(count)));
}

// Chooses host and victim; returns the host's DSLIDE_FAILPOINTS.
std::string CellRun::Arm() {
  host_ = One(failpoint().substr(0, failpoint().find('.')));
  victim_ = HitsItself() ? host_ : One(RoleName(cell_.victim));
  const uint64_t pass = row_.min_pass + random_.Below(row_.max_pass - row_.min_pass + 1);
  return fmt::format("{}={}@{}", failpoint(),
                     HitsItself() ? SignalName(cell_.signal) : "pause:" + PausePath(), pass);
}

// Starts the cluster so that the point will be passed.
void CellRun::Begin() {
  const std::string failpoints = Arm();
  if (cell_.point == kMidRestore) return BeginRestore(failpoints);
  if (host_ != "scheduler") cluster_.Start("scheduler");
  cluster_.Start(host_, failpoints);
  cluster_.StartRest();
}

// A restore needs a checkpoint and the death of a server; the only worker waits meanwhile.
void CellRun::BeginRestore(const std::string& failpoints) {
  const std::string dies = One("server");
  const bool host_dies = host_ == dies;
  if (cell_.victim == Victim::kWorker) victim_ = "worker-1";
  cluster_.Start("scheduler");
  cluster_.Start("server-1", host_ == "server-1" && !host_dies ? failpoints : "");
  cluster_.Start("server-2", host_ == "server-2" && !host_dies ? failpoints : "");
  cluster_.Start("worker-1",
                 fmt::format("worker.push=pause:{}@{}", Gate(), 50 + random_.Below(150)));
  cluster_.Await([&] { return std::filesystem::exists(Gate()); });
  const auto request = cluster_.RequestCheckpoint();
  cluster_.Await([&] { return !request->Running(); });
  if (host_dies) cluster_.SetNext(dies, failpoints);
  cluster_.Strike(dies, SIGKILL);
}

// Waits until the point is reached, and until the victim is hit.
void CellRun::Hit() {
  if (!HitsItself()) {
    HitOther();
  } else if (cell_.signal == SIGSTOP) {
    cluster_.Await([&] { return cluster_.Now(victim_).Stopped(); });
  } else {
    cluster_.Await(
        [&] { return Count(cluster_.AllErrors(host_), "failpoint " + failpoint()) > 0; });
  }
  unlink(Gate().c_str());
}

void CellRun::HitOther() {
  if (!cluster_.Await([&] { return std::filesystem::exists(PausePath()); })) return;
  const int lives = cluster_.Lives(victim_);
  cluster_.Strike(victim_, cell_.signal);
  if (cell_.signal == SIGSTOP) cluster_.Await([&] { return cluster_.Now(victim_).Stopped(); });
  if (cell_.signal == SIGKILL) cluster_.Await([&] { return cluster_.Lives(victim_) > lives; });
  // A victim of SIGTERM may need the process that waits here.
  unlink(PausePath().c_str());
}

// Whether the scheduler has given this member up since the member's last join.
bool CellRun::Missed(const std::string& name) const {
  const std::string log = cluster_.AllErrors("scheduler");
  const size_t missed = log.rfind("[worker.gone] " + name + " has been silent");
  const size_t joined = log.rfind("[member.join] " + name);
  return missed != std::string::npos && (joined == std::string::npos || missed > joined);
}

// A stopped victim is continued when the others have given it up.
void CellRun::LetSleep() {
  if (cluster_.finished()) return;
  const size_t plans = Plans();
  Process* stopped = &cluster_.Now(victim_);
  if (cell_.victim == Victim::kServer && plans > 0) {
    if (!takes_over_) stopped = &cluster_.StartBeside(victim_);
    cluster_.Await([&] { return Plans() > plans; });
  } else if (cell_.victim == Victim::kWorker) {
    cluster_.Await([&] { return Missed(victim_); });
  } else {
    const int64_t until_ms = MonotonicMillis() + kStoppedMs;
    cluster_.Await([&] { return MonotonicMillis() >= until_ms; });
  }
  stopped->Signal(SIGCONT);
}

Status CellRun::Run(const Undisturbed& expected) {
  Begin();
  Hit();
  if (cluster_.finished()) return Wrong(cluster_, "training ended before the point was reached");
  if (cell_.signal == SIGSTOP) LetSleep();
  cluster_.StartRest();
  DSLIDE_RETURN_IF_ERROR(CheckRun(&cluster_, expected));
  return cell_.synchronous ? CheckWeights(&cluster_, expected) : Status();
}

}  // namespace

std::string Cell::Name() const {
  return fmt::format("{}.{}.{}.{}", kRows[point].name, SignalName(signal), RoleName(victim),
                     synchronous ? "sync" : "async");
}

std::vector<Cell> AllCells(bool flip) {
  std::vector<Cell> cells;
  for (size_t point = 0; point < kRows.size(); ++point) {
    for (const int signal : {SIGKILL, SIGTERM, SIGSTOP}) {
      for (const Victim victim : {Victim::kScheduler, Victim::kServer, Victim::kWorker}) {
        cells.push_back({signal, victim, point, (cells.size() % 2 == 1) != flip});
      }
    }
  }
  return cells;
}

Status RunCell(const Cell& cell, uint64_t seed, const Undisturbed& expected,
               const std::string& directory) {
  return CellRun(cell, seed, directory).Run(expected);
}

}  // namespace dslide
