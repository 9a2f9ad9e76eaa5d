// dslide ledger verify|show|contributions: recounts or prints a run's ledger.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/checkpoint/layout.h"
#include "scheduler/ledger/ledger.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/ledger/ledger_check.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A run's ledger directory; `path` is the run directory, or the ledger itself.
std::string LedgerDirectory(const std::string& path) {
  const std::filesystem::path inside = std::filesystem::path(path) / kLedgerName;
  std::error_code error;
  return std::filesystem::is_directory(inside, error) ? inside.string() : path;
}

// Each setting behind a space.
std::string TextOf(const std::vector<std::string>& settings) {
  std::string text;
  for (const std::string& setting : settings) text += " " + setting;
  return text;
}

std::string Describe(const LedgerOpened& e) {
  return fmt::format("opened run={:016x} train_samples={}", e.run.value, e.train_samples);
}
std::string Describe(const LedgerPlanned& e) {
  std::string servers;
  for (const PlanServer& s : e.plan.servers) {
    servers += fmt::format(" {}({:016x})", s.name, s.incarnation.value);
  }
  return fmt::format("planned version={} slots={} servers={}{}{}{}{}", e.plan.version,
                     e.plan.slot_owner.size(), e.plan.servers.size(), servers,
                     e.plan.restore.empty() ? "" : " restore=", e.plan.restore,
                     TextOf(e.plan.settings));
}
std::string Describe(const LedgerRestored& e) {
  return fmt::format("restored checkpoint={} epoch={} batches={} samples={} done={}",
                     e.checkpoint.empty() ? "none" : e.checkpoint, e.epoch, e.batches, e.samples,
                     e.done.size());
}
std::string Describe(const LedgerCounted& e) {
  return fmt::format("counted epoch={} unit={} index={} samples={} worker={}{}{} day={}",
                     e.batch.epoch, e.batch.unit, e.batch.index, e.samples, e.worker,
                     e.key.empty() ? "" : " key=", e.key, DayText(e.day));
}
std::string Describe(const LedgerEpochDone& e) { return fmt::format("epoch-done {}", e.epochs); }
std::string Describe(const LedgerCheckpointed& e) {
  return fmt::format("checkpointed {} batches={}", e.checkpoint, e.batches);
}
std::string Describe(const LedgerHeldOut& e) {
  return fmt::format("held-out epochs={} samples={}", e.epochs, e.ndcg.size());
}
std::string Describe(const LedgerStopped& e) { return e.finished ? "stopped finished" : "stopped"; }

Status ShowLedger(const ParsedArguments& arguments) {
  const std::string directory = LedgerDirectory(arguments.Positional()[0]);
  const Result<uint32_t> tail = arguments.Number("tail", 0, UINT32_MAX);
  DSLIDE_RETURN_IF_ERROR(tail);
  std::deque<std::string> last;
  DSLIDE_RETURN_IF_ERROR(Ledger::ForEach(directory, [&](uint64_t number, const LedgerEntry& entry) {
    std::string line = fmt::format("{:>8} {}", number,
                                   std::visit([](const auto& e) { return Describe(e); }, entry));
    if (*tail == 0) {
      fmt::print("{}\n", line);
    } else {
      if (last.size() == *tail) last.pop_front();
      last.push_back(std::move(line));
    }
    return Status();
  }));
  for (const std::string& line : last) fmt::print("{}\n", line);
  return {};
}

Result<LedgerAccount> Recount(const std::string& directory) {
  LedgerAccount account;
  DSLIDE_RETURN_IF_ERROR(Ledger::ForEach(directory, [&](uint64_t number, const LedgerEntry& entry) {
    const Status added = account.Add(number, entry);
    return added.ok() ? added : BadInput(fmt::format("{}: {}", directory, added.error().message));
  }));
  if (account.entries() == 0) {
    return BadInput(fmt::format("{}: the ledger is empty; the run has not begun", directory));
  }
  return account;
}

// The records of the checkpoint to compare; nullopt if there is no checkpoint yet.
Result<std::optional<CheckpointRecords>> RecordsOf(const ParsedArguments& arguments,
                                                   const LedgerAccount& account) {
  std::string place = account.config().checkpoint.directory;
  if (place.empty()) place = arguments.Positional()[0] + "/" + kCheckpointsName;
  if (arguments.Has("checkpoint")) place = arguments.Get("checkpoint");
  const Result<std::string> found = FindCheckpoint(place);
  if (!found.ok()) {
    if (account.checkpoints() == 0 && !arguments.Has("checkpoint")) {
      return std::optional<CheckpointRecords>();
    }
    return BadInput(found.error().message + "; name another one by --checkpoint");
  }
  Result<CheckpointRecords> records = ReadCheckpointRecords(*found);
  DSLIDE_RETURN_IF_ERROR(records);
  return std::optional(std::move(*records));
}

OrderedJson ToJson(const LedgerAccount& account, const LedgerCheck& check) {
  OrderedJson epochs = OrderedJson::array();
  for (size_t e = 0; e < check.epochs.size(); ++e) {
    const auto& count = check.epochs[e];
    epochs.push_back({{"epoch", e},
                      {"done", e < account.epochs_done()},
                      {"seen", count.seen},
                      {"duplicated", count.duplicated},
                      {"missing", count.missing}});
  }
  return {{"run", fmt::format("{:016x}", account.run().run.value)},
          {"finished", account.finished()},
          {"seen", check.seen},
          {"duplicated", check.duplicated},
          {"missing", check.missing},
          {"epochs_done", account.epochs_done()},
          {"epochs", account.epochs()},
          {"train_samples", account.run().train_samples},
          {"batches", account.batches()},
          {"batches_to_go", account.batches_of_run() - account.batches()},
          {"batches_in_no_checkpoint", check.unsaved},
          {"batches_inherited", account.inherited()},
          {"entries", account.entries()},
          {"generations", account.generations()},
          {"recoveries", account.recoveries()},
          {"checkpoints", account.checkpoints()},
          {"checkpoint", check.checkpoint},
          {"batches_lacking", check.lacking},
          {"per_epoch", std::move(epochs)},
          {"problems", check.problems}};
}

void Print(const LedgerAccount& account, const LedgerCheck& check) {
  fmt::print("seen        {}\nduplicated  {}\nmissing     {}\n", check.seen, check.duplicated,
             check.missing);
  if (!account.finished()) {
    fmt::print("unfinished, {} to go\n",
               Plural(account.batches_of_run() - account.batches(), "batch", "batches"));
  }
  const bool is_stream = account.config().train.open_vocabulary;
  fmt::print("{:<11} {} of {} done, {}{} each\n", is_stream ? "segments" : "epochs",
             account.epochs_done(), account.epochs(), is_stream ? "at most " : "",
             Plural(account.run().train_samples, "sample"));
  const auto part = [](uint64_t batches, const char* what) {
    return batches == 0 ? "" : fmt::format(", {} of them {}", batches, what);
  };
  fmt::print("batches     {} of {} count{}{}\n", account.batches(), account.batches_of_run(),
             part(account.inherited(), "from an earlier run"),
             part(check.unsaved, "in no checkpoint"));
  fmt::print("generations {} of plans, {}\n", account.generations(),
             Plural(account.recoveries(), "recovery", "recoveries"));
  fmt::print("checkpoint  {}\n", check.checkpoint.empty()
                                     ? "none; the servers' records were not compared"
                                     : fmt::format("{}, batches that lack a part on a server: {}",
                                                   check.checkpoint, check.lacking));
  // A line for those in a row that are alike, and none for those that have not begun.
  for (size_t e = 0, end = 0; e < check.epochs.size(); e = end) {
    const auto& count = check.epochs[e];
    while (end < check.epochs.size() && check.epochs[end] == count) ++end;
    if (count == LedgerAccount::EpochCount()) continue;
    const std::string which =
        end - e == 1 ? fmt::format("{}", e + 1) : fmt::format("{}-{}, each", e + 1, end);
    fmt::print("{} {:<5} seen {} duplicated {} missing {}\n", is_stream ? "segment" : "epoch",
               which, count.seen, count.duplicated, count.missing);
  }
  for (const std::string& problem : check.problems) fmt::print("problem     {}\n", problem);
}

Status VerifyLedger(const ParsedArguments& arguments) {
  const std::string directory = LedgerDirectory(arguments.Positional()[0]);
  Result<LedgerAccount> account = Recount(directory);
  DSLIDE_RETURN_IF_ERROR(account);
  const auto records = RecordsOf(arguments, *account);
  DSLIDE_RETURN_IF_ERROR(records);
  // Again, because a running scheduler may have written a checkpoint meanwhile.
  account = Recount(directory);
  DSLIDE_RETURN_IF_ERROR(account);
  const LedgerCheck check = CheckLedger(*account, *records);
  if (arguments.Has("json")) {
    fmt::print("{}\n", ToJson(*account, check).dump());
  } else {
    Print(*account, check);
  }
  if (check.clean()) return {};
  return Failed(fmt::format("{}: {} duplicated, {} missing, {}", directory,
                            Plural(check.duplicated, "sample"), check.missing,
                            Plural(check.problems.size(), "problem")));
}

OrderedJson ToJson(const Contributions& contributions) {
  OrderedJson list = OrderedJson::array();
  for (const Contributions::Total& total : contributions.Totals(0)) {
    OrderedJson days = OrderedJson::object();
    for (const auto& [day, samples] : contributions.days().at(total.contributor)) {
      days[DayText(day)] = samples;
    }
    list.push_back(
        {{"name", total.contributor}, {"samples", total.samples}, {"days", std::move(days)}});
  }
  return list;
}

void Print(const Contributions& contributions) {
  size_t width = std::string_view("contributor").size();
  for (const auto& [name, days] : contributions.days()) width = std::max(width, name.size());
  fmt::print("{:<{}}  {:<10}  {:>12}\n", "contributor", width, "day", "samples");
  for (const Contributions::Total& total : contributions.Totals(0)) {
    for (const auto& [day, samples] : contributions.days().at(total.contributor)) {
      fmt::print("{:<{}}  {:<10}  {:>12}\n", total.contributor, width, DayText(day), samples);
    }
    fmt::print("{:<{}}  {:<10}  {:>12}\n", total.contributor, width, "in all", total.samples);
  }
}

Status ShowContributions(const ParsedArguments& arguments) {
  const std::string directory = LedgerDirectory(arguments.Positional()[0]);
  Contributions contributions;
  DSLIDE_RETURN_IF_ERROR(Ledger::ForEach(directory, [&](uint64_t, const LedgerEntry& entry) {
    if (const auto* counted = std::get_if<LedgerCounted>(&entry)) {
      contributions.Add(ContributorOf(*counted), counted->day, counted->samples);
    }
    return Status();
  }));
  if (arguments.Has("json")) {
    fmt::print("{}\n", ToJson(contributions).dump());
  } else {
    Print(contributions);
  }
  return {};
}

int ContributionsCommand(int argc, char** argv) {
  CommandLine line("dslide ledger contributions RUN [options]",
                   "Prints who trained how many samples on which day (UTC): by key, in a run "
                   "without keys by the workers' names. What a recovery took back counts, too.");
  line.Positional("RUN", "run directory", 1, 1);
  line.Flag("json", "print JSON");
  return RunExecutable("dslide ledger contributions", line, argc, argv, ShowContributions);
}

int VerifyCommand(int argc, char** argv) {
  CommandLine line(
      "dslide ledger verify RUN [options]",
      "Checks that every sample counted exactly once, by the ledger and by the servers' "
      "records of applied batches.");
  line.Positional("RUN", "run directory", 1, 1);
  line.Option("checkpoint", "DIRECTORY",
              "a checkpoint, or the directory of the checkpoints, if it is not RUN/checkpoint");
  line.Flag("json", "print JSON");
  return RunExecutable("dslide ledger verify", line, argc, argv, VerifyLedger);
}

int ShowCommand(int argc, char** argv) {
  CommandLine line("dslide ledger show RUN [options]", "Prints a run's ledger, newest last.");
  line.Positional("RUN", "run directory", 1, 1);
  line.Option("tail", "N", "only the last N entries; 0: all", "0");
  return RunExecutable("dslide ledger show", line, argc, argv, ShowLedger);
}

constexpr Command kLedgerCommands[] = {
    {"verify", VerifyCommand, "check that every sample counted exactly once"},
    {"show", ShowCommand, "print the entries"},
    {"contributions", ContributionsCommand, "print who trained how much, by day"},
};

}  // namespace

int LedgerCommand(int argc, char** argv) {
  return RunCommand("dslide ledger", kLedgerCommands, argc, argv);
}

}  // namespace dslide
