#include "tools/dslide/doctor/cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/nearest.h"
#include "common/base/plural.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr double kSilentS = 5;       // heartbeats come every second by default
constexpr double kFullMemory = 0.9;  // of what a server may use
constexpr double kUneven = 1.5;      // busiest server over the mean
constexpr double kSlowRoundTripMs = 300;
constexpr double kSlowDiskMb = 20;  // a second; as disk.h judges this machine's
constexpr double kSlowSyncMs = 50;

double NumberOf(const Json& json, const char* key, double missing = 0) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<double>() : missing;
}

std::string TextOf(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? Printable(at->get<std::string>(), 500) : "";
}

bool Holds(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_boolean() && at->get<bool>();
}

// Its last sign of life. False: that is what is wrong with it.
bool JudgeLife(const Json& member, const std::string& name, Findings* findings) {
  const std::string state = TextOf(member, "state");
  const double silent_s = NumberOf(member, "silent_s");
  const std::string check = name + ": last heard";
  if (state == "missing") {
    findings->Problem(check, "it is missing from the plan's seats",
                      "start it again, or another server; after cluster.takeover_s the others take "
                      "its slots");
    return false;
  }
  const std::string text = fmt::format("{:.1f} s ago, {}", silent_s, state);
  if (state == "suspect" || silent_s > kSilentS) {
    findings->Note(check, text,
                   "its process hangs, or the network to it: look at it with dslide doctor there");
    return false;
  }
  findings->Fine(check, text);
  return true;
}

// As its owner's last checkpoint or ledger entry has shown it; both 0: it has not.
void JudgeDisk(const std::string& check, double mb_per_s, double sync_ms, Findings* findings) {
  if (mb_per_s <= 0 && sync_ms <= 0) return;
  std::string text = fmt::format("fsync {:.1f} ms", sync_ms);
  if (mb_per_s > 0) text = fmt::format("writes {:.0f} MB/s, ", mb_per_s) + text;
  if ((mb_per_s > 0 && mb_per_s < kSlowDiskMb) || sync_ms > kSlowSyncMs) {
    findings->Note(check, text,
                   "slow: the ledger and checkpoints wait for it; use a local disk "
                   "(checkpoint.directory), or raise checkpoint.interval_s");
  } else {
    findings->Fine(check, text);
  }
}

void JudgeServer(const Json& server, Findings* findings) {
  const std::string name = TextOf(server, "name");
  if (!JudgeLife(server, name, findings)) return;
  const double used = NumberOf(server, "memory_used_mb");
  const double limit = NumberOf(server, "memory_limit_mb");
  if (limit > 0) {
    const std::string text =
        fmt::format("{:.0f} of {:.0f} MB used, {:.0f} free", used, limit, limit - used);
    if (used > kFullMemory * limit) {
      findings->Note(name + ": memory", text,
                     "raise cluster.memory_mb there, or add a server: slots then move to it");
    } else {
      findings->Fine(name + ": memory", text);
    }
  }
  JudgeDisk(name + ": disk", NumberOf(server, "disk_mb_per_second"),
            NumberOf(server, "disk_sync_ms"), findings);
  const double runs = NumberOf(server, "hook_runs"), failures = NumberOf(server, "hook_failures");
  if (failures > 0) {
    findings->Note(name + ": checkpoint.shard_hook",
                   fmt::format("{:.0f} of {:.0f} runs failed", failures, runs),
                   "that server's log has what the command said");
  }
}

void JudgeWorker(const Json& worker, Findings* findings) {
  const std::string name = TextOf(worker, "name");
  if (!JudgeLife(worker, name, findings)) return;
  std::string text =
      fmt::format("{:.0f} samples/s, round trip {:.3g} ms", NumberOf(worker, "samples_per_second"),
                  NumberOf(worker, "round_trip_ms"));
  if (const double mbit = NumberOf(worker, "link_mbit_per_second"); mbit > 0) {
    text += fmt::format(", its slowest link {:.3g} Mbit/s", mbit);
  }
  const std::string check = name + ": work";
  if (NumberOf(worker, "malformed") > 0) {
    findings->Note(
        check, fmt::format("{:.0f} of its messages were malformed", NumberOf(worker, "malformed")),
        "use executables of one version; if it goes on, revoke its key (dslide key)");
  } else if (Holds(worker, "straggler")) {
    findings->Note(check, text + ", slower than the others",
                   "other processes may use that machine: dslide doctor there");
  } else if (NumberOf(worker, "round_trip_ms") > kSlowRoundTripMs) {
    findings->Note(check, text, "far away: see \"Slow links\" in configs/README.md");
  } else {
    findings->Fine(check, text);
  }
}

void JudgeRun(const Json& status, size_t workers, Findings* findings) {
  const std::string phase = TextOf(status, "phase"), line = TextOf(status, "line");
  if (workers == 0) {
    findings->Problem(
        "workers", "there are none: " + line,
        "start some: dslide-worker --scheduler ADDRESS, or --key RUN/keys/worker.key");
  } else if (Holds(status, "waits")) {
    findings->Problem("run", phase + ": " + line, "start what it waits for");
  } else {
    findings->Fine("run", phase + ": " + line);
  }
  JudgeDisk("ledger: disk", 0, NumberOf(status, "ledger_sync_ms"), findings);
  if (const std::string problem = TextOf(status, "checkpoint_problem"); !problem.empty()) {
    findings->Problem("checkpoints", problem, "raise checkpoint.quota_mb, or remove files there");
  }
  const auto hook = status.find("hook");
  if (hook != status.end() && hook->is_object()) {
    const std::string text = fmt::format("{:.0f} runs, {:.0f} failed", NumberOf(*hook, "runs"),
                                         NumberOf(*hook, "failures"));
    if (NumberOf(*hook, "in_a_row") > 0) {
      findings->Note("checkpoint.hook",
                     fmt::format("{}, the last {:.0f} in a row: {}", text,
                                 NumberOf(*hook, "in_a_row"), TextOf(*hook, "why")),
                     "the scheduler's log has what the command said");
    } else {
      findings->Fine("checkpoint.hook", text);
    }
  }
  if (const double uneven = NumberOf(status, "imbalance"); uneven > kUneven) {
    findings->Note(
        "balance", fmt::format("the busiest server has {:.2f} times the mean load", uneven),
        "slots move by themselves unless cluster.balance = off; a server with slow cores "
        "or a busy machine keeps others waiting");
  }
  if (const double offences = NumberOf(status, "offences"); offences > 0) {
    findings->Note("offences", fmt::format("{:.0f} by members", offences),
                   "dslide status --events says whose; dslide key revoke keeps one out");
  }
  if (const double recoveries = NumberOf(status, "recoveries"); recoveries > 0) {
    findings->Note("steps back", fmt::format("{:.0f} to a checkpoint", recoveries),
                   "dslide status --events says why: mostly servers that were lost");
  }
}

}  // namespace

void JudgeCluster(const Json& status, const std::string& version, Findings* findings) {
  if (!status.is_object()) return;
  const std::string theirs = TextOf(status, "version");
  if (!theirs.empty() && theirs != version) {
    findings->Note("version", fmt::format("this program is {}, the scheduler {}", version, theirs),
                   "use executables of one version");
  } else if (!theirs.empty()) {
    findings->Fine("version", theirs);
  }
  std::vector<const Json*> servers, workers;
  const auto members = status.find("members");
  for (size_t i = 0; members != status.end() && members->is_array() && i < members->size(); ++i) {
    const Json& member = (*members)[i];
    if (member.is_object())
      (TextOf(member, "role") == "server" ? servers : workers).push_back(&member);
  }
  JudgeRun(status, workers.size(), findings);
  for (const Json* server : servers) JudgeServer(*server, findings);
  for (const Json* worker : workers) JudgeWorker(*worker, findings);
}

}  // namespace dslide
