#include "tools/dslide/tune/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Json = nlohmann::json;

constexpr const char* kEndNames[] = {"finished", "failed", "stopped"};

OrderedJson TrialJson(const Trial& trial) {
  OrderedJson json;
  json["trial"] = trial.number;
  json["candidate"] = trial.candidate;
  json["settings"] = trial.settings;
  json["epochs"] = trial.epochs;
  json["outcome"] = kEndNames[static_cast<size_t>(trial.end)];
  if (!trial.reason.empty()) json["reason"] = trial.reason;
  for (const std::string& name : MeasureNames()) {
    if (const auto figure = trial.figures.find(name); figure != trial.figures.end()) {
      json[name] = figure->second;
    }
  }
  json["cpu_seconds"] = trial.cpu_seconds;
  json["train_seconds"] = trial.train_seconds;
  json["seconds"] = trial.seconds;
  return json;
}

// Throws nlohmann::json::exception where the line is not a trial's.
Trial TrialOf(const Json& json) {
  Trial trial;
  trial.number = json.at("trial");
  trial.candidate = json.at("candidate").get<KeyValues>();
  trial.settings = json.at("settings").get<KeyValues>();
  trial.epochs = json.at("epochs");
  const std::string end = json.at("outcome");
  for (size_t e = 0; e < std::size(kEndNames); ++e) {
    if (end == kEndNames[e]) trial.end = static_cast<TrialEnd>(e);
  }
  trial.reason = json.value("reason", "");
  for (const std::string& name : MeasureNames()) {
    if (json.contains(name)) trial.figures[name] = json[name];
  }
  trial.cpu_seconds = json.at("cpu_seconds");
  trial.train_seconds = json.at("train_seconds");
  trial.seconds = json.at("seconds");
  return trial;
}

}  // namespace

const std::vector<std::string>& MeasureNames() {
  static const auto* names =
      new std::vector<std::string>({"p_at_1", "p_at_3", "p_at_5", "ndcg_at_1", "ndcg_at_3",
                                    "ndcg_at_5", "psp_at_1", "psp_at_3", "psp_at_5"});
  return *names;
}

double MeasureOf(const Trial& trial, const std::string& measure) {
  const auto figure = trial.figures.find(measure);
  return figure == trial.figures.end() ? 0 : figure->second;
}

TuneOutcome OutcomeOf(const Trial& trial, const std::string& measure) {
  return {trial.end == TrialEnd::kFinished, MeasureOf(trial, measure), trial.cpu_seconds,
          trial.seconds, trial.train_seconds};
}

bool IsBetter(const Trial& a, const Trial& b, const std::string& measure) {
  const auto rank = [&](const Trial& trial) {
    return std::tuple(trial.end, -MeasureOf(trial, measure), trial.cpu_seconds, trial.number);
  };
  return rank(a) < rank(b);
}

const Trial* BestOf(const std::vector<Trial>& trials, const std::string& measure) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (trial.end != TrialEnd::kFinished) continue;
    if (best == nullptr || IsBetter(trial, *best, measure)) best = &trial;
  }
  return best;
}

std::string TrialLines(const std::vector<Trial>& trials) {
  std::string lines;
  for (const Trial& trial : trials) {
    lines += TrialJson(trial).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  }
  return lines;
}

Result<std::vector<Trial>> ParseTrials(std::string_view text, const std::string& path) {
  std::vector<Trial> trials;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    try {
      trials.push_back(TrialOf(Json::parse(line)));
    } catch (const nlohmann::json::exception&) {
      return BadInput(
          fmt::format("{}:{}: is no trial; remove the line to try it again", path, number));
    }
  }
  return trials;
}

}  // namespace dslide
