#include "tools/dslide/tune/tuner.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/plural.h"
#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"
#include "tools/dslide/cluster/new_files.h"
#include "tools/dslide/tune/tune_report.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// The number of "trial-7"; nullopt: another name.
std::optional<uint32_t> NumberOf(const std::string& name) {
  constexpr std::string_view kPrefix = "trial-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  uint32_t number = 0;
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  return number;
}

bool IsNameOfTuning(const std::string& name) {
  static constexpr std::string_view kNames[] = {"base.ini",  "best.ini",    "trials.jsonl",
                                                "tune.json", "trials.lock", "tune.lock"};
  return NumberOf(name) || std::ranges::count(kNames, name) > 0;
}

// What a run of one epoch was trained on.
Result<uint64_t> SamplesOfEpoch(const std::string& run) {
  const std::string path = run + "/summary.json";
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  const auto summary = nlohmann::json::parse(*text, nullptr, false);
  if (summary.is_object() && summary.contains("samples") && summary["samples"].is_number()) {
    return summary["samples"].get<uint64_t>();
  }
  return BadInput(fmt::format("{}: damaged; begin another tuning", path));
}

// Whether a run has begun there, by dslide train or a scheduler.
bool HoldsRun(const std::string& directory) {
  std::error_code error;
  return fs::exists(directory + "/" + kLedgerName, error) ||
         fs::exists(directory + "/" + kCheckpointsName, error);
}

}  // namespace

bool HoldsTuning(const std::string& directory) {
  std::error_code error;
  return fs::exists(directory + "/tune.json", error);
}

std::string TaskText(const TuneTask& task) {
  OrderedJson json;
  json["minutes"] = task.minutes;
  json["measure"] = task.measure;
  json["search"] = task.searches;
  json["candidates"] = task.candidates;
  json["seed"] = task.seed;
  json["servers"] = task.servers;
  json["workers"] = task.workers;
  return json.dump(2) + "\n";
}

Result<TuneTask> ParseTask(const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    TuneTask task;
    task.minutes = json.at("minutes");
    task.measure = json.at("measure");
    task.searches = json.at("search").get<std::vector<std::string>>();
    task.candidates = json.at("candidates");
    task.seed = json.at("seed");
    task.servers = json.at("servers");
    task.workers = json.at("workers");
    if (std::ranges::count(MeasureNames(), task.measure) == 1) return task;
  } catch (const nlohmann::json::exception&) {
  }
  return BadInput(fmt::format("{}: damaged; begin another tuning", path));
}

Status Tuner::Run(bool resume, StopSignals* signals) {
  const NewFiles made({{directory_, IsNameOfTuning}});
  DSLIDE_RETURN_IF_ERROR(Prepare(resume, signals));
  runner_.emplace(Path("base.ini"), directory_, task_.servers, task_.workers, signals, say_);
  started_ms_ = MonotonicMillis();
  DSLIDE_RETURN_IF_ERROR(KeepBest());
  say_(IntroText(task_.base, task_.minutes, task_.measure));
  if (!trials_.empty()) say_(TrialHead(task_.measure));
  for (const Trial& trial : trials_) say_(TrialRow(trial, task_.measure));
  const Result<Trial> first = Measure();
  if (!first.ok() && first.error().kind == ErrorKind::kBadInput && !resume) made.Remove();
  const Status searched = first.ok() ? Search(*first) : first.error();
  Report();
  if (searched.ok() || searched.error().kind != ErrorKind::kPreempted) return searched;
  return Error{ErrorKind::kPreempted,
               fmt::format("stopped; go on with: dslide tune --resume --run-dir {}", directory_)};
}

Status Tuner::Prepare(bool resume, StopSignals* signals) {
  Result<std::vector<SearchAxis>> axes = ParseSearches(task_.searches, task_.base);
  DSLIDE_RETURN_IF_ERROR(axes);
  axes_ = std::move(*axes);
  std::error_code error;
  if (!HoldsTuning(directory_) && HoldsRun(directory_)) {
    return BadInput(fmt::format("--run-dir: {} holds a run of dslide train; name another directory",
                                directory_));
  }
  fs::create_directories(directory_, error);
  if (error) return BadInput(fmt::format("{}: cannot create: {}", directory_, error.message()));
  DSLIDE_RETURN_IF_ERROR(Lock(signals));
  DSLIDE_RETURN_IF_ERROR(ReadTrials());
  if (!resume && !trials_.empty()) {
    return BadInput(
        fmt::format("{}: has a tuning; go on with it by --resume, or name another "
                    "--run-dir",
                    directory_));
  }
  DSLIDE_RETURN_IF_ERROR(WriteWholeFile(Path("base.ini"), FormatConfig(task_.base)));
  return WriteWholeFile(Path("tune.json"), TaskText(task_));
}

// Locks end with the processes that have them, however these end. The processes of a trial inherit
// the second one: those of a tuning that was killed need a moment to end, and hold their ports.
Status Tuner::Lock(StopSignals* signals) {
  constexpr int64_t kWaitMs = 60'000;
  constexpr int kPollMs = 50;
  Result<FileLock> lock = FileLock::Try(
      Path("tune.lock"), fmt::format("{}: another dslide tune works there", directory_));
  DSLIDE_RETURN_IF_ERROR(lock);
  lock_.emplace(*std::move(lock));
  const int64_t deadline_ms = MonotonicMillis() + kWaitMs;
  while (true) {
    Result<FileLock> trials =
        FileLock::Try(Path("trials.lock"),
                      fmt::format("{}: an earlier trial's processes have not ended", directory_),
                      FileLock::Heirs::kChildren);
    if (trials.ok()) {
      trials_lock_.emplace(*std::move(trials));
      return {};
    }
    const bool wait = trials.error().kind == ErrorKind::kTryLater;
    if (!wait || signals->Take() || MonotonicMillis() > deadline_ms) return trials.error();
    poll(nullptr, 0, kPollMs);
  }
}

// The trials that are done; none if nothing has been trained yet. What an interrupted one has left
// goes, and its number with it.
Status Tuner::ReadTrials() {
  std::error_code error;
  if (fs::exists(Path("trials.jsonl"), error)) {
    const Result<std::string> text = ReadWholeFile(Path("trials.jsonl"));
    DSLIDE_RETURN_IF_ERROR(text);
    Result<std::vector<Trial>> trials = ParseTrials(*text, Path("trials.jsonl"));
    DSLIDE_RETURN_IF_ERROR(trials);
    for (size_t i = 0; i < trials->size(); ++i) {
      const Result<Config> config = WithSettings(task_.base, (*trials)[i].settings);
      if (config.ok()) continue;
      return BadInput(fmt::format("{}:{}: {}; remove the line to try it again",
                                  Path("trials.jsonl"), i + 1, config.error().message));
    }
    if (BestOf(*trials, task_.measure) != nullptr) trials_ = std::move(*trials);
  }
  for (const Trial& trial : trials_) {
    earlier_s_ += trial.seconds;
    next_number_ = std::max(next_number_, trial.number + 1);
  }
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::optional<uint32_t> number = NumberOf(entry.path().filename());
    if (!number) continue;
    next_number_ = std::max(next_number_, *number + 1);
    const bool done = std::ranges::count(trials_, *number, &Trial::number) > 0;
    if (!done) left.push_back(entry.path());
  }
  const bool is_ours = HoldsTuning(directory_);
  for (const fs::path& path : left) {
    if (is_ours) fs::remove_all(path, error);
  }
  return {};
}

// The user's configuration for the shortest run: it tells the speed, and what the data makes of the
// configuration.
Result<Trial> Tuner::Measure() {
  const Candidate own{{}, task_.base.train.epochs, WarmupBatches(task_.base.train), 1};
  Result<Trial> trial = Try(own, 1);
  if (!trial.ok() || trial->end == TrialEnd::kFinished) return trial;
  if (trial->end == TrialEnd::kStopped) {
    return Failed(fmt::format("the first run did not end within {}; raise --minutes",
                              Plural(task_.minutes, "minute")));
  }
  const bool bad_input = runner_->last_exit_code() == ExitCode(ErrorKind::kBadInput);
  return Error{bad_input ? ErrorKind::kBadInput : ErrorKind::kFailed,
               fmt::format("the configuration itself cannot be trained: {}", trial->reason)};
}

Status Tuner::Search(const Trial& first) {
  const Result<Config> effective = LoadConfig(runner_->Path(first.number) + "/config.ini", {});
  DSLIDE_RETURN_IF_ERROR(effective);
  TrainConfig& base = task_.base.train;
  if (base.batch == 0) base.batch = effective->train.batch;
  if (base.epochs == 0) {
    const Result<uint64_t> samples = SamplesOfEpoch(runner_->Path(first.number));
    DSLIDE_RETURN_IF_ERROR(samples);
    base.epochs = DerivedEpochs(task_.base.text, *samples);
  }
  if (axes_.empty()) axes_ = DefaultAxes(task_.base, *effective);
  const std::vector<Candidate> candidates =
      DrawCandidates(task_.base, *effective, axes_, task_.candidates, task_.seed);
  say_(CandidatesText(axes_, base.epochs, candidates.size()));
  RunTimes times;
  times.Add(1, 1, OutcomeOf(first, task_.measure));
  // Candidates that a bracket has no time for are those of the next one, if there is time left.
  double spent_s = first.seconds;
  for (size_t begun = 1; begun < candidates.size();) {
    std::vector<Candidate> bracket = {candidates[0]};
    bracket.insert(bracket.end(), candidates.begin() + static_cast<ptrdiff_t>(begun),
                   candidates.end());
    const Result<size_t> in_bracket =
        SearchBracket(bracket, *effective, spent_s, begun == 1, &times);
    DSLIDE_RETURN_IF_ERROR(in_bracket);
    if (*in_bracket == 0) break;
    begun += *in_bracket;
    spent_s = SpentSeconds();
  }
  return {};
}

// How many candidates besides the first took part.
Result<size_t> Tuner::SearchBracket(const std::vector<Candidate>& candidates,
                                    const Config& effective, double spent_s, bool is_first,
                                    RunTimes* times) {
  std::vector<CandidateShape> shapes;
  for (const Candidate& candidate : candidates) {
    shapes.push_back({candidate.epochs, candidate.weight});
  }
  Halving halving(shapes, LeastEpochs(effective), *times, task_.minutes * 60.0, spent_s);
  const HalvingPlan& plan = halving.plan();
  // What short runs alone would find could not be compared with the first bracket's.
  if (!is_first && (plan.rungs.empty() || plan.rungs.back().divisor > 1)) return size_t{0};
  say_(PlanText(plan, *times, task_.minutes, spent_s,
                EpochsOf(plan, shapes, LeastEpochs(effective))));
  if (plan.rungs.empty()) return size_t{0};
  const auto is_known = [&](const TuneRun& run) {
    return Known(SettingsOfRun(candidates[run.candidate], task_.base, run.epochs)) != nullptr;
  };
  while (const std::optional<TuneRun> run = halving.Next(SpentSeconds(), is_known)) {
    const Result<Trial> trial = Try(candidates[run->candidate], run->epochs);
    DSLIDE_RETURN_IF_ERROR(trial);
    halving.Finish(*run, OutcomeOf(*trial, task_.measure));
  }
  if (halving.left_out() > 0) {
    say_(fmt::format("left out for lack of time: {}", Plural(halving.left_out(), "planned run")));
  }
  *times = halving.times();
  return plan.rungs.front().candidates - size_t{1};
}

// A run of the candidate, or the trial with the same settings that is done.
Result<Trial> Tuner::Try(const Candidate& candidate, uint32_t epochs) {
  Trial trial;
  trial.settings = SettingsOfRun(candidate, task_.base, epochs);
  if (const Trial* known = Known(trial.settings)) return *known;
  trial.candidate = candidate.settings;
  trial.epochs = epochs;
  trial.number = next_number_++;
  const Status run = runner_->Run(DeadlineMs(), &trial);
  // A run that had ended when the signal came counts.
  if (run.ok() || !trial.figures.empty()) DSLIDE_RETURN_IF_ERROR(Record(trial));
  DSLIDE_RETURN_IF_ERROR(run);
  return trial;
}

Status Tuner::Record(const Trial& trial) {
  trials_.push_back(trial);
  const bool is_first = trials_.size() == 1;
  // That of a configuration that cannot be trained is the error.
  if (is_first && trial.end == TrialEnd::kFinished) say_(TrialHead(task_.measure));
  if (!is_first || trial.end == TrialEnd::kFinished) say_(TrialRow(trial, task_.measure));
  DSLIDE_RETURN_IF_ERROR(WriteWholeFile(Path("trials.jsonl"), TrialLines(trials_)));
  return KeepBest();
}

// best.ini, and a model in the directory of the best trial only. An earlier life may have ended
// between a trial's line and these.
Status Tuner::KeepBest() {
  const Trial* best = BestOf(trials_, task_.measure);
  if (best != nullptr) {
    DSLIDE_RETURN_IF_ERROR(
        WriteWholeFile(Path("best.ini"), BestIni(task_.base, *best, task_.measure)));
  }
  for (const Trial& trial : trials_) {
    if (&trial != best) runner_->Reduce(trial);
  }
  return {};
}

void Tuner::Report() const {
  const Trial* best = BestOf(trials_, task_.measure);
  if (best == nullptr) return;
  say_("\n" + TrialTable(trials_, task_.measure));
  say_(BestText(*best, trials_, task_.measure));
  say_(fmt::format(
      "its model      {}\nits settings   {}\nto train it again: dslide train --config {} "
      "--run-dir {}",
      runner_->Path(best->number), Path("best.ini"), Path("best.ini"), Path("again")));
}

// A trial with these settings that need not run again; nullptr: none.
const Trial* Tuner::Known(const KeyValues& settings) const {
  for (const Trial& trial : trials_) {
    if (trial.settings == settings && trial.end != TrialEnd::kStopped) return &trial;
  }
  return nullptr;
}

double Tuner::SpentSeconds() const {
  return earlier_s_ + static_cast<double>(MonotonicMillis() - started_ms_) / 1000;
}

int64_t Tuner::DeadlineMs() const {
  const double left_s = task_.minutes * 60.0 - SpentSeconds();
  return MonotonicMillis() + static_cast<int64_t>(1000 * left_s);
}

}  // namespace dslide
