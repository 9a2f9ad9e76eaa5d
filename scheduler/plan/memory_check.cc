#include "scheduler/plan/memory_check.h"

#include <fmt/core.h>

#include <vector>

#include "common/base/plural.h"
#include "scheduler/balance/model_size.h"

namespace dslide {
namespace {

// Of a slot, in the mean.
uint64_t SlotBytes(uint64_t model_bytes, uint32_t slots) {
  return (model_bytes + slots - 1) / slots;
}

std::string NoRoomForASlot(uint64_t slot_bytes, uint32_t slots, const std::string& limit) {
  return fmt::format("too little memory: one of {} slots needs {} MB, {} (cluster.memory_mb)",
                     slots, (slot_bytes >> 20) + 1, limit);
}

std::string NoRoomForTheModel(uint64_t model_bytes, uint64_t room, uint32_t slots,
                              const std::string& limit, const std::string& mend) {
  return fmt::format("too little memory: the model needs {} MB, {}, which is {} of {} slots {}",
                     (model_bytes >> 20) + 1, limit, room, slots, mend);
}

}  // namespace

std::string WhyTooSmall(const Join& join, const Config& config, const Roster& roster, bool live) {
  if (join.memory_bytes == 0) return "";
  const uint32_t slots = config.cluster.slots;
  const uint64_t model_bytes = ModelMemoryBytes(config);
  const uint64_t slot_bytes = SlotBytes(model_bytes, slots);
  const std::string limit = fmt::format("this server may use {} MB", join.memory_bytes >> 20);
  const uint64_t bytes = WithDisk(config, join.memory_bytes, join.disk_bytes);
  if (bytes < slot_bytes) {
    return NoRoomForASlot(slot_bytes, slots, limit);
  }
  const std::vector<const Member*> others = roster.Of(Role::kServer);
  if (live || others.size() + 1 < config.cluster.servers) return "";
  uint64_t room = bytes / slot_bytes;
  for (const Member* other : others) {
    room += other->memory_bytes == 0
                ? slots
                : WithDisk(config, other->memory_bytes, other->disk_bytes) / slot_bytes;
  }
  if (room >= slots) return "";
  return NoRoomForTheModel(
      model_bytes, room, slots,
      limit + (others.empty() ? "" : " beside " + Plural(others.size(), "other")),
      "(cluster.memory_mb); give it more, or have the run wait for more servers (cluster.servers)");
}

std::string WhyAllTooSmall(uint64_t memory_bytes, const Config& config) {
  const uint32_t slots = config.cluster.slots, servers = config.cluster.servers;
  const uint64_t model_bytes = ModelMemoryBytes(config);
  const uint64_t slot_bytes = SlotBytes(model_bytes, slots);
  const std::string limit =
      servers == 1 ? fmt::format("the server may use {} MB", memory_bytes >> 20)
                   : fmt::format("each of {} servers may use {} MB", servers, memory_bytes >> 20);
  // How much disk there is they tell when they join.
  if (MayKeepRowsOnDisk(config.cluster)) {
    memory_bytes = WithDisk(config, memory_bytes, uint64_t{1} << 60);
  }
  if (memory_bytes < slot_bytes) return NoRoomForASlot(slot_bytes, slots, limit);
  const uint64_t room = servers * (memory_bytes / slot_bytes);
  if (room >= slots) return "";
  return NoRoomForTheModel(model_bytes, room, slots, limit,
                           "(cluster.memory_mb); give more, or train on more machines");
}

}  // namespace dslide
