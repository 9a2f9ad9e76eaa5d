// The ends of a run.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "scheduler/core/run_state.h"

namespace dslide {

struct RunEnd {
  const char* reason;     // as members log it
  const char* when;       // in scheduler/README.md, like exit_code
  const char* exit_code;  // of the scheduler
};

namespace run_end {

inline constexpr RunEnd kTrained = {"training is finished",
                                    "after the last epoch and its evaluation",
                                    "0; of a stream that failed that of its error"};
inline constexpr RunEnd kStopped = {"stopped on request",
                                    "a signal or `dslide run stop`: after a checkpoint; if servers "
                                    "are missing, with the newest one",
                                    "85; 75 if nothing was saved"};
inline constexpr RunEnd kStoppedAtOnce = {"stopped at once", "after a second signal", "1"};
inline constexpr RunEnd kTooFewServers = {
    "not enough servers joined", "nothing has begun, and `cluster.join_timeout_s` is over", "75"};
inline constexpr RunEnd kServersMissing = {
    "servers are missing", "a lost server is not replaced within `cluster.join_timeout_s`", "75"};
inline constexpr RunEnd kCheckpointsGone = {
    "the checkpoints are gone", "a recovery finds none of the checkpoints that the ledger names",
    "2"};
inline constexpr RunEnd kLossRises = {"the training loss rises again and again",
                                      "three rollbacks without a new checkpoint have not helped",
                                      "1"};
inline constexpr RunEnd kCheckpointFailed = {
    "a checkpoint failed", "the run's last one fails for ten minutes, after a stop for 20 s", "1"};
inline constexpr RunEnd kServerFailed = {
    "a server failed",
    "a server with slots cannot load them, or the model has infinite or NaN numbers", "1"};
inline constexpr RunEnd kLedgerFailed = {
    "the ledger could not be written",
    "its disk fails; or it stays full: at a signal, 20 s after an earlier stop, ten minutes after "
    "training",
    "1; 85 or 75 if a signal ends training"};

inline constexpr const RunEnd* kAll[] = {
    &kTrained,         &kStopped,   &kStoppedAtOnce,    &kTooFewServers, &kServersMissing,
    &kCheckpointsGone, &kLossRises, &kCheckpointFailed, &kServerFailed,  &kLedgerFailed};

}  // namespace run_end

// Tells everybody that the run is over.
void Finish(RunState* run, Status outcome, const RunEnd& end, int64_t now_ms);
// Also ends a run a second time, if its Shutdown messages were not sent.
void FinishAgain(RunState* run, Status outcome, const RunEnd& end, int64_t now_ms);

// The outcome of a run that stops with its newest checkpoint, because without all servers, or
// without a ledger, it cannot write another. `why`: "while servers were missing".
Error StoppedWithSaved(const RunState& run, const std::string& why);

}  // namespace dslide
