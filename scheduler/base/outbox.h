// What SchedulerCore and its parts want done in one call, in the order in which they say it, and
// the journal of what they decided.
//
// The core owns it and hands it to its parts in each call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/log/event.h"
#include "common/log/line_limit.h"
#include "scheduler/base/actions.h"
#include "scheduler/base/events.h"
#include "scheduler/base/journal.h"
#include "scheduler/members/roster.h"

namespace dslide {

class Outbox {
 public:
  // `ledger_entries`: what the ledger has already.
  explicit Outbox(uint64_t ledger_entries);

  void Send(const Member& to, Body body);
  void SendToAll(const Roster& roster, Role role, Body body);
  void SendToSeated(const Roster& roster, Body body);
  // The answer to a request. `request`: its sequence.
  void Reply(const Member& to, const Message& request, Body body);
  void Reply(const PeerId& to, uint64_t request, Body body);

  // For the log and the terminal. REQUIRES that peers cannot cause the event at will.
  void Notice(Event event);
  // As above, for any event. Kinds that peers can cause at will are limited: kMaxBurst events at
  // once, then one a second.
  void Notice(Event event, int64_t now_ms);
  // The shell puts the member's key into quarantine.
  void Quarantine(Incarnation member, std::vector<uint32_t> accusers) {
    Add(action::QuarantineKey{member, std::move(accusers)});
  }
  // As Notice() for a decision, which the journal keeps as well.
  void Decide(Event event, int64_t now_ms);
  // As Decide(), unless the last decision has the same text.
  void DecideOnce(Event event, int64_t now_ms);
  // As Decide() for leases or shares, which only a log of level debug has.
  void Tune(Event event, int64_t now_ms);
  void Depart(const Member& member, bool lost, std::string why, int64_t now_ms);

  // Not inlined: GCC 12 warns of reading other kinds of entries where it knows the kind.
  [[gnu::noinline]] void Record(LedgerEntry entry);
  // The entries of this call cannot be written.
  void DropEntries() {
    effects_.ledger.clear();
    effects_.sync_ledger = false;
  }
  // How many the ledger has, with those of this call.
  uint64_t ledger_entries() const { return ledger_entries_; }
  void SyncLedger() { effects_.sync_ledger = true; }

  void ReplyWithStatus(const PeerId& to, uint64_t request);
  void WriteManifest(Manifest manifest) { Add(action::WriteManifest{std::move(manifest)}); }
  void StoreRanking(const LogitAdjustment& adjustment, std::string newest_checkpoint,
                    std::vector<RankedSample> ranked) {
    Add(action::StoreRanking{adjustment, std::move(newest_checkpoint), std::move(ranked)});
  }
  void ShowEpoch(uint32_t epochs) { Add(action::ShowEpoch{epochs}); }
  void FetchSegment(uint32_t number) { Add(action::FetchSegment{number}); }
  void ShowEvaluation(EvaluationResult result, std::vector<EvaluatedSample> examples) {
    Add(action::ShowEvaluation{std::move(result), std::move(examples)});
  }
  void SendProbes(std::vector<Admission::Probe> probes) {
    for (Admission::Probe& probe : probes) Add(std::move(probe));
  }

  const Journal& journal() const { return journal_; }
  // The effects of the call; the outbox is empty afterwards.
  SchedulerEffects Drain();

 private:
  static constexpr uint32_t kMaxBurst = 50;

  void Add(SchedulerAction action) { effects_.actions.push_back(std::move(action)); }
  std::optional<Event> Admit(Event event, int64_t now_ms);

  SchedulerEffects effects_;
  Journal journal_;
  uint64_t ledger_entries_;
  EventLimit peer_events_{kMaxBurst};
};

}  // namespace dslide
