// The executors of one server, a thread each. The network thread submits jobs and collects results.
//
// Every job goes to all executors; each runs its jobs in the order of submission, and between jobs
// a slice of its snapshot (Executor::Background). Results come back over one bounded queue whose
// descriptor a poll can wait for. Owned by the network thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "server/executor/executor.h"
#include "server/executor/job.h"
#include "server/executor/job_backlog.h"

namespace dslide {

class ExecutorPool {
 public:
  // What an executor does; in a server, RunJob().
  using Job = std::function<JobReply(Executor&)>;
  // Builds executor number i; called in its thread, so that its memory is touched there first.
  // After an error all jobs have that outcome.
  using Factory = std::function<Result<std::unique_ptr<Executor>>(uint32_t i)>;

  struct Outcome {
    uint64_t job_id;
    uint32_t executor;
    JobReply part;
  };

  static constexpr size_t kQueued = 1024;  // jobs of an executor; see JobBacklog

  ExecutorPool(uint32_t executors, const Factory& factory);
  ~ExecutorPool();  // waits for the jobs that are running, drops those that have not begun

  uint32_t size() const { return static_cast<uint32_t>(lanes_.size()); }
  int fd() const { return outcomes_.fd(); }

  // Runs a job behind all that were submitted before. JobBacklog says when it goes to the
  // executors.
  void Submit(uint64_t job_id, Job job);
  void Submit(uint64_t job_id, ExecutorJob job);
  // The newest plan: see RunJob(). Jobs that were submitted before learn of it, too.
  void SetPlanVersion(uint32_t version) { plan_version_ = version; }
  // Runs a job on all executors and waits for it. Returns their parts in executor order. REQUIRES
  // that the outcomes of all other jobs were collected.
  std::vector<JobReply> RunOnAll(const Job& job);

  std::optional<Outcome> Collect();

 private:
  struct Task {
    uint64_t job_id;
    Job job;
    std::shared_ptr<const Body> request;  // null: another kind of job
  };
  struct Lane {
    BoundedQueue<Task> tasks{kQueued};
    std::jthread thread;
  };
  void Advance();
  void Run(uint32_t index, const Factory& factory, Lane* lane);
  static void ReadAhead(const Lane& lane, Executor* executor, uint64_t taken, uint64_t* seen);

  std::atomic<uint32_t> plan_version_ = 0;  // the executors read it
  BoundedQueue<Outcome> outcomes_;
  JobBacklog<Task> backlog_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace dslide
