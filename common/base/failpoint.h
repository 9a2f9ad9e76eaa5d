// Named places in the executables where a test or a user makes a failure happen on purpose.
//
// They are always compiled in and cost one relaxed atomic load while none is set. Set by the
// environment when an executable starts:
//
//   DSLIDE_FAILPOINTS="server.push=kill@3;worker.embed=pause:/tmp/here"
//
// that is NAME=ACTION[@N], separated by ';'. Except for a delay, the action happens once, when
// the process passes the point for the N-th time (default 1), in any thread. Actions:
//
//   kill, term, stop  the process sends itself SIGKILL, SIGTERM, SIGSTOP
//   pause:PATH        the thread creates PATH with the process id in it, and waits until PATH is
//                     removed; after 10 minutes the process aborts
//   delay:MS          the thread sleeps for MS milliseconds (at most 60000), at the N-th pass and
//                     at every later one: a slow machine that leaves the CPU to others
//   fail              PassFailpoint() returns true, which its caller turns into an I/O error; only
//                     at the points marked "may fail" below
//
// Thread-safe after ArmFailpoints().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

enum class Failpoint : uint8_t {
  kSchedulerJoin,              // a Join arrived
  kSchedulerBeforeManifest,    // may fail: all shards are written, the manifest is not
  kSchedulerAfterManifest,     // the manifest is written, nothing else refers to it
  kSchedulerBeforePlanSwitch,  // a plan of the same generation is in the ledger, not sent
  kSchedulerAfterPlanSwitch,   // that plan is sent
  kSchedulerAfterEpoch,        // the ledger says that an epoch is done, nobody has heard of it
  kServerJoin,                 // Join is sent
  kServerEmbed,                // an EmbedRequest arrived
  kServerQuery,                // an ActiveQuery arrived
  kServerPush,                 // a GradientPush arrived
  kServerEmbedPush,            // an EmbedPush arrived
  kServerBeforeApply,          // an executor is about to apply gradients
  kServerAfterApply,           // the executor has applied them
  kServerBeforeReply,          // a reply to a worker is ready, not sent
  kServerMidCheckpoint,        // may fail: the first chunk of a shard is written
  kServerMidRestore,           // may fail: some rows are restored
  kServerMovePull,             // a SlotPull for a part of a slot arrived
  kServerMovePut,              // an executor has stored a part of an arriving slot
  kServerBeforePlanSwitch,     // an executor is about to switch to a plan of the same generation
  kServerPlanSwitched,         // slots have left an executor, their new owner lacks them yet
  kServerBeforeAttach,         // all rows of arriving slots are here, not in the model
  kServerAfterAttach,          // these rows are in the model, not yet reported
  kServerRelease,              // a SlotPull that releases a slot arrived
  kServerTierRead,             // may fail: a row was read from the disk tier's file
  kServerTierWrite,            // may fail: rows were written to it
  kWorkerJoin,                 // Join is sent
  kWorkerEmbed,                // an EmbedRequest is about to be sent; the next three likewise
  kWorkerQuery,
  kWorkerPush,
  kWorkerEmbedPush,
  kWorkerBeforeReport,  // a BatchDone is about to be sent
  kWorkerLie,           // may fail: from here on the worker sends its gradients with the wrong sign
};

struct FailpointInfo {
  std::string_view name;
  bool may_fail = false;
};

// Indexed by Failpoint.
inline constexpr std::array kFailpoints = {
    FailpointInfo{"scheduler.join"},
    FailpointInfo{"scheduler.before-manifest", true},
    FailpointInfo{"scheduler.after-manifest"},
    FailpointInfo{"scheduler.before-plan-switch"},
    FailpointInfo{"scheduler.after-plan-switch"},
    FailpointInfo{"scheduler.after-epoch"},
    FailpointInfo{"server.join"},
    FailpointInfo{"server.embed"},
    FailpointInfo{"server.query"},
    FailpointInfo{"server.push"},
    FailpointInfo{"server.embed-push"},
    FailpointInfo{"server.before-apply"},
    FailpointInfo{"server.after-apply"},
    FailpointInfo{"server.before-reply"},
    FailpointInfo{"server.mid-checkpoint", true},
    FailpointInfo{"server.mid-restore", true},
    FailpointInfo{"server.move-pull"},
    FailpointInfo{"server.move-put"},
    FailpointInfo{"server.before-plan-switch"},
    FailpointInfo{"server.plan-switched"},
    FailpointInfo{"server.before-attach"},
    FailpointInfo{"server.after-attach"},
    FailpointInfo{"server.release"},
    FailpointInfo{"server.tier-read", true},
    FailpointInfo{"server.tier-write", true},
    FailpointInfo{"worker.join"},
    FailpointInfo{"worker.embed"},
    FailpointInfo{"worker.query"},
    FailpointInfo{"worker.push"},
    FailpointInfo{"worker.embed-push"},
    FailpointInfo{"worker.before-report"},
    FailpointInfo{"worker.lie", true},
};
static_assert(kFailpoints.size() == static_cast<size_t>(Failpoint::kWorkerLie) + 1);

// Reads a value of DSLIDE_FAILPOINTS. Errors (kBadInput) name the wrong part. REQUIRES that there
// is no other thread yet.
Status ArmFailpoints(std::string_view text);
// The same from this process's environment; does nothing if the variable is not set.
Status ArmFailpointsFromEnvironment();

namespace failpoint_internal {
// Passes left until each point acts; 0: not set, or has acted for the last time.
extern std::array<std::atomic<uint32_t>, kFailpoints.size()> left;
bool Pass(Failpoint point);
}  // namespace failpoint_internal

// Marks a failpoint in the code. True: the caller must fail as if by an I/O error.
inline bool PassFailpoint(Failpoint point) {
  const auto& left = failpoint_internal::left[static_cast<size_t>(point)];
  if (left.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  return failpoint_internal::Pass(point);
}

}  // namespace dslide
