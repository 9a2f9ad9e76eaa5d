// Moving slots between the executors of a LocalCluster's server, as a server does it.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/server/support/local_cluster.h"

namespace dslide {

// All executors of a server do a job; the errors of those that refused, one after the other.
std::string DoAll(const std::vector<Executor*>& executors, const SlotJob& job);

SlotJob PutJob(SlotRows rows);

// A slot on its way between executors of one server.
class SlotMove {
 public:
  SlotMove(std::vector<Executor*> executors, uint32_t from, uint32_t to, SlotId slot);

  // The reply to a pull, which goes over the wire.
  Body Ask(uint32_t part, bool cold, uint32_t max_bytes);
  // Copies the next part; what it was.
  SlotRows CopyPart(bool cold, uint32_t max_bytes);
  // Copies the cold rows.
  void CopyColdRows(uint32_t max_bytes = 1u << 20);
  void Do(SlotJob::Kind kind) { REQUIRE(DoAll(executors_, {kind, {slot_}, to_}) == ""); }
  // After kSwitchPlan.
  void CopyRest(uint32_t max_bytes = 1u << 20);
  // From the plan switch on.
  void Finish();

  uint64_t sent_bytes = 0;

 private:
  std::vector<Executor*> executors_;
  uint32_t from_;
  uint32_t to_;
  SlotId slot_;
  uint32_t next_ = 0;
};

}  // namespace dslide
