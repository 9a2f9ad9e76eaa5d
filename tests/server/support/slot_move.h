// Moving slots between the executors of a LocalCluster's server, as a server does it.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/support/local_cluster.h"

namespace dslide {

// All executors of a server do a job; the errors of those that refused, one after the other.
inline std::string DoAll(const std::vector<Executor*>& executors, const SlotJob& job) {
  std::string errors;
  for (uint32_t e = 0; e < executors.size(); ++e) {
    const Body reply = executors[e]->Do(job, e);
    if (const auto* error = std::get_if<ErrorReply>(&reply)) {
      CHECK(error->code == ErrorCode::kRefused);
      errors += error->text;
    } else {
      CHECK((std::holds_alternative<Ack>(reply) || std::holds_alternative<MoveSlots>(reply)));
    }
  }
  return errors;
}

inline SlotJob PutJob(SlotRows rows) {
  return {SlotJob::Kind::kPut, {}, 0, std::make_shared<const SlotRows>(std::move(rows))};
}

// A slot on its way between executors of one server.
class SlotMove {
 public:
  SlotMove(std::vector<Executor*> executors, uint32_t from, uint32_t to, SlotId slot)
      : executors_(std::move(executors)), from_(from), to_(to), slot_(slot) {
    Do(SlotJob::Kind::kReserve);
  }

  // The reply to a pull, which goes over the wire.
  Body Ask(uint32_t part, bool cold, uint32_t max_bytes) {
    return OverTheWire(
        executors_[from_]->Handle(
            {9},
            SlotPull{.slot = slot_.value, .part = part, .cold_only = cold, .max_bytes = max_bytes}),
        WirePrecision::kBf16);
  }
  // Copies the next part; what it was.
  SlotRows CopyPart(bool cold, uint32_t max_bytes) {
    Body reply = Ask(next_, cold, max_bytes);
    REQUIRE(std::holds_alternative<SlotRows>(reply));
    next_++;
    SlotRows part = std::get<SlotRows>(std::move(reply));
    sent_bytes += part.bytes.size();
    REQUIRE(DoAll(executors_, PutJob(part)) == "");
    return part;
  }
  // Copies the cold rows.
  void CopyColdRows(uint32_t max_bytes = 1u << 20) {
    while (!CopyPart(true, max_bytes).rows.empty()) {
    }
  }
  void Do(SlotJob::Kind kind) { REQUIRE(DoAll(executors_, {kind, {slot_}, to_}) == ""); }
  // After kSwitchPlan.
  void CopyRest(uint32_t max_bytes = 1u << 20) {
    while (!CopyPart(false, max_bytes).last) {
    }
  }
  // From the plan switch on.
  void Finish() {
    Do(SlotJob::Kind::kSwitchPlan);
    CopyRest();
    Do(SlotJob::Kind::kAttach);
    Do(SlotJob::Kind::kRelease);
  }

  uint64_t sent_bytes = 0;

 private:
  std::vector<Executor*> executors_;
  uint32_t from_;
  uint32_t to_;
  SlotId slot_;
  uint32_t next_ = 0;
};

}  // namespace dslide
