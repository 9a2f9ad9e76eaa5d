#include "worker/worker_process.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <random>

#include "common/base/address.h"
#include "common/data/checksum.h"
#include "common/idle/local_time.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/math/kernels.h"
#include "common/net/resolve.h"
#include "common/net/socket.h"
#include "common/text/samples.h"
#include "worker/events.h"
#include "worker/worker_shell.h"

namespace dslide {
namespace {

constexpr int64_t kFirstRetryMs = 1000;
constexpr int64_t kLastRetryMs = 60'000;

Result<TrainingFile> ReadTrainingFile(const std::string& path) {
  // The same file gives the same samples as on the scheduler's machine if the run has the default
  // train.min_label_samples, and for text the default settings of [text].
  Result<TrainingSamples> loaded = LoadTrainingSamples(path, {});
  DSLIDE_RETURN_IF_ERROR(loaded);
  const uint64_t checksum = Checksum(loaded->data);
  return TrainingFile{path, std::move(loaded->data), checksum};
}

class WorkerProcess {
 public:
  WorkerProcess(const WorkerOptions& options, const TrainingFile* file, LentMachine* lent,
                StopSignals* signals)
      : options_(options), lent_(lent), signals_(signals) {
    session_ = {options.scheduler, options.name, file, lent, options.volunteer};
  }

  Status Run() {
    while (true) {
      if (lent_ != nullptr && !WaitUntilAllowed()) return {};
      const Result<SessionEnd> end = WorkerShell::Run(&context_, session_, signals_);
      DSLIDE_RETURN_IF_ERROR(end);
      if (end->stopped && options_.volunteer && end->name.empty()) return {};
      if (end->stopped || lent_ == nullptr) return end->outcome;
      if (!end->name.empty()) {
        session_.name = end->name;  // it takes the same place in the roster again
        retry_ms_ = kFirstRetryMs;
      }
      if (end->rests) continue;
      if (!options_.volunteer || IsFinal(*end)) return end->outcome;
      if (!WaitForScheduler(*end)) return {};
    }
  }

 private:
  // The run is done, or nothing that the scheduler does makes this worker useful.
  static bool IsFinal(const SessionEnd& end) {
    if (end.dismissed) return *end.dismissed == 0;
    return end.outcome.ok() || end.outcome.error().kind == ErrorKind::kBadInput;
  }

  // Waits for a signal, at most so long. False: the process was asked to stop.
  bool Wait(int64_t ms) {
    pollfd ready{signals_->fd(), POLLIN, 0};
    (void)poll(&ready, 1, static_cast<int>(ms));
    const bool stop = signals_->Take();
    if (signals_->TakeReload()) lent_->Reload();
    return !stop;
  }

  // Returns when the owner's policy allows to compute. False: the process was asked to stop.
  bool WaitUntilAllowed() {
    PauseReason said = PauseReason::kNone;
    while (true) {
      const int64_t now_ms = MonotonicMillis();
      const IdleDecision& decision = lent_->Look(now_ms);
      if (lent_->Knows() && !decision.pauses()) {
        if (said != PauseReason::kNone) lent_->Say({event::kHostState, "goes on"}, now_ms);
        return true;
      }
      if (lent_->Knows()) {
        lent_->SetState("paused", session_.name, now_ms);
        if (said != decision.reason) lent_->Say({event::kHostState, PauseText(decision)}, now_ms);
        said = decision.reason;
      }
      if (!Wait(LentMachine::kLookMs)) return false;
    }
  }

  static std::string PauseText(const IdleDecision& decision) {
    if (decision.until_unix_s == 0) return "pauses: " + decision.why;
    return fmt::format("pauses until {}: {}", ClockText(decision.until_unix_s, time(nullptr)),
                       decision.why);
  }

  // After a session without success; longer each time, at random so that volunteers do not come all
  // at once. False: the process was asked to stop.
  bool WaitForScheduler(const SessionEnd& end) {
    std::uniform_int_distribution<int64_t> some(retry_ms_ / 2, retry_ms_ * 3 / 2);
    const int64_t until_ms = MonotonicMillis() + some(random_);
    retry_ms_ = std::min(2 * retry_ms_, kLastRetryMs);
    const std::string why = end.outcome.ok() ? "the scheduler stops before the run is done"
                                             : end.outcome.error().message;
    lent_->SetState("waiting", session_.name, MonotonicMillis());
    lent_->Say({event::kHostWaits, "waits for the scheduler: " + why}, MonotonicMillis());
    for (int64_t now_ms; (now_ms = MonotonicMillis()) < until_ms;) {
      if (!Wait(std::min(until_ms - now_ms, LentMachine::kLookMs))) return false;
      (void)lent_->Look(MonotonicMillis());
    }
    return true;
  }

  const WorkerOptions& options_;
  LentMachine* lent_;
  StopSignals* signals_;
  NetContext context_;
  WorkerShell::Options session_;
  int64_t retry_ms_ = kFirstRetryMs;
  std::mt19937_64 random_{std::random_device()()};
};

}  // namespace

Status RunWorker(const WorkerOptions& options, LentMachine* lent, StopSignals* signals) {
  FlushDenormals();
  std::optional<TrainingFile> file;
  if (!options.data.empty()) {
    Result<TrainingFile> read = ReadTrainingFile(options.data);
    DSLIDE_RETURN_IF_ERROR(read);
    file = std::move(*read);
  }
  const SchedulerAccess& to = options.scheduler;
  DSLIDE_RETURN_IF_ERROR(CheckDialable(to.address));
  LogInfo({event::kJoining,
           fmt::format("joining the scheduler at {}{}", to.address, to.curve ? ", encrypted" : ""),
           {{"scheduler", to.address}}});
  WarnIfUnresolved(to.address);
  WorkerProcess process(options, file ? &*file : nullptr, lent, signals);
  return process.Run();
}

}  // namespace dslide
