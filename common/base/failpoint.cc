#include "common/base/failpoint.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/process.h"

namespace dslide {

namespace failpoint_internal {
std::array<std::atomic<uint32_t>, kFailpoints.size()> left{};
}  // namespace failpoint_internal

namespace {

constexpr int kLookMs = 1;
constexpr int64_t kLongestPauseMs = 600'000;
constexpr std::string_view kPausePrefix = "pause:";
constexpr std::string_view kDelayPrefix = "delay:";
constexpr uint32_t kLongestDelayMs = 60'000;

struct Action {
  enum class Kind { kKill, kTerm, kStop, kPause, kDelay, kFail } kind = Kind::kKill;
  std::string path{};  // of a pause
  uint32_t ms = 0;     // of a delay
};
std::array<Action, kFailpoints.size()> actions;

Error Wrong(std::string_view part, const std::string& why) {
  return BadInput(fmt::format("DSLIDE_FAILPOINTS: {}: {}", Printable(part), why));
}

std::optional<size_t> Find(std::string_view name) {
  for (size_t i = 0; i < kFailpoints.size(); ++i) {
    if (kFailpoints[i].name == name) return i;
  }
  return std::nullopt;
}

std::string UnknownName(std::string_view name) {
  std::vector<std::string> known;
  for (const FailpointInfo& point : kFailpoints) known.emplace_back(point.name);
  const std::string* nearest = Nearest(name, known);
  return "no such point" + (nearest != nullptr ? fmt::format("; did you mean {}?", *nearest) : "");
}

// The positive number that is all of `digits`, or 0.
uint32_t ParseCount(std::string_view digits) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return error == std::errc() && end == digits.data() + digits.size() ? count : 0;
}

std::optional<Action> ParseAction(std::string_view text) {
  if (text == "kill") return Action{Action::Kind::kKill};
  if (text == "term") return Action{Action::Kind::kTerm};
  if (text == "stop") return Action{Action::Kind::kStop};
  if (text == "fail") return Action{Action::Kind::kFail};
  if (text.starts_with(kPausePrefix) && text.size() > kPausePrefix.size()) {
    return Action{Action::Kind::kPause, std::string(text.substr(kPausePrefix.size()))};
  }
  if (text.starts_with(kDelayPrefix)) {
    const uint32_t ms = ParseCount(text.substr(kDelayPrefix.size()));
    if (ms > 0 && ms <= kLongestDelayMs) return Action{Action::Kind::kDelay, {}, ms};
  }
  return std::nullopt;
}

// Removes "@N" from the end of `text` and returns N: 1 if absent, 0 if not a positive number.
uint32_t TakeCount(std::string_view* text) {
  const size_t at = text->rfind('@');
  if (at == std::string_view::npos) return 1;
  const uint32_t count = ParseCount(text->substr(at + 1));
  if (count != 0) *text = text->substr(0, at);
  return count;
}

Status ArmOne(std::string_view part) {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos) return Wrong(part, "expected NAME=ACTION[@N]");
  const std::optional<size_t> point = Find(part.substr(0, equals));
  if (!point) return Wrong(part, UnknownName(part.substr(0, equals)));
  std::string_view rest = part.substr(equals + 1);
  const uint32_t count = TakeCount(&rest);
  if (count == 0) return Wrong(part, "what follows '@' must be a number from 1 to 4294967295");
  std::optional<Action> action = ParseAction(rest);
  if (!action)
    return Wrong(part, "the action must be kill, term, stop, fail, pause:PATH or delay:MS");
  if (action->kind == Action::Kind::kFail && !kFailpoints[*point].may_fail) {
    return Wrong(part,
                 "this point has no disk to fail; use kill, term, stop, pause:PATH or delay:MS");
  }
  if (failpoint_internal::left[*point] != 0) return Wrong(part, "this point is set twice");
  actions[*point] = std::move(*action);
  failpoint_internal::left[*point] = count;
  return {};
}

// The file gets a temporary name first, so that PATH never exists without the process id in it.
void Pause(const std::string& path) {
  const std::string temporary = fmt::format("{}.{}", path, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  const bool written = file != nullptr && std::fprintf(file, "%d\n", getpid()) > 0;
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed || rename(temporary.c_str(), path.c_str()) != 0) {
    fmt::print(stderr, "failpoint: cannot create {}: {}\n", path, std::strerror(errno));
    std::abort();
  }
  const int64_t deadline_ms = MonotonicMillis() + kLongestPauseMs;
  while (access(path.c_str(), F_OK) == 0) {
    if (MonotonicMillis() >= deadline_ms) {
      fmt::print(stderr, "failpoint: {} was not removed for 10 minutes\n", path);
      std::abort();
    }
    (void)poll(nullptr, 0, kLookMs);
  }
}

// True: the caller must fail.
bool Act(const Action& action) {
  switch (action.kind) {
    // Sent to this thread, so that it does not run on until the signal arrives.
    case Action::Kind::kKill:
      raise(SIGKILL);
      return false;
    case Action::Kind::kStop:
      raise(SIGSTOP);
      return false;
    // Sent to the process: all threads block SIGTERM, and a signalfd reads it.
    case Action::Kind::kTerm:
      kill(getpid(), SIGTERM);
      return false;
    case Action::Kind::kPause:
      Pause(action.path);
      return false;
    case Action::Kind::kDelay:
      (void)poll(nullptr, 0, static_cast<int>(action.ms));
      return false;
    case Action::Kind::kFail:
      return true;
  }
  DSLIDE_CHECK(false);
  return false;
}

}  // namespace

bool failpoint_internal::Pass(Failpoint point) {
  const auto i = static_cast<size_t>(point);
  const bool again = actions[i].kind == Action::Kind::kDelay;
  uint32_t count = left[i].load(std::memory_order_relaxed);
  do {
    if (count == 0) return false;
    if (count == 1 && again) return Act(actions[i]);
  } while (!left[i].compare_exchange_weak(count, count - 1, std::memory_order_relaxed));
  if (count != 1) return false;
  fmt::print(stderr, "failpoint {}\n", kFailpoints[i].name);
  return Act(actions[i]);
}

Status ArmFailpoints(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find(';');
    DSLIDE_RETURN_IF_ERROR(ArmOne(text.substr(0, end)));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return {};
}

Status ArmFailpointsFromEnvironment() {
  const char* text = std::getenv("DSLIDE_FAILPOINTS");
  return text == nullptr ? Status() : ArmFailpoints(text);
}

}  // namespace dslide
