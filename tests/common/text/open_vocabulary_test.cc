#include "common/text/open_vocabulary.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace dslide {
namespace {

TextConfig Words() {
  TextConfig config;
  config.title = false;
  config.max_share = 1;
  return config;
}

// A record for each pair of a text and its labels, which blanks separate.
std::vector<Record> Records(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::vector<Record> records;
  for (const auto& [text, labels] : lines) {
    Record record;
    record.fields = {text};
    for (size_t begin = 0; begin < labels.size();) {
      const size_t end = std::min(labels.find(' ', begin), labels.size());
      record.labels.push_back(labels.substr(begin, end - begin));
      begin = end + 1;
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<std::string> LabelsOf(const OpenVocabulary& vocabulary) {
  return vocabulary.labels().stored().names;
}

TEST_CASE("open vocabulary: names are taken up when enough samples have had them") {
  OpenVocabulary vocabulary(Words());
  const OpenVocabulary::Rules rules{2, 0};
  OpenVocabulary::Change change =
      vocabulary.Take(Records({{"red boat", "a"}, {"red tree", "a b"}}), rules);
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"a"});
  CHECK(vocabulary.features().stored().names == std::vector<std::string>{"red"});
  CHECK(change.labels.taken_up == 1);
  CHECK(change.labels.recycled.empty());
  // "b" and "boat" have had one sample before; a sample counts once however often it has a word.
  change = vocabulary.Take(Records({{"boat blue blue", "b c"}}), rules);
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"a", "b"});
  CHECK(vocabulary.features().stored().names == std::vector<std::string>{"red", "boat"});
  CHECK(change.features.taken_up == 1);
}

TEST_CASE("open vocabulary: the most frequent names come first, then by name") {
  OpenVocabulary vocabulary(Words());
  vocabulary.Take(Records({{"w", "z y"}, {"w", "z y"}, {"w", "z x"}, {"w", "x"}}), {2, 0});
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"z", "x", "y"});
}

TEST_CASE("open vocabulary: a first segment without a frequent name takes all up") {
  OpenVocabulary vocabulary(Words());
  vocabulary.Take(Records({{"one", "a"}, {"two", "b"}}), {5, 0});
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"a", "b"});
  vocabulary.Take(Records({{"three", "c"}}), {5, 0});
  CHECK(vocabulary.labels().in_use() == 2);
}

TEST_CASE("open vocabulary: names that do not come back go, and their ids are used again") {
  OpenVocabulary vocabulary(Words());
  const OpenVocabulary::Rules rules{1, 2};
  vocabulary.Take(Records({{"red", "a"}, {"blue", "b"}}), rules);
  OpenVocabulary::Change change = vocabulary.Take(Records({{"red", "a"}}), rules);
  CHECK(change.labels.removed.empty());
  // The second segment without "b". Its id rests for this one.
  change = vocabulary.Take(Records({{"red", "a c"}}), rules);
  CHECK(change.labels.removed == std::vector<uint32_t>{1});
  CHECK(change.labels.recycled.empty());
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"a", "", "c"});
  CHECK(change.features.removed.size() == 1);
  CHECK(vocabulary.labels().in_use() == 2);
  const Preprocessor without = vocabulary.MakePreprocessor();
  CHECK(without.num_labels() == 3);
  CHECK(!without.LabelId("b"));
  CHECK(!without.LabelId(""));
  Preprocessor::Encoder encoder(without);
  CHECK(encoder.Encode(Records({{"blue", ""}})[0]).features.empty());

  change = vocabulary.Take(Records({{"green", "b"}}), rules);
  CHECK(change.labels.recycled == std::vector<uint32_t>{1});
  CHECK(change.features.recycled.size() == 1);
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"a", "b", "c"});
  CHECK(*vocabulary.MakePreprocessor().LabelId("b") == 1);
}

TEST_CASE("open vocabulary: candidates are forgotten too") {
  OpenVocabulary vocabulary(Words());
  vocabulary.Take(Records({{"red", "a"}, {"red", "a"}, {"red", "b"}}), {2, 2});
  vocabulary.Take(Records({{"red", "a"}}), {2, 2});
  vocabulary.Take(Records({{"red", "a"}}), {2, 2});
  CHECK(vocabulary.labels().candidates() == 0);
  vocabulary.Take(Records({{"red", "a b"}}), {2, 2});
  CHECK(vocabulary.labels().in_use() == 1);
}

TEST_CASE("open vocabulary: what was too frequent once is a word like others later") {
  TextConfig config = Words();
  config.max_share = 0.5;
  OpenVocabulary vocabulary(config);
  const auto segment = [&](int with_hot) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (int i = 0; i < 100; ++i) lines.emplace_back(i < with_hot ? "hot word" : "rare word", "a");
    vocabulary.Take(Records(lines), {2, 3});
  };
  const auto knows = [&] {
    return std::ranges::count(vocabulary.features().stored().names, "hot") > 0;
  };
  segment(90);
  CHECK_FALSE(knows());
  for (int i = 0; i < 20; ++i) segment(20);
  CHECK(knows());
}

TEST_CASE("open vocabulary: weights are the idf of the counts so far") {
  OpenVocabulary vocabulary(Words());
  vocabulary.Take(Records({{"red boat", "a"}, {"red", "a"}, {"red", "a"}}), {1, 0});
  const auto weight = [&](const std::string& name) {
    const Preprocessor preprocessor = vocabulary.MakePreprocessor();
    const auto& words = preprocessor.vectorizer().vocabulary();
    const auto at = std::ranges::find(words.names, name) - words.names.begin();
    return words.weights[static_cast<size_t>(at)];
  };
  CHECK(weight("red") == doctest::Approx(1.0));
  CHECK(weight("boat") == doctest::Approx(1.0 + std::log(4.0 / 2.0)));
  vocabulary.Take(Records({{"boat", "a"}}), {1, 0});
  CHECK(weight("red") == doctest::Approx(1.0 + std::log(5.0 / 4.0)));
  CHECK(weight("boat") == doctest::Approx(1.0 + std::log(5.0 / 3.0)));
}

// Room for so many ids of both kinds.
OpenVocabulary::Rules RoomFor(uint64_t ids, uint32_t expire_segments = 0) {
  return {1, expire_segments, {ids * 100, 100, 100}};
}

TEST_CASE("open vocabulary: names that there is no room for wait until others are forgotten") {
  OpenVocabulary vocabulary(Words());
  OpenVocabulary::Change change =
      vocabulary.Take(Records({{"red", "a b c"}, {"red", "a b"}, {"red", "a"}}), RoomFor(3, 2));
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"a", "b"});  // seven eighths of three
  CHECK(vocabulary.features().in_use() == 1);
  CHECK(change.labels.taken_up == 2);
  CHECK(change.labels.kept_out == 1);
  CHECK(change.features.kept_out == 0);
  change = vocabulary.Take(Records({{"red", "b c"}}), RoomFor(3, 2));
  CHECK(change.labels.kept_out == 1);
  change = vocabulary.Take(Records({{"red", "b c"}}), RoomFor(3, 2));
  CHECK(change.labels.removed == std::vector<uint32_t>{0});
  change = vocabulary.Take(Records({{"red", "b c"}}), RoomFor(3, 2));
  CHECK(change.labels.kept_out == 0);
  CHECK(change.labels.recycled == std::vector<uint32_t>{0});
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{"c", "b"});
  // With more room, or less than it takes already, nobody is put out.
  change = vocabulary.Take(Records({{"red blue", "b c d"}}), RoomFor(8));
  CHECK(change.labels.taken_up == 1);
  change = vocabulary.Take(Records({{"red green", "b c e"}}), RoomFor(1));
  CHECK(change.labels.kept_out == 1);
  CHECK(change.features.kept_out == 1);
  CHECK(vocabulary.labels().in_use() == 3);
}

TEST_CASE("open vocabulary: a flood of labels leaves room for words, and the other way round") {
  for (const bool of_labels : {false, true}) {
    std::string flood, few;
    for (int i = 0; i < 100; ++i) flood += " n" + std::to_string(i);
    for (int i = 0; i < 4; ++i) few += " m" + std::to_string(i);
    OpenVocabulary vocabulary(Words());
    vocabulary.Take(
        of_labels ? Records({{"w", flood.substr(1)}}) : Records({{flood.substr(1), "w"}}),
        RoomFor(40));
    vocabulary.Take(of_labels ? Records({{few, "n1"}}) : Records({{"n1", few.substr(1)}}),
                    RoomFor(40));
    const OpenNames& flooded = of_labels ? vocabulary.labels() : vocabulary.features();
    const OpenNames& other = of_labels ? vocabulary.features() : vocabulary.labels();
    CHECK(flooded.in_use() == 35);
    CHECK(other.in_use() == 5);
  }
}

TEST_CASE("open vocabulary: long names are bounded") {
  const std::string label(OpenVocabulary::kLongestLabel, 'l');
  std::string word;
  for (int i = 0; i < 200; ++i) word += "\u00e4";
  OpenVocabulary vocabulary(Words());
  vocabulary.Take(Records({{word, label + " " + label + "l"}}), {1, 0});
  CHECK(LabelsOf(vocabulary) == std::vector<std::string>{label});
  CHECK(vocabulary.features().stored().names ==
        std::vector<std::string>{word.substr(0, OpenVocabulary::kLongestName)});
  const Preprocessor preprocessor = vocabulary.MakePreprocessor();
  Preprocessor::Encoder encoder(preprocessor);
  CHECK(encoder.Encode(Records({{word, ""}})[0]).features.size() == 1);
}

TEST_CASE("open vocabulary: candidates are bounded in bytes, too") {
  OpenNames names;
  const size_t count = OpenNames::kMostCandidateBytes / 1024 + 1;
  for (uint32_t i = 0; i < count; ++i) {
    names.Note(i, 0, i < count / 3 ? 1 : 2, [] { return std::string(1024, 'x'); });
  }
  names.End(2, {2, 0});
  CHECK(names.candidates() == count / 2);
  CHECK(names.Candidates().seen.front() == 2);  // the oldest went first
  names.End(3, {2, 1});
  CHECK(names.candidates() == 0);
}

std::vector<Record> Drawn(Random* random) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (int i = 0; i < 40; ++i) {
    const uint64_t word = random->Below(60) * random->Below(60) / 60;
    lines.push_back({"w" + std::to_string(word) + " v" + std::to_string(random->Below(30)),
                     "l" + std::to_string(word)});
  }
  return Records(lines);
}

TEST_CASE("open vocabulary: what was stored goes on as if nothing had been, with the same ids") {
  const OpenVocabulary::Rules rules{2, 5};
  OpenVocabulary whole(Words());
  OpenVocabulary::State stored;
  Random random(7);
  for (int segment = 0; segment < 30; ++segment) {
    const std::vector<Record> records = Drawn(&random);
    const OpenVocabulary::Change expected = whole.Take(records, rules);
    OpenVocabulary resumed(Words(), stored);
    const OpenVocabulary::Change change = resumed.Take(records, rules);
    CHECK(change.labels.removed == expected.labels.removed);
    CHECK(change.labels.recycled == expected.labels.recycled);
    CHECK(change.features.recycled == expected.features.recycled);
    stored = resumed.Save();
    REQUIRE(stored == whole.Save());
    CHECK(resumed.MakePreprocessor().ToBytes() == whole.MakePreprocessor().ToBytes());
  }
  CHECK(whole.labels().size() > whole.labels().in_use());
}

}  // namespace
}  // namespace dslide
