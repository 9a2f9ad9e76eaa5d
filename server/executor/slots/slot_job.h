// A job of the executors when slots come and go. Every executor gets it, and does its own part.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

struct SlotJob {
  enum class Kind {
    kReserve,  // `executor` reserves regions for `slots`; rows put into them before are forgotten
    kPut,      // the executor that has reserved the slot takes `rows`
    kDiscard,  // `slots` that are reserved are given up
    kSwitchPlan,  // a new plan: batches in flight and uncommitted steps are dropped; `slots` that
                  // are owned leave the model, but stay readable for SlotPull
    kAttach,      // `slots` that are reserved and complete become part of the model; the reply,
                  // Attached, names them
    kRelease,     // `slots` that have left are forgotten
    kForgetCopy,  // nobody copies `slots` any more; those that have left stay readable
  };
  Kind kind = Kind::kSwitchPlan;
  std::vector<SlotId> slots;
  uint32_t executor = 0;                           // kReserve: its local index
  std::shared_ptr<const SlotRows> rows = nullptr;  // kPut
  // kSwitchPlan: the sizes of the model from now on; null: as before
  std::shared_ptr<const ModelShape> shape = nullptr;
  std::shared_ptr<const Config> config =
      nullptr;  // kSwitchPlan: of the run from now on; null: as before
};

}  // namespace dslide
