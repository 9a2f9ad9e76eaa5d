#include "tests/simulation/world/sim_host.h"

namespace dslide::sim {
namespace {

constexpr int64_t kOwnQueuesUs = 5 * kMs;  // messages sent longer ago have left the process

}  // namespace

void SimHost::Begin(std::unique_ptr<SimProcess> process) {
  DSLIDE_CHECK(!alive());
  life_++;
  process_ = std::move(process);
  process_->Start();
}

void SimHost::End() {
  if (!alive()) return;
  life_++;
  paused_ = false;
  kept_back_.clear();
  clock_->After(0, [body = std::shared_ptr<SimProcess>(std::move(process_))] {});
}

void SimHost::Pause() {
  if (!alive() || paused_) return;
  paused_ = true;
  paused_from_us_ = clock_->now_us() - kOwnQueuesUs;
}

void SimHost::Resume() {
  if (!paused_) return;
  paused_ = false;
  const uint64_t life = life_;
  auto events = std::move(kept_back_);
  kept_back_.clear();
  for (auto& event : events) {
    if (life_ != life) return;
    Run(life, std::move(event));
  }
}

void SimHost::Post(int64_t delay_us, std::function<void()> event) {
  clock_->After(delay_us, [this, life = life_, event = std::move(event)]() mutable {
    Run(life, std::move(event));
  });
}

void SimHost::Run(uint64_t life, std::function<void()> event) {
  if (life != life_ || !alive()) return;
  if (paused_) {
    kept_back_.push_back(std::move(event));
  } else {
    event();
  }
}

}  // namespace dslide::sim
