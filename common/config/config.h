// The configuration of a whole cluster: one INI file, every key also a command-line override.
//
// Every process of a run works from the same effective configuration: the scheduler resolves
// the automatic values from the data, and sends the text of FormatConfig() to every process that
// joins. The run derives the values of stored keys (common/config/retired_keys.h), or they are
// constants: users do not set them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/config/week_hours.h"

namespace dslide {

enum class Loss { kSoftmax, kSigmoid };
enum class ActiveSet { kAuto, kMass, kLsh, kAll };
enum class Sharing { kBatch, kSample };
enum class Neurons { kAuto, kLearned, kCentroids };
enum class Activation { kAuto, kRelu, kLinear };
enum class OptimizerKind { kAdam, kAdaGrad, kSgd };
enum class Decay { kLinear, kCosine, kNone };
enum class Effort { kFast, kNormal, kBest };
enum class Precision { kFp32, kBf16 };
enum class Products { kAuto, kFp32, kBf16 };
enum class MomentPrecision { kAuto, kFp32, kBf16 };
enum class WirePrecision { kBf16, kFp32, kInt8 };
enum class Wire { kAuto, kBf16, kFp32, kInt8 };
enum class Balance { kAuto, kOff };
// The format of a data file's lines. kRecords: the format is detected from the file
// (common/text/records/record_format.h).
enum class TextFormat {
  kRecords,
  kJson,
  kFastText,
  kTsv,
  kCsv,
  kPlain,
  kNumbers,
  kLibsvm,
  kWords,
  kSessions
};

struct CommonConfig {
  uint64_t seed = 1;               // initial weights, order of samples, hash functions, negatives
  std::string log_level = "info";  // trace, debug, info, warn, error

  bool operator==(const CommonConfig&) const = default;
};

struct ModelConfig {
  uint32_t features = 0;  // D; from the training file's header, never set by hand
  uint32_t labels = 0;    // N; from the training file's header, never set by hand
  uint32_t hidden = 512;  // H, the first number of model.hidden: the width of the input rows
  std::vector<uint32_t>
      dense;  // the others: widths of the dense layers behind (common/run/dense_layers.h)
  Loss loss = Loss::kSoftmax;
  Activation activation = Activation::kAuto;  // relu; of words and sessions linear
  Neurons neurons = Neurons::kAuto;           // centroids of many samples if all labels are rare
  ActiveSet active = ActiveSet::kAuto;        // all up to 2,000 labels, else mass; centroids: lsh
  Sharing sharing = Sharing::kBatch;
  uint32_t candidates = 10;                // lsh: hash candidates drawn per sample, on average
  uint32_t negatives = 2500;               // mass, lsh: drawn by mass per batch, on average
  Precision precision = Precision::kBf16;  // weights; bf16 is rounded stochastically
  Products products = Products::kAuto;     // precision of the B x U block; auto: as precision
  float input_init = 0.0f;                 // standard deviation of the input rows at the start;
                                           // 0: derived, 0.005 or with centroids 1
  float output_init = 0.0f;                // the same for output neurons; 0: derived, 1/sqrt(H)

  bool operator==(const ModelConfig&) const = default;
};

struct HashConfig {
  uint32_t k = 0;        // hashes per table; 0: derived from N, at least 8 neurons per bucket
  uint32_t tables = 24;  // L; of 50 none had a better P@1 (schema/DECISIONS.md)
  uint32_t bin = 8;      // coordinates a hash looks at; a power of two up to 16

  bool operator==(const HashConfig&) const = default;
};

struct TrainConfig {
  std::string data;                 // training file
  std::string test;                 // evaluation file; may be empty
  std::string dev;                  // file of held-out samples; may be empty
  std::optional<uint32_t> heldout;  // held-out training samples; nullopt: derived
  std::string label_names;          // file of lines "label id, tab, name"; may be empty
  std::optional<float> normalize;   // divisor of feature values; nullopt: derived from the data
  uint32_t min_label_samples = 1;   // labels of fewer samples are left out
  bool open_vocabulary = false;     // a stream, whose labels and words come while it is trained
  uint32_t segment_samples = 8192;  // of a segment of the stream, at most
  uint32_t segment_s = 10;          // after which a segment ends, full or not
  uint32_t admit_count = 2;         // samples after which a word or label is added
  uint32_t expire_segments = 1000;  // without a word or label after which it goes; 0: never
  uint32_t vocabulary_mb = 0;       // that words and labels of a stream may take; 0: derived
  Effort effort = Effort::kNormal;  // decides H, epochs, dropout, smoothing that are not given
  uint32_t epochs = 0;              // 0: derived from the number of samples
  uint32_t batch = 0;               // samples; 0: derived from their number
  OptimizerKind optimizer = OptimizerKind::kAdaGrad;
  float learning_rate = 0.0f;                        // 0: derived from optimiser, H and batch
  MomentPrecision moments = MomentPrecision::kAuto;  // Adam; auto: as model.precision
  std::optional<uint32_t> warmup_batches;            // the rate rises linearly; WarmupBatches()
  Decay decay = Decay::kLinear;                      // towards 0 at the end of the last epoch
  uint32_t schedule_epochs = 0;                      // common/config/schedule.h; 0: train.epochs
  std::optional<uint32_t> cooldown_epochs;           // nullopt: held-out samples decide
  float weight_decay = 0.0f;               // decoupled (AdamW), a touched row loses lr * this share
  std::optional<float> dropout_hidden;     // share of hidden units left out; DropoutHidden()
  std::optional<uint32_t> late_dropout;    // DropoutIn(); nullopt: held-out samples decide
  std::optional<uint32_t> late_negatives;  // DrawsAt(); nullopt: the tail's error decides
  std::optional<float> label_smoothing;    // softmax: target mass spread evenly; LabelSmoothing()
  float sparsify = 0.01f;             // probabilities below it become 0 or it at random; 0: never
  bool exclude_own_features = false;  // rank without label i if feature i is in the sample
  uint32_t unit_batches = 8;          // batches per work unit
  uint32_t batches_in_flight = 0;     // per worker; 0: adapts to the round trip
  // The share of the learning rate that dense layers have, which every batch changes. 128,128 had
  // its best P@1 with 0.03 (tools/bench/RESULTS.md, Deeper networks).
  float dense_rate = 0.03f;
  int32_t staleness = -1;            // -1: asynchronous; else steps that a batch may be ahead
  uint32_t target_batch = 0;         // samples per step if staleness >= 0; 0: train.batch
  float audit = -1.0f;               // share of batches trained twice to compare; -1: by encryption
  uint32_t evaluate_samples = 4000;  // drawn at random after each epoch; all after the last
  uint32_t epoch_samples = 0;        // no key: ModelShape::samples; 0: fixed sizes

  bool operator==(const TrainConfig&) const = default;
};

// How text becomes samples: records (common/text/terms.h, common/text/vectorizer.h), or words and
// sessions (common/text/tokens.h, common/data/token_samples.h), which the first keys are for.
struct TextConfig {
  TextFormat format = TextFormat::kRecords;
  std::string fields;               // other names of fields, "title:headline,labels:tags"
  uint32_t window = 0;              // tokens around a word, before an item; 0: derived
  uint32_t min_count = 0;           // tokens of fewer occurrences are left out; 0: derived
  float subsample = 1e-4f;          // words: share of the tokens above which some are left out
  float decay = 0.7f;               // sessions: an item's value over that of the one after it
  uint32_t ngrams = 1;              // words that make up a feature, at most; 1 or 2
  bool title = true;                // a title has features of its own besides
  uint32_t title_chars = 5;         // they are character n-grams of its words; 0: its words
  bool title_pairs = true;          // and pairs of its words
  bool fold_accents = false;        // letters lose their accents
  uint32_t min_samples = 2;         // features of fewer samples are left out
  float max_share = 0.5f;           // features of a larger share of the samples are left out
  uint32_t max_features = 500'000;  // the most frequent ones stay
  std::string stem = "off";         // a language: words become stems (common/stem/stemmer.h)
  uint32_t chars = 0;               // character n-grams of all words besides; 0: none
  uint32_t hash_bits = 0;           // 2^hash_bits features without a vocabulary; 0: with one

  bool operator==(const TextConfig&) const = default;
};

// What the labels are called.
struct LabelsConfig {
  std::string vocabulary;  // file of identifiers and names (common/vocabulary); empty: none
  std::string language;    // of its names; empty: the one that most concepts have
  float name_weight = 1;   // of the sample that a label's name is; 0: names are no samples

  bool operator==(const LabelsConfig&) const = default;
};

struct ClusterConfig {
  uint32_t servers = 1;  // training starts when this many have joined
  uint32_t workers = 1;  // how many `dslide train` starts; others may join
  uint32_t most_workers = 4096;
  std::string scheduler_bind = "tcp://127.0.0.1:7700";
  std::string scheduler_advertise;                // what others dial; empty: the bind address
  std::string status_bind = "tcp://127.0.0.1:*";  // the status page; empty: none
  std::string server_bind = "tcp://127.0.0.1:*";
  std::string server_advertise;  // empty: the bind address with the real port
  uint32_t slots = 256;          // V
  int32_t input_slots = -1;  // of these hold input rows only; -1: a quarter of 32 and more; 0: none
  uint32_t executors = 0;    // threads per server; 0: one per core
  Wire wire = Wire::kAuto;   // auto: int8 on busy links, else bf16
  uint32_t join_timeout_s = 300;
  uint32_t heartbeat_ms = 1000;
  uint32_t lease_timeout_ms = 60000;    // a lease ends after this time without progress
  uint32_t request_timeout_ms = 10000;  // a request is sent again after this time
  uint32_t takeover_s = 30;             // a dead server's slots go to the others after this time
  uint32_t scheduler_silence_s = 60;    // servers and workers leave after this time without it
  Balance balance = Balance::kAuto;     // in synchronous training only when servers come and go
  uint32_t move_mbit = 0;               // Mbit/s of moving slots that a server receives; 0: any
  uint32_t memory_mb = 0;          // for rows and tables; 0: 80 % of what the machine or cgroup has
  std::string disk_tier = "auto";  // a directory for rows without room there; auto: /var/tmp; off
  uint32_t drain_s = 20;           // longest time that a stopping server hands its slots over

  bool operator==(const ClusterConfig&) const = default;
};

struct CheckpointConfig {
  std::string directory;     // empty: checkpoint/ in the run directory
  uint32_t interval_s = 60;  // 0: only at the end and on demand
  uint32_t keep = 2;         // checkpoints that stay, the newest
  uint32_t quota_mb = 0;     // of the run directory and the checkpoints; 0: any
  std::string hook;          // shell command after each checkpoint; empty: none
  std::string shard_hook;    // the same on a server's machine, after its part

  bool operator==(const CheckpointConfig&) const = default;
};

// Whether messages are encrypted and members are known by keys.
enum class Encryption { kAuto, kAlways, kTrustedNetwork };

struct SecurityConfig {
  Encryption encryption = Encryption::kAuto;  // outside loopback; trusted network: never

  bool operator==(const SecurityConfig&) const = default;
};

// The scheduling class of a process on a lent machine.
enum class Priority { kIdle, kLow, kNormal };
enum class OnBattery { kPause, kRun };

// What the owner of a lent machine allows (common/idle). The names follow BOINC's preferences, see
// configs/README.md. Never the scheduler's: each worker and server reads its own.
struct IdleConfig {
  bool given = false;                   // no key: whether any of them was set
  Priority priority = Priority::kIdle;  // of CPU and disk
  WeekHours hours;                      // for computing
  uint32_t cpu_share = 100;             // percent of a core's time
  uint32_t cores = 0;                   // CPUs that it may run on; 0: all
  uint32_t pause_cpu_percent = 25;      // CPU use of others above which it pauses; 0: never
  OnBattery on_battery = OnBattery::kPause;
  uint32_t upload_kbit = 0;        // kbit/s; 0: any
  uint32_t download_kbit = 0;      // kbit/s; 0: any
  uint32_t daily_transfer_mb = 0;  // sent and received from midnight to midnight; 0: any
  uint32_t memory_mb = 0;          // resident; 0: any
  uint32_t disk_mb = 0;            // servers: the directory of checkpoints; 0: any

  bool operator==(const IdleConfig&) const = default;
};

struct Config {
  CommonConfig common;
  ModelConfig model;
  HashConfig hash;
  TrainConfig train;
  TextConfig text;
  LabelsConfig labels;
  ClusterConfig cluster;
  CheckpointConfig checkpoint;
  SecurityConfig security;
  IdleConfig idle;

  bool operator==(const Config&) const = default;
};

// "section.key=value" pairs, applied in order over the file's values.
using Overrides = std::vector<std::string>;

// Defaults, then the INI file (`path` may be empty: none), then the overrides, then range checks.
// Errors (kBadInput) name the file (or "command line"), the key, the value and the allowed values;
// an unknown key is refused with the nearest known one. common/config/quoted.h has the grammar of
// values and comments, and of overrides. `base` has the values of the keys that neither sets.
Result<Config> LoadConfig(const std::string& path, const Overrides& overrides,
                          const Config& base = {});

// The same from INI text; `origin` stands for the path in errors.
Result<Config> ParseConfig(std::string_view text, std::string_view origin,
                           const Overrides& overrides = {});

// The configuration that a scheduler has sent. A key or value that is not known here is one of
// another version of this program: the error (kBadInput) says so.
Result<Config> ParseSchedulersConfig(std::string_view text);

// INI text with every section and key, [idle] only if it is given; ParseConfig of it gives the same
// Config back.
std::string FormatConfig(const Config& config);

// Every key with its default and one line of help, for --help-config and the README.
std::string ConfigHelp();

// What the training data decides besides D and N; without it, what large data has.
struct DataFacts {
  uint64_t samples = std::numeric_limits<uint64_t>::max();  // that are trained
  // Samples of a label, in the mean over all labels of all samples: sum of n_l^2 over sum of n_l. 0
  // without labels.
  double label_repeats = std::numeric_limits<double>::infinity();
  uint64_t median_label = 0;  // samples of the median label, of those that occur; 0: unknown
};

// Sets model.features and model.labels, replaces the automatic values (model.activation,
// model.neurons, model.active,
// model.products, model.input_init, model.output_init, hash.k, train.epochs, train.batch,
// train.learning_rate, train.moments, train.target_batch, cluster.input_slots) by values derived
// from D, N, H and `facts`, lowers model.candidates, model.negatives and cluster.slots
// to the size of the data, and train.unit_batches to a divisor of a step. Idempotent. REQUIRES
// features > 0 and labels > 0.
void ResolveConfig(uint32_t features, uint32_t labels, Config* config, const DataFacts& facts = {});

// train.epochs where it is left open.
uint32_t DerivedEpochs(const TextConfig& text, uint64_t samples);

// model.hidden as it is written: "512", "1024,256".
std::string HiddenText(const ModelConfig& model);

// The line about derived keys: "H = 256, neurons learned, batches of 128, 16 epochs, learning rate
// 0.05, effort normal".
std::string TrainingText(const Config& config);

// The precision of cluster.wire where no link is measured; auto: bf16.
inline WirePrecision FixedPrecision(Wire wire) {
  if (wire == Wire::kFp32) return WirePrecision::kFp32;
  return wire == Wire::kInt8 ? WirePrecision::kInt8 : WirePrecision::kBf16;
}

// The width of the output rows: of the last hidden layer.
inline uint32_t OutputWidth(const ModelConfig& model) {
  return model.dense.empty() ? model.hidden : model.dense.back();
}

// Whether neurons are drawn by their mass, so that each keeps one.
inline bool DrawsByMass(const ModelConfig& model) {
  return model.active == ActiveSet::kMass || model.active == ActiveSet::kLsh;
}

// Whether servers keep an index of the neurons' weights, which draws active sets and answers
// searches.
inline bool HasNeuronIndex(const ModelConfig& model) { return model.active == ActiveSet::kLsh; }

// Whether servers may have disk for rows that memory has no room for.
inline bool MayKeepRowsOnDisk(const ClusterConfig& cluster) { return cluster.disk_tier != "off"; }

// Whether the gradients of batches make the neurons, rather than the means of their samples.
inline bool LearnsNeurons(const ModelConfig& model) { return model.neurons != Neurons::kCentroids; }

// Whether samples are words and their contexts, or sessions.
inline bool IsOfTokens(const TextConfig& text) {
  return text.format == TextFormat::kWords || text.format == TextFormat::kSessions;
}

// The values of train.dropout_hidden and train.label_smoothing. A key that is not set has the
// default for learned neurons.
inline float DropoutHidden(const TrainConfig& train) { return train.dropout_hidden.value_or(0.1f); }
inline float LabelSmoothing(const TrainConfig& train) {
  return train.label_smoothing.value_or(0.1f);
}

// The value of train.warmup_batches. The learning rate of a stream never falls.
inline uint32_t WarmupBatches(const TrainConfig& train) {
  return train.warmup_batches.value_or(train.open_vocabulary ? 100 : 200);
}

// Whether h is the sum of input rows as it is, without relu.
inline bool IsLinear(const ModelConfig& model) { return model.activation == Activation::kLinear; }

// For train.open_vocabulary: settings that follow from the size of a model must not depend on the
// beginning of the stream. Its segments are its epochs.
constexpr uint32_t kOpenFeatures = 1u << 20;
constexpr uint32_t kOpenLabels = 1u << 20;
constexpr uint32_t kMostSegments = 1u << 31;  // one a second: 68 years

// The configuration by which members know a run: without fixed sizes, those of the model are
// kOpenFeatures and kOpenLabels.
Config WithNominalSizes(Config config);

// Whether the model has the same features and labels, and an epoch the same samples, from the
// start of a run to its end.
inline bool HasFixedSizes(const TrainConfig& train) { return !train.open_vocabulary; }

// Whether the scheduler encrypts all traffic: with encryption = auto, where other machines reach
// it.
bool IsEncrypted(const Config& config);
inline bool IsSynchronous(const TrainConfig& train) { return train.staleness >= 0; }

}  // namespace dslide
