// The bytes of stored preprocessors: those of earlier programs, and those that later ones must
// read.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/checkpoint/file_checksum.h"
#include "common/data/whole_file.h"
#include "tests/common/text/fitted.h"

namespace dslide {
namespace {

constexpr const char* kTexts =
    R"({"title": "red House", "text": "Die roten Häuser stehen am Wasser, said the running men", "labels": ["Haus", "boat"]}
{"title": "Boote", "text": "running boats und Bootsfahrten, Häuser", "labels": ["Boot"]}
{"title": "houses of cards", "text": "the HOUSE was running along; schöne Wörter 東京の家", "labels": ["Haus", "cards ünd so"]}
)";

// A copy of `fitted` without the format of the training file, as earlier programs store it.
Preprocessor WithoutFormat(const Preprocessor& fitted) {
  const Vectorizer& of = fitted.vectorizer();
  TextConfig config = of.config();
  config.format = TextFormat::kRecords;
  return Preprocessor(
      of.is_hashed() ? Vectorizer(config, of.codes()) : Vectorizer(config, of.vocabulary()),
      fitted.label_names());
}

uint64_t Xxh3(const std::string& bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

struct Vector {
  std::vector<uint32_t> ids;
  std::vector<float> values;
  bool operator==(const Vector&) const = default;
};

Vector VectorOf(const Preprocessor& preprocessor) {
  Preprocessor::Encoder encoder(preprocessor);
  const SampleView sample = encoder.Encode({{"Häuser", "a red boat, running"}, {}});
  return {{sample.features.begin(), sample.features.end()},
          {sample.values.begin(), sample.values.end()}};
}

// The file is of the last program that had format 1 only. Its configuration has all sections, so a
// file of today may differ in keys that are not of the text.
TEST_CASE("a preprocessor of format 1 is read, and made as before") {
  const std::string bytes = Ok(ReadWholeFile(std::string(DSLIDE_SOURCE_DIR) +
                                             "/tests/common/text/stored/format-1.preprocessor"));
  CHECK(Xxh3(bytes) == 15194388812614613685u);
  const Preprocessor read = Ok(Preprocessor::FromBytes(bytes, "p"));
  CHECK(read.vectorizer().config() == EveryTerm());
  const Preprocessor fitted = Fitted(kTexts, EveryTerm());
  CHECK(fitted.config().format == TextFormat::kJson);
  CHECK(WithoutFormat(fitted).ToBytes() == read.ToBytes());
  CHECK(VectorOf(fitted) == VectorOf(read));
  CHECK(VectorOf(fitted).ids.size() == 3);
  // A new key has to be left out: an earlier program refuses keys that it does not know, and a
  // stream that is resumed compares the checksum with that of its earlier run.
  CHECK(Xxh3(WithoutFormat(fitted).ToBytes()) == 8945022748919558552u);
  for (const char* key : {"\nstem =", "\nchars =", "\nhash_bits ="}) {
    CHECK(fitted.ToBytes().find(key) == std::string::npos);
  }
  const size_t begin = bytes.find("[text]\n");
  const std::string section = bytes.substr(begin, bytes.find("\n\n", begin) - begin);
  CHECK(fitted.ToBytes().find(section + "\n\n") != std::string::npos);
}

TEST_CASE("a preprocessor with options comes back, with the bytes that it always had") {
  struct Golden {
    const char* stem;
    uint32_t chars, hash_bits;
    size_t bytes;
    uint64_t checksum;
  };
  const Golden goldens[] = {
      {"german", 0, 0, 1520, 14732407105868180853u},
      {"off", 3, 0, 4392, 11489432319193384012u},
      {"off", 0, 10, 1376, 16476529775531161540u},
      {"english", 4, 12, 4464, 14074612259766485541u},
  };
  for (const Golden& golden : goldens) {
    TextConfig config = EveryTerm();
    config.stem = golden.stem;
    config.chars = golden.chars;
    config.hash_bits = golden.hash_bits;
    CAPTURE(golden.stem);
    CAPTURE(golden.hash_bits);
    const Preprocessor written = Fitted(kTexts, config);
    const std::string before = WithoutFormat(written).ToBytes();
    CHECK(before.size() == golden.bytes);
    CHECK(Xxh3(before) == golden.checksum);
    config.format = TextFormat::kJson;
    const std::string bytes = written.ToBytes();
    const Preprocessor read = Ok(Preprocessor::FromBytes(bytes, "p"));
    CHECK(read.vectorizer().config() == config);
    CHECK(read.num_features() == written.num_features());
    CHECK(read.label_names() == written.label_names());
    CHECK(VectorOf(read) == VectorOf(written));
    CHECK(read.ToBytes() == bytes);
  }
}

TEST_CASE("a preprocessor with options that is damaged is an error") {
  TextConfig config = EveryTerm();
  config.stem = "german";
  config.hash_bits = 10;
  const std::string bytes = Fitted(kTexts, config).ToBytes();
  const auto read = [&](const std::string& what, const std::string& now) {
    std::string damaged = bytes;
    REQUIRE(damaged.find(what) != std::string::npos);
    damaged.replace(damaged.find(what), what.size(), now);
    const Result<Preprocessor> result = Preprocessor::FromBytes(damaged, "p");
    return result.ok() ? "" : result.error().message;
  };
  CHECK(read("hash_bits = 10", "hash_bits = 11").starts_with("p: damaged"));
  CHECK(read("stem = german", "stem = danish")
            .starts_with(
                "p: this machine's libstemmer finds other stems (text.stem = danish) than "));
  CHECK(read("hash_bits = 10", "hash_bits = 0 ").starts_with("p: damaged"));
  CHECK(
      read("stem = german", "stem = gorman").starts_with("p:10: text.stem = gorman: must be off"));
}

}  // namespace
}  // namespace dslide
