#include "tools/dslide/cluster/status_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "scheduler/status/progress.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr size_t kIndent = 10;         // of decisions, after their times
constexpr size_t kDecisions = 8;       // shown, the last ones
constexpr size_t kContributions = 20;  // shown, the greatest

// nullopt if the value is missing or not a number: the scheduler may be of another version.
std::optional<double> NumberAt(const Json& json, const char* key) {
  if (!json.is_object()) return std::nullopt;
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? std::optional<double>(*at) : std::nullopt;
}

std::string TextAt(const Json& json, const char* key, std::string missing = "-") {
  if (!json.is_object()) return missing;
  const auto at = json.find(key);
  if (at == json.end() || !at->is_string() || at->get_ref<const std::string&>().empty()) {
    return missing;
  }
  return Printable(at->get_ref<const std::string&>());
}

// A whole text as one line.
std::string LineAt(const Json& json, const char* key) {
  if (TextAt(json, key) == "-") return "-";
  std::string line = json[key].get<std::string>();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(line.begin(), line.end(), is_control, '?');
  return line;
}

const Json& PartAt(const Json& json, const char* key) {
  static const Json kNone;
  if (!json.is_object()) return kNone;
  const auto at = json.find(key);
  return at == json.end() ? kNone : *at;
}

std::string Fixed(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

// Breaks `text` between words into lines of at most `columns`, all but the first indented. A longer
// word stays whole. 0 columns: no breaks.
std::string Wrapped(const std::string& text, size_t columns, size_t indent) {
  std::string wrapped;
  size_t column = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;  // of a word and the blanks before it
    while (end < text.size() && (text[end] != ' ' || text[end - 1] == ' ')) ++end;
    const bool breaks = columns > 0 && wrapped.size() > indent && column + end - begin > columns;
    if (breaks) {
      begin = std::min(text.find_first_not_of(' ', begin), end);
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    }
    wrapped += text.substr(begin, end - begin);
    column += end - begin;
    begin = end;
  }
  return wrapped;
}

std::string Percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : "-";
}

// Three digits or more, with `space` and a prefix: "940", "12.3k", "4.1M".
std::string Short(std::optional<double> value, std::string_view space = "") {
  if (!value) return "-";
  constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  double rest = *value;
  while (std::abs(rest) >= 1000 && unit + 1 < std::size(kUnits)) {
    rest /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}{}", rest, unit > 0 && std::abs(rest) < 100 ? 1 : 0, space,
                     kUnits[unit]);
}

// "940 B", "12.3 kB".
std::string ShortBytes(std::optional<double> bytes) { return Short(bytes, " ") + "B"; }

std::string OutOf(std::optional<double> used, std::optional<double> limit) {
  if (!limit || *limit == 0) return Fixed(used, 0);
  return fmt::format("{}/{:.0f}", Fixed(used, 0), *limit);
}

struct Column {
  std::string head;
  std::function<std::string(const Json&)> cell;
};

Column NumberColumn(std::string head, const char* key, int digits) {
  return {std::move(head), [=](const Json& m) { return Fixed(NumberAt(m, key), digits); }};
}

// The first `words` columns are words, to the left; the others are numbers, to the right.
std::string Table(const std::vector<Column>& columns, size_t words,
                  const std::vector<const Json*>& members) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns) lines[0].push_back(column.head);
  for (const Json* member : members) {
    lines.emplace_back();
    for (const Column& column : columns) lines.back().push_back(column.cell(*member));
  }
  std::vector<size_t> widths(columns.size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      text += i < words ? fmt::format("{:<{}}", line[i], widths[i])
                        : fmt::format("{:>{}}", line[i], widths[i]);
      text += i + 1 < line.size() ? "  " : "\n";
    }
  }
  return text;
}

const std::vector<Column>& ServerColumns() {
  static const std::vector<Column> columns = {
      {"server", [](const Json& m) { return TextAt(m, "name"); }},
      {"state", [](const Json& m) { return TextAt(m, "state"); }},
      NumberColumn("slots", "slots", 0),
      NumberColumn("load", "load", 2),
      {"work/s", [](const Json& m) { return Short(NumberAt(m, "capacity")); }},
      {"busy", [](const Json& m) { return Percent(NumberAt(m, "busy")); }},
      {"memory MB",
       [](const Json& m) {
         const auto hits = NumberAt(m, "tier_hits");  // with the disk tier
         return OutOf(NumberAt(m, "memory_used_mb"), NumberAt(m, "memory_limit_mb")) +
                (hits ? fmt::format(", tier hits {:.0f} %", 100 * *hits) : "");
       }},
      {"empty", [](const Json& m) { return Percent(NumberAt(m, "bucket_empty_share")); }},
      NumberColumn("mean", "bucket_mean", 1),
      {"p99", [](const Json& m) { return Short(NumberAt(m, "bucket_p99")); }},
      {"largest", [](const Json& m) { return Short(NumberAt(m, "bucket_largest")); }},
      NumberColumn("skew", "bucket_skew", 1),
  };
  return columns;
}

std::string WorkerState(const Json& worker) {
  const Json& straggler = PartAt(worker, "straggler");
  const bool slow = straggler.is_boolean() && straggler.get<bool>();
  const std::string state = TextAt(worker, "state");
  return slow && state == "working" ? "straggler" : state;
}

// Batches in flight and their limit: the lower of the scheduler's cap and the worker's own limit.
std::string InFlight(const Json& worker) {
  const double cap = NumberAt(worker, "in_flight_cap").value_or(0);
  const double own = NumberAt(worker, "in_flight_limit").value_or(0);
  const double limit = cap > 0 && own > 0 ? std::min(cap, own) : std::max(cap, own);
  return OutOf(NumberAt(worker, "batches_in_flight"), limit);
}

const std::vector<Column>& WorkerColumns() {
  static const std::vector<Column> columns = {
      {"worker", [](const Json& m) { return TextAt(m, "name"); }},
      {"state", WorkerState},
      NumberColumn("samples/s", "samples_per_second", 0),
      {"in flight", InFlight},
      NumberColumn("batches per lease", "lease_batches", 0),
      NumberColumn("round trip ms", "round_trip_ms", 1),
      {"link Mbit/s", [](const Json& m) { return Short(NumberAt(m, "link_mbit_per_second")); }},
  };
  return columns;
}

const std::vector<Column>& ContributionColumns() {
  static const std::vector<Column> columns = {
      {"thanks to", [](const Json& c) { return TextAt(c, "name"); }},
      {"samples", [](const Json& c) { return Short(NumberAt(c, "samples")); }},
      {"today", [](const Json& c) { return Short(NumberAt(c, "today")); }},
  };
  return columns;
}

std::string ContributionLines(const Json& status) {
  const Json& list = PartAt(status, "contributions");
  if (!list.is_array() || list.empty()) return "";
  std::vector<const Json*> shown;
  for (size_t i = 0; i < std::min(list.size(), kContributions); ++i) shown.push_back(&list[i]);
  const std::string few = LineAt(status, "few_contributors");
  return "\n" + Table(ContributionColumns(), 1, shown) + (few == "-" ? "" : few + "\n");
}

std::string RunLine(const Json& status) {
  std::string line = TextAt(status, "phase");
  const auto epoch = NumberAt(status, "epoch");
  const auto epochs = NumberAt(status, "epochs");
  const auto progress = NumberAt(status, "progress");
  const Json& stream = PartAt(status, "stream");
  if (stream.is_object()) {  // it has no end
    if (epoch) line += fmt::format(", segment {:.0f}", *epoch);
  } else {
    if (epoch && epochs) line += fmt::format(", epoch {:.0f}/{:.0f}", *epoch, *epochs);
    if (progress) line += fmt::format(", {:.1f} % done", 100 * *progress);
  }
  const auto holds = [](const Json& flag) { return flag.is_boolean() && flag.get<bool>(); };
  if (holds(PartAt(status, "waits"))) return line + ": " + LineAt(status, "line") + "\n";
  const auto rate = NumberAt(PartAt(status, "figures"), "samples per second");
  if (holds(PartAt(stream, "awaits_segment"))) {
    line += ", waiting for more";
  } else if (rate) {
    line += fmt::format(", {:.0f} samples/s", *rate);
  }
  const auto eta_s = NumberAt(status, "eta_s");
  if (eta_s && *eta_s >= 0) line += fmt::format(", ETA {}", FormatDuration(*eta_s));
  if (const auto loss = NumberAt(status, "loss")) line += fmt::format(", loss {:.3f}", *loss);
  if (const auto p = NumberAt(status, "p_at_1")) line += fmt::format(", P@1 {:.2f}", 100 * *p);
  if (const auto p = NumberAt(PartAt(status, "held_out"), "p_at_1")) {
    line += fmt::format(", held-out P@1 {:.2f}", 100 * *p);
  }
  if (const auto plan = NumberAt(status, "plan_version"))
    line += fmt::format(", plan {:.0f}", *plan);
  return line + "\n";
}

std::string Counted(double count, const std::string& thing) {
  return Plural(static_cast<uint64_t>(std::clamp(count, 0.0, 1e18)), thing);
}

std::string MoveLine(const Json& moves) {
  const auto count = [&](const char* key) { return NumberAt(moves, key).value_or(0); };
  std::string line =
      Counted(count("slots_moved"), "slot") + " moved by " + Counted(count("plans"), "plan");
  if (count("slot_bytes_moved") > 0) {
    line += fmt::format(" ({} sent for {})", ShortBytes(count("bytes_moved")),
                        ShortBytes(count("slot_bytes_moved")));
  }
  if (count("in_progress") > 0) line += fmt::format(", {:.0f} moving", count("in_progress"));
  if (count("longest_stall_ms") > 0) {
    line += fmt::format(", longest stall {:.0f} ms", count("longest_stall_ms"));
  }
  return line + "\n";
}

std::string BalanceLines(const Json& status) {
  std::string lines;
  const Json& members = PartAt(status, "members");
  double most = 0;
  for (size_t i = 0; members.is_array() && i < members.size(); ++i) {
    most = std::max(most, NumberAt(members[i], "load").value_or(0));
  }
  if (most > 0) lines = fmt::format("busiest server {:.2f} times the mean\n", most);
  const Json& moves = PartAt(status, "moves");
  return moves.is_object() ? lines + MoveLine(moves) : lines;
}

std::string AuditLine(const Json& status) {
  const Json& audits = PartAt(status, "audits");
  if (!audits.is_object()) return {};
  const auto count = [&](const char* key) { return NumberAt(audits, key).value_or(0); };
  return fmt::format("audits: {:.0f} done, {:.0f} skipped, {:.0f} undecided, {}\n", count("done"),
                     count("skipped"), count("undecided"), Counted(count("liars"), "liar"));
}

// What an operator has to look at.
std::string CareLines(const Json& status) {
  std::string lines;
  const std::string problem = LineAt(status, "checkpoint_problem");
  if (problem != "-") lines = problem + "\n";
  const Json& hook = PartAt(status, "hook");
  if (hook.is_object()) {
    const auto count = [&](const char* key) { return NumberAt(hook, key).value_or(0); };
    lines += fmt::format("checkpoint.hook: {}, {:.0f} failed", Counted(count("runs"), "run"),
                         count("failures"));
    const std::string why = TextAt(hook, "why"), running = TextAt(hook, "running");
    if (why != "-") lines += fmt::format(" ({:.0f} in a row: {})", count("in_a_row"), why);
    if (running != "-") lines += ", runs with " + running;
    lines += "\n";
  }
  const Json& members = PartAt(status, "members");
  for (size_t i = 0; members.is_array() && i < members.size(); ++i) {
    const double failures = NumberAt(members[i], "hook_failures").value_or(0);
    if (failures == 0) continue;
    lines +=
        fmt::format("checkpoint.shard_hook of {}: {}, {:.0f} failed\n", TextAt(members[i], "name"),
                    Counted(NumberAt(members[i], "hook_runs").value_or(0), "run"), failures);
  }
  return lines;
}

std::string DecisionLines(const Json& status, size_t columns) {
  // Older schedulers send decisions only.
  const bool has_events = PartAt(status, "events").is_array();
  const Json& decisions = PartAt(status, has_events ? "events" : "decisions");
  if (!decisions.is_array() || decisions.empty()) return {};
  std::string lines = has_events ? "\nlast events\n" : "\nlast decisions\n";
  const size_t first = decisions.size() - std::min(decisions.size(), kDecisions);
  for (size_t i = first; i < decisions.size(); ++i) {
    const auto at_s = NumberAt(decisions[i], "at_s");
    const std::string line =
        fmt::format("{:>8}  {}", at_s ? FormatDuration(*at_s) : "-", LineAt(decisions[i], "text"));
    lines += Wrapped(line, columns, kIndent) + "\n";
  }
  return lines;
}

}  // namespace

std::string StatusText(const Json& status, size_t columns) {
  std::vector<const Json*> servers;
  std::vector<const Json*> workers;
  const Json& members = PartAt(status, "members");
  for (size_t i = 0; members.is_array() && i < members.size(); ++i) {
    (TextAt(members[i], "role") == "server" ? servers : workers).push_back(&members[i]);
  }
  std::string text = RunLine(status) + CareLines(status) + BalanceLines(status) + AuditLine(status);
  text += servers.empty() ? "\nno servers\n" : "\n" + Table(ServerColumns(), 2, servers);
  text += workers.empty() ? "\nno workers\n" : "\n" + Table(WorkerColumns(), 2, workers);
  return text + ContributionLines(status) + DecisionLines(status, columns);
}

}  // namespace dslide
