// The kinds of events that a worker reports.
#pragma once

#include "common/log/event.h"

namespace dslide::event {

inline constexpr EventKind kBatchesUnfinished = {
    "batch.unfinished", "the batches in flight were not done in time; other workers train them"};
inline constexpr EventKind kBatchFailed = {"batch.fail",
                                           "a batch begins again, or another worker trains it"};
inline constexpr EventKind kLeaseUnusable = {
    "lease.unusable", "the worker's training file does not have the samples of a lease"};
inline constexpr EventKind kWorkDropped = {
    "batch.drop", "a slot map of a new generation ends the batches in flight"};
inline constexpr EventKind kServerSilent = {"server.silent",
                                            "a server answers nothing, or nothing of use"};
inline constexpr EventKind kHostPolicy = {
    "host.policy", "the rules of an opportunistic worker, and changes of them"};
inline constexpr EventKind kHostState = {"host.state",
                                         "an opportunistic worker pauses or continues"};
inline constexpr EventKind kHostWaits = {"host.wait",
                                         "an opportunistic worker waits for the scheduler"};
inline constexpr EventKind kHostRecords = {
    "host.records.fail", "the records of an opportunistic worker cannot be read or written"};

}  // namespace dslide::event
