// The kinds of events that a server reports.
#pragma once

#include "common/log/event.h"

namespace dslide::event {

inline constexpr EventKind kServing = {"server.listen", "the server's address and memory"};
inline constexpr EventKind kServerRenamed = {
    "server.rename", "the server's name was taken; the scheduler gave it another one"};
inline constexpr EventKind kServerRejoins = {
    "server.rejoin", "the server's slots are with others; it joins again with nothing loaded"};
inline constexpr EventKind kServerKeepsSlots = {
    "server.drain.refuse", "the scheduler refused to move this server's slots"};
inline constexpr EventKind kServerDrainLate = {
    "server.drain.late", "some slots are still on this server after cluster.drain_s"};
inline constexpr EventKind kServerEmpty = {"server.drain.done",
                                           "all slots of this server are with other servers"};
inline constexpr EventKind kExecutorsStarted = {"server.executors.start",
                                                "the server starts its executors"};
inline constexpr EventKind kSlotsMoving = {
    "slots.switch.start", "slots leave this server, arrive or change executors under a slot map"};
inline constexpr EventKind kSlotLost = {
    "slots.move.lost", "a slot that the slot map gives to this server could not be loaded"};
inline constexpr EventKind kSlotNotCopied = {
    "slots.copy.fail", "a copy of a slot failed; the slot stays with its owner"};
inline constexpr EventKind kSlotMapRefused = {"slots.map.refuse",
                                              "a slot map does not fit the run"};
inline constexpr EventKind kLoadFailed = {"checkpoint.load.fail",
                                          "the server cannot load its slots"};
inline constexpr EventKind kOrphanSave = {"checkpoint.orphan",
                                          "the server saves its slots without the scheduler"};
inline constexpr EventKind kRowsOnDisk = {"tier.use", "an executor keeps some of its rows on disk"};
inline constexpr EventKind kNoDiskForRows = {"tier.unavailable", "rows cannot be kept on disk"};
inline constexpr EventKind kNumbersRefused = {
    "worker.numbers.refuse", "a worker's numbers are out of range or far above those of others",
    true};

}  // namespace dslide::event
