#include "server/executor/job.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "common/base/process.h"
#include "server/executor/executor.h"

namespace dslide {
namespace {

std::string StepText(const std::optional<uint64_t>& step) {
  return step ? std::to_string(*step) : "none";
}

// Runs each kind of job on one executor.
class Runner {
 public:
  Runner(uint32_t plan_version, Executor* executor)
      : plan_version_(plan_version), executor_(*executor) {}

  JobReply operator()(const RequestJob& job) const {
    if (job.StaleUnder(plan_version_)) {
      return ErrorReply{ErrorCode::kStalePlan, "slots have moved"};
    }
    return executor_.Handle(job.sender, *job.body);
  }

  JobReply operator()(const SharedSlotJob& job) const {
    Result<Attached> attached = executor_.Do(*job);
    if (!attached.ok()) return attached.error();
    return *std::move(attached);
  }

  JobReply operator()(const MeasureJob& job) const { return executor_.Measure(job.tables); }

  JobReply operator()(const MarkJob& job) const {
    if (executor_.synchronous() && executor_.committed() != job.committed) {
      return TryLater(fmt::format("an executor stands at step {}, the checkpoint is of step {}",
                                  StepText(executor_.committed()), StepText(job.committed)));
    }
    const int64_t begin_us = MonotonicMicros();
    executor_.BeginSnapshot(job.sink);
    return Marked{static_cast<uint32_t>(MonotonicMicros() - begin_us)};
  }

  JobReply operator()(const DropSnapshotJob& job) const {
    if (job.store_lost) {
      executor_.ForgetStored();
    } else {
      executor_.AbortSnapshot();
    }
    return Done{};
  }

  JobReply operator()(const LoadJob& job) const {
    if (job.source == nullptr) {
      executor_.Initialise();
    } else if (const Status loaded = job.source->Load(&executor_); !loaded.ok()) {
      return loaded.error();
    }
    const SlotMap& input = executor_.input().layer().map();
    const SlotMap& output = executor_.output().layer().map();
    return Loaded{uint64_t{input.size()} + output.size(), executor_.MemoryBytes()};
  }

 private:
  uint32_t plan_version_;
  Executor& executor_;
};

}  // namespace

JobReply RunJob(const ExecutorJob& job, uint32_t plan_version, Executor* executor) {
  return std::visit(Runner(plan_version, executor), job);
}

std::vector<Body> BodiesOf(std::vector<JobReply> replies) {
  std::vector<Body> bodies;
  for (JobReply& reply : replies) {
    if (const auto* error = std::get_if<Error>(&reply)) {
      bodies.push_back(ErrorReply{ErrorCode::kRefused, error->message});
    } else {
      bodies.push_back(std::get<Body>(std::move(reply)));
    }
  }
  return bodies;
}

}  // namespace dslide
