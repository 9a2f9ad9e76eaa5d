// The kinds of events that a scheduler reports.
#pragma once

#include "common/log/event.h"

namespace dslide::event {

// The run.
inline constexpr EventKind kListening = {"run.listen", "the scheduler's address"};
inline constexpr EventKind kRunBegun = {"run.begin",
                                        "what the run trains: data, settings and its page"};
inline constexpr EventKind kRunContinued = {"run.continue",
                                            "where a resumed run continues, or that it does not"};
inline constexpr EventKind kRunFinished = {"run.finish", "the run has trained all that it should"};
inline constexpr EventKind kProgress = {"run.progress", "how much is trained, and how fast"};
inline constexpr EventKind kWaiting = {"run.wait", "what the run waits for"};
inline constexpr EventKind kSettingsChosen = {
    "run.setting.choose", "a setting was chosen by the accuracy on held-out samples"};
inline constexpr EventKind kEpochDone = {"epoch.done",
                                         "an epoch, or a stream's segment, is trained"};
inline constexpr EventKind kEvaluated = {"evaluation.done", "the accuracy after an epoch"};
inline constexpr EventKind kNothingToMeasure = {"evaluation.empty",
                                                "no sample of an evaluation has a label"};
inline constexpr EventKind kSynchronous = {"run.synchronous", "samples a step and staleness"};
inline constexpr EventKind kRecordsFailed = {
    "run.records.fail", "a file of records in the run directory cannot be read or written"};
inline constexpr EventKind kPortTaken = {
    "run.port.taken", "the port of the last start is in use; the scheduler takes another one"};
inline constexpr EventKind kLossRose = {
    "run.loss.rise", "the training loss rose so far that the run is rolled back or ends"};

// Members.
inline constexpr EventKind kMemberJoined = {"member.join", "a server or worker joined", true};
inline constexpr EventKind kMemberReady = {"server.ready", "a server has loaded its slots"};
inline constexpr EventKind kWorkerGone = {
    "worker.gone", "a worker left, was lost or was excluded; its leases are returned", true};
inline constexpr EventKind kServerGone = {
    "server.lost", "a server with slots left or was lost; training waits for a replacement"};
inline constexpr EventKind kSpareGone = {"server.gone", "a server without slots left or was lost",
                                         true};
inline constexpr EventKind kServersBack = {"server.back",
                                           "all servers are back; training continues"};
inline constexpr EventKind kServerRefused = {"server.refuse", "a server may not join", true};
inline constexpr EventKind kServersAdded = {"server.add", "new servers get slots from now on"};
inline constexpr EventKind kServersRest = {
    "server.add.wait", "no new server gets slots for some time, because one failed"};
inline constexpr EventKind kServerLeaves = {"server.drain.start",
                                            "a server is to leave; its slots move to the others"};
inline constexpr EventKind kMemberError = {"member.error", "a member reported an error", true};
inline constexpr EventKind kTierInUse = {"server.tier", "a server keeps some of its rows on disk"};
inline constexpr EventKind kMemberRefused = {"member.refuse", "a join or message was refused",
                                             true};
inline constexpr EventKind kJoinsLimited = {"member.join.limit",
                                            "too many processes join at the moment", true};
inline constexpr EventKind kFlood = {"member.flood", "a connection sends too many messages", true};
inline constexpr EventKind kOtherConnection = {
    "member.connection.other", "a message came by another connection than the member's own", true};

// Slots.
inline constexpr EventKind kSlotMapBegun = {
    "slots.map.begin", "a slot map begins a generation: servers load their slots"};
inline constexpr EventKind kSlotMapTaken = {"slots.move.done",
                                            "all servers have the slots of a new slot map"};
inline constexpr EventKind kSlotMapFailed = {"slots.move.fail",
                                             "servers do not get the slots of a new slot map"};
inline constexpr EventKind kSlotsMove = {"slots.move.start",
                                         "slots move, because the load is uneven"};
inline constexpr EventKind kSlotsRest = {"slots.move.rest", "no more slots move"};
inline constexpr EventKind kSlotsShared = {
    "slots.executors.share", "a server shares its slots between its executors in another way"};
inline constexpr EventKind kCopiesLate = {"slots.copy.late",
                                          "slots were not copied in time; their owners stay"};
inline constexpr EventKind kTablesRenewed = {
    "tables.rebuild", "hash tables are rebuilt with another number of hashes"};
inline constexpr EventKind kBalanceShare = {
    "balance.server.share", "the share of the load that a server should have", true};
inline constexpr EventKind kLeaseSize = {"balance.worker.lease",
                                         "the batches of a worker's leases and in flight", true};

// Checkpoints and the ledger.
inline constexpr EventKind kCheckpointWritten = {"checkpoint.done", "a checkpoint is complete"};
inline constexpr EventKind kCheckpointFailed = {"checkpoint.fail",
                                                "a checkpoint failed; it is tried again"};
inline constexpr EventKind kCheckpointRoom = {
    "checkpoint.room", "the disk or quota has no room for checkpoints, or has room again"};
inline constexpr EventKind kRolledBack = {"run.rollback",
                                          "the model is rolled back to a checkpoint or a step"};
inline constexpr EventKind kRankingFailed = {"checkpoint.ranking.fail",
                                             "the logit adjustment could not be stored"};
inline constexpr EventKind kReranked = {
    "ranking.names", "the measures of rankings by the model and by names in texts"};
inline constexpr EventKind kLedgerWaits = {"ledger.wait",
                                           "the ledger's disk is full, or has room again"};

// Work.
inline constexpr EventKind kLeasesExpired = {"lease.expire", "leases expired without progress"};
inline constexpr EventKind kAuditUndecided = {"audit.undecided",
                                              "workers differ in a batch, and no majority decides"};
inline constexpr EventKind kAuditSkipped = {
    "audit.skip", "no other worker trained a batch that was to be audited"};
inline constexpr EventKind kEvaluationRepeated = {
    "evaluation.repeat", "an evaluation has predictions of a worker that was excluded"};
inline constexpr EventKind kViolation = {"worker.violation",
                                         "a worker did what no honest worker does", true};
inline constexpr EventKind kWorkerSlowed = {
    "worker.slow", "a worker gets few batches, because their loss is unusual", true};
inline constexpr EventKind kWorkerExcluded = {"worker.exclude", "a worker was excluded"};
inline constexpr EventKind kKeyQuarantined = {"key.quarantine", "a key is in quarantine"};
inline constexpr EventKind kQuarantineLifted = {"key.quarantine.end", "a quarantine has ended"};
inline constexpr EventKind kKeysUnreadable = {"key.file.fail",
                                              "the files of keys cannot be read or written"};

// Streams.
inline constexpr EventKind kSegmentBegun = {"stream.segment", "a segment of a stream was read"};
inline constexpr EventKind kStreamProblem = {
    "stream.problem", "lines of a stream were left out, or it waits for room"};
inline constexpr EventKind kStreamEnds = {"stream.end", "the stream ends"};
inline constexpr EventKind kInputKept = {"stream.keep",
                                         "standard input is kept in a file of the run directory"};

}  // namespace dslide::event
