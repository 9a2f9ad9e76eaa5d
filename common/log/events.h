// The kinds of events that common/ reports in any process.
#pragma once

#include "common/log/event.h"

namespace dslide::event {

// The process.
inline constexpr EventKind kProcessFailed = {"process.fail", "why a process ends with an error"};
inline constexpr EventKind kProcessLimited = {
    "process.limit", "a limit of the operating system is lower than the process may need"};
inline constexpr EventKind kSettingIgnored = {"config.setting.ignore",
                                              "a setting has no effect in this process"};
inline constexpr EventKind kAmxUnused = {
    "cpu.amx.unused", "AMX failed the check of its matrix products and is not used"};
inline constexpr EventKind kStopRequested = {
    "process.stop", "a signal asked the process to stop; the text has its next action"};

inline constexpr EventKind kQuickBuild = {"process.build.quick",
                                          "a benchmark runs in a build for tests"};

// Data and checkpoints.
inline constexpr EventKind kDataLoaded = {"data.load", "a data file was read: sizes and seconds"};
inline constexpr EventKind kDataNote = {"data.note", "something to know about a data file"};
inline constexpr EventKind kOldRowsStay = {"checkpoint.compact.fail",
                                           "the store keeps rows that it no longer needs"};
inline constexpr EventKind kHookFailed = {"checkpoint.hook.fail",
                                          "the command for checkpoints failed"};
inline constexpr EventKind kHookSucceeded = {
    "checkpoint.hook.done", "the command for checkpoints succeeded after it had failed"};
inline constexpr EventKind kHookWaits = {
    "checkpoint.hook.wait", "the process ends once the command for checkpoints has ended"};

// Connections.
inline constexpr EventKind kAddressUnresolved = {
    "net.address.unresolved", "a host name cannot be resolved yet; it is tried again"};
inline constexpr EventKind kAuthenticationEnded = {"net.authentication.end",
                                                   "the thread that checks keys ended by an error"};
inline constexpr EventKind kConnectionClosed = {
    "net.connection.close", "connections were shut down: their messages were too large or waited"};
inline constexpr EventKind kConnectionRefused = {
    "net.connection.refuse", "connections were refused: their keys are not admitted"};
inline constexpr EventKind kHandshakeFailed = {
    "net.handshake.fail", "the scheduler ended a connection before it was ready"};
inline constexpr EventKind kMessageRefused = {
    "net.message.refuse", "a message was dropped: its sender's key does not permit it"};
inline constexpr EventKind kMessageMalformed = {
    "net.message.malformed", "a message could not be decoded and was dropped", true};
inline constexpr EventKind kQueueFull = {
    "net.queue.full", "a message did not fit the queue to a peer and is sent again"};
inline constexpr EventKind kPeerUnreachable = {"net.peer.unreachable",
                                               "a peer cannot be dialled, or takes no replies"};

// Events of servers and workers about their scheduler.
inline constexpr EventKind kJoining = {"scheduler.dial", "the process asks to join a scheduler"};
inline constexpr EventKind kJoined = {"scheduler.join", "the scheduler admitted the process"};
inline constexpr EventKind kSchedulerSilent = {"scheduler.silent",
                                               "the scheduler has not answered for some time"};
inline constexpr EventKind kSchedulerRefused = {"scheduler.refuse",
                                                "the scheduler refused a message of this process"};
inline constexpr EventKind kDismissed = {"scheduler.dismiss",
                                         "the scheduler told the process to end"};

}  // namespace dslide::event
