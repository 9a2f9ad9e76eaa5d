// Words and sessions: a launched cluster makes vectors of plain text and learns what comes next.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/random.h"
#include "common/data/whole_file.h"
#include "tests/cluster/cluster.h"

namespace dslide::words_test {
namespace {

constexpr uint64_t kTopicWords = 10;

std::string WordOf(uint64_t topic, uint64_t i) {
  return (topic == 0 ? "sea" : "hill") + std::string(1, static_cast<char>('a' + i));
}

// Each line is of one of two topics, whose words no line of the other has.
void WriteTopics(const std::string& path) {
  std::ofstream file(path);
  Random random(1);
  for (int line = 0; line < 3000; ++line) {
    const uint64_t topic = random.Below(2);
    for (int i = 0; i < 8; ++i) file << WordOf(topic, random.Below(kTopicWords)) << " ";
    file << "\n";
  }
}

// Item i of 60 is followed by one of (3 i + 1, 3 i + 2) mod 60: by the first in 4 of 5 cases.
void WriteChains(const std::string& path, int sessions, uint64_t seed) {
  std::ofstream file(path);
  Random random(seed);
  for (int s = 0; s < sessions; ++s) {
    uint64_t item = random.Below(60);
    for (int i = 0; i < 12; ++i) {
      file << "item-" << item << " ";
      item = (3 * item + 1 + (random.Below(5) == 0)) % 60;
    }
    file << "\n";
  }
}

Arguments Train(const TestRun& run, const Arguments& settings) {
  Arguments train = {"train", "--run-dir", run.run_directory(), "--servers", "2", "--workers", "2"};
  for (const std::string& setting : settings) train.insert(train.end(), {"--set", setting});
  for (const char* setting :
       {"cluster.executors=1", "cluster.scheduler_bind=tcp://127.0.0.1:*", "train.staleness=0"}) {
    train.insert(train.end(), {"--set", setting});
  }
  return train;
}

TEST_CASE("neighbours of words are those of their topic") {
  TestRun run;
  WriteTopics(run.Path("text.txt"));
  REQUIRE_MESSAGE(
      run.Run("dslide", Train(run, {"train.data=" + run.Path("text.txt"), "text.format=words",
                                    "text.subsample=0", "model.hidden=16", "train.batch=64"})) == 0,
      run.last_errors());
  CHECK(Contains(run.last_output(), "24000 words, 20 different ones, 24000 samples an epoch"));
  for (uint64_t topic = 0; topic < 2; ++topic) {
    for (uint64_t i = 0; i < kTopicWords; ++i) {
      REQUIRE(run.Run("dslide", {"neighbours", run.run_directory(), WordOf(topic, i), "--top-k",
                                 "9", "--json"}) == 0);
      const auto answer = nlohmann::json::parse(run.last_output());
      std::set<std::string> found;
      for (const auto& name : answer["neighbours"]) found.insert(name.get<std::string>());
      std::set<std::string> expected;
      for (uint64_t j = 0; j < kTopicWords; ++j) {
        if (j != i) expected.insert(WordOf(topic, j));
      }
      CHECK(found == expected);
    }
  }
  CHECK(run.Run("dslide", {"neighbours", run.run_directory(), "Xylophon"}) == 2);
  CHECK(run.last_errors() == "dslide neighbours: 'Xylophon': the model has no such word\n");

  // The files that word2vec's readers take; numbers are those of the model, in either.
  const std::string text = run.Path("vectors.txt"), binary = run.Path("vectors.bin");
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", text}) == 0);
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", binary}) == 0);
  std::istringstream lines(*ReadWholeFile(text));
  const std::string bytes = *ReadWholeFile(binary);
  CHECK(bytes.starts_with("20 16\n"));
  std::string name;
  size_t at = 6;
  std::getline(lines, name);
  CHECK(name == "20 16");
  for (int word = 0; word < 20; ++word) {
    lines >> name;
    REQUIRE(bytes.substr(at, name.size() + 1) == name + " ");
    at += name.size() + 1;
    for (int d = 0; d < 16; ++d, at += sizeof(float)) {
      float in_text = 0, in_bytes = 0;
      lines >> in_text;
      std::memcpy(&in_bytes, bytes.data() + at, sizeof in_bytes);
      CHECK(in_text == in_bytes);
    }
    REQUIRE(bytes.substr(at, 1) == "\n");
    ++at;
  }
  CHECK(at == bytes.size());

  // Judged pairs and analogies.
  std::ofstream(run.Path("pairs.tsv")) << "# words\nseaa\tseab\t9\nhilla\thillb\t9.5\n"
                                          "seaa\thilla\t1\nnowhere\tseaa\t3\n";
  std::ofstream(run.Path("questions.txt")) << ": topics\nseaa hilla seab nowhere\n";
  REQUIRE(run.Run("dslide", {"neighbours", run.run_directory(), "--pairs", run.Path("pairs.tsv"),
                             "--questions", run.Path("questions.txt")}) == 0);
  CHECK(
      Contains(run.last_output(), "of 3; 1 have words that the model lacks or has no numbers for"));
  CHECK(Contains(run.last_output(), "of 0; 1 have words that the model lacks\n"));

  // What is around a word: its topic.
  std::ofstream(run.Path("new.txt")) << "seac\nhilld hillb\n";
  const std::string model = run.Path("model.dslide");
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", model}) == 0);
  for (const std::string& from : {run.run_directory(), model}) {
    REQUIRE(run.Run("dslide", {"predict", "--checkpoint", from, "--data", run.Path("new.txt"),
                               "--top-k", "10"}) == 0);
    std::istringstream predictions(run.last_output());
    for (const char* topic : {"sea", "hill"}) {
      for (uint64_t i = 0; i < kTopicWords; ++i) {
        predictions >> name;
        CHECK(name.starts_with(topic));
      }
    }
  }
}

TEST_CASE("the next item of a session is that of the chain") {
  TestRun run;
  WriteChains(run.Path("train.txt"), 2000, 1);
  WriteChains(run.Path("test.txt"), 200, 2);
  REQUIRE_MESSAGE(
      run.Run("dslide", Train(run, {"train.data=" + run.Path("train.txt"),
                                    "train.test=" + run.Path("test.txt"), "text.format=sessions",
                                    "model.hidden=64", "train.batch=64"})) == 0,
      run.last_errors());
  CHECK(Contains(run.last_output(), "24000 items, 60 different ones, 22000 samples an epoch"));
  // 11 next items a session; the better of the two is right in 4 of 5 cases, one of both always.
  REQUIRE(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                             run.Path("test.txt"), "--json"}) == 0);
  const auto figures = nlohmann::json::parse(run.last_output());
  CHECK(figures["samples"] == 2200);
  CHECK(figures["p_at_1"].get<double>() > 0.76);
  CHECK(figures["p_at_1"].get<double>() < 0.84);
  CHECK(figures["recall_at_3"].get<double>() > 0.97);

  std::ofstream(run.Path("new.txt")) << "item-3 item-11\nitem-50\n";
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                             run.Path("new.txt"), "--top-k", "1"}) == 0);
  CHECK(run.last_output().starts_with("item-34:"));
  CHECK(Contains(run.last_output(), "\nitem-31:"));
}

TEST_CASE("tune takes sessions, and tries as many epochs as a run of them has") {
  TestRun run;
  WriteChains(run.Path("train.txt"), 200, 1);
  WriteChains(run.Path("test.txt"), 50, 2);
  REQUIRE_MESSAGE(
      run.Run("dslide",
              {"tune", "--run-dir", run.run_directory(), "--set", "text.format=sessions", "--set",
               "train.data=" + run.Path("train.txt"), "--set", "train.test=" + run.Path("test.txt"),
               "--set", "model.hidden=16", "--set", "cluster.executors=1", "--search",
               "train.learning_rate=0.5x", "--minutes", "5"}) == 0,
      run.last_errors());
  CHECK(Contains(ReadFile(run.run_directory() + "/best.ini"), "epochs = 5\n"));
}

}  // namespace
}  // namespace dslide::words_test
