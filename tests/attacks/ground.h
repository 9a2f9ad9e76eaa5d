// A live cluster under training that attacks are made on, and what it looks like from outside:
// which of its processes live, their memory, what honest workers get done, what is logged.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/attacks/attack.h"
#include "tests/cluster/cluster.h"

namespace dslide {

enum class Training { kAsynchronous, kSynchronous, kStream };
const char* NameOf(Training training);

struct GroundOptions {
  bool encrypted = true;
  Training training = Training::kAsynchronous;
  int workers = 2;
  bool waits = false;  // honest workers come when BringWorkers() is called
  bool serves = false;

  auto operator<=>(const GroundOptions&) const = default;
};
// The cluster for an attack. `all_plain` and `all` replace what the attack asks for, except that an
// attack on synchronous training gets such a run.
GroundOptions GroundOf(const Attack& attack, bool all_plain, Training all);

// What the scheduler tells an observer, at one moment.
struct Reading {
  nlohmann::json status;  // null: no answer
  int64_t at_ms = 0;
  int64_t took_ms = 0;
};

// What is left of a run when it has ended.
struct Ending {
  std::string fault;   // what does not hold; empty: nothing
  double p_at_1 = -1;  // of the model as it was when the run was asked to stop
};

class Ground {
 public:
  static constexpr int kServers = 2;

  explicit Ground(const GroundOptions& options);
  ~Ground();

  // Starts the cluster, draws a key for each of the attacks, and waits until it has learned; a
  // ground that waits, until it has its servers.
  Status Begin(const std::vector<const Attack*>& attacks);
  // Starts the honest workers of a ground that waits. False: they do not get the model to learn.
  bool BringWorkers();

  // Runs `dslide status`.
  Reading Look();
  // Honest samples from one reading to the other, a second. What a worker trained that is not in
  // the roster any more is lost.
  static double HonestRate(const Reading& before, const Reading& after);

  // Names of the scheduler, servers and honest workers that have ended since Begin().
  std::vector<std::string> Dead() const;
  // Resident memory of scheduler, servers and serve, of those that live, by name, in bytes.
  std::map<std::string, uint64_t> Memory() const;
  double SchedulerCpuSeconds() const;  // that it has used
  uint64_t LogBytes() const;

  // Starts this executable as the attacker, or as what burns as much CPU.
  std::unique_ptr<Process> Strike(const std::vector<std::string>& arguments,
                                  const Reading& reading);

  // Lets an attacker go on until the run has ended.
  void Keep(std::unique_ptr<Process> attacker) { attackers_.push_back(std::move(attacker)); }

  // Asks the run to stop, measures its model, continues it to the end of the next epoch unless it
  // trains on a stream, and recounts.
  Ending End();

  std::string LastLines() const;  // of the logs
  // Copies the logs there.
  void KeepLogs(const std::string& directory) const;

 private:
  Arguments Settings() const;
  Status StartServing();
  Status DrawKeys(const std::vector<const Attack*>& attacks);
  Arguments Access() const;
  bool Awaits(const std::function<bool(const nlohmann::json& status)>& state) const;
  std::string Delay() const;
  void KillMembers() const;
  std::string Samples(const std::string& name) const;
  std::string AskToStop();
  std::string Continue(uint64_t epochs);
  std::string Recount();

  GroundOptions options_;
  TestRun run_;
  std::unique_ptr<Process> train_, serve_;
  int serve_port_ = 0;
  std::map<std::string, pid_t> members_;
  std::vector<std::unique_ptr<Process>> workers_;  // of a ground that waits
  std::vector<std::unique_ptr<Process>> attackers_;
  int strikes_ = 0;
};

}  // namespace dslide
