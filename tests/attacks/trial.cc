#include "tests/attacks/trial.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <sstream>

#include "common/base/process.h"

namespace dslide {
namespace {

constexpr int64_t kReferenceMs = 1500;
constexpr int64_t kAfterMs = 10000;    // time for memory to come down
constexpr int64_t kOverdueMs = 15000;  // time for the attacker to end
constexpr int64_t kStaysMs = 60000;
constexpr int kLookMs = 20;
constexpr double kBurns = 0.1;  // of a core: what a burn is compared with
constexpr double kMb = 1 << 20;

// The most that memory is above what it was before, of one process.
double Growth(const std::map<std::string, uint64_t>& before,
              const std::map<std::string, uint64_t>& now) {
  double most = 0;
  for (const auto& [name, bytes] : now) {
    const auto had = before.find(name);
    if (had == before.end()) continue;
    most = std::max(most, (static_cast<double>(bytes) - static_cast<double>(had->second)) / kMb);
  }
  return most;
}

// Looks every few milliseconds until `ends`, or the deadline.
void Watch(const std::function<bool()>& ends, int64_t ms) {
  const int64_t end_ms = MonotonicMillis() + ms;
  while (!ends() && MonotonicMillis() < end_ms) (void)poll(nullptr, 0, kLookMs);
}

class Trial {
 public:
  Trial(const Attack& attack, Ground* ground, int64_t run_ms, double rate_before,
        const Limits& limits)
      : attack_(attack),
        ground_(ground),
        run_ms_(run_ms),
        rate_before_(rate_before),
        limits_(limits) {}

  Outcome RunFirst() {
    memory_ = ground_->Memory();
    const auto attacker = StartStrike(ground_->Look());
    Watch([&] { return !attacker->Running(); }, run_ms_);
    if (!ground_->BringWorkers()) Fault("honest workers do not learn");
    const double rate = CalmRate(ground_);
    outcome_.goodput = rate / rate_before_;
    outcome_.goodput_after = outcome_.goodput;
    outcome_.rate_after = rate;
    outcome_.memory_mb = Growth(memory_, ground_->Memory());
    outcome_.dead = ground_->Dead();
    Watch([&] { return !attacker->Running(); }, run_ms_ * attack_.on.times + kOverdueMs);
    if (attacker->Running()) Fault("the attacker does not end");
    (void)Hear(attacker->Output());
    const Reading after = ground_->Look();
    answer_limit_ms_ = limits_.answer_ms;
    Judge(after);
    return outcome_;
  }

  Outcome Run() {
    memory_ = ground_->Memory();
    const uint64_t log = ground_->LogBytes();
    const Reading before = ground_->Look();
    RunStrike(before);
    const Reading after = ground_->Look();
    outcome_.log_kb = static_cast<double>(ground_->LogBytes() - log) / 1024;
    outcome_.answer_ms = after.took_ms;
    if (after.status.is_object()) {
      outcome_.told_p_at_1 = 100 * after.status.value("p_at_1", -0.01);
    }
    outcome_.dead = ground_->Dead();
    const double rate = Ground::HonestRate(before, after);
    outcome_.goodput = rate / rate_before_;
    outcome_.rate_after = rate_before_;
    answer_limit_ms_ = limits_.answer_ms + 4 * before.took_ms;
    if (outcome_.dead.empty() && limits_.judge_speed) LetRecover(after, rate);
    CompareWithBurn(rate);
    LetMemoryFall();
    Judge(after);
    return outcome_;
  }

 private:
  std::unique_ptr<Process> StartStrike(const Reading& before) {
    const int64_t ms = run_ms_ * attack_.on.times + (attack_.on.stays ? kStaysMs : 0);
    return ground_->Strike({"--strike", attack_.name, "--milliseconds", std::to_string(ms)},
                           before);
  }

  void RunStrike(const Reading& before) {
    const int64_t began_ms = MonotonicMillis();
    const double scheduler_s = ground_->SchedulerCpuSeconds();
    auto attacker = StartStrike(before);
    const auto look = [&] {
      outcome_.memory_mb = std::max(outcome_.memory_mb, Growth(memory_, ground_->Memory()));
      return !attacker->Running();
    };
    Watch(look, run_ms_ * attack_.on.times + (attack_.on.stays ? 0 : kOverdueMs));
    if (attack_.on.stays) return ground_->Keep(std::move(attacker));
    if (attacker->Running()) {
      Fault("the attacker does not end");
    } else if (attacker->Wait(0) != 0) {
      Fault(fmt::format("the attacker ended with {}: {}", *attacker->Wait(0), attacker->Errors()));
    }
    const double cpu_seconds = Hear(attacker->Output());
    // A quick attack has effects for longer.
    const int64_t least_ms = std::min(run_ms_, kReferenceMs);
    Watch([&] { return MonotonicMillis() - began_ms >= least_ms; }, least_ms);
    const auto took_ms = static_cast<double>(MonotonicMillis() - began_ms);
    outcome_.cpu_share = 1000 * cpu_seconds / took_ms;
    outcome_.scheduler_share = 1000 * (ground_->SchedulerCpuSeconds() - scheduler_s) / took_ms;
  }

  // Takes what the attacker has said; returns the CPU seconds that it has used.
  double Hear(const std::string& output) {
    double cpu_seconds = 0;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("says ")) outcome_.said.push_back(line.substr(5));
      if (line.starts_with("breach ")) Fault(line.substr(7));
      if (line.starts_with("cpu ")) cpu_seconds = std::stod(line.substr(4));
    }
    return cpu_seconds;
  }

  // Until honest workers are as fast as before, or for ten seconds.
  void LetRecover(Reading from, double rate) {
    const int64_t end_ms = MonotonicMillis() + kAfterMs;
    do {
      Watch([] { return false; }, kReferenceMs);
      const Reading to = ground_->Look();
      outcome_.rate_after = Ground::HonestRate(from, to);
      from = to;
    } while (outcome_.rate_after < limits_.goodput * rate_before_ && MonotonicMillis() < end_ms);
    outcome_.goodput_after = outcome_.rate_after / rate_before_;
    outcome_.fit = outcome_.goodput_after >= limits_.goodput;
    if (outcome_.fit) outcome_.goodput = rate / std::min(rate_before_, outcome_.rate_after);
  }

  void CompareWithBurn(double rate) {
    if (outcome_.goodput >= limits_.goodput || outcome_.cpu_share < kBurns || !outcome_.fit ||
        !limits_.judge_speed) {
      return;
    }
    const Reading from = ground_->Look();
    const auto burn =
        ground_->Strike({"--burn", fmt::format("{:.0f}", 100 * std::min(1.0, outcome_.cpu_share)),
                         "--milliseconds", std::to_string(kReferenceMs)},
                        from);
    Watch([&] { return !burn->Running(); }, kReferenceMs + kOverdueMs);
    const double beside = Ground::HonestRate(from, ground_->Look());
    if (beside > 0) outcome_.goodput = std::max(outcome_.goodput, rate / beside);
  }

  void LetMemoryFall() {
    const auto look = [&] {
      outcome_.memory_after_mb = Growth(memory_, ground_->Memory());
      return outcome_.memory_after_mb <= limits_.memory_mb;
    };
    if (outcome_.memory_mb > limits_.memory_mb) Watch(look, kAfterMs);
  }

  void Judge(const Reading& after) {
    if (!outcome_.dead.empty()) Fault(fmt::format("died: {}", fmt::join(outcome_.dead, ", ")));
    if (!after.status.is_object()) {
      Fault("dslide status has no answer");
    } else if (limits_.judge_speed && after.took_ms > answer_limit_ms_) {
      Fault(fmt::format("dslide status takes {:.1f} s", static_cast<double>(after.took_ms) / 1000));
    }
    if (outcome_.memory_mb > limits_.memory_mb) {
      Fault(fmt::format("memory grows by {:.0f} MB, {:.0f} MB of it stay", outcome_.memory_mb,
                        outcome_.memory_after_mb));
    }
    if (limits_.judge_speed && outcome_.goodput < limits_.goodput) {
      Fault(fmt::format("honest workers do {:.0f} % of their work", 100 * outcome_.goodput));
    }
    if (limits_.judge_speed && !outcome_.fit && outcome_.dead.empty()) {
      Fault(fmt::format("10 s later {:.0f} %", 100 * outcome_.goodput_after));
    }
  }

  void Fault(const std::string& fault) { outcome_.faults.push_back(fault); }

  const Attack& attack_;
  Ground* ground_;
  int64_t run_ms_;
  double rate_before_;
  const Limits& limits_;
  std::map<std::string, uint64_t> memory_;  // before
  int64_t answer_limit_ms_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome TryFirst(const Attack& attack, Ground* ground, int64_t run_ms, double rate_before,
                 const Limits& limits) {
  return Trial(attack, ground, run_ms, rate_before, limits).RunFirst();
}

double CalmRate(Ground* ground) {
  const Reading from = ground->Look();
  Watch([] { return false; }, kReferenceMs);
  return std::max(1.0, Ground::HonestRate(from, ground->Look()));
}

Outcome Try(const Attack& attack, Ground* ground, int64_t run_ms, double rate_before,
            const Limits& limits) {
  return Trial(attack, ground, run_ms, rate_before, limits).Run();
}

}  // namespace dslide
