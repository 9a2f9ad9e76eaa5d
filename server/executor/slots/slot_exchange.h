// The slots of an executor that come and go.
//
// Every slot of the model is in one of these states here:
//
//   elsewhere --Reserve--> coming --Attach--> owned --Depart--> gone --Release--> elsewhere
//   coming --Discard--> elsewhere; gone --Reserve--> coming
//
//   coming   a region of both layers is reserved; its rows arrive in parts (IncomingSlot)
//   owned    part of the model; others may copy it meanwhile (SlotSender)
//   gone     not part of the model any more, but still readable for the server that takes it
//
// Invariants: the layers own the same slots; a coming slot has a region in both, and is not gone.
// Owned by one executor thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "server/executor/batches/applied_batches.h"
#include "server/executor/slots/incoming_slot.h"
#include "server/executor/slots/slot_sender.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

class SlotExchange {
 public:
  // Slots that are complete and may join the model.
  struct Arrival {
    std::vector<SlotId> slots;
    std::optional<uint64_t> committed;  // steps that these slots and those that are owned are at
  };

  // All must outlive this.
  SlotExchange(InputLayer* input, OutputLayer* output, AppliedBatches* applied);

  // SlotRows of a slot that is owned or gone, Ack for another one, or ErrorReply.
  Body Pull(const SlotPull& pull);

  // Makes regions for slots; rows that came for them before are forgotten. On an error, which names
  // the slot, nothing is reserved.
  Status Reserve(std::span<const SlotId> slots);
  // Puts rows into a slot that is coming; of another slot: nothing. An error names slot and row.
  Status Put(const SlotRows& rows);
  // Gives up slots that are coming.
  void Discard(std::span<const SlotId> slots);

  // Those of `slots` that are coming. An error, if one is not complete or at another step than the
  // owned ones. `committed`: steps that these are at, in synchronous training.
  Result<Arrival> Arriving(std::span<const SlotId> slots, bool synchronous,
                           std::optional<uint64_t> committed) const;
  void Attach(const Arrival& arrival);

  // Those of `slots` that are owned are gone. True if there was one. Ends all copies of other
  // slots.
  bool Depart(std::span<const SlotId> slots, std::optional<uint64_t> committed);
  // Forgets those of `slots` that are gone.
  void Release(std::span<const SlotId> slots);
  // Nobody copies these slots any more.
  void ForgetCopies(std::span<const SlotId> slots);
  // The same of all slots that are owned. Before layers are widened: copies know their rows by
  // number.
  void ForgetCopies() { sender_.ForgetAttached(); }

  // The updates of one more batch were made.
  void FollowBatch() { sender_.FollowBatch(); }

  // No slot comes, and nobody copies one.
  bool idle() const { return incoming_.empty() && sender_.copies() == 0; }
  void CheckInvariants() const;

 private:
  void ReleaseRegion(SlotId slot);
  void FollowMap();

  InputLayer& input_;
  OutputLayer& output_;
  AppliedBatches& applied_;
  SlotSender sender_;
  std::map<SlotId, IncomingSlot> incoming_;
};

}  // namespace dslide
