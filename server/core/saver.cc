#include "server/core/saver.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/checkpoint/layout.h"
#include "server/base/events.h"

namespace dslide {

void Saver::OnRequest(const CheckpointRequest& request, const ServerSeat& seat,
                      std::optional<uint64_t> committed, ServerOutbox* out) {
  if (saving_ && request.name == saving_->request.name) return;
  if (request.name == last_.name) {  // the answer was lost
    out->ToScheduler(last_);
    return;
  }
  std::string why;
  if (saving_) why = fmt::format("{} is still being written", saving_->request.name);
  if (IsSynchronous(seat.config.train) && committed != request.committed) {
    why = fmt::format("committed steps: {} here, {} asked for", committed.value_or(0),
                      request.committed);
  }
  if (why.empty()) return Start(request, seat, committed, out);
  CheckpointDone refused;
  refused.name = request.name;
  refused.error = why;
  refused.retry = true;
  out->ToScheduler(std::move(refused));
}

void Saver::Start(CheckpointRequest request, const ServerSeat& seat,
                  std::optional<uint64_t> committed, ServerOutbox* out) {
  checkpoints_ = ParentOf(request.directory);
  ServerSave save;
  save.name = request.name;
  save.directory = request.directory;
  save.shard = ShardName(seat.plan.version, *seat.index);
  save.keep = request.keep;
  save.slots = seat.OwnSlots();
  save.rows = seat.OwnRows();
  if (IsSynchronous(seat.config.train)) save.committed = committed;
  const uint64_t job_id = out->Save(std::move(save));
  saving_ = Saving{std::move(request), job_id, 0, std::nullopt};
}

void Saver::OnMarked(const std::vector<JobReply>& parts, ServerOutbox* out) {
  DSLIDE_CHECK(saving_ && !saving_->mark_failed);
  for (const JobReply& part : parts) {
    if (const auto* marked = std::get_if<Marked>(&part)) {
      saving_->stall_us = std::max(saving_->stall_us, marked->stall_us);
    } else if (!saving_->mark_failed) {
      saving_->mark_failed = std::get<Error>(part);
    }
  }
  if (!saving_->mark_failed) return;
  out->Submit(SnapshotDropping{.gives_up = true}, DropSnapshotJob{.store_lost = false});
}

void Saver::OnDropped(ServerOutbox* out) {
  DSLIDE_CHECK(saving_ && saving_->mark_failed);
  out->GiveUpSave(*saving_->mark_failed);
}

bool Saver::Take(uint64_t job_id, CheckpointDone done, bool lost, const ServerSeat& seat,
                 ServerOutbox* out) {
  if (!saving_ || saving_->job_id != job_id) return false;
  done.name = saving_->request.name;
  done.shard = ShardName(seat.plan.version, *seat.index);
  done.stall_us = saving_->stall_us;
  saving_.reset();
  if (!done.error.empty() && !done.retry) {
    out->Submit(SnapshotDropping{.gives_up = false}, DropSnapshotJob{.store_lost = lost});
  }
  if (orphaned_ && !saves_for_itself_) return true;  // SaveAndLeave() comes next
  if (orphaned_) {
    out->Exit(
        TryLater(done.error.empty()
                     ? fmt::format("the scheduler is gone; this server's part is saved as {}/{}/{}",
                                   checkpoints_, done.name, done.shard)
                     : fmt::format("the scheduler is gone, and saving failed: {}", done.error)));
    return true;
  }
  if (done.error.empty()) last_ = done;
  out->ToScheduler(std::move(done));
  return true;
}

void Saver::SaveAndLeave(const std::string& why, const ServerSeat& seat,
                         std::optional<uint64_t> committed, ServerOutbox* out) {
  if (saves_for_itself_) return;
  if (!std::exchange(orphaned_, true)) {
    out->Notice({event::kOrphanSave, why + "; saving what this server has"});
  }
  if (saving_) return;  // of a checkpoint that gets no manifest; one save at a time
  CheckpointRequest request;
  request.name = OrphanName({seat.plan.version, committed.value_or(0)});
  request.directory = checkpoints_ + "/" + request.name;
  saves_for_itself_ = true;
  Start(std::move(request), seat, committed, out);
}

void Saver::CheckInvariants() const { DSLIDE_CHECK(orphaned_ || !saves_for_itself_); }

}  // namespace dslide
