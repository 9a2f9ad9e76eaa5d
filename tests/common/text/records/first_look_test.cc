#include "common/text/records/first_look.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/text/samples.h"
#include "tests/common/text/fitted.h"

namespace dslide::first_look_test {
namespace {

using Lines = std::vector<std::string>;

// The warnings about some lines of a file.
Lines Warnings(RecordFormat format, const Lines& lines) {
  FirstLook look;
  std::set<std::string> names;
  for (const std::string& line : lines) {
    const Record record = Ok(ParseRecord(format, line));
    look.Add(record);
    names.insert(record.labels.begin(), record.labels.end());
  }
  return look.Warnings(Lines(names.begin(), names.end()));
}

// Texts of six words, each with label(i).
template <typename Label>
Lines Table(size_t rows, const Label& label) {
  Lines lines;
  for (size_t i = 0; i < rows; ++i) {
    lines.push_back(fmt::format("some words of text number {}\t{}", i, label(i)));
  }
  return lines;
}

Lines Honest(size_t rows) {
  return Table(rows, [](size_t i) { return fmt::format("label {}", i % 7); });
}

TEST_CASE("first look: two samples as they were understood") {
  FirstLook look;
  look.Add({{"A red boat"}, {"boat", "red"}});
  look.Add({{"Title", "text\n" + std::string(100, 'x')}, {}});
  look.Add({{"third"}, {"a"}});
  CHECK(look.SampleLines() == Lines{"first sample: text 'A red boat', labels boat | red",
                                    "second sample: title 'Title', text 'text?" +
                                        std::string(55, 'x') + "...', no label"});
  FirstLook many;
  many.Add({{"a", ""}, {"1", "2", "3", "4", "5", "6", "7"}});
  CHECK(many.SampleLines() ==
        Lines{"first sample: title 'a', text '', labels 1 | 2 | 3 | 4 | 5 | 2 more"});
  FirstLook one;
  one.Add({{"a"}, {"b"}});
  CHECK(one.SampleLines() == Lines{"first sample: text 'a', label b"});
  const uint32_t labels[] = {4, 9}, features[] = {3, 17};
  const float values[] = {0.5f, 1.0f};
  CHECK(SampleLine(0, {labels, features, values}) ==
        "first sample: 2 features, 3:0.5 17:1, labels 4 | 9");
}

TEST_CASE("first look: nothing is said about a table as it should be") {
  CHECK(Warnings(RecordFormat::kTsv, Honest(100)).empty());
  // Names with commas, and addresses that are longer than texts.
  CHECK(Warnings(RecordFormat::kTsv,
                 Table(60, [](size_t i) { return fmt::format("Name{}, First{}", i % 20, i % 20); }))
            .empty());
  CHECK(Warnings(RecordFormat::kTsv,
                 Table(60,
                       [](size_t i) {
                         return fmt::format("<https://example.org/a/long/address/of/subject/{}>",
                                            i % 9);
                       }))
            .empty());
}

TEST_CASE("first look: a header that became a label") {
  Lines lines = Honest(20);
  lines.insert(lines.begin(), "text\tlabel");
  CHECK(Warnings(RecordFormat::kTsv, lines) ==
        Lines{"the first line looks like a header, but was read as a sample with label label; "
              "remove it (tail -n +2)"});
  lines[0] = "Title\tSubject_URIs";
  CHECK(Warnings(RecordFormat::kTsv, lines).size() == 1);
  lines[0] = "text\tsome label";
  CHECK(Warnings(RecordFormat::kTsv, lines).empty());
}

TEST_CASE("first look: several names in one label") {
  // 6 colours and 5 things in all pairs.
  const auto pairs = [](const std::string& separator) {
    return Table(
        300, [&](size_t i) { return fmt::format("colour{}{}thing{}", i % 6, separator, i % 5); });
  };
  CHECK(Warnings(RecordFormat::kTsv, pairs(";")) ==
        Lines{"most labels have ';' in them ('colour0;thing0'): each was read as one label, 30 in "
              "all; separated, there are 11 (--fields 'separator:;', text.fields)"});
  CHECK(Warnings(RecordFormat::kTsv, pairs(" | "))[0].starts_with("most labels have '|' in them"));
  Lines json;
  for (int i = 0; i < 300; ++i) {
    json.push_back(
        fmt::format(R"({{"text": "some words of text number {}", "labels": "colour{}, thing{}"}})",
                    i, i % 6, i % 5));
  }
  CHECK(Warnings(RecordFormat::kJsonLines, json)[0].ends_with(
      "30 in all; separated, there are 11 (--fields 'separator:comma', text.fields)"));
}

TEST_CASE("first look: columns that are swapped") {
  Lines lines;
  for (int i = 0; i < 50; ++i) {
    lines.push_back(fmt::format("label {}\ta text of many words with number {}", i % 7, i));
  }
  const Lines warnings = Warnings(RecordFormat::kTsv, lines);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] ==
        "50 labels in 50 samples with labels: hardly any label occurs twice, so nothing can be "
        "learned from them; are texts and labels swapped?");
  CHECK(warnings[1] ==
        "labels are longer than texts (35 and 7 bytes on average); are they swapped?");
}

TEST_CASE("first look: samples without labels, and the key that they have") {
  FirstLook look;
  look.Add({{"a"}, {"b"}});
  CHECK(look.WithoutLabels().empty());
  for (const char* key : {"label", "Label"}) {
    const Result<Record> record =
        ParseRecord(RecordFormat::kJsonLines, fmt::format(R"({{"text": "a", "{}": ["b"]}})", key));
    REQUIRE(record.ok());
    CHECK(record->near_key == key);
    look.Add(*record);
  }
  look.Add({{"a"}, {}});
  CHECK(look.WithoutLabels() ==
        "3 of 4 samples have no label; 2 of them have \"label\" where "
        "\"labels\" is expected");
  CHECK(look.Warnings({}) == Lines{look.WithoutLabels()});
  for (const char* other : {R"({"text": "a", "title": "b", "id": 1, "level": 3})",
                            R"({"text": "a", "labels": ["b"], "label": "c"})"}) {
    CHECK(ParseRecord(RecordFormat::kJsonLines, other)->near_key.empty());
  }
}

TEST_CASE("first look: added up it is that of the whole") {
  const Lines lines = Honest(101);
  FirstLook whole, sum;
  for (size_t begin = 0; begin < lines.size(); begin += 7) {
    FirstLook part;
    for (size_t i = begin; i < std::min(lines.size(), begin + 7); ++i) {
      const Record record = *ParseRecord(RecordFormat::kTsv, i % 3 == 0 ? "text" : lines[i]);
      whole.Add(record);
      part.Add(record);
    }
    sum.Append(part);
  }
  CHECK(sum.SampleLines() == whole.SampleLines());
  CHECK(sum.WithoutLabels() == whole.WithoutLabels());
  CHECK(sum.Warnings(lines) == whole.Warnings(lines));
}

std::vector<std::string> NotesOf(const DataFile& file) {
  return Ok(LoadTrainingSamples(file.path(), {EveryTerm(), 1, nullptr})).notes;
}

TEST_CASE("notes on a training file have its first samples and warnings") {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += fmt::format("{{\"text\": \"word{}\", \"{}\": [\"l{}\"]}}\n", i % 9,
                        i % 2 == 0 ? "labels" : "label", i % 3);
  }
  const DataFile records(text);
  CHECK(NotesOf(records) ==
        Lines{"first sample: text 'word0', label l0", "second sample: text 'word1', no label",
              "warning: " + records.path() +
                  ": 150 of 300 samples have no label; 150 of them have \"label\" where "
                  "\"labels\" is expected"});
  const DataFile numbers("3 5 4\n0,2 1:0.5 3:1\n 2:1\n3 4:2\n");
  CHECK(NotesOf(numbers) == Lines{"first sample: 2 features, 1:0.5 3:1, labels 0 | 2",
                                  "second sample: 1 feature, 2:1, no label",
                                  "warning: " + numbers.path() + ": 1 of 3 samples have no label"});
}

TEST_CASE("a file to measure with has a label, or is refused") {
  const Preprocessor fitted = Fitted("{\"text\": \"a\", \"labels\": [\"x\"]}\n", EveryTerm());
  const ModelInput text{&fitted, {fitted.num_features(), fitted.num_labels()}};
  const DataFile none("{\"text\": \"a\"}\n{\"text\": \"b\", \"labels\": []}\n");
  CHECK(MessageOf(LoadSamples(none.path(), text)) ==
        none.path() + ": nothing to measure: none of 2 samples has a label");
  const DataFile half("{\"text\": \"a\"}\n{\"text\": \"b\", \"labels\": [\"new\"]}\n");
  CHECK(LoadSamples(half.path(), text)->notes ==
        Lines{"warning: " + half.path() + ": 1 of 2 samples have no label, and score 0"});
  const DataFile numbers("2 5 4\n 1:0.5\n 2:1\n");
  CHECK(LoadSamples(numbers.path(), {nullptr, {5, 4}}).error().message ==
        numbers.path() + ": nothing to measure: none of 2 samples has a label");
}

}  // namespace
}  // namespace dslide::first_look_test
