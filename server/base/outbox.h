// Collects the actions of one call of a ServerCore and its parts, in their order. Numbers the
// messages and opens the jobs.
//
// The core owns it and hands it to its parts in each call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/log/event.h"
#include "common/run/scheduler_link.h"
#include "server/base/actions.h"
#include "server/base/events.h"
#include "server/base/open_jobs.h"

namespace dslide {

class ServerOutbox {
 public:
  explicit ServerOutbox(Incarnation incarnation) : link_(incarnation) {}

  SchedulerLink& link() { return link_; }
  const SchedulerLink& link() const { return link_; }
  const OpenJobs& jobs() const { return jobs_; }

  // The plan in force, which every message names; 0: none.
  uint32_t plan_version() const { return plan_version_; }
  void set_plan_version(uint32_t version) { plan_version_ = version; }

  // Each returns the message's sequence, which the answer names.
  uint64_t ToScheduler(Body body);
  uint64_t ToServer(const PlanServer& server, Body body);

  // Answers a peer's request with that sequence (0: no request). The answer is not kept.
  void Answer(const PeerId& peer, uint64_t sequence, Body body);
  // Answers `asker`, and tells it how long it has waited; not an error, with its proof. Returns
  // the encoded message.
  std::shared_ptr<const Bytes> Answer(const Asker& asker, Body body, int64_t now_us);
  // Sends an encoded answer, which may be one that was sent before.
  void SendToPeer(const PeerId& peer, std::shared_ptr<const Bytes> bytes);

  // A job for all executors, behind what was submitted before. Its result goes to the part of the
  // core that takes this purpose.
  void Submit(JobPurpose purpose, ExecutorJob job);
  // A request from a peer, in its present round.
  void Submit(PeerRequest request);
  void Submit(SlotJob job);
  // Replaces the executors; later jobs are for the new ones. Fills in the job's id. REQUIRES
  // ForgetJobs() before.
  void Load(ServerLoad load);
  // Fills in the job's id, which it returns: of the executors' marks, and of the save's outcome.
  uint64_t Save(ServerSave save);
  // The outcome of the save in progress will be this error. REQUIRES that no executor puts rows.
  void GiveUpSave(Error why) { actions_.push_back(server_action::GiveUpSave{std::move(why)}); }
  // Forgets all jobs, also those that were submitted in this call.
  void ForgetJobs();
  void Unload() { actions_.push_back(server_action::StopExecutors{}); }

  void Rename(const std::string& name) { actions_.push_back(server_action::Rename{name}); }
  void Notice(Event event) { actions_.push_back(server_action::Log{std::move(event)}); }
  void Warn(Event event) { actions_.push_back(server_action::LogWarning{std::move(event)}); }
  // A worker has sent what no honest one sends. OffenceReports tells the scheduler.
  void NoteOffence(Offence offence) { offences_.push_back(std::move(offence)); }
  // Those since the last call.
  std::vector<Offence> TakeOffences() { return std::exchange(offences_, {}); }
  // The server ends with this outcome; the last call counts.
  void Exit(Status outcome) { actions_.push_back(server_action::Exit{std::move(outcome)}); }
  bool exits() const { return Has<server_action::Exit>(actions_); }

  // Adds an executor's part to its job; see OpenJobs::Add().
  std::optional<OpenJobs::Finished> Add(ExecutorPool::Outcome outcome) {
    return jobs_.Add(std::move(outcome));
  }
  // Returns the actions and begins to collect those of the next call.
  ServerActions Drain();

 private:
  Message Envelop(Body body, uint64_t reply_to = 0);
  void CheckOrder() const;

  SchedulerLink link_;
  uint32_t plan_version_ = 0;
  OpenJobs jobs_;
  ServerActions actions_;
  std::vector<Offence> offences_;
};

}  // namespace dslide
