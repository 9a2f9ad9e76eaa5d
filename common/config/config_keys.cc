#include "common/config/config_keys.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "common/config/limits.h"

namespace dslide {
namespace {

constexpr uint32_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kDayMs = 24 * 3600 * 1000;
constexpr uint32_t kDayS = 24 * 3600;

constexpr OnResume kFree = OnResume::kFree;
constexpr OnResume kFixed = OnResume::kFixed;
constexpr OnResume kKeepsSign = OnResume::kKeepsSign;
constexpr bool kServersOwn = true;

std::vector<ConfigKey> CommonKeys() {
  constexpr auto kIn = &Config::common;
  using C = CommonConfig;
  const char* section = "common";
  return {
      {section, "seed", "seed of initial weights, sample order, hashes and negatives",
       Number(kIn, &C::seed, 0, kMaxUint64), kFixed},
      {section, "log_level", "least severe messages that are logged",
       OneOf(kIn, &C::log_level,
             {{"trace", "trace"},
              {"debug", "debug"},
              {"info", "info"},
              {"warn", "warn"},
              {"error", "error"}}),
       kFree, kServersOwn},
  };
}

std::vector<ConfigKey> ModelKeys() {
  constexpr auto kIn = &Config::model;
  using M = ModelConfig;
  const char* section = "model";
  return {
      {section, "features", "features (D); from the data",
       Number(kIn, &M::features, 0, kMostFeatures), kFixed},
      {section, "labels", "labels (N); from the data", Number(kIn, &M::labels, 0, kMaxUint32),
       kFixed},
      {section, "hidden", "hidden units (H); more numbers: of dense layers behind", HiddenLayers(),
       kFixed},
      {section, "loss", "over a sample's labels together, or label by label",
       OneOf(kIn, &M::loss, {{"softmax", Loss::kSoftmax}, {"sigmoid", Loss::kSigmoid}})},
      {section, "activation", "of hidden units; auto: relu, of words and sessions linear",
       OneOf(kIn, &M::activation,
             {{"auto", Activation::kAuto},
              {"relu", Activation::kRelu},
              {"linear", Activation::kLinear}}),
       kFixed},
      {section, "neurons", "centroids of their samples if all labels are rare, else learned",
       OneOf(kIn, &M::neurons,
             {{"auto", Neurons::kAuto},
              {"learned", Neurons::kLearned},
              {"centroids", Neurons::kCentroids}}),
       kFixed},
      {section, "active", "neurons computed; auto: all, above 2,000 labels mass or lsh",
       OneOf(kIn, &M::active,
             {{"auto", ActiveSet::kAuto},
              {"mass", ActiveSet::kMass},
              {"lsh", ActiveSet::kLsh},
              {"all", ActiveSet::kAll}}),
       kFixed},
      {section, "sharing",
       "who is scored against an active neuron: all of the batch, or the sample",
       OneOf(kIn, &M::sharing, {{"batch", Sharing::kBatch}, {"sample", Sharing::kSample}})},
      {section, "precision", "of the weights in memory; bf16 halves memory and traffic",
       OneOf(kIn, &M::precision, {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}}), kFixed},
      {section, "products",
       "of activations and rows (not with sharing = sample); auto: as precision",
       OneOf(kIn, &M::products,
             {{"auto", Products::kAuto}, {"fp32", Products::kFp32}, {"bf16", Products::kBf16}})},
      {section, "candidates", "hash candidates drawn per sample, on average (active = lsh)",
       Number(kIn, &M::candidates, 0, 65536)},
      {section, "negatives",
       "neurons drawn by their mass per batch, on average (active = mass, lsh)",
       Number(kIn, &M::negatives, 1, 1u << 24)},
      {section, "input_init", "standard deviation of the input rows at the start; 0: derived",
       Number(kIn, &M::input_init, 0.0f, 10.0f)},
      {section, "output_init", "the same for the output neurons; 0: 1/sqrt(hidden)",
       Number(kIn, &M::output_init, 0.0f, 10.0f)},
  };
}

std::vector<ConfigKey> HashKeys() {
  constexpr auto kIn = &Config::hash;
  using H = HashConfig;
  const char* section = "hash";
  return {
      {section, "k", "hashes per table (K); 0: from the labels, at least 8 neurons per bucket",
       Number(kIn, &H::k, 0, kMaxCodeBits), kFixed},
      {section, "tables", "hash tables (L)", Number(kIn, &H::tables, 1, kMaxTables), kFixed},
      {section, "bin", "coordinates that one hash looks at",
       OneOf(kIn, &H::bin, {{"2", 2}, {"4", 4}, {"8", 8}, {"16", 16}}), kFixed},
  };
}

std::vector<ConfigKey> TrainKeys() {
  constexpr auto kIn = &Config::train;
  using T = TrainConfig;
  const char* section = "train";
  return {
      {section, "data", "training file, .gz and .zst too; -: standard input", Text(kIn, &T::data)},
      {section, "test", "optional evaluation file", Text(kIn, &T::test)},
      {section, "dev", "optional file of held-out samples, in place of train.heldout",
       Text(kIn, &T::dev)},
      {section, "heldout", "at most so many samples only measure the model; auto: 2 %, up to 5,000",
       AutoOr(kIn, &T::heldout, 0u, 1'000'000u), kFixed},
      {section, "label_names", "optional file with lines of label id, tab, name",
       Text(kIn, &T::label_names)},
      {section, "normalize", "feature values are divided by it; auto: from the data; off: 1",
       Normalize(), kFixed},
      {section, "min_label_samples", "labels that fewer training samples have are left out",
       Number(kIn, &T::min_label_samples, 1, kMaxUint32), kFixed},
      {section, "open_vocabulary",
       "train.data is a stream: labels and words are taken up while it is trained",
       Boolean(kIn, &T::open_vocabulary), kFixed},
      {section, "segment_samples", "samples after which a segment of the stream ends",
       Number(kIn, &T::segment_samples, 1, 1u << 24), kFixed},
      {section, "segment_s", "seconds after which a segment ends with what has come",
       Number(kIn, &T::segment_s, 1, kDayS)},
      {section, "admit_count", "samples of the stream that a label or word needs to be taken up",
       Number(kIn, &T::admit_count, 1, 1'000'000)},
      {section, "expire_segments",
       "segments without a label or word after which it is forgotten; 0: never",
       Number(kIn, &T::expire_segments, 0, 1'000'000)},
      {section, "vocabulary_mb",
       "memory of all servers for a stream's labels and words; 0: derived from theirs",
       Number(kIn, &T::vocabulary_mb, 0, 1u << 24)},
      {section, "effort", "fast: a third of the CPU time, best: two to four times",
       OneOf(kIn, &T::effort,
             {{"fast", Effort::kFast}, {"normal", Effort::kNormal}, {"best", Effort::kBest}}),
       kFixed},
      {section, "epochs",
       "passes over the data, at most; 0: 8; below 30,000 samples 12, below 15,000 16", Epochs()},
      {section, "batch",
       "samples per batch; 0: 512; 256 below 30,000 samples in all, 128 below 15,000",
       Number(kIn, &T::batch, 0, 65536), kFixed},
      {section, "optimizer", "how a gradient becomes an update",
       OneOf(kIn, &T::optimizer,
             {{"adam", OptimizerKind::kAdam},
              {"adagrad", OptimizerKind::kAdaGrad},
              {"sgd", OptimizerKind::kSgd}}),
       kFixed},
      {section, "learning_rate",
       "after the warm-up, before the decay; 0: derived from optimiser, loss, H and batch",
       Number(kIn, &T::learning_rate, 0.0f, 100.0f)},
      {section, "moments", "adam: precision of the moments in memory; auto: as model.precision",
       OneOf(kIn, &T::moments,
             {{"auto", MomentPrecision::kAuto},
              {"fp32", MomentPrecision::kFp32},
              {"bf16", MomentPrecision::kBf16}}),
       kFixed},
      {section, "warmup_batches",
       "batches of rising rate, at most a third; auto: 200, in streams 100",
       AutoOr(kIn, &T::warmup_batches, 0u, 1'000'000'000u)},
      {section, "decay", "how the rate falls to 0 at the end of the last epoch; streams: none",
       OneOf(kIn, &T::decay,
             {{"linear", Decay::kLinear}, {"cosine", Decay::kCosine}, {"none", Decay::kNone}})},
      {section, "schedule_epochs", "epochs that the decay is laid out for; 0: train.epochs",
       Number(kIn, &T::schedule_epochs, 0, kMostEpochs)},
      {section, "cooldown_epochs",
       "last epochs, for the rest of the decay; auto: by held-out samples",
       AutoOr(kIn, &T::cooldown_epochs, 0u, kMostEpochs)},
      {section, "weight_decay", "decoupled (AdamW): a touched row loses learning rate * this share",
       Number(kIn, &T::weight_decay, 0.0f, 10.0f)},
      {section, "dropout_hidden", "share of hidden units left out; auto: by the data 0.1, 0.5 or 0",
       AutoOr(kIn, &T::dropout_hidden, 0.0f, 0.95f)},
      {section, "late_dropout",
       "after these epochs dropout is 0.5; 0: never; auto: held-out samples",
       AutoOr(kIn, &T::late_dropout, 0u, kMostEpochs)},
      {section, "late_negatives",
       "after these epochs negatives triple; 0: never; auto: by their error",
       AutoOr(kIn, &T::late_negatives, 0u, kMostEpochs)},
      {section, "label_smoothing",
       "softmax: target mass spread evenly; auto: 0.1, with centroids or words 0",
       AutoOr(kIn, &T::label_smoothing, 0.0f, 0.9f)},
      {section, "sparsify",
       "gradients of probabilities below it become 0 or it, at random; 0: never",
       Number(kIn, &T::sparsify, 0.0f, 1.0f)},
      {section, "exclude_own_features", "rank without label i where the sample has feature i",
       Boolean(kIn, &T::exclude_own_features)},
      {section, "unit_batches",
       "batches per work unit, at most; synchronous: at most an eighth of a step",
       Number(kIn, &T::unit_batches, 1, 65536), kFixed},
      {section, "batches_in_flight", "batches that a worker has under way at once; 0: adapts",
       Number(kIn, &T::batches_in_flight, 0, kMostBatchesInFlight)},
      {section, "dense_rate", "of the learning rate: that of the dense layers",
       Number(kIn, &T::dense_rate, 0.0f, 100.0f)},
      {section, "staleness",
       "-1: asynchronous; 0: synchronous; more: a batch is at most so many steps ahead",
       Number(kIn, &T::staleness, -1, 1000), kKeepsSign},
      {section, "target_batch",
       "samples per step if staleness >= 0, a multiple of batch; 0: one batch",
       Number(kIn, &T::target_batch, 0, 1u << 24), kFixed},
      {section, "audit", "share of batches that a second worker trains, to compare; -1: auto",
       AuditShare()},
      {section, "evaluate_samples", "test samples drawn after an epoch; the last is on all",
       Number(kIn, &T::evaluate_samples, 1, kMaxUint32)},
  };
}

// Their names are too many for a line of help.
Field Format() {
  Field field = OneOf(&Config::text, &TextConfig::format,
                      {{"records", TextFormat::kRecords},
                       {"json", TextFormat::kJson},
                       {"fasttext", TextFormat::kFastText},
                       {"tsv", TextFormat::kTsv},
                       {"csv", TextFormat::kCsv},
                       {"plain", TextFormat::kPlain},
                       {"numbers", TextFormat::kNumbers},
                       {"libsvm", TextFormat::kLibsvm},
                       {"words", TextFormat::kWords},
                       {"sessions", TextFormat::kSessions}});
  field.allowed_in_full = field.allowed;
  field.allowed = "records, words, sessions or a format";
  return field;
}

std::vector<ConfigKey> TextKeys() {
  constexpr auto kIn = &Config::text;
  using T = TextConfig;
  const char* section = "text";
  return {
      {section, "format", "of the data files; records: detected from their lines", Format(),
       kFixed},
      {section, "fields", "names of fields in JSON and CSV: title:headline,text:body,labels:tags",
       Text(kIn, &T::fields), kFixed},
      {section, "window",
       "words: at most so many on each side are labels; sessions: items before; 0: 5, 10",
       Number(kIn, &T::window, 0, 1000), kFixed},
      {section, "min_count", "words, sessions: rarer ones are left out; 0: 5, 1",
       Number(kIn, &T::min_count, 0, kMaxUint32), kFixed},
      {section, "subsample", "words: of a more frequent one some occurrences are left out; 0: none",
       Number(kIn, &T::subsample, 0.0f, 1.0f), kFixed},
      {section, "decay", "sessions: the value of an item over that of the next one",
       Number(kIn, &T::decay, 0.01f, 1.0f), kFixed},
      {section, "ngrams", "words that make up a feature, at most",
       OneOf(kIn, &T::ngrams, {{"1", 1}, {"2", 2}}), kFixed},
      {section, "title", "a title has features of its own besides", Boolean(kIn, &T::title),
       kFixed},
      {section, "title_chars", "they are character n-grams of the title's words; 0: its words",
       Number(kIn, &T::title_chars, 0, 20), kFixed},
      {section, "title_pairs", "and pairs of its words", Boolean(kIn, &T::title_pairs), kFixed},
      {section, "fold_accents", "letters lose their accents", Boolean(kIn, &T::fold_accents),
       kFixed},
      {section, "min_samples", "features of fewer samples are left out",
       Number(kIn, &T::min_samples, 1, kMaxUint32), kFixed},
      {section, "max_share", "features of a larger share of the samples are left out",
       Number(kIn, &T::max_share, 0.0f, 1.0f), kFixed},
      {section, "max_features", "the most frequent features stay",
       Number(kIn, &T::max_features, 1, 1u << 30), kFixed},
      {section, "stem", "words become their stems in this language", StemLanguage(kIn, &T::stem),
       kFixed},
      {section, "chars", "character n-grams of all words are features besides; 0: none",
       Number(kIn, &T::chars, 0, 20), kFixed},
      {section, "hash_bits", "2^hash_bits features, by hashes of terms; 0: a vocabulary",
       ZeroOr(kIn, &T::hash_bits, kLeastHashBits, kMostHashBits), kFixed},
  };
}

std::vector<ConfigKey> LabelsKeys() {
  constexpr auto kIn = &Config::labels;
  using T = LabelsConfig;
  const char* section = "labels";
  return {
      {section, "vocabulary",
       "optional file of the labels' identifiers and names: TSV, CSV or SKOS",
       Text(kIn, &T::vocabulary)},
      {section, "language", "of the names, as en or de; empty: the most frequent one",
       Text(kIn, &T::language)},
      {section, "name_weight", "weight of the training sample made of each name",
       Number(kIn, &T::name_weight, 0.0f, 1000.0f), kFixed},
  };
}

std::vector<ConfigKey> ClusterKeys() {
  constexpr auto kIn = &Config::cluster;
  using C = ClusterConfig;
  const char* section = "cluster";
  return {
      {section, "servers", "training starts when this many have joined",
       Number(kIn, &C::servers, 1, 1024)},
      {section, "workers", "how many `dslide train` starts; others may join",
       Number(kIn, &C::workers, 0, 65536)},
      {section, "most_workers", "how many workers may take part at a time",
       Number(kIn, &C::most_workers, 1, 65536)},
      {section, "scheduler_bind", "where the scheduler listens",
       BindAddress(kIn, &C::scheduler_bind), kFree, kServersOwn},
      {section, "status_bind", "where the scheduler serves its status page; empty: none",
       BindAddressOrEmpty(kIn, &C::status_bind)},
      {section, "scheduler_advertise", "what others dial; empty: scheduler_bind",
       AdvertisedAddressOrEmpty(kIn, &C::scheduler_advertise), kFree, kServersOwn},
      {section, "server_bind", "where a server listens; port *: any free one",
       BindAddress(kIn, &C::server_bind), kFree, kServersOwn},
      {section, "server_advertise", "what others dial; empty: server_bind",
       AdvertisedAddressOrEmpty(kIn, &C::server_advertise), kFree, kServersOwn},
      {section, "slots", "parts (V) that neurons and features are spread over",
       Number(kIn, &C::slots, 1, 65536), kFixed},
      {section, "input_slots",
       "slots for input rows alone; -1: a quarter, below 32 slots none; 0: none",
       Number(kIn, &C::input_slots, -1, 65535), kFixed},
      {section, "executors", "threads per server; 0: one per core",
       Number(kIn, &C::executors, 0, 1024)},
      {section, "wire", "precision of activations on the network; auto: int8 on busy links",
       OneOf(kIn, &C::wire,
             {{"auto", Wire::kAuto},
              {"bf16", Wire::kBf16},
              {"fp32", Wire::kFp32},
              {"int8", Wire::kInt8}})},
      {section, "join_timeout_s", "how long to wait for the servers to join",
       Number(kIn, &C::join_timeout_s, 1, kDayS)},
      {section, "heartbeat_ms", "time from one heartbeat to the next",
       Number(kIn, &C::heartbeat_ms, 10, 60'000)},
      {section, "lease_timeout_ms", "a lease ends after this time without progress",
       Number(kIn, &C::lease_timeout_ms, 10, kDayMs)},
      {section, "request_timeout_ms", "a request is sent again after this time",
       Number(kIn, &C::request_timeout_ms, 10, kDayMs)},
      {section, "takeover_s", "a dead server's slots go to the others after this time; 0: never",
       Number(kIn, &C::takeover_s, 0, kDayS)},
      {section, "scheduler_silence_s",
       "servers and workers leave after this time without the scheduler",
       Number(kIn, &C::scheduler_silence_s, 1, kDayS)},
      {section, "balance",
       "auto: slots go to less busy servers; synchronous: only on join and leave",
       OneOf(kIn, &C::balance, {{"auto", Balance::kAuto}, {"off", Balance::kOff}})},
      {section, "move_mbit", "Mbit/s that moving slots may take of a server's link; 0: any",
       Number(kIn, &C::move_mbit, 0, 1'000'000)},
      {section, "memory_mb",
       "a server's rows, tables and kept replies; 0: 80 % of its machine or cgroup",
       Number(kIn, &C::memory_mb, 0, 1u << 24), kFree, kServersOwn},
      {section, "disk_tier", "directory for rows beyond memory_mb, or auto, off",
       Text(kIn, &C::disk_tier), kFree, kServersOwn},
      {section, "drain_s",
       "SIGTERM: longest time that a server hands its slots over; 0: it does not",
       Number(kIn, &C::drain_s, 0, kDayS)},
  };
}

std::vector<ConfigKey> CheckpointKeys() {
  constexpr auto kIn = &Config::checkpoint;
  using C = CheckpointConfig;
  const char* section = "checkpoint";
  return {
      {section, "directory", "empty: checkpoint/ in the run directory", Text(kIn, &C::directory)},
      {section, "interval_s", "time from one to the next; 0: only at the end and on demand",
       Number(kIn, &C::interval_s, 0, 30 * kDayS)},
      {section, "keep", "checkpoints that stay, the newest", Number(kIn, &C::keep, 1, 10'000)},
      {section, "quota_mb", "what the run directory with its checkpoints may take; 0: any",
       Number(kIn, &C::quota_mb, 0, 1u << 30)},
      {section, "hook", "optional shell command after each checkpoint",
       ShellCommand(kIn, &C::hook)},
      {section, "shard_hook", "optional shell command on a server's machine, after its part",
       ShellCommand(kIn, &C::shard_hook), kFree, kServersOwn},
  };
}

std::vector<ConfigKey> SecurityKeys() {
  constexpr auto kIn = &Config::security;
  using S = SecurityConfig;
  const char* section = "security";
  return {
      {section, "encryption", "auto: outside loopback; trusted-network: never",
       OneOf(kIn, &S::encryption,
             {{"auto", Encryption::kAuto},
              {"always", Encryption::kAlways},
              {"trusted-network", Encryption::kTrustedNetwork}}),
       kFree, kServersOwn},
  };
}

std::vector<ConfigKey> IdleKeys() {
  constexpr auto kIn = &Config::idle;
  using I = IdleConfig;
  const char* section = "idle";
  constexpr uint32_t kMostMb = 1u << 24;
  std::vector<ConfigKey> keys = {
      {section, "priority", "of CPU and disk; idle: only what nobody else wants",
       OneOf(kIn, &I::priority,
             {{"idle", Priority::kIdle}, {"low", Priority::kLow}, {"normal", Priority::kNormal}}),
       kFree, kServersOwn},
      {section, "hours", "for computing and the network", Hours(kIn, &I::hours)},
      {section, "cpu_share", "percent of a core's time", Number(kIn, &I::cpu_share, 1, 100)},
      {section, "cores", "CPUs that the process may run on; 0: all",
       Number(kIn, &I::cores, 0, 4096), kFree, kServersOwn},
      {section, "pause_cpu_percent", "CPU use of others above which a worker pauses; 0: never",
       Number(kIn, &I::pause_cpu_percent, 0, 100)},
      {section, "on_battery", "whether a worker computes without mains",
       OneOf(kIn, &I::on_battery, {{"pause", OnBattery::kPause}, {"run", OnBattery::kRun}})},
      {section, "upload_kbit", "kbit/s that a worker sends, on average; 0: any",
       Number(kIn, &I::upload_kbit, 0, 1'000'000'000)},
      {section, "download_kbit", "kbit/s that it receives, on average; 0: any",
       Number(kIn, &I::download_kbit, 0, 1'000'000'000)},
      {section, "daily_transfer_mb", "sent and received a day by the user's workers; 0: any",
       Number(kIn, &I::daily_transfer_mb, 0, kMostMb)},
      {section, "memory_mb", "resident memory; 0: any", ZeroOr(kIn, &I::memory_mb, 64, kMostMb),
       kFree, kServersOwn},
      {section, "disk_mb", "what checkpoints may take on a server's machine; 0: any",
       Number(kIn, &I::disk_mb, 0, kMostMb), kFree, kServersOwn},
  };
  for (ConfigKey& key : keys) key.workers_own = true;
  return keys;
}

std::vector<ConfigKey> AllKeys() {
  std::vector<ConfigKey> all;
  for (const auto section_keys : {CommonKeys, ModelKeys, HashKeys, TrainKeys, TextKeys, LabelsKeys,
                                  ClusterKeys, CheckpointKeys, SecurityKeys, IdleKeys}) {
    std::vector<ConfigKey> keys = section_keys();
    std::move(keys.begin(), keys.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const std::vector<ConfigKey>& ConfigKeys() {
  static const std::vector<ConfigKey> keys = AllKeys();
  return keys;
}

const ConfigKey* FindConfigKey(std::string_view full_name) {
  const size_t dot = full_name.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto& keys = ConfigKeys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& key) {
    return key.section == full_name.substr(0, dot) && key.name == full_name.substr(dot + 1);
  });
  return found == keys.end() ? nullptr : &*found;
}

const ConfigKey* FixedKeyThatDiffers(const Config& now, Config then) {
  // A run's configuration has no automatic value, unless it is older than the key.
  if (now.model.activation != Activation::kAuto && then.model.activation == Activation::kAuto) {
    then.model.activation = Activation::kRelu;
  }
  // Files that tell their format by their lines, until a run has read them.
  if (!IsOfTokens(now.text) && !IsOfTokens(then.text) &&
      (now.text.format == TextFormat::kRecords || then.text.format == TextFormat::kRecords)) {
    then.text.format = now.text.format;
  }
  // train.staleness first: defaults of fixed keys follow its sign.
  for (const OnResume rule : {OnResume::kKeepsSign, OnResume::kFixed}) {
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.on_resume != rule) continue;
      const std::string value = key.field.format(now);
      const std::string before = key.field.format(then);
      const bool differs = rule == OnResume::kFixed
                               ? value != before
                               : value.starts_with('-') != before.starts_with('-');
      if (differs) return &key;
    }
  }
  return nullptr;
}

}  // namespace dslide
