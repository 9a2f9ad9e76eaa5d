#include "tools/dslide/data/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/process.h"

namespace dslide {
namespace {

constexpr int64_t kFirstMs = 2000;
constexpr int64_t kOnTerminalMs = 1000;
constexpr int64_t kElsewhereMs = 30'000;

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      next_ms_(MonotonicMillis() + (terminal_ ? kFirstMs : kElsewhereMs)) {}

ProgressLine::~ProgressLine() {
  if (shown_ && terminal_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::Show(uint64_t samples) {
  const int64_t now_ms = MonotonicMillis();
  if (now_ms < next_ms_) return;
  next_ms_ = now_ms + (terminal_ ? kOnTerminalMs : kElsewhereMs);
  shown_ = true;
  const std::string line = fmt::format("{}: {} samples", what_, samples);
  std::fputs((terminal_ ? "\r\x1b[K" + line : line + "\n").c_str(), stderr);
}

}  // namespace dslide
