// A vocabulary from end to end: labels by identifier or name in data, both in predictions, and
// labels without training samples.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/base/random.h"
#include "tests/cluster/cluster.h"

namespace dslide::vocabulary_cluster_test {
namespace {

constexpr const char* kThings[] = {"house", "boat", "tree", "book", "garden", "bridge"};
constexpr size_t kNamed = 6, kTrained = 5;  // no sample is about a bridge

std::string Uri(size_t thing) { return "http://example.org/" + std::to_string(thing); }

void WriteTexts(const std::string& path, size_t samples, uint64_t seed, bool by_name) {
  std::ofstream file(path);
  Random random(seed);
  for (size_t i = 0; i < samples; ++i) {
    const size_t thing = random.Below(kTrained);
    nlohmann::json line;
    line["text"] = "About a " + std::string(kThings[thing]) + "\nIt has number " +
                   std::to_string(random.Below(100)) + ".";
    line["labels"] = {by_name ? kThings[thing] : Uri(thing)};
    if (i == 0) line["labels"].push_back("unicorn");
    file << line.dump() << "\n";
  }
}

void WriteVocabulary(const std::string& path) {
  std::ofstream file(path);
  for (size_t thing = 0; thing < kNamed; ++thing) {
    file << "<" << Uri(thing) << ">\t" << kThings[thing] << "\n";
  }
}

TEST_CASE("a run with a vocabulary knows labels by identifier and by name") {
  TestRun run;
  WriteTexts(run.Path("train.jsonl"), 3000, 1, false);
  WriteTexts(run.Path("named.jsonl"), 200, 2, true);
  WriteTexts(run.Path("uris.jsonl"), 200, 2, false);
  WriteVocabulary(run.Path("vocabulary.tsv"));
  Arguments train = {"train",
                     "--run-dir",
                     run.run_directory(),
                     "--data",
                     run.Path("train.jsonl"),
                     "--test",
                     run.Path("named.jsonl"),
                     "--set",
                     "labels.vocabulary=" + run.Path("vocabulary.tsv"),
                     "--set",
                     "model.hidden=32",
                     "--set",
                     "labels.name_weight=50",
                     "--set",
                     "train.epochs=4",
                     "--set",
                     "cluster.scheduler_bind=tcp://127.0.0.1:*"};
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  CHECK(Contains(run.last_output(), "1 label that the vocabulary lacks left out, as 'unicorn'"));
  CHECK(Contains(run.last_output(), "6 names of 6 labels are training samples, too"));
  // Members, checkpoints and commands know the vocabulary by the run.
  std::filesystem::remove(run.Path("vocabulary.tsv"));
  for (const char* test : {"named.jsonl", "uris.jsonl"}) {
    REQUIRE(run.Run("dslide",
                    {"evaluate", run.run_directory(), "--data", run.Path(test), "--json"}) == 0);
    const auto figures = nlohmann::json::parse(run.last_output());
    CHECK(figures["p_at_1"] == doctest::Approx(1.0));
    CHECK(figures["labels"] == kNamed);
    CHECK(figures["unknown_labels"] == 1);
  }
  std::ofstream(run.Path("new.jsonl")) << "{\"text\": \"About a bridge\"}\n";
  REQUIRE(run.Run("dslide", {"predict", run.run_directory(), "--data", run.Path("new.jsonl"),
                             "--top-k", "1", "--json"}) == 0);
  const auto predicted = nlohmann::json::parse(run.last_output());
  CHECK(predicted["labels"][0] == "bridge");  // only its name was a sample
  CHECK(predicted["uris"][0] == Uri(5));
  REQUIRE(run.Run("dslide", {"predict", run.run_directory(), "--data", run.Path("new.jsonl"),
                             "--top-k", "1"}) == 0);
  CHECK(run.last_output().starts_with("bridge:"));

  train.insert(train.end(), {"--resume", "--set", "train.epochs=5"});
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());

  // A new run has the vocabulary of the earlier one.
  REQUIRE_MESSAGE(run.Run("dslide", {"train", "--from", run.run_directory(), "--run-dir",
                                     run.Path("next"), "--data", run.Path("named.jsonl"), "--test",
                                     run.Path("uris.jsonl"), "--set", "train.epochs=2"}) == 0,
                  run.last_errors());
  REQUIRE(run.Run("dslide",
                  {"evaluate", run.Path("next"), "--data", run.Path("uris.jsonl"), "--json"}) == 0);
  CHECK(nlohmann::json::parse(run.last_output())["p_at_1"] == doctest::Approx(1.0));
  std::ofstream(run.Path("other.jsonl")) << "{\"text\": \"a boat\", \"labels\": [\"x\"]}\n";
  CHECK(run.Run("dslide", {"train", "--from", run.run_directory(), "--run-dir", run.Path("none"),
                           "--data", run.Path("other.jsonl"), "--set", "train.test="}) == 2);
  CHECK(Contains(run.last_errors(), "the vocabulary of the model lacks all labels, as 'x'"));
}

// A word that no other label has.
std::string NameOf(size_t label) {
  constexpr const char* kSyllables[] = {"ba", "do", "ki", "lu", "me", "no", "ra", "su", "te", "vi"};
  std::string name = "x";
  for (size_t rest = label + 1000; rest > 0; rest /= 10) name += kSyllables[rest % 10];
  return name;
}

// Texts of common words that mention their label in most cases, and another one in some.
void WriteMentions(const std::string& path, size_t samples, size_t labels, uint64_t seed) {
  std::ofstream file(path);
  Random random(seed);
  for (size_t i = 0; i < samples; ++i) {
    const size_t label = random.Below(labels);
    std::string text;
    for (int word = 0; word < 12; ++word) text += "word" + std::to_string(random.Below(40)) + " ";
    if (random.Below(10) < 8) text += NameOf(label) + " ";
    if (random.Below(10) < 2) text += NameOf(random.Below(labels));
    file << nlohmann::json{{"text", text}, {"labels", {NameOf(label)}}}.dump() << "\n";
  }
}

TEST_CASE("a ranking by names in texts is learned, stored, exported, and can be left out") {
  constexpr size_t kLabels = 300;
  TestRun run;
  WriteMentions(run.Path("train.jsonl"), 1500, kLabels, 1);
  WriteMentions(run.Path("test.jsonl"), 300, kLabels, 2);
  {
    std::ofstream file(run.Path("vocabulary.tsv"));
    for (size_t label = 0; label < kLabels; ++label) {
      file << Uri(label) << "\t" << NameOf(label) << "\n";
    }
  }
  REQUIRE_MESSAGE(run.Run("dslide", {"train", "--run-dir", run.run_directory(), "--data",
                                     run.Path("train.jsonl"), "--test", run.Path("test.jsonl"),
                                     "--set", "labels.vocabulary=" + run.Path("vocabulary.tsv"),
                                     "--set", "labels.name_weight=0", "--set", "model.hidden=16",
                                     "--set", "train.heldout=200", "--set", "train.epochs=2",
                                     "--set", "cluster.scheduler_bind=tcp://127.0.0.1:*"}) == 0,
                  run.last_errors());
  const std::string output = run.last_output();
  CHECK(Contains(output, "held out, ranked by model and names: P@1 "));
  const auto evaluate = [&](const std::string& model, const std::string& rank) {
    REQUIRE_MESSAGE(run.Run("dslide", {"evaluate", model, "--data", run.Path("test.jsonl"),
                                       "--json", "--rank", rank}) == 0,
                    run.last_errors());
    return nlohmann::json::parse(run.last_output())["p_at_1"].get<double>();
  };
  const double by_names = evaluate(run.run_directory(), "names");
  CHECK(by_names > 0.6);  // 80 % of the texts mention their label
  CHECK(by_names > evaluate(run.run_directory(), "model") + 0.1);
  // The run adjusts the logits of the labels that the model ranks first without the adjustment.
  const std::string final_line = "final, ranked by model and names: P@1 ";
  REQUIRE(Contains(output, final_line));
  const std::string at_end = output.substr(output.find(final_line) + final_line.size());
  CHECK(std::stod(at_end) == doctest::Approx(100 * by_names).epsilon(0.03));

  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", run.Path("a.dslide")}) == 0);
  CHECK(evaluate(run.Path("a.dslide"), "names") == doctest::Approx(by_names).epsilon(0.02));
  CHECK(evaluate(run.Path("a.dslide"), "model") < by_names - 0.1);

  // A text of which the model knows nothing but the name.
  std::ofstream(run.Path("new.jsonl")) << "{\"text\": \"" + NameOf(7) + "\"}\n";
  REQUIRE(run.Run("dslide", {"predict", run.Path("a.dslide"), "--data", run.Path("new.jsonl"),
                             "--top-k", "3", "--json"}) == 0);
  const auto predicted = nlohmann::json::parse(run.last_output());
  CHECK(predicted["labels"].size() == 3);
  CHECK(predicted["labels"][0] == NameOf(7));
  CHECK(run.Run("dslide", {"evaluate", run.run_directory(), "--data", run.Path("test.jsonl"),
                           "--rank", "both"}) == 2);
  CHECK(Contains(run.last_errors(), "--rank both: must be names or model"));

  std::ofstream(run.run_directory() + "/checkpoint/reranker") << "damaged";
  CHECK(run.Run("dslide", {"evaluate", run.run_directory(), "--data", run.Path("test.jsonl")}) ==
        2);
  CHECK(Contains(run.last_errors(), "reranker: reranker: damaged (7 bytes); remove the file"));
}

TEST_CASE("a folder of documents and a vocabulary are trained on and predicted") {
  TestRun run;
  std::filesystem::create_directory(run.Path("docs"));
  Random random(1);
  for (int i = 0; i < 600; ++i) {
    const size_t thing = random.Below(kTrained);
    const std::string name = run.Path("docs/" + std::to_string(i));
    std::ofstream(name + ".txt") << "About a " << kThings[thing] << "\nof size " << i % 7 << "\n";
    std::ofstream(name + ".tsv") << "<" << Uri(thing) << ">\t" << kThings[thing] << "\n";
  }
  WriteVocabulary(run.Path("vocabulary.tsv"));
  REQUIRE_MESSAGE(run.Run("dslide", {"train", "--run-dir", run.run_directory(), "--data",
                                     run.Path("docs"), "--test", run.Path("docs"), "--set",
                                     "labels.vocabulary=" + run.Path("vocabulary.tsv"), "--set",
                                     "model.hidden=32", "--set",
                                     "cluster.scheduler_bind=tcp://127.0.0.1:*"}) == 0,
                  run.last_errors());
  REQUIRE(run.Run("dslide",
                  {"evaluate", run.run_directory(), "--data", run.Path("docs"), "--json"}) == 0);
  CHECK(nlohmann::json::parse(run.last_output())["p_at_1"] == doctest::Approx(1.0));
  REQUIRE(run.Run("dslide", {"predict", run.run_directory(), "--data", run.Path("docs"), "--top-k",
                             "1", "--json"}) == 0);
  CHECK(nlohmann::json::parse(run.last_output().substr(0, run.last_output().find('\n')))["id"] ==
        "0");
}

TEST_CASE("a vocabulary that does not fit is named in one line") {
  TestRun run;
  WriteTexts(run.Path("train.jsonl"), 300, 1, false);
  std::ofstream(run.Path("other.tsv")) << "x1\trose\n";
  const auto train = [&](const std::string& data, const std::string& vocabulary) {
    CHECK(run.Run("dslide", {"train", "--run-dir", run.run_directory(), "--data", data, "--set",
                             "labels.vocabulary=" + vocabulary, "--set",
                             "cluster.scheduler_bind=tcp://127.0.0.1:*"}) == 2);
    return run.last_errors();
  };
  CHECK(Contains(train(run.Path("train.jsonl"), run.Path("other.tsv")),
                 "no label is in the vocabulary, which has identifiers as 'x1'"));
  CHECK(Contains(train(run.Path("train.jsonl"), run.Path("missing.tsv")),
                 run.Path("missing.tsv") + ": "));
  CHECK(Contains(train(run.Path("train.txt"), run.Path("other.tsv")), "has numbers"));
}

}  // namespace
}  // namespace dslide::vocabulary_cluster_test
