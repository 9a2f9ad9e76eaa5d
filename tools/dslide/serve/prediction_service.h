// Threads that answer prediction requests by a model, several at once where they queue up.
//
// A thread takes what is waiting, up to its share and to a number of samples, ranks all samples
// together and answers. A heavy request, one with a long body or many samples, is answered by
// itself, after the thread's share of the others. While heavy requests occupy all threads, one
// further thread answers the others, so that heavy requests hold up each other only.
//
// A request keeps the model that it began with: SetModel() changes the model
// of later ones. No thread keeps a former model longer than that: what it has in memory may be
// large.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/model/model.h"
#include "common/net/http_server.h"
#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/serve_metrics.h"

namespace dslide {

class PredictionService {
 public:
  struct Options {
    std::string name;  // the model's, in answers
    ModelSearch search = ModelSearch::kIndex;
    uint32_t threads = 1;
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

  enum class Duty { kAll, kRelief };  // the further thread's is relief
  bool AreAllHeavy() const { return heavy_running_ == options_.threads; }
  bool HasWork(Duty duty) const;
  // Waits for jobs, or until more models than `*models` were set, which becomes their number.
  // Returns a thread's share of the light jobs, which may be none; nullopt at the end.
  std::optional<size_t> AwaitJobs(Duty duty, uint64_t* models);
  // Nullopt: no such job waits, or a model was set after AwaitJobs() gave `models`.
  std::optional<Job> TryTake(uint64_t models);
  // The same; each that is taken is ended.
  std::optional<Job> TryTakeHeavy(uint64_t models);
  void EndHeavy();
  // For a job that was light by its body only.
  void PostponeHeavy(Job job);
  void Answer(const Job& job, HttpResponse response) const;

  const Options options_;
  ServeMetrics& metrics_;
  mutable std::mutex model_mutex_;  // guards model_
  std::shared_ptr<const Model> model_;

  std::mutex mutex_;                          // guards the following
  std::condition_variable waiting_, relief_;  // for threads, for the further one
  std::deque<Job> light_, heavy_;
  uint32_t heavy_running_ = 0;
  uint64_t models_ = 0;  // that were set
  bool ending_ = false;

  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace dslide
