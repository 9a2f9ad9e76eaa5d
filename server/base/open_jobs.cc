#include "server/base/open_jobs.h"

#include <utility>

#include "common/base/check.h"

namespace dslide {

void OpenJobs::SetExecutors(uint32_t executors) {
  DSLIDE_CHECK(open_.empty());
  executors_ = executors;
}

uint64_t OpenJobs::Open(JobPurpose purpose) {
  const uint64_t job_id = next_id_++;
  open_.try_emplace(job_id, Entry{std::move(purpose),
                                  std::vector<std::optional<JobReply>>(executors_), executors_});
  return job_id;
}

std::optional<OpenJobs::Finished> OpenJobs::Add(ExecutorPool::Outcome outcome) {
  const auto found = open_.find(outcome.job_id);
  if (found == open_.end()) return std::nullopt;
  Entry& entry = found->second;
  DSLIDE_CHECK(!entry.parts.at(outcome.executor));
  entry.parts[outcome.executor] = std::move(outcome.part);
  if (--entry.missing > 0) return std::nullopt;
  Finished finished{std::move(entry.purpose), {}};
  for (std::optional<JobReply>& part : entry.parts) finished.parts.push_back(*std::move(part));
  open_.erase(found);
  return finished;
}

void OpenJobs::CheckInvariants() const {
  DSLIDE_CHECK(executors_ > 0);
  if (open_.empty()) return;
  const auto& [job_id, newest] = *open_.rbegin();
  DSLIDE_CHECK(job_id < next_id_);
  DSLIDE_CHECK(newest.missing > 0 && newest.missing <= executors_);
}

}  // namespace dslide
