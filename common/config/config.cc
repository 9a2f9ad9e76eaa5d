#include "common/config/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/nearest.h"
#include "common/config/config_keys.h"
#include "common/config/limits.h"
#include "common/config/quoted.h"
#include "common/config/retired_keys.h"
#include "common/config/small_text.h"
#include "common/config/stored_config.h"

namespace dslide {
namespace {

constexpr std::string_view kCommandLine = "command line";

// Hidden units with train.effort; the default is between them.
constexpr uint32_t kFastHidden = 256, kBestHidden = 1024;

struct Assignment {
  std::string name;
  WrittenValue value;
  size_t line = 0;  // from 1; 0: not from a file
};

// A shell has quotes of its own.
const std::string& ValueFor(const Field& field, const WrittenValue& value) {
  const bool shells = field.kind == ValueKind::kCommand && !NeedsQuotes(value.text);
  return shells ? value.plain : value.text;
}

// The known key that an unknown one most likely stands for: the right name in the wrong section,
// else a typo in the full name, else a typo in the name without its section.
std::optional<std::string> SuggestKey(const std::string& unknown) {
  const std::string bare = unknown.substr(unknown.find('.') + 1);  // npos + 1 == 0: all of it
  std::vector<std::string> full_names;
  std::vector<std::string> bare_names;
  for (const ConfigKey& key : ConfigKeys()) {
    if (IsStoredKey(key.FullName())) continue;
    if (key.name == bare) return key.FullName();
    full_names.push_back(key.FullName());
    bare_names.push_back(key.name);
  }
  if (const std::string* full = Nearest(unknown, full_names)) return *full;
  const std::string* name = Nearest(bare, bare_names);
  if (name == nullptr) return std::nullopt;
  return full_names[static_cast<size_t>(name - bare_names.data())];
}

Error UnknownKey(std::string_view origin, const std::string& name) {
  const std::optional<std::string> suggestion = SuggestKey(name);
  const std::string remedy = suggestion ? fmt::format("did you mean {}?", *suggestion)
                                        : std::string("--help-config lists the known ones");
  return BadInput(fmt::format("{}: unknown key {}; {}", origin, Printable(name), remedy));
}

Error NotAllowed(std::string_view origin, const ConfigKey& key, std::string_view value,
                 std::string_view rule) {
  return BadInput(fmt::format("{}: {} = {}: {}", origin, key.FullName(), Printable(value), rule));
}

bool IsKnown(const Assignment& assignment) {
  return FindConfigKey(assignment.name) != nullptr ||
         FindRetiredKey(assignment.name, assignment.value.text) != nullptr;
}

enum class Age { kNew, kStored };  // stored: perhaps by an earlier version

// A Config under construction, with the origin of each value.
class Builder {
 public:
  Builder(const Config& base, Age age) : config_(base), age_(age) {}

  Status Set(const Assignment& assignment, std::string_view origin) {
    const ConfigKey* key = FindConfigKey(assignment.name);
    const bool keeps_it = key != nullptr && IsStoredKey(assignment.name) && IsStored(origin);
    const RetiredKey* retired = FindRetiredKey(assignment.name, assignment.value.text);
    if (retired != nullptr && !keeps_it) return SetRetired(assignment, *retired, origin);
    if (key == nullptr) return UnknownKey(origin, assignment.name);
    const Field& field = key->field;
    const std::string& value = ValueFor(field, assignment.value);
    if (assignment.value.cuts_a_string) {
      return NotAllowed(origin, *key, value,
                        "'#' begins a comment; put the whole value in quotes, with \\\" for those "
                        "in it");
    }
    if (!field.parse(value, &config_)) {
      return NotAllowed(
          origin, *key, value,
          "must be " + (field.allowed_in_full.empty() ? field.allowed : field.allowed_in_full));
    }
    origins_[key] = origin;
    config_.idle.given |= key->section == "idle";
    return {};
  }

  // A run that ended before its schedule did may be given more epochs than that has.
  void ExtendSchedule(std::string_view by) {
    TrainConfig& train = config_.train;
    const auto given = origins_.find(FindConfigKey("train.epochs"));
    const auto schedule = origins_.find(FindConfigKey("train.schedule_epochs"));
    const bool replaced = given != origins_.end() && given->second == by &&
                          (schedule == origins_.end() || schedule->second != by);
    if (replaced && train.schedule_epochs < train.epochs) train.schedule_epochs = 0;
  }

  // REQUIRES that all assignments were set. A stored configuration has both keys, and stays.
  void ApplyEffort() {
    const bool fixed = config_.model.features > 0;  // the base is a trained model's
    if (!Has("train.effort") || Has("model.hidden") || fixed) return;
    if (config_.train.effort == Effort::kFast) config_.model.hidden = kFastHidden;
    if (config_.train.effort == Effort::kBest) config_.model.hidden = kBestHidden;
  }

  bool Has(std::string_view name) const { return origins_.contains(FindConfigKey(name)); }

  // The settings that replace retired keys, with their origins. They are to be set after all
  // assignments of the text, none of which may undo them.
  const std::vector<std::pair<std::string, std::string>>& replacements() const {
    return replacements_;
  }

  // A replaced model.active = sampled was for either value of model.sharing; mass is for one.
  // REQUIRES that all assignments were set.
  void ShareDraws();

  // The rules that relate several keys.
  Status CheckTogether() const;

  const Config& config() const { return config_; }
  // A line for each key that has another effect in this version, or none.
  const std::vector<std::string>& without_effect() const { return without_effect_; }
  // Why this version must not train on with the configuration, if so.
  const std::optional<Error>& obstacle() const { return obstacle_; }

 private:
  // Whether the text from `origin` is a stored configuration.
  bool IsStored(std::string_view origin) const {
    return age_ == Age::kStored && origin != kCommandLine;
  }
  Status SetRetired(const Assignment& assignment, const RetiredKey& retired,
                    std::string_view origin);
  Status CheckDenseLayers() const;
  Status CheckStream() const;
  Status CheckSchedule() const;
  // Whole batches fill a step.
  Status CheckSteps() const;
  Error Refuse(std::string_view name, std::string_view rule) const;

  Config config_;
  Age age_;
  std::map<const ConfigKey*, std::string> origins_;
  std::vector<std::string> without_effect_;
  std::optional<Error> obstacle_;
  std::vector<std::pair<std::string, std::string>> replacements_;  // "key=value", origin
  bool has_replaced_ = false;  // a value by one that does not mean the same
};

Status Builder::SetRetired(const Assignment& assignment, const RetiredKey& retired,
                           std::string_view origin) {
  const bool may_have = IsStored(origin) || (origin != kCommandLine && !retired.has_effect);
  const bool is_known = FindConfigKey(assignment.name) != nullptr && retired.value.empty();
  const std::string line =
      fmt::format("{}: {} = {}: {}", origin, assignment.name, Printable(assignment.value.text),
                  is_known ? "no setting" : "this version does not have it");
  if (!may_have) return BadInput(fmt::format("{}; {}", line, retired.remedy));
  config_.idle.given |= assignment.name.starts_with("idle.");
  if (!retired.last_release.empty()) {
    obstacle_ =
        BadInput(fmt::format("{}; release {} continues such a run", line, retired.last_release));
  }
  if (!retired.replacement.empty()) {
    if (!retired.means_the_same && retired.last_release.empty()) {
      without_effect_.push_back(fmt::format("{} and uses {}", line, retired.replacement));
    }
    has_replaced_ |= !retired.means_the_same;
    for (const auto setting : std::views::split(retired.replacement, ' ')) {
      replacements_.emplace_back(std::string(setting.begin(), setting.end()), origin);
    }
  } else if (retired.last_release.empty() && retired.has_effect) {
    without_effect_.push_back(fmt::format("{}; {}", line, retired.remedy));
  }
  return {};
}

void Builder::ShareDraws() {
  ModelConfig& model = config_.model;
  if (!has_replaced_ || model.active != ActiveSet::kMass) return;
  if (std::exchange(model.sharing, Sharing::kBatch) == Sharing::kSample) {
    without_effect_.push_back("model.sharing = sample: model.active = mass uses batch");
  }
}

// REQUIRES `name` to be a known key.
Error Builder::Refuse(std::string_view name, std::string_view rule) const {
  const ConfigKey* key = FindConfigKey(name);
  DSLIDE_CHECK(key != nullptr);
  const auto origin = origins_.find(key);
  return NotAllowed(origin == origins_.end() ? "default" : origin->second, *key,
                    key->field.format(config_), rule);
}

// A server's copy of the dense layers goes with its sums of a batch into one message.
Status Builder::CheckDenseLayers() const {
  const ModelConfig& model = config_.model;
  if (model.dense.empty()) return {};
  const uint64_t rows = RowsOfDenseLayers(model);
  if (rows > kMostDenseRows) {
    return Refuse("model.hidden",
                  fmt::format("its dense layers take {} rows of {}, at most {} are possible; make "
                              "the first layer wider or the others narrower",
                              rows, model.hidden, kMostDenseRows));
  }
  constexpr uint64_t kRest = uint64_t{1} << 20;
  const uint64_t element = config_.cluster.wire == Wire::kFp32 ? sizeof(float) : sizeof(uint16_t);
  const uint64_t batch = config_.train.batch == 0 ? kMostDerivedBatch : config_.train.batch;
  const uint64_t bytes = (rows * element + batch * sizeof(int64_t)) * model.hidden + kRest;
  if (bytes <= kMostMessageBytes) return {};
  return Refuse("model.hidden",
                fmt::format("its dense layers and a batch take {} MiB, a message has at most {}; "
                            "make the layers narrower",
                            bytes >> 20, kMostMessageBytes >> 20));
}

// Refuses settings that a model without fixed sizes cannot have.
Status Builder::CheckStream() const {
  const TrainConfig& train = config_.train;
  const ModelConfig& model = config_.model;
  if (!train.open_vocabulary && train.epochs == kMostSegments) {
    return Refuse("train.epochs", "that many only with train.open_vocabulary");
  }
  if (!train.open_vocabulary) return {};
  constexpr const char* kNot = "not with train.open_vocabulary";
  if (IsOfTokens(config_.text)) return Refuse("text.format", kNot);
  if (config_.text.hash_bits > 0) return Refuse("text.hash_bits", kNot);
  if (!model.dense.empty()) return Refuse("model.hidden", std::string(kNot) + ": give one number");
  if (!LearnsNeurons(model)) return Refuse("model.neurons", kNot);
  if (model.sharing == Sharing::kSample) return Refuse("model.sharing", kNot);
  if (HasNeuronIndex(model)) {
    return Refuse("model.active", std::string(kNot) + ": mass or all");
  }
  // Earlier versions derived kMostEpochs.
  if (train.epochs != 0 && train.epochs != kMostEpochs && train.epochs != kMostSegments) {
    return Refuse("train.epochs", kNot);
  }
  if (train.decay == Decay::kCosine) return Refuse("train.decay", kNot);
  if (train.schedule_epochs > 0) return Refuse("train.schedule_epochs", kNot);
  if (train.cooldown_epochs.value_or(0) > 0) return Refuse("train.cooldown_epochs", kNot);
  if (train.late_dropout.value_or(0) > 0) return Refuse("train.late_dropout", kNot);
  if (train.late_negatives.value_or(0) > 0) return Refuse("train.late_negatives", kNot);
  if (train.heldout.value_or(0) > 0) return Refuse("train.heldout", kNot);
  if (!train.dev.empty()) return Refuse("train.dev", kNot);
  if (train.min_label_samples > 1) {
    return Refuse("train.min_label_samples", std::string(kNot) + ", which has train.admit_count");
  }
  if (!train.label_names.empty()) return Refuse("train.label_names", kNot);
  if (!config_.labels.vocabulary.empty()) return Refuse("labels.vocabulary", kNot);
  if (train.exclude_own_features) return Refuse("train.exclude_own_features", kNot);
  return {};
}

Status Builder::CheckSchedule() const {
  const TrainConfig& train = config_.train;
  const uint32_t cooldown = train.cooldown_epochs.value_or(0);
  if (train.schedule_epochs > 0 && train.schedule_epochs < train.epochs) {
    return Refuse("train.schedule_epochs",
                  fmt::format("train.epochs is {}: give as many or more", train.epochs));
  }
  if (!LearnsNeurons(config_.model) && (train.schedule_epochs > 0 || cooldown > 0)) {
    return Refuse(cooldown > 0 ? "train.cooldown_epochs" : "train.schedule_epochs",
                  "not with model.neurons = centroids");
  }
  return {};
}

Status Builder::CheckTogether() const {
  if (!config_.labels.vocabulary.empty()) {
    if (IsOfTokens(config_.text)) return Refuse("labels.vocabulary", "not with words and sessions");
    if (config_.train.min_label_samples > 1) {
      return Refuse("train.min_label_samples", "not with labels.vocabulary, whose labels all stay");
    }
  }
  const HashConfig& hash = config_.hash;
  const uint32_t max_k = kMaxCodeBits / BitsPerHash(hash);
  if (hash.k > max_k) {
    return Refuse("hash.k", fmt::format("must be at most {}: a table has at most 2^{} buckets",
                                        max_k, kMaxCodeBits));
  }
  if (config_.model.precision == Precision::kFp32 &&
      config_.train.moments == MomentPrecision::kBf16) {
    return Refuse("train.moments", "moments in bf16 need model.precision = bf16; auto follows it");
  }
  if (config_.model.active == ActiveSet::kMass && config_.model.sharing == Sharing::kSample) {
    return Refuse("model.active", "a batch shares its draws; it needs model.sharing = batch");
  }
  if (!LearnsNeurons(config_.model) &&
      (config_.model.sharing == Sharing::kSample || config_.model.loss == Loss::kSigmoid)) {
    const char* other = config_.model.loss == Loss::kSigmoid ? "loss = softmax" : "sharing = batch";
    return Refuse("model.neurons", fmt::format("centroids need model.{}", other));
  }
  if (IsLinear(config_.model) && !config_.model.dense.empty()) {
    return Refuse("model.activation", "linear goes with one number in model.hidden");
  }
  DSLIDE_RETURN_IF_ERROR(CheckDenseLayers());
  DSLIDE_RETURN_IF_ERROR(CheckStream());
  DSLIDE_RETURN_IF_ERROR(CheckSchedule());
  if (config_.train.audit > 0.0f && config_.train.staleness != 0) {
    return Refuse("train.audit", "only with train.staleness = 0 a batch gives the same twice");
  }
  if (config_.cluster.input_slots >= static_cast<int32_t>(config_.cluster.slots)) {
    return Refuse("cluster.input_slots",
                  fmt::format("must be below cluster.slots = {}", config_.cluster.slots));
  }
  DSLIDE_RETURN_IF_ERROR(CheckSteps());
  if (config_.cluster.lease_timeout_ms <= config_.cluster.heartbeat_ms) {
    return Refuse("cluster.lease_timeout_ms", fmt::format("must be above cluster.heartbeat_ms = {}",
                                                          config_.cluster.heartbeat_ms));
  }
  return {};
}

Status Builder::CheckSteps() const {
  const TrainConfig& train = config_.train;
  if (train.target_batch != 0 && train.staleness < 0) {
    return Refuse("train.target_batch",
                  "needs train.staleness >= 0: asynchronous training has no steps");
  }
  // Every derived batch divides the largest.
  const uint32_t batch = train.batch == 0 ? kMostDerivedBatch : train.batch;
  if (train.target_batch % batch != 0) {
    return Refuse("train.target_batch",
                  train.batch == 0
                      ? fmt::format("must be a multiple of {}, or give train.batch", batch)
                      : fmt::format("must be a multiple of train.batch = {}", batch));
  }
  return {};
}

// The assignments of INI text in their order, known keys or not.
Result<std::vector<Assignment>> ReadIni(std::string_view text, std::string_view origin) {
  const Result<std::string_view> unmarked = WithoutMark(text, origin);
  DSLIDE_RETURN_IF_ERROR(unmarked);
  std::vector<Assignment> assignments;
  std::string prefix;  // "section."
  std::string_view rest = *unmarked;
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view whole = NextLine(&rest);
    const std::string_view line = Stripped(whole.substr(0, whole.find('#')));
    const size_t equals = whole.find('=');
    if (line.empty()) continue;
    if (line.starts_with('[') && line.ends_with(']')) {
      prefix = fmt::format("{}.", Stripped(line.substr(1, line.size() - 2)));
    } else if (line.find('=') != std::string_view::npos) {
      assignments.push_back({fmt::format("{}{}", prefix, Stripped(whole.substr(0, equals))),
                             ReadValue(whole.substr(equals + 1)), number});
    } else {
      return BadInput(fmt::format("{}:{}: must be \"key = value\" or \"[section]\": {}", origin,
                                  number, Printable(line)));
    }
  }
  return assignments;
}

Status SetFromIni(std::string_view text, std::string_view origin, Builder* builder) {
  Result<std::vector<Assignment>> assignments = ReadIni(text, origin);
  if (!assignments.ok()) return assignments.error();
  for (const Assignment& assignment : *assignments) {
    const std::string place = fmt::format("{}:{}", origin, assignment.line);
    if (builder->Has(assignment.name)) {
      return BadInput(fmt::format("{}: {} is given twice", place, assignment.name));
    }
    DSLIDE_RETURN_IF_ERROR(builder->Set(assignment, place));
  }
  return {};
}

// "key=value" or "key = value" with '=' at `equals`. The value of a word has no outer blanks.
Assignment OverrideOf(std::string_view text, size_t equals) {
  const std::string_view left = text.substr(0, equals), right = text.substr(equals + 1);
  Assignment assignment = {std::string(Stripped(left)), {}};
  const ConfigKey* key = FindConfigKey(assignment.name);
  const bool as_it_is =
      key != nullptr && key->field.kind != ValueKind::kWord && left == assignment.name;
  if (as_it_is) {
    assignment.value.text = assignment.value.plain = right;
  } else {
    assignment.value = ReadValue(right, Comments::kNone);
  }
  return assignment;
}

Status SetFromOverrides(const Overrides& overrides, Builder* builder) {
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return BadInput(
          fmt::format("{}: {}: must be section.key=value", kCommandLine, Printable(text)));
    }
    DSLIDE_RETURN_IF_ERROR(builder->Set(OverrideOf(text, equals), kCommandLine));
  }
  return {};
}

Error FileError(const std::string& path, std::string_view verb, int number) {
  return BadInput(
      fmt::format("{}: cannot {}: {}", path, verb, std::generic_category().message(number)));
}

Result<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) return FileError(path, "open", errno);
  std::string text;
  char buffer[4096];
  while (const size_t read = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, read);
  }
  if (std::ferror(file.get()) != 0) return FileError(path, "read", errno);
  return text;
}

Result<Config> Build(std::string_view text, std::string_view origin, const Overrides& overrides,
                     const Config& base, Age age = Age::kNew,
                     std::vector<std::string>* without_effect = nullptr) {
  Builder builder(base, age);
  DSLIDE_RETURN_IF_ERROR(SetFromIni(text, origin, &builder));
  const auto replacements = builder.replacements();
  for (const auto& [setting, place] : replacements) {
    DSLIDE_RETURN_IF_ERROR(builder.Set(OverrideOf(setting, setting.find('=')), place));
  }
  DSLIDE_RETURN_IF_ERROR(SetFromOverrides(overrides, &builder));
  builder.ShareDraws();
  builder.ExtendSchedule(kCommandLine);
  builder.ApplyEffort();
  DSLIDE_RETURN_IF_ERROR(builder.CheckTogether());
  if (without_effect != nullptr) {
    if (builder.obstacle()) return *builder.obstacle();
    *without_effect = builder.without_effect();
  }
  return builder.config();
}

// Whether the file is the configuration that a run has stored: its ledger, checkpoints or summary
// lie beside it.
bool IsOfRun(const std::filesystem::path& path) {
  std::error_code error;
  return path.filename() == "config.ini" &&
         std::ranges::any_of(
             std::initializer_list<const char*>{"ledger", "checkpoint", "summary.json"},
             [&](const char* beside) {
               return std::filesystem::exists(path.parent_path() / beside, error);
             });
}

}  // namespace

Result<Config> ParseConfig(std::string_view text, std::string_view origin,
                           const Overrides& overrides) {
  return Build(text, origin, overrides, {});
}

Result<Config> ParseStoredConfig(std::string_view text, std::string_view origin,
                                 std::vector<std::string>* without_effect) {
  Config before;
  before.train.normalize = 1.0f;
  before.train.heldout = 0;
  return Build(text, origin, {}, before, Age::kStored, without_effect);
}

Result<Config> ParseSchedulersConfig(std::string_view text) {
  constexpr std::string_view kOrigin = "configuration from the scheduler";
  constexpr std::string_view kMend = "install the scheduler's version on this machine";
  const Result<std::vector<Assignment>> assignments = ReadIni(text, kOrigin);
  DSLIDE_RETURN_IF_ERROR(assignments);
  for (const Assignment& assignment : *assignments) {
    if (IsKnown(assignment)) continue;
    return BadInput(
        fmt::format("the scheduler is of a newer version: its configuration has {}, which is "
                    "unknown here; {}",
                    Printable(assignment.name), kMend));
  }
  std::vector<std::string> without_effect;
  Result<Config> config = Build(text, kOrigin, {}, {}, Age::kStored, &without_effect);
  if (config.ok() && without_effect.empty()) return config;
  return BadInput(fmt::format("{}; the scheduler is of another version: {}",
                              config.ok() ? without_effect.front() : config.error().message,
                              kMend));
}

Result<Config> LoadConfig(const std::string& path, const Overrides& overrides, const Config& base) {
  if (path.empty()) return Build("", "default", overrides, base);
  Result<std::string> text = ReadFile(path);
  if (!text.ok()) return text.error();
  return Build(*text, path, overrides, base, IsOfRun(path) ? Age::kStored : Age::kNew);
}

Result<std::set<std::string>> GivenKeys(const std::string& path, const Overrides& overrides) {
  std::set<std::string> names;
  const Result<std::string> text = path.empty() ? Result<std::string>("") : ReadFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  const Result<std::vector<Assignment>> assignments = ReadIni(*text, path);
  DSLIDE_RETURN_IF_ERROR(assignments);
  for (const Assignment& assignment : *assignments) names.insert(assignment.name);
  for (const std::string& override : overrides) {
    names.emplace(Stripped(std::string_view(override).substr(0, override.find('='))));
  }
  return names;
}

}  // namespace dslide
