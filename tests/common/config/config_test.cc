// Reading, writing, checking and completing the configuration. Seeds are fixed.
#include "common/config/config.h"

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <algorithm>

#include "common/app/executable.h"
#include "common/base/random.h"
#include "common/config/config_keys.h"
#include "common/config/limits.h"
#include "common/config/retired_keys.h"
#include "common/config/stored_config.h"
#include "tests/common/config/parsed_config.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

// The error of `text` as cluster.ini, which must be bad input; "" if it is accepted.
std::string ErrorOf(std::string_view text, const Overrides& overrides = {}) {
  const Result<Config> config = ParseConfig(text, "cluster.ini", overrides);
  if (config.ok()) return "";
  CHECK(config.error().kind == ErrorKind::kBadInput);
  return config.error().message;
}

// A value other than the default in every member, set by hand: a member without a key would not
// come back.
Config UnusualConfig() {
  Config c;
  c.common = {UINT64_MAX, "trace"};
  c.model = {135'909,
             670'091,
             77,
             {17, 5},
             Loss::kSigmoid,
             Activation::kRelu,
             Neurons::kLearned,
             ActiveSet::kLsh,
             Sharing::kSample,
             3,
             6,
             Precision::kFp32,
             Products::kFp32,
             0.123456789f,
             1.0f / 3.0f};
  c.hash = {3, 17, 16};
  c.train.data = "/srv/with space/träin#=1.txt.gz";
  c.train.test = "[test]";
  c.train.dev = "dev # 1";
  c.train.heldout = 7;
  c.train.label_names = "names;1";
  c.train.min_label_samples = 4;
  c.train.segment_samples = 36;
  c.train.segment_s = 37;
  c.train.admit_count = 38;
  c.train.expire_segments = 39;
  c.train.vocabulary_mb = 40;
  c.train.epochs = 3;
  c.train.schedule_epochs = 12;
  c.train.cooldown_epochs = 2;
  c.train.late_dropout = 3;
  c.train.late_negatives = 4;
  c.train.effort = Effort::kBest;
  c.train.batch = 1;
  c.train.optimizer = OptimizerKind::kSgd;
  c.train.learning_rate = 1.17549435e-9f;
  c.train.moments = MomentPrecision::kFp32;
  c.train.warmup_batches = 0;
  c.train.decay = Decay::kCosine;
  c.train.weight_decay = 0.01f;
  c.train.dropout_hidden = 0.4f;
  c.train.sparsify = 0.25f;
  c.train.normalize = 30.5f;
  c.text.format = TextFormat::kSessions;
  c.text.fields = "title:headline";
  c.text.window = 3;
  c.text.min_count = 8;
  c.text.subsample = 0.001f;
  c.text.decay = 0.25f;
  c.text.ngrams = 2;
  c.text.title = false;
  c.text.title_chars = 0;
  c.text.title_pairs = false;
  c.text.fold_accents = true;
  c.text.min_samples = 7;
  c.text.max_share = 0.75f;
  c.text.max_features = 1000;
  c.text.stem = "german";
  c.text.chars = 3;
  c.text.hash_bits = 20;
  c.train.label_smoothing = 0.3f;
  c.train.exclude_own_features = true;
  c.train.unit_batches = 9;
  c.train.batches_in_flight = 5;
  c.train.dense_rate = 0.5f;
  c.train.staleness = 2;
  c.train.target_batch = 7;
  c.train.audit = 0.0f;
  c.train.evaluate_samples = 6;
  c.cluster = {2,
               0,
               5000,
               "tcp://*:7700",
               "tcp://[fe80::1]:7700",
               "tcp://127.0.0.1:7780",
               "ipc://@a",
               "tcp://10.0.0.1:1",
               12,
               7,
               13,
               Wire::kFp32,
               14,
               15,
               16,
               17,
               19,
               20,
               Balance::kOff,
               22,
               23,
               "/scratch",
               24};
  c.checkpoint = {"elsewhere", 18, 21, 34, "copy \"$1\"", "copy it"};
  c.security = {Encryption::kAlways};
  c.idle = {true,
            Priority::kLow,
            *WeekHours::Parse("18:00-08:00"),
            25,
            26,
            27,
            OnBattery::kRun,
            29,
            30,
            31,
            64,
            33};
  return c;
}

// What does not go with some of the unusual values.
Config StreamConfig() {
  Config c;
  c.train.open_vocabulary = true;
  return c;
}

Config NamedLabelsConfig() {
  Config c;
  c.labels = {"vocabulary # 1.ttl", "de", 0.25f};
  return c;
}

std::string LineOf(const Config& config, const ConfigKey& key) {
  return key.FullName() + "=" + key.field.format(config);
}

std::string UnusualLine(const ConfigKey& key) {
  const std::string usual = LineOf(Config{}, key);
  for (const Config& config : {UnusualConfig(), StreamConfig()}) {
    if (LineOf(config, key) != usual) return LineOf(config, key);
  }
  return LineOf(NamedLabelsConfig(), key);
}

// Replaces, inserts, removes or repeats a piece of `text`, with bytes that matter to INI files.
void Mutate(Random* random, std::string* text) {
  static constexpr std::string_view kBytes = "[]=#.\n\r \t-+eE0129\x80\xff\0az\"*,;";
  const size_t at = random->Below(text->size() + 1);
  const char byte = kBytes[random->Below(kBytes.size())];
  const size_t length = random->Below(12);
  switch (random->Below(4)) {
    case 0:
      text->insert(at, 1, byte);
      break;
    case 1:
      text->erase(at, length);
      break;
    case 2:
      text->insert(at, text->substr(random->Below(text->size() + 1), length));
      break;
    default:
      if (at < text->size()) (*text)[at] = byte;
  }
}

}  // namespace

TEST_CASE("config: nothing given is the defaults") {
  CHECK(Parsed("") == Config{});
  const Config loaded = Ok(LoadConfig("", {}));
  CHECK(loaded == Config{});
}

TEST_CASE("config: the file format") {
  const Config c = Parsed(
      "# comment\r\n\r\n[model]\r\n hidden=64 # why\r\n  loss =  sigmoid\r\n[train]\ndata = a = b\n"
      "exclude_own_features = true\n[model]\nnegatives = 5");
  CHECK(c.model.hidden == 64);
  CHECK(c.model.loss == Loss::kSigmoid);
  CHECK(c.model.negatives == 5);
  CHECK(c.train.data == "a = b");
  CHECK(c.train.exclude_own_features);
  CHECK(Parsed("model.hidden = 3").model.hidden == 3);
}

TEST_CASE("config: overrides replace the file's values, the last one wins") {
  const Config c = Parsed("[train]\nbatch = 1\nepochs = 2\n",
                          {"train.batch=5", "train.batch = 7", "train.test=x=y", "train.data="});
  CHECK(c.train.batch == 7);
  CHECK(c.train.epochs == 2);
  CHECK(c.train.test == "x=y");
  CHECK(c.train.data.empty());
}

TEST_CASE("config: errors name the file, the key, the value and what is allowed") {
  CHECK(ErrorOf("[train]\nbatch = -1") == "cluster.ini:2: train.batch = -1: must be 0 to 65536");
  CHECK(ErrorOf("[train]\nbatch = 65537") ==
        "cluster.ini:2: train.batch = 65537: must be 0 to 65536");
  CHECK(ErrorOf("[train]\nbatch =") == "cluster.ini:2: train.batch = (empty): must be 0 to 65536");
  CHECK(ErrorOf("[model]\nloss = Softmax") ==
        "cluster.ini:2: model.loss = Softmax: must be softmax or sigmoid");
  CHECK(ErrorOf("[model]\nactive = lhs") ==
        "cluster.ini:2: model.active = lhs: must be auto, mass, lsh or all");
  CHECK(ErrorOf("[security]\nencryption = off") ==
        "cluster.ini:2: security.encryption = off: must be auto, always or trusted-network");
  CHECK(ErrorOf("[train]\nexclude_own_features = yes") ==
        "cluster.ini:2: train.exclude_own_features = yes: must be true or false");
  CHECK(ErrorOf("[train]\nweight_decay = 10.5") ==
        "cluster.ini:2: train.weight_decay = 10.5: must be 0 to 10");
  CHECK(ErrorOf("[train]\naudit = -0.5") ==
        "cluster.ini:2: train.audit = -0.5: must be -1, or 0 to 1");
  CHECK(ErrorOf("[train]\nlabel_smoothing = 1") ==
        "cluster.ini:2: train.label_smoothing = 1: must be auto, or 0 to 0.9");
  CHECK(ErrorOf("[cluster]\nbalance = on") ==
        "cluster.ini:2: cluster.balance = on: must be auto or off");
  CHECK(ErrorOf("[cluster]\nscheduler_bind = 127.0.0.1:7700") ==
        "cluster.ini:2: cluster.scheduler_bind = 127.0.0.1:7700: must be tcp://host:port or "
        "ipc://path");
  CHECK(ErrorOf("[cluster]\nserver_advertise = tcp://a") ==
        "cluster.ini:2: cluster.server_advertise = tcp://a: must be empty, tcp://host:port "
        "with one host or ipc://path");
}

TEST_CASE("config: errors of overrides name the command line") {
  CHECK(ErrorOf("", {"train.batch=-1"}) == "command line: train.batch = -1: must be 0 to 65536");
  CHECK(ErrorOf("", {"train.batch"}) == "command line: train.batch: must be section.key=value");
  CHECK(ErrorOf("", {"train.btch=1"}) ==
        "command line: unknown key train.btch; did you mean train.batch?");
  CHECK(ErrorOf("", {std::string("train.data=a\0b", 14)}) ==
        "command line: train.data = a?b: must be text without zero bytes");
  CHECK(ErrorOf("", {"cluster.server_bind=ipc://a\nb"}) ==
        "command line: cluster.server_bind = ipc://a?b: must be tcp://host:port or ipc://path");
}

TEST_CASE("config: a value in quotes has any bytes, without quotes none of a comment") {
  const auto data = [](const std::string& line) { return Parsed("[train]\n" + line).train.data; };
  CHECK(data(R"(data = "/srv/a#b c.txt" # why)") == "/srv/a#b c.txt");
  CHECK(data(R"(data="/srv/\"q\"\\\t\x01")") == "/srv/\"q\"\\\t\x01");
  CHECK(data("data = /srv/a#b") == "/srv/a");
  CHECK(data("data = \"a b\"") == "a b");
  CHECK(data("data = \"a\" and \"b\"") == "\"a\" and \"b\"");
  CHECK(Parsed("[model]\nloss = \"sigmoid\"").model.loss == Loss::kSigmoid);
  CHECK(ErrorOf("[train]\nbatch = \"none\"") ==
        "cluster.ini:2: train.batch = none: must be 0 to 65536");
  CHECK(
      ErrorOf("[checkpoint]\nhook = cp \"$1\" \"/b#1\"") ==
      "cluster.ini:2: checkpoint.hook = cp \"$1\" \"/b: '#' begins a comment; put the whole value "
      "in quotes, with \\\" for those in it");
}

TEST_CASE("config: quotes of a shell command are the shell's, unless it needs others") {
  const auto hook = [](const std::string& value) {
    return Parsed("[checkpoint]\nhook = " + value).checkpoint.hook;
  };
  for (const char* as_before : {R"("/opt/my copy")", R"("/opt/my copy" "$1")", R"("/opt/a\"b")"}) {
    CHECK(hook(as_before) == as_before);
  }
  CHECK(hook(R"("cp \"$1\" /b#1")") == "cp \"$1\" /b#1");
  CHECK(Parsed("[checkpoint]\nshard_hook = \"/opt/my copy\"").checkpoint.shard_hook ==
        "\"/opt/my copy\"");
  CHECK(Parsed("", {"checkpoint.hook=\"/opt/my copy\""}).checkpoint.hook == "\"/opt/my copy\"");
}

TEST_CASE("config: an override without blanks around '=' has its text as it is") {
  const auto data = [](const std::string& text) { return Parsed("", {text}).train.data; };
  CHECK(data("train.data= /a#b ") == " /a#b ");
  CHECK(data("train.data=\"a\"") == "\"a\"");
  CHECK(data("train.data=a\n[model]") == "a\n[model]");
  CHECK(data("train.data = /a#b ") == "/a#b");
  CHECK(data("train.data = \"/a #b \"") == "/a #b ");
  CHECK(Parsed("", {"train.batch= 5 "}).train.batch == 5);
}

TEST_CASE("config: every path that a file system allows comes back") {
  const auto members = [](Config* c) {
    return std::vector<std::string*>{&c->train.data,
                                     &c->train.test,
                                     &c->train.dev,
                                     &c->train.label_names,
                                     &c->checkpoint.directory,
                                     &c->checkpoint.hook,
                                     &c->checkpoint.shard_hook,
                                     &c->cluster.disk_tier,
                                     &c->text.fields};
  };
  Random random(20'261'128);
  for (int i = 0; i < 10'000; ++i) {
    static constexpr std::string_view kBytes = " \t\n\r\"\\#=[];:'$x0fan\x01\x7f\x80\xff\xc3\xa9";
    Config config;
    for (std::string* member : members(&config)) {
      for (uint64_t n = random.Below(7); n > 0; --n) {
        *member += random.Below(4) == 0 ? static_cast<char>(1 + random.Below(255))
                                        : kBytes[random.Below(kBytes.size())];
      }
    }
    const std::string text = FormatConfig(config);
    CAPTURE(text);
    REQUIRE(Parsed(text) == config);
    REQUIRE(Parsed("\xef\xbb\xbf" + text) == config);
    Config set = Parsed("", {"train.data=" + config.train.data, "train.test=" + config.train.test});
    REQUIRE(set.train.data == config.train.data);
    REQUIRE(set.train.test == config.train.test);
  }
}

TEST_CASE("config: a file of another editor: a byte order mark, CR LF, UTF-16") {
  CHECK(Parsed("\xef\xbb\xbf[train]\r\nbatch = 64\r\n").train.batch == 64);
  CHECK(Parsed("\xef\xbb\xbf# first\n[train]\nbatch = 64").train.batch == 64);
  CHECK(ErrorOf(std::string_view("\xff\xfe[\0", 4)) == "cluster.ini: is UTF-16; save it as UTF-8");
}

TEST_CASE("config: an unknown key is refused with the nearest known one") {
  const auto suggests = [](const std::string& text, const std::string& unknown,
                           const std::string& known) {
    const std::string line = text.find('\n') == std::string::npos ? "1" : "2";
    CHECK(ErrorOf(text) ==
          "cluster.ini:" + line + ": unknown key " + unknown + "; did you mean " + known + "?");
  };
  suggests("[model]\nhiden = 4", "model.hiden", "model.hidden");
  suggests("[modle]\nhidden = 4", "modle.hidden", "model.hidden");
  suggests("[modle]\nhiden = 4", "modle.hiden", "model.hidden");
  suggests("[model]\nbatch = 4", "model.batch", "train.batch");
  suggests("hidden = 4", "hidden", "model.hidden");
  suggests("hiden = 4", "hiden", "model.hidden");
  suggests("[everything]\nlease_timeout = 4", "everything.lease_timeout",
           "cluster.lease_timeout_ms");
  CHECK(ErrorOf("[x]\nfrobnicate = 1") ==
        "cluster.ini:2: unknown key x.frobnicate; --help-config lists the known ones");
}

TEST_CASE("config: a malformed line is named with its number") {
  CHECK(ErrorOf("[model]\n# c\nhidden 4 # four\nloss = softmax\n") ==
        "cluster.ini:3: must be \"key = value\" or \"[section]\": hidden 4");
  CHECK(ErrorOf("\n[model") == "cluster.ini:2: must be \"key = value\" or \"[section]\": [model");
}

TEST_CASE("config: a refused line is named, whatever stands before it") {
  CHECK(ErrorOf("# [x]\r\n\n  [train] # a section\r\n \t\nepochs = 3 # = 4\n#\nbatch = none\n") ==
        "cluster.ini:7: train.batch = none: must be 0 to 65536");
  // A line with '=' that does not end with ']' is an assignment.
  CHECK(ErrorOf("\n[train = 3\n").starts_with("cluster.ini:2: unknown key [train; "));
}

TEST_CASE("config: a key given twice in the file") {
  CHECK(ErrorOf("[model]\nhidden = 4\n[hash]\nk = 1\n[model]\nhidden = 4\n") ==
        "cluster.ini:6: model.hidden is given twice");
}

TEST_CASE("config: a file that cannot be read") {
  const Result<Config> missing = LoadConfig("no/such/cluster.ini", {});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind == ErrorKind::kBadInput);
  CHECK(missing.error().message == "no/such/cluster.ini: cannot open: No such file or directory");
  const Result<Config> directory = LoadConfig("/", {});
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.error().message == "/: cannot read: Is a directory");
}

TEST_CASE("config: numbers are read strictly") {
  for (const char* bad : {"12abc", "-1", "+1", "0x10", "1e2", "1.0", "1 2", "4294967297",
                          "99999999999999999999999", "one", "1,000"}) {
    CHECK_MESSAGE(ErrorOf(std::string("[train]\nbatch = ") + bad) ==
                      std::string("cluster.ini:2: train.batch = ") + bad + ": must be 0 to 65536",
                  bad);
  }
  for (const char* bad : {"nan", "inf", "-inf", "-0.1", "0.1x", "0,1", "1e-50", "1e50", ""}) {
    CHECK_MESSAGE(ErrorOf(std::string("[train]\nlearning_rate = ") + bad) != "", bad);
  }
  CHECK(Parsed("[train]\nlearning_rate = 3e-3").train.learning_rate == 0.003f);
  CHECK(Parsed("[common]\nseed = 18446744073709551615").common.seed == UINT64_MAX);
  CHECK(ErrorOf("[common]\nseed = 18446744073709551616") != "");
}

TEST_CASE("config: checks across keys") {
  CHECK(
      ErrorOf("[train]\ntarget_batch = 512") ==
      "cluster.ini:2: train.target_batch = 512: needs train.staleness >= 0: asynchronous training "
      "has no steps");
  CHECK(ErrorOf("[train]\nstaleness = 0\ntarget_batch = 500\nbatch = 200") ==
        "cluster.ini:3: train.target_batch = 500: must be a multiple of train.batch = 200");
  CHECK(ErrorOf("[train]\nstaleness = 0\ntarget_batch = 500") ==
        "cluster.ini:3: train.target_batch = 500: must be a multiple of 512, or give train.batch");
  CHECK(ErrorOf("[cluster]\nslots = 64\ninput_slots = 64\n") ==
        "cluster.ini:3: cluster.input_slots = 64: must be below cluster.slots = 64");
  CHECK(ErrorOf("[model]\nneurons = centroids\nloss = sigmoid\n") ==
        "cluster.ini:2: model.neurons = centroids: centroids need model.loss = softmax");
  CHECK(ErrorOf("[train]\nstaleness = 0\ntarget_batch = 65536") == "");
  CHECK(ErrorOf("[train]\nstaleness = 3") == "");
  CHECK(ErrorOf("[train]\nstaleness = 3\naudit = 0.02") ==
        "cluster.ini:3: train.audit = 0.02: only with train.staleness = 0 a batch gives the same "
        "twice");
  CHECK(ErrorOf("[train]\nstaleness = 0\naudit = 0.02") == "");
  CHECK(ErrorOf("[hash]\nk = 6") ==
        "cluster.ini:2: hash.k = 6: must be at most 5: a table has at most 2^15 buckets");
  CHECK(ErrorOf("[hash]\nk = 5") == "");
  CHECK(ErrorOf("[hash]\nk = 16") == "cluster.ini:2: hash.k = 16: must be 0 to 15");
  CHECK(
      ErrorOf("[cluster]\nlease_timeout_ms = 1000") ==
      "cluster.ini:2: cluster.lease_timeout_ms = 1000: must be above cluster.heartbeat_ms = 1000");
  // The origin is that of the key that is named, and an override may mend the file.
  CHECK(ErrorOf("", {"cluster.heartbeat_ms=60000"}) ==
        "default: cluster.lease_timeout_ms = 60000: must be above cluster.heartbeat_ms = 60000");
  CHECK(ErrorOf("[hash]\nk = 4\n", {"hash.k=7"}).starts_with("command line: hash.k = 7: "));
  CHECK(ErrorOf("[train]\ntarget_batch = 512", {"train.staleness=0"}) == "");
}

TEST_CASE("config: addresses") {
  for (const char* good : {"tcp://127.0.0.1:7700", "tcp://*:*", "tcp://eth0:0", "tcp://[::1]:65535",
                           "ipc:///run/dslide", "ipc://@name", "ipc:///run/a #b"}) {
    CHECK_MESSAGE(ErrorOf("", {std::string("cluster.server_bind=") + good}) == "", good);
  }
  for (const char* bad : {"", "tcp://", "ipc://", "tcp://host", "tcp://host:", "tcp://:1",
                          "tcp://host:65536", "tcp://host:x", "udp://host:1", "TCP://host:1"}) {
    CHECK_MESSAGE(ErrorOf("", {std::string("cluster.server_bind=") + bad}) != "", bad);
  }
}

TEST_CASE("config: a language of stems that is unknown is refused with those that are known") {
  const std::string error = ErrorOf("[text]\nstem = klingon");
  CHECK(error.starts_with("cluster.ini:2: text.stem = klingon: must be off, arabic, "));
  CHECK(error.find(", german, ") != std::string::npos);
  CHECK(error.ends_with(" or yiddish"));
  CHECK(ErrorOf("[text]\nstem = German") != "");
  CHECK(ErrorOf("[text]\nstem = de") != "");
  CHECK(ErrorOf("[text]\nstem =") != "");
  CHECK(Parsed("[text]\nstem = german").text.stem == "german");
}

TEST_CASE("config: text.hash_bits is 0 or a number of bits") {
  for (const char* bits : {"1", "9", "31", "-1", "18.5"}) {
    CHECK(ErrorOf(std::string("[text]\nhash_bits = ") + bits) ==
          std::string("cluster.ini:2: text.hash_bits = ") + bits + ": must be 0, or 10 to 30");
  }
  for (const uint32_t bits : {0u, 10u, 18u, 30u}) {
    CHECK(Parsed("[text]\nhash_bits = " + std::to_string(bits)).text.hash_bits == bits);
  }
  CHECK(ErrorOf("[text]\nchars = 21") == "cluster.ini:2: text.chars = 21: must be 0 to 20");
}

TEST_CASE("config: an error is one line, whatever the input") {
  const std::string wild = "train.batch=\x1b[31m" + std::string(10'000, 'x') + "\n\r";
  const std::string message = ErrorOf("", {wild});
  CHECK(message.find_first_of("\n\r\x1b") == std::string::npos);
  CHECK(message.size() < 200);
}

TEST_CASE("config: written and read again it is the same") {
  for (const Config& config : {Config{}, UnusualConfig(), StreamConfig(), NamedLabelsConfig()}) {
    const std::string text = FormatConfig(config);
    const Result<Config> read = ParseStoredConfig(text, "config.ini");
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    CHECK(*read == config);
    CHECK(FormatConfig(*read) == text);
  }
}

TEST_CASE("config: one of the unusual configs differs from the defaults in every key") {
  // Only so does the test above show that every key is written.
  for (const ConfigKey& key : ConfigKeys()) {
    CHECK_MESSAGE(UnusualLine(key) != LineOf(Config{}, key), key.FullName());
  }
}

TEST_CASE("config: what a stream cannot have is refused with the key") {
  for (const std::string with :
       {"text.format=words", "text.hash_bits=16", "model.hidden=64,32", "model.neurons=centroids",
        "model.active=lsh", "train.epochs=3", "train.decay=cosine", "train.min_label_samples=2",
        "train.label_names=names.tsv", "train.exclude_own_features=true",
        "labels.vocabulary=names.tsv"}) {
    const std::string message = ErrorOf("", {"train.open_vocabulary=true", with});
    CAPTURE(message);
    CHECK(message.find(with.substr(0, with.find('='))) != std::string::npos);
    CHECK(message.find("not with train.open_vocabulary") != std::string::npos);
  }
}

TEST_CASE("config: what a vocabulary cannot go with is refused with the key") {
  const auto error = [](const char* with) {
    return ErrorOf("", {"labels.vocabulary=names.tsv", with});
  };
  CHECK(error("text.format=words").find("labels.vocabulary") != std::string::npos);
  CHECK(error("train.min_label_samples=2").find("train.min_label_samples") != std::string::npos);
  CHECK(error("text.format=json") == "");
}

TEST_CASE("config: what members know of a stream does not depend on how far it has come") {
  Config config;
  config.train.open_vocabulary = true;
  ResolveConfig(kOpenFeatures, kOpenLabels, &config);
  Config grown = config;
  grown.model.features = 12;
  grown.model.labels = 3;
  grown.train.epoch_samples = 7;
  CHECK(WithNominalSizes(grown) == config);
  CHECK(config.model.active == ActiveSet::kMass);
  CHECK(config.train.decay == Decay::kNone);
  CHECK(*ParseStoredConfig(FormatConfig(config), "config.ini") == config);
}

TEST_CASE("config: the number of a stream's epochs is no number of epochs") {
  CHECK(ErrorOf("", {"train.epochs=2147483648"}).find("train.open_vocabulary") !=
        std::string::npos);
  CHECK(ErrorOf("", {"train.epochs=1000001"}).find("0 to 1000000") != std::string::npos);
  // A stream's run of an earlier version.
  Config config = Parsed("", {"train.open_vocabulary=true", "train.epochs=1000000"});
  ResolveConfig(kOpenFeatures, kOpenLabels, &config);
  CHECK(config.train.epochs == kMostSegments);
}

TEST_CASE("config: the written form") {
  const std::string text = FormatConfig(Config{});
  CHECK(text.starts_with("[common]\nseed = 1\nlog_level = info\n\n[model]\nfeatures = 0\n"));
  CHECK(text.find("\noutput_init = 0\n") != std::string::npos);
  CHECK(text.find("\nsubsample = 0.0001\n") != std::string::npos);
  CHECK(text.find("\ndata =\n") != std::string::npos);
  CHECK(text.ends_with("\n[security]\nencryption = auto\n"));
}

TEST_CASE("config: every key has a help line, a range and a default within it") {
  std::set<std::string> names;
  const Config defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    CAPTURE(key.FullName());
    CHECK(names.insert(key.FullName()).second);
    CHECK_FALSE(key.help.empty());
    CHECK(key.help.find('\n') == std::string::npos);
    CHECK_FALSE(key.field.allowed.empty());
    Config parsed;
    CHECK(key.field.parse(key.field.format(defaults), &parsed));
    CHECK(parsed == defaults);
  }
}

TEST_CASE("config: a refused value leaves the config as it was") {
  for (const ConfigKey& key : ConfigKeys()) {
    Config config = UnusualConfig();
    CHECK_FALSE(key.field.parse(std::string_view("\0", 1), &config));
    CHECK(config == UnusualConfig());
  }
}

TEST_CASE("config: a run that is older than model.activation has relu") {
  Config now;
  now.model.activation = Activation::kRelu;
  CHECK(FixedKeyThatDiffers(now, Config{}) == nullptr);
  now.model.activation = Activation::kLinear;
  CHECK(FixedKeyThatDiffers(now, Config{}) == FindConfigKey("model.activation"));
}

TEST_CASE("config: what a resumed run keeps") {
  // Every key, one at a time.
  std::vector<std::string> kept;
  for (const ConfigKey& key : ConfigKeys()) {
    Config now;
    REQUIRE(key.field.parse(UnusualLine(key).substr(key.FullName().size() + 1), &now));
    const ConfigKey* differs = FixedKeyThatDiffers(now, Config{});
    CHECK((differs == nullptr || differs == &key));
    if (differs != nullptr) kept.push_back(key.FullName());
  }
  CHECK(kept == std::vector<std::string>{"common.seed",
                                         "model.features",
                                         "model.labels",
                                         "model.hidden",
                                         "model.neurons",
                                         "model.active",
                                         "model.precision",
                                         "hash.k",
                                         "hash.tables",
                                         "hash.bin",
                                         "train.heldout",
                                         "train.normalize",
                                         "train.min_label_samples",
                                         "train.open_vocabulary",
                                         "train.segment_samples",
                                         "train.effort",
                                         "train.batch",
                                         "train.optimizer",
                                         "train.moments",
                                         "train.unit_batches",
                                         "train.staleness",
                                         "train.target_batch",
                                         "text.format",
                                         "text.fields",
                                         "text.window",
                                         "text.min_count",
                                         "text.subsample",
                                         "text.decay",
                                         "text.ngrams",
                                         "text.title",
                                         "text.title_chars",
                                         "text.title_pairs",
                                         "text.fold_accents",
                                         "text.min_samples",
                                         "text.max_share",
                                         "text.max_features",
                                         "text.stem",
                                         "text.chars",
                                         "text.hash_bits",
                                         "labels.name_weight",
                                         "cluster.slots",
                                         "cluster.input_slots"});
  Config now, then;
  CHECK(FixedKeyThatDiffers(now, then) == nullptr);
  now.train.staleness = 0;
  then.train.staleness = 5;
  CHECK(FixedKeyThatDiffers(now, then) == nullptr);
  then.train.staleness = -1;
  CHECK(FixedKeyThatDiffers(now, then) == FindConfigKey("train.staleness"));
  CHECK(FixedKeyThatDiffers(then, now) == FindConfigKey("train.staleness"));
}

TEST_CASE("config: the help shows every key within 100 columns") {
  const std::string help = ConfigHelp();
  for (const ConfigKey& key : ConfigKeys()) {
    if (IsStoredKey(key.FullName())) continue;
    CHECK_MESSAGE(help.find("\n  " + key.name + " =") != std::string::npos, key.FullName());
  }
  CHECK(help.find("unit_batches") == std::string::npos);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
}

TEST_CASE("config: hidden layers are a number, or several") {
  const auto hidden = [](const std::string& text) {
    return ParseConfig("", "test", {"model.hidden=" + text});
  };
  CHECK(hidden("64")->model.hidden == 64);
  CHECK(hidden("64")->model.dense.empty());
  const Config deep = *hidden("1024, 256,32");
  CHECK(deep.model.hidden == 1024);
  CHECK(deep.model.dense == std::vector<uint32_t>{256, 32});
  CHECK(OutputWidth(deep.model) == 32);
  CHECK(HiddenText(deep.model) == "1024,256,32");
  CHECK(ParseConfig(FormatConfig(deep), "test")->model == deep.model);
  for (const char* bad : {"", "0", "64,", ",64", "64,,8", "64 8", "64,0", "64,-1", "64,8193", "x",
                          "1,1,1,1,1,1,1,1,1"}) {
    CAPTURE(bad);
    const auto refused = hidden(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("model.hidden") != std::string::npos);
  }
  Config resolved = deep;
  ResolveConfig(1000, 5000, &resolved);
  CHECK(resolved.model.output_init == doctest::Approx(1 / std::sqrt(32.0)));
}

TEST_CASE("config: dense layers that no message can have are refused") {
  const auto why = [](const std::string& text) { return ErrorOf("[model]\nhidden = " + text); };
  CHECK(why("8,8192").empty());
  CHECK(why("8,8192,8192") ==
        "cluster.ini:2: model.hidden = 8,8192,8192: its dense layers take 8398848 rows of 8, at "
        "most 65536 are possible; make the first layer wider or the others narrower");
  CHECK(why("8192,8192,8192").empty());  // of 2 bytes
  CHECK(why("8192,8192,8192,8192,8192") ==
        "cluster.ini:2: model.hidden = 8192,8192,8192,8192,8192: its dense layers and a batch take "
        "545 MiB, a message has at most 512; make the layers narrower");
  CHECK(ErrorOf("[model]\nhidden = 8192,8192,8192\n[cluster]\nwire = fp32").find("MiB") !=
        std::string::npos);
  CHECK(RowsOfDenseLayers(Parsed("[model]\nhidden = 8,20,5").model) == 39);
  CHECK_FALSE(ParseStoredConfig("[model]\nfeatures = 4294967295\n", "manifest").ok());
}

TEST_CASE("config: the example files are valid") {
  const std::string folder = std::string(DSLIDE_SOURCE_DIR) + "/configs/";
  const Result<Config> local = LoadConfig(folder + "local.ini", {});
  REQUIRE_MESSAGE(local.ok(), local.error().message);
  CHECK(local->cluster.servers == 2);
  CHECK(local->cluster.workers == 2);
  const Result<Config> two = LoadConfig(folder + "two-machines.ini", {});
  REQUIRE_MESSAGE(two.ok(), two.error().message);
  CHECK(two->security.encryption == Encryption::kAuto);
  CHECK(two->cluster.scheduler_advertise == "tcp://10.0.0.1:7700");
  const Result<Config> volunteer = LoadConfig(folder + "volunteer.ini", {});
  REQUIRE_MESSAGE(volunteer.ok(), volunteer.error().message);
  IdleConfig defaults;
  defaults.given = true;
  CHECK(volunteer->idle == defaults);
}

TEST_CASE("config: mutated files are read or refused, 20,000 times") {
  Random random(20'240'601);
  const std::string whole = FormatConfig(UnusualConfig());
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    // A short stretch, so that many mutants get past their first error.
    const size_t begin = random.Below(whole.size());
    std::string text = random.Below(4) == 0 ? whole : whole.substr(begin, random.Below(200));
    for (uint64_t edits = random.Below(6); edits > 0; --edits) Mutate(&random, &text);
    const Result<Config> config = ParseStoredConfig(text, "fuzz");
    if (!config.ok()) {
      REQUIRE(config.error().kind == ErrorKind::kBadInput);
      REQUIRE(config.error().message.starts_with("fuzz"));
      REQUIRE(config.error().message.find('\n') == std::string::npos);
      continue;
    }
    ++accepted;
    // What is accepted can be handed on.
    const Result<Config> again = ParseStoredConfig(FormatConfig(*config), "again");
    REQUIRE_MESSAGE(again.ok(), text);
    REQUIRE(*again == *config);
  }
  CHECK(accepted > 500);
  CHECK(accepted < 19'000);
}

TEST_CASE("config: what a scheduler of another version has sent is refused by its version") {
  Config config;
  config.train.batch = 96;
  const Config same = Ok(ParseSchedulersConfig(FormatConfig(config)));
  CHECK(same == config);
  CHECK(ParseSchedulersConfig("[security]\nallow_plaintext = false\n").ok());  // of an older one
  const auto refusal = [](const char* text) {
    const Result<Config> refused = ParseSchedulersConfig(text);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
    return refused.error().message;
  };
  CHECK(
      refusal("[train]\nsparkle = 3\n") ==
      "the scheduler is of a newer version: its configuration has train.sparkle, which is unknown "
      "here; install the scheduler's version on this machine");
  CHECK(refusal("[train]\nbatch = some\n")
            .ends_with("; the scheduler is of another version: install the scheduler's version on "
                       "this machine"));
}

TEST_CASE("config: what --set gives to a server that the scheduler decides is told to be ignored") {
  CHECK(IgnoredByServer({"model.hidden=64", "cluster.memory_mb=500", "common.log_level = debug"}) ==
        std::vector<std::string>{
            "model.hidden comes from the scheduler; --set model.hidden=64 is ignored"});
}

}  // namespace dslide
