// What a run was like until now, in bounded memory: what the status page and the report draw.
//
// The scheduler adds to it as the run goes on, `dslide report` from the files of a run directory.
// Both hand the same JSON to the same drawing code (page/view.js).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/data/measures/metrics.h"
#include "common/log/event.h"
#include "scheduler/core/run_status.h"
#include "scheduler/status/progress.h"
#include "scheduler/status/thinned.h"

namespace dslide {

// What stays as it is.
struct RunFacts {
  std::string name;  // of the run: its directory's
  std::string data;  // files
  std::string test;
  uint64_t train_samples = 0;
  uint64_t held_out_samples = 0;
  uint64_t test_samples = 0;  // 0: no test file
  uint32_t labels = 0;
  uint32_t features = 0;
  uint32_t hidden = 0;
  std::string layers;  // model.hidden as it is written
  uint64_t parameters = 0;
  uint32_t epochs = 0;
};
RunFacts FactsOf(const RunContext& run, const std::string& run_directory);

// An interval of training. Rates are means over its samples.
struct ProgressPoint {
  double elapsed_s = 0;  // at its end
  double epochs = 0;     // trained by then
  double weight = 1;     // of the means
  double samples_per_second = 0;
  double loss = 0;
  double bytes_sent = 0;  // per sample, from workers to servers
  double bytes_received = 0;
  double neurons = 0;            // scored per sample
  std::optional<double> tail;    // error of the normaliser
  std::optional<double> recall;  // of the active set
  void Merge(const ProgressPoint& next);
};
ProgressPoint PointOf(const ProgressMeter::Reading& reading, double elapsed_s);

struct EvaluationPoint {
  double elapsed_s = 0;
  double epochs = 0;
  RankingMetrics metrics;
  void Merge(const EvaluationPoint& next) { *this = next; }
};

struct LoadPoint {
  struct Server {
    double load = 0;  // SeatStatus::load
    size_t slots = 0;
  };
  double elapsed_s = 0;
  std::map<std::string, Server> servers;  // by name
  void Merge(const LoadPoint& next);
};
LoadPoint LoadsOf(const RunStatus& status, double elapsed_s);

struct StoredCheckpoint {
  std::string name;
  double written = 0;  // seconds since 1970
  uint64_t bytes = 0;
  uint64_t samples = 0;
  uint64_t batches = 0;
  size_t shards = 0;
};
StoredCheckpoint CheckpointOf(const Manifest& manifest);
// The complete checkpoints of a directory, oldest first, without those that cannot be read.
std::vector<StoredCheckpoint> CheckpointsIn(const std::string& directory);

// A test sample by label names.
struct Example {
  uint64_t number = 0;  // in the test file, from 1
  std::vector<std::string> labels;
  std::vector<std::string> predicted;
};
// Lines of a run directory's examples.jsonl.
std::string ExampleLines(const std::vector<Example>& examples);

// What a person wants to read of a run: who came and went, plans, checkpoints, epochs, results.
struct RunEvent {
  RunEvent(double at_s, const Event& event)
      : elapsed_s(at_s), code(event.kind->code), text(event.text), fields(event.fields) {}
  RunEvent(double at_s, std::string event_code, std::string line, std::vector<EventField> values)
      : elapsed_s(at_s),
        code(std::move(event_code)),
        text(std::move(line)),
        fields(std::move(values)) {}

  double elapsed_s;
  std::string code;  // empty in runs of earlier versions
  std::string text;
  std::vector<EventField> fields;
};
// Adds the keys code, text and fields.
void AddEvent(const RunEvent& event, nlohmann::ordered_json* json);
// An object with the key at_s and those of AddEvent().
nlohmann::ordered_json EventJson(const RunEvent& event);

// A server with slots was lost: training stopped until it or another had taken its place.
struct ServerLoss {
  double elapsed_s = 0;
  std::string server;
};

class RunHistory {
 public:
  static constexpr size_t kProgress = 360;
  static constexpr size_t kEvaluations = 256;
  static constexpr size_t kLoads = 240;
  static constexpr size_t kLoadCells = 8192;  // of all servers
  static constexpr size_t kEvents = 120;      // older ones are forgotten
  static constexpr size_t kLosses = 120;      // older ones are forgotten

  explicit RunHistory(RunFacts facts = {}) : facts_(std::move(facts)) {}

  void Add(const ProgressPoint& point) { progress_.Add(point); }
  void Add(const EvaluationPoint& point) { evaluations_.Add(point); }
  void AddHeldOut(const EvaluationPoint& point) { held_out_.Add(point); }
  void Add(LoadPoint point);
  void AddEvent(RunEvent event);
  void AddLoss(ServerLoss loss);
  const std::deque<RunEvent>& events() const { return events_; }  // oldest first
  void SetExamples(std::vector<Example> examples) { examples_ = std::move(examples); }
  void SetCheckpoints(std::vector<StoredCheckpoint> all) { checkpoints_ = std::move(all); }
  // The newest `keep` stay.
  void AddCheckpoint(StoredCheckpoint checkpoint, size_t keep);

  // `now`: seconds since 1970.
  nlohmann::ordered_json Json(double now) const;

 private:
  nlohmann::ordered_json LoadsJson() const;

  RunFacts facts_;
  Thinned<ProgressPoint, kProgress> progress_;
  Thinned<EvaluationPoint, kEvaluations> evaluations_;
  Thinned<EvaluationPoint, kEvaluations> held_out_;  // on held-out samples
  Thinned<LoadPoint, kLoads> loads_;
  std::deque<RunEvent> events_;
  std::deque<ServerLoss> losses_;
  std::vector<StoredCheckpoint> checkpoints_;
  std::vector<Example> examples_;
};

// Seconds since 1970.
double WallClockSeconds();

// As JSON text; what is no UTF-8 is replaced.
std::string TextOf(const nlohmann::ordered_json& json);

}  // namespace dslide
