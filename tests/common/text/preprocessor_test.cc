#include "common/text/preprocessor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/text/records/line_blocks.h"
#include "common/text/samples.h"
#include "tests/common/text/fitted.h"

namespace dslide {
namespace {

TextConfig WordsOnly() {
  TextConfig config = EveryTerm();
  config.title = false;
  return config;
}

// A sample's values by the names of the features.
std::map<std::string, float> Values(const Preprocessor& preprocessor, const Record& record) {
  Preprocessor::Encoder encoder(preprocessor);
  const SampleView sample = encoder.Encode(record);
  std::map<std::string, float> values;
  for (size_t i = 0; i < sample.features.size(); ++i) {
    values[preprocessor.vectorizer().vocabulary().names[sample.features[i]]] = sample.values[i];
  }
  return values;
}

void CheckValues(const std::map<std::string, float>& values,
                 const std::map<std::string, double>& expected) {
  CHECK(values.size() == expected.size());
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    REQUIRE(values.contains(name));
    CHECK(values.at(name) == doctest::Approx(value).epsilon(2e-6));
  }
}

// TfidfVectorizer of scikit-learn 1.2.1 with tokenizer = \w+ on the lower-case text gives these.
TEST_CASE("values are those of scikit-learn") {
  const Preprocessor preprocessor = Fitted(
      R"({"text": "The cat sat. The cat ran!", "labels": ["a"]}
{"text": "A dog sat on the mat", "labels": ["b"]}
{"text": "Cat and dog: cat, dog, cat", "labels": ["b"]}
)",
      WordsOnly());
  CheckValues(Values(preprocessor, {{"The cat sat. The cat ran!"}, {}}),
              {{"ran", 0.401429}, {"sat", 0.305297}, {"cat", 0.610594}, {"the", 0.610594}});
  CheckValues(Values(preprocessor, {{"A dog sat on the mat"}, {}}), {{"mat", 0.459548},
                                                                     {"on", 0.459548},
                                                                     {"dog", 0.349498},
                                                                     {"a", 0.459548},
                                                                     {"sat", 0.349498},
                                                                     {"the", 0.349498}});
  CheckValues(Values(preprocessor, {{"Cat and dog: cat, dog, cat"}, {}}),
              {{"and", 0.342611}, {"dog", 0.521128}, {"cat", 0.781693}});
  CHECK(Values(preprocessor, {{"unknown words"}, {}}).empty());
}

// The same with ngram_range = (1, 2), min_df = 2, max_df = 0.7.
TEST_CASE("pairs of words, and terms of too few or too many samples") {
  TextConfig config;
  config.title = false;
  config.ngrams = 2;
  config.min_samples = 2;
  config.max_share = 0.7f;
  const Preprocessor preprocessor = Fitted(
      R"({"text": "The cat sat. The cat ran!", "labels": ["a"]}
{"text": "A dog sat on the mat", "labels": ["b"]}
{"text": "Cat and dog: cat, dog, cat", "labels": ["b"]}
{"text": "cat sat", "labels": ["b"]}
)",
      config);
  CHECK(preprocessor.num_features() == 3);
  CheckValues(Values(preprocessor, {{"The cat sat. The cat ran!"}, {}}),
              {{"cat sat", 0.447214}, {"the", 0.894427}});
  CheckValues(Values(preprocessor, {{"A dog sat on the mat"}, {}}),
              {{"dog", 0.707107}, {"the", 0.707107}});
}

// Each block of terms has its length: words 1, title 1, pairs of the title 0.7. All terms occur in
// the one sample, so idf is 1.
TEST_CASE("a title has features of its own") {
  TextConfig config = EveryTerm();
  const std::string text = R"({"text": "über k\ncat k", "labels": ["a"]})";
  const Record record{{"über k", "cat k"}, {}};
  const double whole = std::sqrt(2.49);
  const double word = 1 / std::sqrt(6.0) / whole;  // über, cat once, k twice
  const double part = 1 / std::sqrt(3.0) / whole;
  config.title_chars = 5;
  CheckValues(Values(Fitted(text, config), record), {{"über", word},
                                                     {"cat", word},
                                                     {"k", 2 * word},
                                                     {"title:<über", part},
                                                     {"title:über>", part},
                                                     {"title:<k>", part},
                                                     {"title:über k", 0.7 / whole}});
  config.title_chars = 0;
  config.title_pairs = false;
  CheckValues(Values(Fitted(text, config), record), {{"über", 1 / std::sqrt(12.0)},
                                                     {"cat", 1 / std::sqrt(12.0)},
                                                     {"k", 2 / std::sqrt(12.0)},
                                                     {"title:über", 0.5},
                                                     {"title:k", 0.5}});
  config.title = false;
  CheckValues(
      Values(Fitted(text, config), record),
      {{"über", 1 / std::sqrt(6.0)}, {"cat", 1 / std::sqrt(6.0)}, {"k", 2 / std::sqrt(6.0)}});
}

TEST_CASE("a short text without other fields is a title, a long one is none") {
  TextConfig config = EveryTerm();
  config.title_chars = 0;
  config.title_pairs = false;
  std::string words;
  for (int i = 0; i < 32; ++i) words += "w ";
  const Preprocessor preprocessor =
      Fitted("{\"text\": \"" + words + "\", \"labels\": [\"a\"]}", config);
  CHECK(Values(preprocessor, {{words}, {}}).contains("title:w"));
  CHECK_FALSE(Values(preprocessor, {{words + "w"}, {}}).contains("title:w"));
  CHECK(Values(preprocessor, {{words + "w", ""}, {}}).contains("title:w"));
}

TEST_CASE("labels have ids by falling frequency, unknown ones from N on") {
  const Preprocessor preprocessor = Fitted(
      R"({"text": "x", "labels": ["rare", "b"]}
{"text": "x", "labels": ["often", "b"]}
{"text": "x", "labels": ["often"]}
{"text": "x", "labels": ["often"]}
)",
      EveryTerm());
  CHECK(preprocessor.label_names() == std::vector<std::string>{"often", "b", "rare"});
  Preprocessor::Encoder encoder(preprocessor);
  const SampleView sample = encoder.Encode({{"x"}, {"new", "rare", "newer", "often"}});
  CHECK(std::vector<uint32_t>(sample.labels.begin(), sample.labels.end()) ==
        std::vector<uint32_t>{0, 2, 3, 4});
  // A name that comes again has the same id.
  const SampleView next = encoder.Encode({{"x"}, {"newest", "newer"}});
  CHECK(std::vector<uint32_t>(next.labels.begin(), next.labels.end()) ==
        std::vector<uint32_t>{4, 5});
  CHECK(preprocessor.LabelName(0) == "often");
  CHECK(preprocessor.LabelName(4) == "newer");
  CHECK(preprocessor.LabelName(5) == "newest");
}

// More samples than a block has.
std::string ManySamples(size_t count) {
  Random random(3);
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "{\"text\": \"";
    for (int w = 0; w < 12; ++w) {
      const double u = random.Uniform();
      text += fmt::format("averylongwordwithnumber{} ", static_cast<int>(5000 * u * u * u));
    }
    text += fmt::format("\", \"labels\": [{}]}}\n", random.Below(50));
  }
  return text;
}

TEST_CASE("the result does not depend on the number of threads") {
  const std::string text = ManySamples(3 * LineBlock::kMostLines + 5);
  TextConfig config;
  config.max_features = 1000;
  const std::string one = Fitted(text, config, 1).ToBytes();
  CHECK(Fitted(text, config, 1).ToBytes() == one);
  CHECK(Fitted(text, config, 3).ToBytes() == one);
  CHECK(Fitted(text, config, 8).ToBytes() == one);
}

TEST_CASE("terms that are forgotten do not depend on the number of threads") {
  Random random(9);
  std::vector<std::vector<TermTable>> rounds(4);
  std::map<uint64_t, uint32_t> exact;
  for (std::vector<TermTable>& blocks : rounds) {
    blocks.resize(3);
    for (TermTable& block : blocks) {
      for (int i = 0; i < 20000; ++i) {
        const double u = random.Uniform();
        const uint64_t hash = Mix64(static_cast<uint64_t>(30000 * u * u * u * u));
        block.Add(hash, TermBlock::kWords, 1, [] { return std::string_view("x"); });
        ++exact[hash];
      }
    }
  }
  const auto counted = [&](size_t threads) {
    TermCounts counts(4096);
    for (const std::vector<TermTable>& blocks : rounds) counts.Merge(blocks, threads);
    std::map<uint64_t, uint32_t> terms;
    for (const TermTable& shard : counts.shards()) {
      shard.ForEach([&](const TermTable::Entry& entry) { terms[entry.hash] = entry.samples; });
    }
    return terms;
  };
  const std::map<uint64_t, uint32_t> one = counted(1);
  CHECK(one.size() <= 4096);
  CHECK(counted(5) == one);
  // The frequent ones are there, with their whole count.
  uint32_t frequent = 0;
  for (const auto& [hash, count] : exact) {
    if (count < 200) continue;
    ++frequent;
    REQUIRE(one.contains(hash));
    CHECK(one.at(hash) == count);
  }
  CHECK(frequent > 50);
}

TEST_CASE("what is known keeps its id and weight, and what is new follows by frequency") {
  TextConfig config = WordsOnly();
  config.min_samples = 2;
  config.max_share = 0.8f;
  const Preprocessor known = Fitted(
      R"({"text": "cat dog", "labels": ["old"]}
{"text": "cat dog", "labels": ["older", "old"]}
{"text": "dog once", "labels": ["old"]}
{"text": "bird", "labels": ["old"]}
)",
      config);
  const auto& before = known.vectorizer().vocabulary();
  REQUIRE(before.names == std::vector<std::string>{"dog", "cat"});
  const Preprocessor extended = Extended(known,
                                         R"({"text": "cat fox", "labels": ["older", "b", "a"]}
{"text": "cat fox once", "labels": ["often", "a"]}
{"text": "cat fox once", "labels": ["often"]}
{"text": "cat owl all", "labels": ["often", "b"]}
{"text": "cat all all", "labels": ["often"]}
{"text": "fox", "labels": ["old"]}
)");
  const auto& after = extended.vectorizer().vocabulary();
  CHECK(after.names == std::vector<std::string>{"dog", "cat", "fox", "all", "once"});
  CHECK(std::vector<float>(after.weights.begin(), after.weights.begin() + 2) == before.weights);
  CHECK(after.weights[2] == doctest::Approx(1 + std::log(7.0 / 5)));
  CHECK(after.weights[4] == doctest::Approx(1 + std::log(7.0 / 3)));
  CHECK(extended.label_names() == std::vector<std::string>{"old", "older", "often", "a", "b"});
  config.format = TextFormat::kJson;  // which the model knows from its data
  CHECK(extended.vectorizer().config() == config);
  // A text of old words has the same vector.
  CHECK(Values(extended, {{"cat dog dog"}, {}}) == Values(known, {{"cat dog dog"}, {}}));
  // Nothing new: nothing changes.
  CHECK(Extended(extended, R"({"text": "dog fox", "labels": ["a"]})").ToBytes() ==
        extended.ToBytes());
}

TEST_CASE("an extension adds at most text.max_features, whatever the number of threads") {
  TextConfig config;
  config.max_features = 1000;
  const Preprocessor known = Fitted(ManySamples(500), config);
  REQUIRE(known.num_features() == 1000);
  const std::string more = ManySamples(2 * LineBlock::kMostLines + 5);
  const Preprocessor extended = Extended(known, more);
  CHECK(extended.num_features() == 2000);
  CHECK(Extended(known, more, 3).ToBytes() == extended.ToBytes());
  CHECK(Preprocessor::FromBytes(extended.ToBytes(), "p").ok());
}

TEST_CASE("a preprocessor that is cut is an error") {
  const std::string bytes =
      Fitted(R"({"text": "some words\nand more", "labels": ["a", "b"]})", EveryTerm()).ToBytes();
  for (size_t size = 0; size + 8 < bytes.size(); size += 7) {
    CHECK(!Preprocessor::FromBytes(bytes.substr(0, size), "p").ok());
  }
}

std::string WhyNot(const std::string& text, const TextConfig& config = EveryTerm()) {
  const DataFile file(text);
  const std::string& message = MessageOf(Preprocessor::Fit(file.path(), config, 2));
  REQUIRE(message.starts_with(file.path()));
  return message.substr(file.path().size());
}

TEST_CASE("files that nothing can be learned from are described") {
  CHECK(WhyNot("{\"text\": \"a\", \"labels\": [\"x\"]}\n\n{\"text\": 5}\n") ==
        ":3: \"text\" is not a string or a list of strings (1 of 2 records cannot be read, and at "
        "most 1 % are left out)");
  CHECK(WhyNot("{\"text\": \"a b\"}\n") ==
        ": no sample has a label (labels are read from the field 'labels'; --fields labels:NAME, "
        "text.fields, names another one)");
  CHECK(WhyNot("{\"text\": \"\", \"labels\": [\"x\"]}\n") ==
        ": no word occurs in 1 sample or more, and at most in a share of 1 of them "
        "(text.min_samples, text.max_share)");
  CHECK(WhyNot("") == ": the file is empty");
  CHECK(WhyNot("\n\n") == ": the file is empty");
  CHECK(WhyNot("only words\n").starts_with(": 'only words' begins no known format"));
  CHECK(WhyNot("words,tags\n")
            .ends_with("; of CSV with other columns than text and labels, --fields "
                       "text:NAME,labels:NAME (text.fields) gives their names)"));
  for (const char* array : {"[\n{\"text\": \"a\"}\n]\n", " [ {\"text\": \"a\"}]"}) {
    CHECK(WhyNot(array) ==
          ": is one JSON array; write its objects one a line (jq -c '.[]' does so)");
  }
}

TEST_CASE("a header with a misspelt column names the column that is meant") {
  const auto ends = [](const std::string& header, const std::string& end) {
    CAPTURE(header);
    CHECK(WhyNot(header + "\na red boat,boat\n").ends_with(end));
  };
  ends("titel,labels",
       "; if the line is a header, did you mean title where it has 'titel'? --fields title:titel "
       "(text.fields) reads it as it is)");
  ends("id;lables",
       "did you mean labels where it has 'lables'? --fields labels:lables (text.fields) reads it "
       "as it is)");
  ends("\"txt\", weight",
       "did you mean text where it has 'txt'? --fields text:txt (text.fields) "
       "reads it as it is)");
}

TEST_CASE("a sample has the labels already whose names are words of it") {
  const Preprocessor preprocessor = Fitted(
      R"({"text": "apple Pear plum", "labels": ["Apple", "plum", "apple pear"]}
{"text": "pear fig", "labels": ["PEAR", "kiwi"]}
)",
      EveryTerm());
  const auto own = [&](const std::string& text) {
    Preprocessor::Encoder encoder(preprocessor);
    const SampleView sample = encoder.Encode({{text}, {}});
    std::vector<std::string> names;
    for (const uint32_t label : preprocessor.OwnLabels(sample.features)) {
      names.push_back(preprocessor.LabelName(label));
    }
    std::ranges::sort(names);
    return names;
  };
  CHECK(own("apple pear") == std::vector<std::string>{"Apple", "PEAR"});
  CHECK(own("fig kiwi") == std::vector<std::string>{});  // no training text has a kiwi
  CHECK(own("plum") == std::vector<std::string>{"plum"});
}

TEST_CASE("a training file that has grown between two readings is refused") {
  const std::string before = R"({"text": "a b", "labels": ["one"]})"
                             "\n";
  const std::string more = R"({"text": "a", "labels": ["two"]})"
                           "\n";
  const DataFile file(before + more);
  const auto check = [&](const std::string& labels_of) {
    TrainingInput input;
    input.known = std::make_shared<const Preprocessor>(Fitted(labels_of, WordsOnly()));
    const TrainingSamples loaded = Ok(LoadTrainingSamples(file.path(), input));
    return CheckLabelsKnown(file.path(), loaded.data);
  };
  CHECK(check(before + more).ok());
  CHECK(MessageOf(check(before)) ==
        file.path() +
            ": sample 2 has a label that the file lacked when it was read before; name a file that "
            "nobody writes to");
}

}  // namespace
}  // namespace dslide
