#include "tests/server/support/slot_move.h"

#include <memory>

namespace dslide {

std::string DoAll(const std::vector<Executor*>& executors, const SlotJob& job) {
  std::string errors;
  for (uint32_t e = 0; e < executors.size(); ++e) {
    executors[e]->set_local_index(e);
    if (const auto done = executors[e]->Do(job); !done.ok()) errors += done.error().message;
  }
  return errors;
}

SlotJob PutJob(SlotRows rows) {
  return {SlotJob::Kind::kPut, {}, 0, std::make_shared<const SlotRows>(std::move(rows))};
}

SlotMove::SlotMove(std::vector<Executor*> executors, uint32_t from, uint32_t to, SlotId slot)
    : executors_(std::move(executors)), from_(from), to_(to), slot_(slot) {
  Do(SlotJob::Kind::kReserve);
}

Body SlotMove::Ask(uint32_t part, bool cold, uint32_t max_bytes) {
  return OverTheWire(
      executors_[from_]->Handle(
          {9},
          SlotPull{.slot = slot_.value, .part = part, .cold_only = cold, .max_bytes = max_bytes}),
      WirePrecision::kBf16);
}

SlotRows SlotMove::CopyPart(bool cold, uint32_t max_bytes) {
  Body reply = Ask(next_, cold, max_bytes);
  REQUIRE(std::holds_alternative<SlotRows>(reply));
  next_++;
  SlotRows part = std::get<SlotRows>(std::move(reply));
  sent_bytes += part.bytes.size();
  REQUIRE(DoAll(executors_, PutJob(part)) == "");
  return part;
}

void SlotMove::CopyColdRows(uint32_t max_bytes) {
  while (!CopyPart(true, max_bytes).rows.empty()) {
  }
}

void SlotMove::CopyRest(uint32_t max_bytes) {
  while (!CopyPart(false, max_bytes).last) {
  }
}

void SlotMove::Finish() {
  Do(SlotJob::Kind::kSwitchPlan);
  CopyRest();
  Do(SlotJob::Kind::kAttach);
  Do(SlotJob::Kind::kRelease);
}

}  // namespace dslide
