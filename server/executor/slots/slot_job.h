// What a server has its executors do when slots come and go. A job goes to all executors; each
// takes the part that is its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace dslide {

struct SlotJob {
  enum class Kind {
    kReserve,     // `executor` makes room for `slots`; what was put into them before is forgotten
    kPut,         // whoever has reserved the slot of `rows` takes them
    kDiscard,     // reserved ones of `slots` are given up
    kSwitchPlan,  // a new plan: batches in flight and uncommitted steps are dropped; owned ones of
                  // `slots` leave the model, but stay readable for SlotPull
    kAttach,      // reserved ones of `slots`, of which all rows were put, become part of the model;
                  // the reply, Attached, names them
    kRelease,     // those of `slots` that have left are forgotten
    kForgetCopy,  // nobody copies `slots` any more; those that have left stay readable
  };
  Kind kind = Kind::kSwitchPlan;
  std::vector<SlotId> slots;
  uint32_t executor = 0;                           // kReserve: number within the server
  std::shared_ptr<const SlotRows> rows = nullptr;  // kPut
};

}  // namespace dslide
