// scheduler/README.md shows the tables that the code has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/data/whole_file.h"
#include "scheduler/core/run_end.h"
#include "scheduler/core/run_phase.h"
#include "scheduler/pass/pass_stage.h"
#include "scheduler/plan/join_rules.h"

namespace dslide::machines_test {
namespace {

// Rows with the same event and the same state after it are one.
template <typename State, typename Event, unsigned rows>
std::string TableOf(const Transition<State, Event> (&table)[rows]) {
  std::vector<std::pair<std::string, std::string>>
      lines;  // the states before, the rest of the line
  for (const Transition<State, Event>& row : table) {
    const std::string rest = fmt::format(" | {} | {} |\n", TextOf(row.event), NameOf(row.to));
    const auto same = std::ranges::find(lines, rest, &std::pair<std::string, std::string>::second);
    if (same == lines.end()) {
      lines.emplace_back(NameOf(row.from), rest);
    } else {
      same->first += std::string(", ") + NameOf(row.from);
    }
  }
  std::string text = "| in | when | then |\n|---|---|---|\n";
  for (const auto& [before, rest] : lines) text += "| " + before + rest;
  return text;
}

std::string TableOfEnds() {
  std::string text = "| end of a run | when | exit code |\n|---|---|---|\n";
  for (const RunEnd* end : run_end::kAll) {
    text += fmt::format("| {} | {} | {} |\n", end->reason, end->when, end->exit_code);
  }
  return text;
}

std::string NameOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIncompatible:
      return "Incompatible";
    case ErrorCode::kRefused:
      return "Refused";
    case ErrorCode::kFenced:
      return "Fenced";
    default:
      return "another";
  }
}

std::string TableOfJoinRules() {
  std::string text = "| a process does not join if | answer |\n|---|---|\n";
  for (const JoinRule& rule : JoinRules()) {
    const std::string answer =
        rule.code ? fmt::format("`{}`", NameOf(*rule.code)) : "none: it asks again";
    text += fmt::format("| {} | {} |\n", rule.when, answer);
  }
  return text;
}

// The text between <!-- NAME: begin --> and <!-- NAME: end --> of the document.
std::string Shown(const std::string& name) {
  const std::string document = *ReadWholeFile(DSLIDE_SOURCE_DIR "/scheduler/README.md");
  const std::string begin = fmt::format("<!-- {}: begin -->\n", name);
  const size_t at = document.find(begin);
  const size_t end = document.find(fmt::format("<!-- {}: end -->", name));
  if (at == std::string::npos || end == std::string::npos) return "no such table";
  return document.substr(at + begin.size(), end - at - begin.size());
}

template <typename State, typename Event, unsigned rows>
void CheckDeterministic(const Transition<State, Event> (&table)[rows]) {
  for (unsigned i = 0; i < rows; ++i) {
    for (unsigned j = 0; j < i; ++j) {
      CHECK_FALSE((table[i].from == table[j].from && table[i].event == table[j].event));
    }
  }
}

TEST_CASE("machines: the scheduler's README shows the transitions of the code") {
  CHECK(Shown("cluster") == TableOf(kClusterTransitions));
  CHECK(Shown("stage") == TableOf(kPassTransitions));
  CHECK(Shown("ends") == TableOfEnds());
  CHECK(Shown("joins") == TableOfJoinRules());
}

TEST_CASE("machines: an event leads to one state") {
  CheckDeterministic(kClusterTransitions);
  CheckDeterministic(kPassTransitions);
}

}  // namespace
}  // namespace dslide::machines_test
