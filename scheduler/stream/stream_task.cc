#include "scheduler/stream/stream_task.h"

namespace dslide {
namespace {

// The next segment is made one ahead, so that training does not wait for it. A part of a segment is
// made only if training waits and its lines are old.
bool MayMake(const StreamSituation& now) {
  const bool is_next = now.wanted == 0 || now.wanted > now.newest;
  const bool is_complete = now.is_full || now.ended || (now.wanted != 0 && now.is_old);
  return is_next && is_complete && now.has_lines && !now.is_ahead && !now.failed;
}

}  // namespace

StreamTask NextTask(const StreamSituation& now) {
  if (now.is_made) return StreamTask::kStore;
  if (MayMake(now)) return StreamTask::kMake;
  if (now.wanted != 0 && now.wanted <= now.newest) {
    const bool is_there = now.is_ahead && now.wanted == now.newest;
    return is_there ? StreamTask::kDeliver : StreamTask::kReload;
  }
  const bool is_last = now.failed || (now.ended && !now.has_lines);
  if (now.wanted != 0 && is_last) return StreamTask::kEnd;
  const bool reads = !now.ended && !now.is_ahead && !now.is_full;
  return reads ? StreamTask::kRead : StreamTask::kAwait;
}

}  // namespace dslide
