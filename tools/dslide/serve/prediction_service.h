// Threads that answer prediction requests by a model, several at once where they queue up.
//
// A thread takes what is waiting, up to its share and to a number of samples, ranks all samples
// together and answers. A heavy request, one with a long body or many samples, is answered by
// itself, by threads of its own: heavy requests hold up each other only.
//
// A request keeps the model that it began with: SetModel() changes the model
// of later ones. No thread keeps a former model longer than that: what it has in memory may be
// large.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "common/model/model.h"
#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/serve_metrics.h"

namespace dslide {

class PredictionService {
 public:
  struct Options {
    std::string name;  // the model's, in answers
    ModelSearch search = ModelSearch::kIndex;
    uint32_t threads = 1;          // and as many for heavy requests
    int64_t limit_ms = 10'000;     // a request that waits longer to be ranked gets 503
    size_t most_waiting = 10'000;  // requests; more get 503
  };

  // `metrics` must outlive this.
  PredictionService(Options options, std::shared_ptr<const Model> model, ServeMetrics* metrics);
  ~PredictionService();  // answers what is waiting

  // Any thread.
  void SetModel(std::shared_ptr<const Model> model);
  std::shared_ptr<const Model> model() const;

  // Answers later, from another thread. Any thread. `dialect` must outlive this.
  void Submit(HttpRequest request, const Dialect& dialect, HttpServer::Respond respond);

 private:
  struct Job {
    HttpRequest request;
    const Dialect* dialect;
    HttpServer::Respond respond;
    int64_t begun_us;
  };
  class Worker;

  enum class Weight { kLight, kHeavy };
  struct Lane {
    std::deque<Job> jobs;
    ConditionVariable waiting;
    bool ending = false;
  };

  Lane& LaneOf(Weight weight) DSLIDE_REQUIRES(mutex_);
  // For a light job that turns out to be heavy.
  void Postpone(Job job);
  // Waits for jobs, or until more models than `*models` were set, which becomes their number.
  // Returns a thread's share of the jobs, which may be none; nullopt at the end.
  std::optional<size_t> AwaitJobs(Weight weight, uint64_t* models);
  // Nullopt: nothing waits, or a model was set after AwaitJobs() gave `models`.
  std::optional<Job> TryTake(Weight weight, uint64_t models);
  void End(Weight weight);
  void Answer(const Job& job, HttpResponse response) const;

  const Options options_;
  ServeMetrics& metrics_;
  mutable Mutex model_mutex_;
  std::shared_ptr<const Model> model_ DSLIDE_GUARDED_BY(model_mutex_);

  Mutex mutex_;
  Lane light_ DSLIDE_GUARDED_BY(mutex_);
  Lane heavy_ DSLIDE_GUARDED_BY(mutex_);
  uint64_t models_ DSLIDE_GUARDED_BY(mutex_) = 0;  // that were set

  std::vector<std::jthread> light_threads_, heavy_threads_;  // last: they use all of the above
};

}  // namespace dslide
