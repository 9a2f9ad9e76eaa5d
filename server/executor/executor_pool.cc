#include "server/executor/executor_pool.h"

#include <fmt/core.h>
#include <poll.h>

#include <new>

#include "common/math/kernels.h"

namespace dslide {
namespace {

// Arrays in huge pages (HugeBuffer) throw when the system refuses them: hash tables, while an
// executor loads or builds new ones. Any other allocation that fails ends the process.
JobReply DoJob(const ExecutorPool::Job& job, Executor& executor) try {
  return job(executor);
} catch (const std::bad_alloc&) {
  return Failed("the server is out of memory");
}

}  // namespace

ExecutorPool::ExecutorPool(uint32_t executors, const Factory& factory)
    : outcomes_(size_t{executors} * kQueued), backlog_(executors, kQueued) {
  for (uint32_t i = 0; i < executors; ++i) lanes_.push_back(std::make_unique<Lane>());
  for (uint32_t i = 0; i < executors; ++i) {
    Lane* lane = lanes_[i].get();
    lane->thread = std::jthread([this, i, factory, lane] { Run(i, factory, lane); });
  }
}

ExecutorPool::~ExecutorPool() {
  for (const auto& lane : lanes_) lane->tasks.CloseAndDrop();
}

void ExecutorPool::Submit(uint64_t job_id, Job job) {
  backlog_.Add({job_id, std::move(job), nullptr});
  Advance();
}

void ExecutorPool::Submit(uint64_t job_id, ExecutorJob job) {
  const auto* request = std::get_if<RequestJob>(&job);
  std::shared_ptr<const Body> body = request == nullptr ? nullptr : request->body;
  auto run = [this, job = std::make_shared<const ExecutorJob>(std::move(job))](Executor& executor) {
    return RunJob(*job, plan_version_, &executor);
  };
  backlog_.Add({job_id, std::move(run), std::move(body)});
  Advance();
}

std::optional<ExecutorPool::Outcome> ExecutorPool::Collect() {
  auto outcome = outcomes_.Pop();
  if (!outcome) return outcome;
  backlog_.Collected(outcome->executor);
  Advance();
  return outcome;
}

void ExecutorPool::Advance() {
  while (const std::optional<Task> task = backlog_.Next()) {
    for (const auto& lane : lanes_) DSLIDE_CHECK(lane->tasks.Push(Task(*task)));
  }
}

std::vector<JobReply> ExecutorPool::RunOnAll(const Job& job) {
  DSLIDE_CHECK(backlog_.idle());
  Submit(0, job);
  std::vector<JobReply> parts(lanes_.size());
  while (!backlog_.idle()) {
    pollfd ready{fd(), POLLIN, 0};
    (void)poll(&ready, 1, -1);
    while (auto outcome = Collect()) parts[outcome->executor] = std::move(outcome->part);
  }
  return parts;
}

// The rows of the next requests come from the disk while this one is worked on.
void ExecutorPool::ReadAhead(const Lane& lane, Executor* executor, uint64_t taken, uint64_t* seen) {
  constexpr size_t kAhead = 2;
  std::vector<std::shared_ptr<const Body>> next;
  uint64_t number = taken;
  lane.tasks.Look(kAhead, [&](const Task& task) {
    if (++number <= *seen) return;
    *seen = number;
    if (task.request != nullptr) next.push_back(task.request);
  });
  for (const auto& request : next) executor->ReadAhead(*request);
}

void ExecutorPool::Run(uint32_t index, const Factory& factory, Lane* lane) {
  constexpr int kPollMs = 1000;
  constexpr int kSinkPollMs = 5;  // until a snapshot's sink has room again
  FlushDenormals();
  std::unique_ptr<Executor> executor;
  std::string failure;
  uint64_t taken = 0, seen = 0;  // tasks; those whose rows were read ahead
  try {
    Result<std::unique_ptr<Executor>> made = factory(index);
    if (made.ok()) {
      executor = *std::move(made);
    } else {
      failure = made.error().message;
    }
  } catch (const std::bad_alloc&) {
    failure =
        "not enough memory for this server's rows; start more servers or use a smaller "
        "model.hidden";
  }
  while (!lane->tasks.closed()) {
    // A slice after every job, and one after the other while there are no jobs.
    if (executor == nullptr || !executor->Background()) {
      const bool waits = executor != nullptr && executor->snapshot_in_progress();
      lane->tasks.Wait(waits ? kSinkPollMs : kPollMs);
    }
    auto task = lane->tasks.Pop();
    if (!task) continue;
    ++taken;
    if (executor) {
      executor->AwaitStore();
      if (executor->has_rows_on_disk()) ReadAhead(*lane, executor.get(), taken, &seen);
    }
    JobReply part = executor ? DoJob(task->job, *executor) : JobReply(Failed(failure));
    // The backlog keeps room for the outcomes of all jobs that it lets go.
    DSLIDE_CHECK(outcomes_.Push({task->job_id, index, std::move(part)}));
  }
}

}  // namespace dslide
