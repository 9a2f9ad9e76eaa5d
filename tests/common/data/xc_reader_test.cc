#include "common/data/xc_reader.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/data/text_stream.h"
#include "common/data/xc_line.h"
#include "tests/support/compress.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide {
namespace {

class DataDirectory : public TempDirectory {
 public:
  std::string Write(const std::string& name, std::string_view bytes) const {
    const std::string file_path = path() + "/" + name;
    std::ofstream file(file_path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(file.flush().good());
    return file_path;
  }
};

struct Sample {
  std::vector<uint32_t> labels;
  std::vector<uint32_t> features;
  std::vector<float> values;
  bool operator==(const Sample&) const = default;
};

Sample Copy(const SampleView& view) {
  return {{view.labels.begin(), view.labels.end()},
          {view.features.begin(), view.features.end()},
          {view.values.begin(), view.values.end()}};
}

std::vector<Sample> Copy(const Dataset& dataset) {
  std::vector<Sample> samples;
  for (size_t i = 0; i < dataset.size(); ++i) samples.push_back(Copy(dataset[i]));
  return samples;
}

// Reads all samples of `bytes` as a file called "mem".
Result<std::vector<Sample>> Read(const std::string& bytes) {
  auto stream = TextStream::FromMemory("mem", bytes);
  if (!stream.ok()) return stream.error();
  auto reader = XcReader::FromStream(*std::move(stream));
  if (!reader.ok()) return reader.error();
  std::vector<Sample> samples;
  while (true) {
    auto sample = reader->Next();
    if (!sample.ok()) return sample.error();
    if (!sample->has_value()) return samples;
    samples.push_back(Copy(**sample));
  }
}

std::vector<Sample> ReadOk(const std::string& bytes) { return Ok(Read(bytes)); }

void CheckMessage(const Error& error, const std::string& prefix, const std::string& part) {
  INFO(error.message);
  CHECK(error.kind == ErrorKind::kBadInput);
  CHECK(error.message.starts_with(prefix));
  CHECK(error.message.find(part) != std::string::npos);
  CHECK(error.message.find('\n') == std::string::npos);
}

// `text` is damaged in `line`; the message says `part`.
void CheckDamage(const std::string& text, int line, const std::string& part) {
  CAPTURE(text);
  auto samples = Read(text);
  REQUIRE(!samples.ok());
  CheckMessage(samples.error(), fmt::format("mem:{}: ", line), part);
}

const std::string kText =
    "4 10 5\n"
    "1,3 0:0.5 7:-2\n"
    " 2:1e-3\n"
    "0\n"
    "4 9:3.25\n";

const std::vector<Sample> kSamples = {
    {{1, 3}, {0, 7}, {0.5F, -2.0F}}, {{}, {2}, {0.001F}}, {{0}, {}, {}}, {{4}, {9}, {3.25F}}};

// The line number in "path:line: ...".
int LineOf(const Error& error, const std::string& path) {
  REQUIRE(error.message.starts_with(path + ":"));
  return std::stoi(error.message.substr(path.size() + 1));
}

}  // namespace

TEST_CASE("plain, gzip and zstd files are told apart by content") {
  const DataDirectory directory;
  for (const std::string& bytes : {kText, Gzip(kText), Zstd(kText)}) {
    auto dataset = Ok(ReadXcFile(directory.Write("data.txt", bytes)));
    CHECK(dataset.num_features() == 10);
    CHECK(dataset.num_labels() == 5);
    CHECK(Copy(dataset) == kSamples);
  }
}

TEST_CASE("the reader gives the header, the samples and then nothing, repeatedly") {
  const DataDirectory directory;
  auto reader = Ok(XcReader::Open(directory.Write("data.txt", kText)));
  CHECK(reader.header().num_samples == 4);
  CHECK(reader.header().num_features == 10);
  CHECK(reader.header().num_labels == 5);
  for (const Sample& expected : kSamples) {
    auto sample = Ok(reader.Next());
    REQUIRE(sample.has_value());
    CHECK(Copy(*sample) == expected);
  }
  for (int i = 0; i < 3; ++i) {
    auto sample = Ok(reader.Next());
    CHECK(!sample.has_value());
  }
}

TEST_CASE("members and frames may be concatenated") {
  const std::string head = kText.substr(0, 11);
  const std::string tail = kText.substr(11);
  CHECK(ReadOk(Gzip(head) + Gzip("") + Gzip(tail)) == kSamples);
  CHECK(ReadOk(Zstd(head) + Zstd("") + Zstd(tail)) == kSamples);
  const std::string skippable("\x50\x2a\x4d\x18\x02\x00\x00\x00xy", 10);
  CHECK(ReadOk(skippable + Zstd(kText)) == kSamples);
}

TEST_CASE("legal edge cases") {
  SUBCASE("Windows line ends") {
    CHECK(ReadOk("2 9 5\r\n1 2:3\r\n\r\n") == std::vector<Sample>{{{1}, {2}, {3}}, {}});
  }
  SUBCASE("no last line end") {
    CHECK(ReadOk("1 9 5\n1 2:3") == std::vector<Sample>{{{1}, {2}, {3}}});
  }
  SUBCASE("samples without labels, without features and without either") {
    const std::vector<Sample> expected = {{{}, {1}, {2}}, {{3}, {}, {}}, {}, {}};
    CHECK(ReadOk("4 9 5\n 1:2\n3\n\n \n") == expected);
  }
  SUBCASE("runs of spaces and spaces at the end") {
    CHECK(ReadOk("1  9 5 \n1  2:3   4:5  \n") == std::vector<Sample>{{{1}, {2, 4}, {3, 5}}});
  }
  SUBCASE("blank lines after the last sample") {
    CHECK(ReadOk("1 9 5\n1 2:3\n\n \r\n\t\n") == std::vector<Sample>{{{1}, {2}, {3}}});
  }
  SUBCASE("ids in any order are sorted and values go along") {
    const std::vector<Sample> expected = {{{0, 2, 4}, {1, 5, 8}, {10, 50, 80}}};
    CHECK(ReadOk("1 9 5\n4,0,2 8:80 1:10 5:50\n") == expected);
  }
  SUBCASE("no samples") { CHECK(ReadOk("0 9 5\n").empty()); }
  SUBCASE("the largest ids and leading zeros") {
    const uint32_t max = std::numeric_limits<uint32_t>::max() - 1;
    CHECK(ReadOk("1 4294967295 4294967295\n4294967294 0000000000000000000000004294967294:1\n") ==
          std::vector<Sample>{{{max}, {max}, {1}}});
  }
  SUBCASE("values in every notation") {
    const std::vector<Sample> expected = {
        {{}, {0, 1, 2, 3, 4, 5, 6, 7}, {-0.0F, 0.5F, 3, 1e10F, 0.1234567F, 16777216, 0, 1e-42F}}};
    CHECK(ReadOk("1 8 1\n 0:-0 1:.5 2:3. 3:1e10 4:0.1234567 5:16777216.0 6:1e-60 7:1e-42\n") ==
          expected);
  }
}

TEST_CASE("a line longer than the buffers, in every encoding") {
  std::string text = "2 50000 5\n3";
  Sample expected = {{3}, {}, {}};
  for (uint32_t i = 0; i < 50000; ++i) {
    text += fmt::format(" {}:{}", i, i % 100);
    expected.features.push_back(i);
    expected.values.push_back(static_cast<float>(i % 100));
  }
  text += "\n1 1:1\n";
  for (const std::string& bytes : {text, Gzip(text), Zstd(text)}) {
    CHECK(ReadOk(bytes) == std::vector<Sample>{expected, {{1}, {1}, {1}}});
  }
}

TEST_CASE("short decimals round as from_chars does") {
  Random random(7);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t scale = uint64_t{1} << random.Below(40);
    std::string text = fmt::format("{}", random.Below(scale));
    text.insert(text.begin() + static_cast<std::ptrdiff_t>(random.Below(text.size() + 1)), '.');
    float expected = 0;
    std::from_chars(text.data(), text.data() + text.size(), expected);
    float value = 0;
    CAPTURE(text);
    REQUIRE(ParseFiniteFloat(text, &value));
    REQUIRE(value == expected);
  }
}

TEST_CASE("files that cannot be read") {
  const DataDirectory directory;
  const std::string missing = directory.path() + "/missing.txt";
  CheckMessage(ReadXcFile(missing).error(), missing + ": ", "cannot open: No such file");
  CheckMessage(ReadXcFile(directory.path()).error(), directory.path() + ": ",
               "is a directory (expected a file)");
  const std::string empty = directory.Write("empty.txt", "");
  CheckMessage(ReadXcFile(empty).error(),
               empty + ":1: ", "the file is empty (expected a header 'samples features labels')");
  CheckDamage(Gzip(""), 1, "the file is empty");
  CheckDamage(Zstd(""), 1, "the file is empty");
}

TEST_CASE("bad headers") {
  const std::string wanted = "expected three non-negative integers 'samples features labels'";
  for (const char* header : {"", " ", "1", "1 2", "1 2 ", "a b c", "1 2 x", "1 2 3x", "-1 2 3",
                             "1.5 2 3", " 1 2 3", "1,2,3", "1\t2\t3", "\xef\xbb\xbf 1 2 3"}) {
    CheckDamage(std::string(header) + "\n0 0:1\n", 1, wanted);
  }
  CheckDamage("1 2 3 4\n", 1, "expected three numbers 'samples features labels', no more");
  CheckDamage("1 0 3\n", 1, "bad header '1 0 3' (0 features, expected at least 1)");
  CheckDamage("1 2 0\n", 1, "0 labels, expected at least 1");
  CheckDamage("1 4294967296 3\n", 1, "'4294967296' features are too many, at most 4294967295");
  CheckDamage("1 2 99999999999\n", 1, "labels are too many, at most 4294967295");
  CheckDamage("18446744073709551616 2 3\n", 1, "samples are too many");
  CheckDamage("1 2 99999999999999999999999999999999999999999999999999\n", 1, "too many");
}

TEST_CASE("damaged samples") {
  struct Damage {
    const char* line;
    const char* part;
  };
  const Damage damages[] = {
      {"5 0:1", "label id '5' is out of range (the header says 5 labels: 0 to 4)"},
      {"99999999999999999999999999 0:1", "label id '99999999999999999999999999' is out of range"},
      {"18446744073709551617 0:1", "label id '18446744073709551617' is out of range"},
      {"1 9:1", "feature id '9' is out of range (the header says 9 features: 0 to 8)"},
      {"1 18446744073709551616:1", "feature id '18446744073709551616' is out of range"},
      {"1 3", "feature '3' has no colon (expected feature:value)"},
      {"1 0:1 3 4:1", "feature '3' has no colon (expected feature:value)"},
      {"0:1 3:2",
       "starts with a feature '0:1' (expected labels; a sample without labels starts "
       "with a space)"},
      {"77:1", "starts with a feature '77:1'"},
      {"1 3:nan", "the value 'nan' of feature 3 is not a finite number (expected such as 0.25)"},
      {"1 3:NaN", "not a finite number"},
      {"1 3:inf", "not a finite number"},
      {"1 3:-inf", "not a finite number"},
      {"1 3:infinity", "not a finite number"},
      {"1 3:1e39", "not a finite number"},
      {"1 3:-1e999", "not a finite number"},
      {"1 3:", "the value '' of feature 3 is not a finite number"},
      {"1 3:.", "not a finite number"},
      {"1 3:-", "not a finite number"},
      {"1 3:--1", "not a finite number"},
      {"1 3:+1", "not a finite number"},
      {"1 3:1.2.3", "not a finite number"},
      {"1 3:1x", "not a finite number"},
      {"1 3:0x10", "not a finite number"},
      {"1 3:1,4:2", "the value '1,4:2' of feature 3 is not a finite number"},
      {"1 3:1\t4:1", "the value '1\\x094:1'"},
      {"1 3:1\r 4:1", "the value '1\\x0d'"},
      {"1 3: 1", "the value '' of feature 3 is not a finite number"},
      {"1 -3:1", "bad feature '-3:1' (expected feature:value)"},
      {"1 :1", "bad feature ':1'"},
      {"1 x", "bad feature 'x'"},
      {"1 3=1", "bad feature '3=1'"},
      {"1\t3:1", "bad label '1\\x093:1' (expected labels such as 3,17 and then a space)"},
      {"1,", "bad label ''"},
      {"1, 3:1", "bad label ''"},
      {",1 3:1", "bad label ''"},
      {"1,,2 3:1", "bad label ''"},
      {"-1 3:1", "bad label '-1'"},
      {"1.5 3:1", "bad label '1.5'"},
      {"1,3:1", "bad label '3:1'"},
      {"abc", "bad label 'abc'"},
      {"\xff\xfe", "bad label '\\xff\\xfe'"},
      {"1,2,1 3:1", "label id 1 is there twice (expected each once a sample)"},
      {"1 3:1 4:1 3:2", "feature id 3 is there twice (expected each once a sample)"},
      {"1 3:1 3:1", "feature id 3 is there twice"},
  };
  for (const Damage& damage : damages) {
    CheckDamage(fmt::format("3 9 5\n1 0:1\n{}\n2 0:1\n", damage.line), 3, damage.part);
  }
  CheckDamage(std::string("1 9 5\n1\0 3:1\n", 13), 2, "bad label '1\\x00'");
}

TEST_CASE("long junk is cut in messages") {
  CHECK(MessageOf(Read("1 9 5\n" + std::string(5000, 'x') + "\n")).size() < 150);
}

TEST_CASE("too few and too many samples") {
  CheckDamage("3 9 5\n1 0:1\n2 0:1\n", 4, "the file ends after 2 samples (the header says 3)");
  CheckDamage("3 9 5\n", 2, "the file ends after 0 samples (the header says 3)");
  CheckDamage("18 9 5\n1 0:1 2:1 3:1 4:1\n", 3,
              "the file ends after 1 sample (the header says 18)");
  CheckDamage("1 9 5\n1 0:1\n\n2 0:1\n", 4,
              "there are more samples than the header says (1; expected the end of the file)");
  CheckDamage("0 9 5\njunk", 2, "there are more samples than the header says (0");
}

TEST_CASE("a number of samples that the file cannot hold is refused at its header") {
  const std::string text = "4294967295 9 5\n1 0:1\n";
  const char* claim = "the header says 4294967295 samples, but the file has at most {} bytes";
  CheckDamage(text, 1, fmt::format(fmt::runtime(claim), text.size()));
  CheckDamage(Gzip(text), 1, fmt::format(fmt::runtime(claim), 1032 * Gzip(text).size()));
  CheckDamage(Zstd(text), 3, "the file ends after 1 sample (the header says 4294967295)");
}

TEST_CASE("a line that does not end is an error, not a lot of memory") {
  const std::string endless(kMaxLineBytes + 1, ' ');
  CheckDamage(Zstd("1 9 5\n1 2:3\n" + endless), 3, "the line is longer than 64 MiB");
}

TEST_CASE("a compressed file cut anywhere is an error with file and line") {
  const DataDirectory directory;
  struct Encoding {
    std::string bytes;
    size_t magic_bytes;  // a shorter cut does not look compressed
  };
  for (const auto& [bytes, magic_bytes] : {Encoding{Gzip(kText), 2}, Encoding{Zstd(kText), 4}}) {
    int last_line = 1;
    for (size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size);
      const std::string path = directory.Write("cut", std::string_view(bytes).substr(0, size));
      auto dataset = ReadXcFile(path);
      REQUIRE(!dataset.ok());
      CheckMessage(dataset.error(), path + ":", size < magic_bytes ? "expected" : "is truncated");
      const int line = LineOf(dataset.error(), path);
      CHECK(line >= last_line);
      CHECK(line <= 6);
      last_line = line;
    }
    CHECK(last_line == 6);  // only the checksum is missing: after the last line
  }
}

TEST_CASE("a flipped bit in a compressed file is an error or does no harm") {
  for (const std::string& sound : {Gzip(kText), Zstd(kText)}) {
    int errors = 0;
    for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
      CAPTURE(bit);
      std::string bytes = sound;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      auto samples = Read(bytes);
      if (samples.ok()) CHECK(*samples == kSamples);
      if (!samples.ok()) CHECK(samples.error().message.starts_with("mem:"));
      errors += samples.ok() ? 0 : 1;
    }
    CHECK(errors > static_cast<int>(4 * sound.size()));
  }
}

TEST_CASE("junk after a compressed stream is an error") {
  CheckDamage(Gzip(kText) + "junk", 6, "the gzip stream is corrupt");
  CheckDamage(Zstd(kText) + "junk!", 6, "the zstd stream is corrupt");
}

TEST_CASE("an error of the stream stays") {
  const std::string bytes = Gzip(kText);
  auto stream = Ok(TextStream::FromMemory("mem", bytes.substr(0, bytes.size() - 1)));
  auto line = stream.Next();
  while (line.ok()) line = stream.Next();
  CHECK(stream.Next().error().message == line.error().message);
}

TEST_CASE("label names") {
  const DataDirectory directory;
  const std::string text = "2\tkey\t17\ttwo words\r\n\n0\tzero\n3\tthree\t5\n4\t\n";
  const std::vector<std::string> expected = {"zero", "", "two words", "three", ""};
  for (const std::string& bytes : {text, Gzip(text), Zstd(text)}) {
    auto names = Ok(ReadLabelNames(directory.Write("labels.tsv", bytes), 5));
    CHECK(names == expected);
  }
  const auto one = Ok(ReadLabelNames(directory.Write("one.tsv", "0\tno line end"), 2));
  CHECK(one == std::vector<std::string>{"no line end", ""});
}

TEST_CASE("compressed files that other programs read as well") {
  const DataDirectory directory;
  const std::vector<std::string> expected = {"zero", "one"};
  // Blocks of a tape end with zeros; files of zstd --long need a window of more than 128 MB.
  for (const std::string& bytes : {Gzip("0\tzero\n") + Gzip("1\tone\n") + std::string(512, '\0'),
                                   ZstdOfWindow(28, "0\tzero\n1\tone\n")}) {
    auto names = Ok(ReadLabelNames(directory.Write("labels.tsv", bytes), 2));
    CHECK(names == expected);
  }
}

TEST_CASE("damaged label names") {
  const DataDirectory directory;
  struct Damage {
    const char* text;
    int line;
    const char* part;
  };
  const Damage damages[] = {
      {"", 1, "the file is empty (expected id, tab, name)"},
      {"0\ta\n4\tb\n", 2, "label id '4' is out of range (the data has 4 labels)"},
      {"99999999999999999999\tb\n", 1, "is out of range"},
      {"0\ta\n1 b\n", 2, "bad label line '1 b' (expected id, tab, name)"},
      {"id\tname\n", 1, "bad label line 'id\\x09name'"},
      {"7\n", 1, "bad label line '7'"},
      {"\tname\n", 1, "bad label line"},
      {"1\ta\n2\tb\n1\tc\n", 3, "label id 1 is there twice (expected once)"},
  };
  for (const Damage& damage : damages) {
    CAPTURE(damage.text);
    const std::string path = directory.Write("labels.tsv", damage.text);
    auto names = ReadLabelNames(path, 4);
    REQUIRE(!names.ok());
    CheckMessage(names.error(), fmt::format("{}:{}: ", path, damage.line), damage.part);
  }
  const std::string missing = directory.path() + "/missing.tsv";
  CheckMessage(ReadLabelNames(missing, 4).error(), missing + ": ", "cannot open");
}

}  // namespace dslide
