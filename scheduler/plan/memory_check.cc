#include "scheduler/plan/memory_check.h"

#include <fmt/core.h>

#include <vector>

#include "common/base/plural.h"
#include "scheduler/balance/model_size.h"

namespace dslide {

std::string WhyTooSmall(const Join& join, const Config& config, const Roster& roster, bool live) {
  if (join.memory_bytes == 0) return "";
  const uint32_t slots = config.cluster.slots;
  const uint64_t model_bytes = ModelMemoryBytes(config);
  const uint64_t slot_bytes = (model_bytes + slots - 1) / slots;  // in the mean
  const std::string limit = fmt::format("this server may use {} MB", join.memory_bytes >> 20);
  if (join.memory_bytes < slot_bytes) {
    return fmt::format("too little memory: one of {} slots needs {} MB, {} (cluster.memory_mb)",
                       slots, (slot_bytes >> 20) + 1, limit);
  }
  uint64_t room = join.memory_bytes / slot_bytes;
  const std::vector<const Member*> others = roster.Of(Role::kServer);
  for (const Member* other : others) {
    room += other->memory_bytes == 0 ? slots : other->memory_bytes / slot_bytes;
  }
  if (live || others.size() + 1 < config.cluster.servers || room >= slots) return "";
  return fmt::format(
      "too little memory: the model needs {} MB, {}{}, which is {} of {} slots "
      "(cluster.memory_mb); give it more, or have the run wait for more servers "
      "(cluster.servers)",
      (model_bytes >> 20) + 1, limit,
      others.empty() ? "" : " beside " + Plural(others.size(), "other"), room, slots);
}

}  // namespace dslide
