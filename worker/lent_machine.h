// What a worker on a lent machine keeps for the machine's owner: it looks at the machine once a
// second, decides by the owner's policy, meters CPU and network, keeps the account of the day and
// publishes the worker's state for `dslide status --workers`.
//
// One thread uses an object.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/idle/account.h"
#include "common/idle/budget.h"
#include "common/idle/machine_reader.h"
#include "common/idle/policy.h"
#include "common/idle/published.h"
#include "common/log/event.h"
#include "common/log/line_limit.h"

namespace dslide {

class LentMachine {
 public:
  static constexpr int64_t kLookMs = 1000;
  static constexpr int64_t kLogEveryMs = 60'000;

  // Reads the owner's rules again. Errors (kBadInput) name the file and the key.
  using ReadRules = std::function<Result<IdleConfig>()>;

  // `read_rules` may be empty: nothing to read again.
  LentMachine(IdleConfig rules, ReadRules read_rules, const std::string& scheduler);

  ~LentMachine();

  // Looks at the machine if a second is over since the last look.
  const IdleDecision& Look(int64_t now_ms);
  // Until it has looked twice it does not know what others use.
  bool Knows() const { return looks_ > 1; }
  // Whether CPU, upload and download are within the owner's caps, so that a batch may begin.
  bool MayBegin(int64_t now_us);

  void CountSent(size_t bytes);
  void CountReceived(size_t bytes);
  void CountSamples(uint64_t samples) { done_.samples += samples; }

  // What the worker does now: "joining", "running", "paused" or "waiting" (for a scheduler that
  // does not answer), and its name in the roster.
  void SetState(const std::string& state, const std::string& name, int64_t now_ms);
  // Logs a line; one a minute once the worker has paused or waited. The last one comes at the end.
  void Say(Event event, int64_t now_ms);
  // SIGHUP: rules that cannot be read leave the old ones.
  void Reload();

 private:
  double OwnCpuSeconds();
  void Settle(int64_t now_ms, bool at_once);
  void Publish();
  void WarnOnce(const Error& error);
  void SetRates();

  IdlePolicy policy_;
  ReadRules read_rules_;
  MachineReader reader_;
  std::string directory_;  // of published states; "": there is none
  Publisher publisher_;
  Account account_;
  PublishedWorker shown_;
  PauseReason shown_reason_ = PauseReason::kNone;
  Totals totals_;  // when the account was settled last
  Deeds done_;     // by this process
  Deeds settled_;  // of those, what is in the account
  int64_t settled_ms_ = 0;
  IdleDecision decision_;
  int64_t looked_ms_ = 0;
  uint64_t looks_ = 0;
  double cpu_s_ = 0;                  // of this process, at the last call of MayBegin
  double others_lent_cpu_s_ = 0;      // of the user's other lent workers, while they were seen
  std::map<int, double> lent_cpu_s_;  // of each of them, when it was seen last
  Budget cpu_, upload_, download_;
  LineLimit log_{1, kLogEveryMs};
  bool rested_ = false;  // whether it has paused, or lost the scheduler
  bool warned_ = false;  // of the account or the published state
};

}  // namespace dslide
