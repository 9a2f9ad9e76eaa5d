#include "scheduler/status/history.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/checkpoint/layout.h"
#include "common/run/slot_rows.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// Of figures that are drawn.
constexpr int kDigits = 5;

OrderedJson Short(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::round(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  const double rounded = std::strtod(fmt::format("{:.{}g}", value, kDigits).c_str(), nullptr);
  if (rounded == std::round(rounded) && std::abs(rounded) < 1e15) {
    return static_cast<int64_t>(rounded);
  }
  return rounded;
}

OrderedJson Short(const std::optional<double>& value) { return value ? Short(*value) : nullptr; }

// A column: what `figure` says of every point.
template <typename Point, typename Figure>
OrderedJson Column(const std::vector<Point>& points, Figure figure) {
  OrderedJson column = OrderedJson::array();
  for (const Point& point : points) column.push_back(Short(figure(point)));
  return column;
}

OrderedJson JsonOf(const RunFacts& facts) {
  return {{"name", facts.name},
          {"data", facts.data},
          {"test", facts.test},
          {"train_samples", facts.train_samples},
          {"held_out_samples", facts.held_out_samples},
          {"test_samples", facts.test_samples},
          {"labels", facts.labels},
          {"features", facts.features},
          {"hidden", facts.hidden},
          {"layers", facts.layers},
          {"parameters", facts.parameters},
          {"epochs", facts.epochs}};
}

OrderedJson JsonOf(const std::vector<ProgressPoint>& points) {
  using P = ProgressPoint;
  OrderedJson json;
  json["elapsed_s"] = Column(points, [](const P& p) { return p.elapsed_s; });
  json["epochs"] = Column(points, [](const P& p) { return p.epochs; });
  json["samples_per_second"] = Column(points, [](const P& p) { return p.samples_per_second; });
  json["loss"] = Column(points, [](const P& p) { return p.loss; });
  json["bytes_sent"] = Column(points, [](const P& p) { return std::round(p.bytes_sent); });
  json["bytes_received"] = Column(points, [](const P& p) { return std::round(p.bytes_received); });
  json["neurons"] = Column(points, [](const P& p) { return std::round(p.neurons); });
  const auto some = [&](auto member) {
    return std::any_of(points.begin(), points.end(),
                       [&](const P& p) { return (p.*member).has_value(); });
  };
  if (some(&P::tail)) json["tail_error"] = Column(points, [](const P& p) { return p.tail; });
  if (some(&P::recall)) json["recall"] = Column(points, [](const P& p) { return p.recall; });
  return json;
}

OrderedJson JsonOf(const std::vector<EvaluationPoint>& points) {
  using P = EvaluationPoint;
  OrderedJson json;
  json["elapsed_s"] = Column(points, [](const P& p) { return p.elapsed_s; });
  json["epochs"] = Column(points, [](const P& p) { return p.epochs; });
  for (const int k : {1, 3, 5}) {
    const auto i = static_cast<size_t>(k - 1);
    json[fmt::format("p_at_{}", k)] =
        Column(points, [i](const P& p) { return p.metrics.precision[i]; });
    json[fmt::format("psp_at_{}", k)] =
        Column(points, [i](const P& p) { return p.metrics.propensity_precision[i]; });
  }
  json["ndcg_at_5"] = Column(points, [](const P& p) { return p.metrics.ndcg[4]; });
  return json;
}

OrderedJson JsonOf(const Example& example) {
  return {{"number", example.number}, {"labels", example.labels}, {"predicted", example.predicted}};
}

double Mean(double a, double weight_a, double b, double weight_b) {
  const double weight = weight_a + weight_b;
  return weight > 0 ? (a * weight_a + b * weight_b) / weight : b;
}

}  // namespace

RunFacts FactsOf(const RunContext& run, const std::string& run_directory) {
  RunFacts facts;
  fs::path directory = fs::path(run_directory).lexically_normal();
  if (!directory.has_filename()) directory = directory.parent_path();  // of "runs/a/"
  facts.name = directory.filename().string();
  facts.data = run.config.train.data;
  facts.test = run.config.train.test;
  facts.train_samples = run.train == nullptr ? 0 : run.PassSamples();
  facts.held_out_samples = run.HeldOutSamples();
  facts.test_samples = run.test == nullptr ? 0 : run.test->size();
  facts.labels = run.config.model.labels;
  facts.features = run.config.model.features;
  facts.hidden = run.config.model.hidden;
  facts.layers = HiddenText(run.config.model);
  facts.parameters = ParameterCount(run.config.model);
  facts.epochs = run.config.train.epochs;
  return facts;
}

void ProgressPoint::Merge(const ProgressPoint& next) {
  const auto merge = [&](double ProgressPoint::*figure) {
    this->*figure = Mean(this->*figure, weight, next.*figure, next.weight);
  };
  merge(&ProgressPoint::samples_per_second);
  merge(&ProgressPoint::loss);
  merge(&ProgressPoint::bytes_sent);
  merge(&ProgressPoint::bytes_received);
  merge(&ProgressPoint::neurons);
  for (const auto figure : {&ProgressPoint::tail, &ProgressPoint::recall}) {
    if (this->*figure && next.*figure) {
      this->*figure = Mean(*(this->*figure), weight, *(next.*figure), next.weight);
    } else if (next.*figure) {
      this->*figure = next.*figure;
    }
  }
  elapsed_s = next.elapsed_s;
  epochs = next.epochs;
  weight += next.weight;
}

ProgressPoint PointOf(const ProgressMeter::Reading& reading, double elapsed_s) {
  const TrainingStats& work = reading.recent;
  ProgressPoint point;
  point.elapsed_s = elapsed_s;
  point.epochs = reading.progress * reading.epochs;
  point.weight = static_cast<double>(work.samples);
  point.samples_per_second = reading.samples_per_second;
  point.loss = work.Loss();
  point.bytes_sent = work.BytesSentPerSample();
  point.bytes_received = work.BytesReceivedPerSample();
  point.neurons = work.ActiveNeuronsPerSample();
  if (work.measured_tail()) point.tail = work.TailError();
  if (work.measured_recall()) point.recall = work.RecallSet();
  return point;
}

// The mean of the loads is close enough: intervals are equally long.
void LoadPoint::Merge(const LoadPoint& next) {
  for (const auto& [name, server] : next.servers) {
    const auto [known, is_new] = servers.try_emplace(name, server);
    if (is_new) continue;
    known->second.load = 0.5 * (known->second.load + server.load);
    known->second.slots = server.slots;
  }
  elapsed_s = next.elapsed_s;
}

LoadPoint LoadsOf(const RunStatus& status, double elapsed_s) {
  LoadPoint point;
  point.elapsed_s = elapsed_s;
  for (size_t i = 0; i < status.seats.size(); ++i) {
    if (status.seats[i].vacant) continue;
    point.servers[status.plan.servers[i].name] = {status.seats[i].load, status.seats[i].slots};
  }
  return point;
}

StoredCheckpoint CheckpointOf(const Manifest& manifest) {
  StoredCheckpoint checkpoint;
  checkpoint.name = manifest.name;
  checkpoint.written = static_cast<double>(manifest.written_s);
  checkpoint.samples = manifest.samples;
  checkpoint.batches = manifest.batches;
  checkpoint.shards = manifest.shards.size();
  for (const ManifestShard& shard : manifest.shards) checkpoint.bytes += shard.bytes;
  return checkpoint;
}

std::vector<StoredCheckpoint> CheckpointsIn(const std::string& directory) {
  std::vector<StoredCheckpoint> found;
  for (const std::string& name : CompleteCheckpoints(directory)) {
    const fs::path path = fs::path(directory) / name;
    const Result<Manifest> manifest = ReadManifest(path.string());
    if (!manifest.ok()) continue;
    found.push_back(CheckpointOf(*manifest));
    if (manifest->written_s > 0) continue;
    // An earlier version wrote it. A copy does not keep the file's time.
    std::error_code error;
    const auto time = fs::last_write_time(path / kManifestName, error);
    const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
    if (!error) found.back().written = std::chrono::duration<double>(since).count();
  }
  return found;
}

std::string ExampleLines(const std::vector<Example>& examples) {
  std::string lines;
  for (const Example& example : examples) lines += TextOf(JsonOf(example)) + "\n";
  return lines;
}

void RunHistory::Add(LoadPoint point) {
  if (point.servers.empty()) return;
  const size_t servers = point.servers.size();
  loads_.Add(std::move(point));
  if (loads_.size() > 2 && loads_.size() * servers > kLoadCells) loads_.Halve();
}

void RunHistory::AddEvent(RunEvent event) {
  events_.push_back(std::move(event));
  if (events_.size() > kEvents) events_.pop_front();
}

void RunHistory::AddLoss(ServerLoss loss) {
  losses_.push_back(std::move(loss));
  if (losses_.size() > kLosses) losses_.pop_front();
}

void RunHistory::AddCheckpoint(StoredCheckpoint checkpoint, size_t keep) {
  checkpoints_.push_back(std::move(checkpoint));
  if (checkpoints_.size() > keep) {
    checkpoints_.erase(checkpoints_.begin(),
                       checkpoints_.end() - static_cast<std::ptrdiff_t>(keep));
  }
}

// A server's loads are in percent of the mean, null while it was not there; its slots are pairs
// (point, slots from there on).
OrderedJson RunHistory::LoadsJson() const {
  const std::vector<LoadPoint> points = loads_.Points();
  std::set<std::string> names;
  for (const LoadPoint& point : points) {
    for (const auto& [name, server] : point.servers) names.insert(name);
  }
  OrderedJson json;
  json["elapsed_s"] = Column(points, [](const LoadPoint& p) { return p.elapsed_s; });
  json["servers"] = OrderedJson::array();
  for (const std::string& name : names) {
    OrderedJson load = OrderedJson::array();
    OrderedJson slots = OrderedJson::array();
    size_t before = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const auto found = points[i].servers.find(name);
      const bool there = found != points[i].servers.end();
      load.push_back(there ? Short(std::round(100 * found->second.load)) : nullptr);
      const size_t now = there ? found->second.slots : 0;
      if (now != before) slots.push_back({i, now});
      before = now;
    }
    json["servers"].push_back(
        {{"name", name}, {"load", std::move(load)}, {"slots", std::move(slots)}});
  }
  return json;
}

OrderedJson RunHistory::Json(double now) const {
  OrderedJson json;
  json["time"] = std::round(now);
  json["run"] = JsonOf(facts_);
  json["progress"] = JsonOf(progress_.Points());
  json["evaluations"] = JsonOf(evaluations_.Points());
  if (held_out_.size() > 0) json["held_out"] = JsonOf(held_out_.Points());
  json["loads"] = LoadsJson();
  json["events"] = OrderedJson::array();
  for (const RunEvent& event : events_) {
    json["events"].push_back(EventJson(event));
  }
  json["lost"] = OrderedJson::array();
  for (const ServerLoss& loss : losses_) {
    json["lost"].push_back({{"at_s", Short(loss.elapsed_s)}, {"server", loss.server}});
  }
  json["checkpoints"] = OrderedJson::array();
  for (const StoredCheckpoint& c : checkpoints_) {
    json["checkpoints"].push_back({{"name", c.name},
                                   {"written", std::round(c.written)},
                                   {"bytes", c.bytes},
                                   {"samples", c.samples},
                                   {"batches", c.batches},
                                   {"shards", c.shards}});
  }
  json["examples"] = OrderedJson::array();
  for (const Example& example : examples_) json["examples"].push_back(JsonOf(example));
  return json;
}

double WallClockSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void AddEvent(const RunEvent& event, OrderedJson* json) {
  if (!event.code.empty()) (*json)["code"] = event.code;
  (*json)["text"] = event.text;
  if (!event.fields.empty()) (*json)["fields"] = FieldsJson(event.fields);
}

OrderedJson EventJson(const RunEvent& event) {
  OrderedJson json = {{"at_s", Short(event.elapsed_s)}};
  AddEvent(event, &json);
  return json;
}

std::string TextOf(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace dslide
