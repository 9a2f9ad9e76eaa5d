// dslide data: what it writes is read again as the same samples, and wrong uses are named in one
// line and leave nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/cluster/cluster.h"

namespace dslide::data_test {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> SortedLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

class DataRun : public TestRun {
 public:
  // dslide data; its exit code is 0.
  void Data(Arguments arguments) {
    arguments.insert(arguments.begin(), "data");
    const int code = Run("dslide", arguments);
    REQUIRE_MESSAGE(code == 0, last_errors());
  }

  // Exit code 2, one line that holds `names`, and no file that was not there.
  void Refused(Arguments arguments, const std::string& names) {
    const auto before = Files();
    arguments.insert(arguments.begin(), "data");
    CHECK(Run("dslide", arguments) == 2);
    CAPTURE(last_errors());
    CHECK(std::count(last_errors().begin(), last_errors().end(), '\n') == 1);
    CHECK_MESSAGE(Contains(last_errors(), names), names);
    CHECK(Files() == before);
  }

 private:
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(Path(""))) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(".out") && !name.ends_with(".err")) names.push_back(name);  // logs
    }
    std::ranges::sort(names);
    return names;
  }
};

const std::string kNumbers =
    "5 10 6\n"
    "0,3 1:0.5 7:-2\n"
    " 2:0.001\n"
    "5\n"
    "\n"
    "1 0:1 9:16777217\n";

TEST_CASE("data convert: numbers through all formats for them, and back") {
  DataRun run;
  Write(run.Path("a.txt"), kNumbers);
  run.Data({"convert", run.Path("a.txt"), "--to", "npz", "--output",
            run.Path("x.npz") + "," + run.Path("y.npz")});
  run.Data({"convert", run.Path("x.npz") + "," + run.Path("y.npz"), "--to", "numbers", "--output",
            run.Path("b.txt.gz")});
  run.Data({"convert", run.Path("b.txt.gz"), "--to", "libsvm", "--output", run.Path("c.svm.zst")});
  CHECK(Contains(run.last_output(), "c.svm.zst: 5 samples, 10 features, 6 labels"));
  run.Data({"convert", run.Path("c.svm.zst"), "--to", "numbers", "--output", run.Path("d.txt")});
  // LIBSVM has no line for a sample without anything, and floats have 24 bits.
  CHECK(ReadFile(run.Path("d.txt")) ==
        "5 10 6\n0,3 1:0.5 7:-2\n 2:0.001\n5\n 0:0\n1 0:1 9:16777216\n");
}

TEST_CASE("data convert: text through all formats for it") {
  DataRun run;
  Write(run.Path("a.jsonl"),
        "{\"id\": 7, \"title\": \"On houses\", \"text\": \"a red one\", \"labels\": [\"b c\", "
        "\"a\"]}\n\n{\"text\": \"boats\", \"labels\": \"a\"}\n");
  run.Data({"convert", run.Path("a.jsonl"), "--to", "tsv", "--output", run.Path("a.tsv")});
  CHECK(ReadFile(run.Path("a.tsv")) == "On houses a red one\tb c\ta\nboats\ta\n");
  CHECK(Contains(run.last_output(), "TSV cannot hold all: 1 title joined with the text, 1 id"));
  run.Data({"convert", run.Path("a.tsv"), "--to", "fasttext", "--output", run.Path("a.ft")});
  CHECK(ReadFile(run.Path("a.ft")) ==
        "__label__b_c __label__a On houses a red one\n__label__a boats\n");
  Write(run.Path("tab.jsonl"), "{\"text\": \"boats\", \"labels\": [\"a\\tb\"]}\n");
  run.Data({"convert", run.Path("tab.jsonl"), "--to", "tsv", "--output", run.Path("tab.tsv")});
  CHECK(ReadFile(run.Path("tab.tsv")) == "boats\ta b\n");
  CHECK(Contains(run.last_output(),
                 "1 sample with tabs, line ends or other control characters in "
                 "labels, now spaces\n"));
  run.Data({"convert", run.Path("a.jsonl"), "--to", "jsonl", "--output", run.Path("b.jsonl")});
  CHECK(ReadFile(run.Path("b.jsonl")) ==
        "{\"id\":7,\"title\":\"On houses\",\"text\":\"a red one\",\"labels\":[\"b c\",\"a\"]}\n"
        "{\"text\":\"boats\",\"labels\":[\"a\"]}\n");
}

TEST_CASE("data stats: lengths of samples of numbers, and that training divides by the median") {
  DataRun run;
  Write(run.Path("long.svm"), "0 0:300 1:400\n1 1:-120\n0\n1 0:3 1:4\n");
  run.Data({"stats", run.Path("long.svm")});
  CHECK(Contains(run.last_output(),
                 "\nlength of a sample median 120, least 5, greatest 500; training divides all "
                 "values by the median (train.normalize)\n"));
  run.Data({"stats", run.Path("long.svm"), "--json"});
  const auto lengths = nlohmann::json::parse(run.last_output())["length_of_a_sample"];
  CHECK(lengths == nlohmann::json{{"median", 120.0}, {"least", 5.0}, {"greatest", 500.0}});
  Write(run.Path("usual.svm"), "0 0:0.6 1:0.8\n");
  run.Data({"stats", run.Path("usual.svm")});
  CHECK(Contains(run.last_output(), "\nlength of a sample median 1, least 1, greatest 1\n"));
  Write(run.Path("a.jsonl"), "{\"text\":\"a boat\",\"labels\":[\"a\"]}\n");
  run.Data({"stats", run.Path("a.jsonl")});
  CHECK_FALSE(Contains(run.last_output(), "length"));
}

TEST_CASE("data: weights of samples stay in JSON lines, and are counted where they do not") {
  DataRun run;
  const std::string lines =
      "{\"text\":\"a boat\",\"labels\":[\"a\"],\"weight\":2.5}\n"
      "{\"text\":\"a tree\",\"labels\":[\"b\"]}\n"
      "{\"text\":\"a house\",\"labels\":[\"b\"],\"weight\":0}\n";
  Write(run.Path("a.jsonl"), lines);
  run.Data({"convert", run.Path("a.jsonl"), "--to", "jsonl", "--output", run.Path("b.jsonl")});
  CHECK(ReadFile(run.Path("b.jsonl")) == lines);
  run.Data({"shuffle", run.Path("a.jsonl"), "--output", run.Path("c.jsonl")});
  CHECK(SortedLines(run.Path("c.jsonl")) == SortedLines(run.Path("a.jsonl")));
  run.Data({"convert", run.Path("a.jsonl"), "--to", "tsv", "--output", run.Path("a.tsv")});
  CHECK(Contains(run.last_output(), "TSV cannot hold all: 2 weights left out\n"));
  run.Data({"convert", run.Path("a.jsonl"), "--to", "libsvm", "--output", run.Path("a.svm"),
            "--set", "text.max_share=1"});
  CHECK(Contains(run.last_output(), "a.svm cannot hold weights: those of 2 samples left out\n"));
  run.Data({"stats", run.Path("a.jsonl")});
  CHECK(Contains(run.last_output(),
                 "\nweights            mean 1.167, least 0, most 2.5, 1 sample with 0\n"));
  run.Data({"stats", run.Path("a.jsonl"), "--json"});
  const auto weights = nlohmann::json::parse(run.last_output())["weights"];
  CHECK(weights["mean"] == doctest::Approx(3.5 / 3));
  CHECK(weights["zeros"] == 1);
  run.Data({"stats", run.Path("a.tsv")});
  CHECK_FALSE(Contains(run.last_output(), "weights"));
  Write(run.Path("bad.jsonl"), lines + "{\"text\": \"a\", \"labels\": [\"a\"], \"weight\": -1}\n");
  for (const Arguments& command :
       {Arguments{"stats", run.Path("bad.jsonl")},
        Arguments{"convert", run.Path("bad.jsonl"), "--to", "jsonl", "--output", run.Path("d")}}) {
    run.Refused(command, run.Path("bad.jsonl") +
                             ":4: \"weight\" is '-1' (expected a number from 0 to 1000)");
  }
}

TEST_CASE("data: a vector of weights beside matrices") {
  DataRun run;
  Write(run.Path("a.txt"), kNumbers);
  const std::string pair = run.Path("x.npz") + "," + run.Path("y.npz");
  run.Data({"convert", run.Path("a.txt"), "--to", "npz", "--output", pair});
  std::string vector("\x93NUMPY\x01\x00", 8);
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }\n";
  vector += static_cast<char>(header.size());
  vector += '\0' + header;
  for (const float weight : {1.0f, 2.0f, 0.0f, 1.0f, 0.5f}) {
    vector.append(reinterpret_cast<const char*>(&weight), sizeof(weight));
  }
  Write(run.Path("w.npy"), vector);
  const std::string weighted = pair + "," + run.Path("w.npy");
  run.Data({"stats", weighted});
  CHECK(Contains(run.last_output(),
                 "\nweights            mean 0.9, least 0, most 2, 1 sample with 0\n"));
  run.Data({"convert", weighted, "--to", "numbers", "--output", run.Path("b.txt")});
  CHECK(Contains(run.last_output(), "b.txt cannot hold weights: those of 3 samples left out\n"));
  run.Refused({"shuffle", weighted, "--output", run.Path("s.npz") + "," + run.Path("t.npz")},
              "weights cannot be written (name X.npz,Y.npz without W.npy)");
  run.Refused({"convert", pair, "--to", "npz", "--output",
               run.Path("s.npz") + "," + run.Path("t.npz") + "," + run.Path("u.npy")},
              "npz wants a file of features and one of labels, X.npz,Y.npz");
}

TEST_CASE("data convert: text becomes the numbers that training gives it") {
  DataRun run;
  const auto text = [](const std::string& words, const std::string& label) {
    return "{\"text\": \"" + words + "\", \"labels\": [\"" + label + "\"]}\n";
  };
  std::string train;
  for (int i = 0; i < 40; ++i) train += text("red boat", "boats") + text("green tree", "trees");
  Write(run.Path("train.jsonl"), train);
  Write(run.Path("test.jsonl"), text("green boat", "boats") + text("a tree", "oaks"));
  REQUIRE(run.Run("dslide",
                  {"train", "--run-dir", run.run_directory(), "--set",
                   "train.data=" + run.Path("train.jsonl"), "--set", "model.hidden=8", "--set",
                   "train.batch=8", "--set", "train.epochs=2", "--set", "text.max_share=1"}) == 0);
  const Arguments set = {"--set", "text.max_share=1"};
  Arguments convert = {"convert",  run.Path("train.jsonl"), "--to", "numbers",
                       "--output", run.Path("train.txt")};
  convert.insert(convert.end(), set.begin(), set.end());
  run.Data(convert);
  CHECK(ReadFile(run.Path("train.txt.labels.tsv")) == "0\tboats\n1\ttrees\n");
  CHECK(Contains(ReadFile(run.Path("train.txt.features.tsv")), "\tgreen\n"));
  // The same with the model's vocabulary.
  run.Data({"convert", run.Path("train.jsonl"), "--to", "numbers", "--output",
            run.Path("again.txt"), "--like", run.run_directory()});
  CHECK(ReadFile(run.Path("again.txt")) == ReadFile(run.Path("train.txt")));
  // Hashes of words have no names.
  run.Data({"convert", run.Path("train.jsonl"), "--to", "libsvm", "--output",
            run.Path("hashed.svm"), "--set", "text.max_share=1", "--set", "text.hash_bits=18"});
  CHECK(Contains(run.last_output(), "80 samples, 262144 features, 2 labels; names in " +
                                        run.Path("hashed.svm.labels.tsv") + "\n"));
  CHECK_FALSE(std::filesystem::exists(run.Path("hashed.svm.features.tsv")));
  // "oaks" is no label of the model.
  run.Data({"convert", run.Path("test.jsonl"), "--to", "numbers", "--output", run.Path("test.txt"),
            "--like", run.run_directory()});
  CHECK(Contains(run.last_output(), "1 label entry that the model lacks left out\n"));
  run.Data({"convert", run.Path("test.jsonl"), "--to", "libsvm", "--output", run.Path("test.svm"),
            "--like", run.run_directory()});
  CHECK(Contains(run.last_output(), "1 label entry that the model lacks have ids from 2 on\n"));
  CHECK(Contains(ReadFile(run.Path("test.svm")), "\n2 "));
  CHECK(ReadFile(run.Path("test.svm.labels.tsv")) == "0\tboats\n1\ttrees\n2\toaks\n");
  // The order in which threads meet labels that the model lacks does not count: the first block of
  // lines takes longer than those after it.
  std::string news, words;
  for (int i = 0; i < 100; ++i) words += "red boat ";
  for (int i = 0; i < 20'000; ++i) {
    news += text(i < 4096 ? words : "red boat", "new" + std::to_string(i));
  }
  Write(run.Path("news.jsonl"), news);
  run.Data({"convert", run.Path("news.jsonl"), "--to", "libsvm", "--output", run.Path("news.svm"),
            "--like", run.run_directory()});
  std::ifstream numbers(run.Path("news.svm"));
  int wrong = 0, next = 2;
  for (std::string line; std::getline(numbers, line); ++next) {
    wrong += line.starts_with(std::to_string(next) + " ") ? 0 : 1;
  }
  CHECK(next == 20'002);
  CHECK(wrong == 0);
  CHECK(Contains(ReadFile(run.Path("news.svm.labels.tsv")), "\n20001\tnew19999\n"));
  // A pipe cannot be opened for the format, and then for the samples.
  REQUIRE(mkfifo(run.Path("pipe").c_str(), 0600) == 0);
  run.Refused({"convert", run.Path("pipe"), "--to", "numbers", "--output", run.Path("no"), "--like",
               run.run_directory()},
              run.Path("pipe") + ": text is read twice; write it to a file and name that");
  run.Refused({"convert", run.Path("test.jsonl"), "--to", "numbers", "--output", run.Path("no"),
               "--like", run.run_directory(), "--set", "text.title=false"},
              "--set text.title=false: the settings are those of the model that --like names");
}

TEST_CASE("data split: equal samples stay together, and none is lost") {
  DataRun run;
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += "{\"text\": \"text " + std::to_string(i % 1000) + "\", \"labels\": [\"l" +
            std::to_string(i) + "\"]}\n";
  }
  Write(run.Path("a.jsonl"), text);
  const auto split = [&](const std::string& seed) {
    run.Data({"split", run.Path("a.jsonl"), "--share", "0.1", "--part", run.Path("test.jsonl"),
              "--rest", run.Path("train.jsonl"), "--seed", seed});
    return SortedLines(run.Path("test.jsonl"));
  };
  const auto part = split("1");
  CHECK(part.size() > 140);
  CHECK(part.size() < 270);
  CHECK(part.size() % 2 == 0);
  auto all = SortedLines(run.Path("train.jsonl"));
  for (const std::string& line : part) {
    const auto begin = line.find(": \"") + 3;
    const std::string words = line.substr(begin, line.find('"', begin) - begin);
    CHECK(std::ranges::none_of(
        all, [&](const std::string& other) { return Contains(other, "\"" + words + "\""); }));
  }
  all.insert(all.end(), part.begin(), part.end());
  std::ranges::sort(all);
  CHECK(all == SortedLines(run.Path("a.jsonl")));
  CHECK(split("1") == part);
  CHECK(split("2") != part);

  Write(run.Path("a.txt"), kNumbers);
  run.Data({"split", run.Path("a.txt"), "--share", "0.5", "--part", run.Path("x.npz") + ".txt",
            "--rest", run.Path("rest.txt")});
  const auto lines = SortedLines(run.Path("rest.txt"));
  CHECK(lines.size() + SortedLines(run.Path("x.npz") + ".txt").size() == 5 + 2);
}

TEST_CASE("data shuffle: the same samples in an order that follows from the seed") {
  DataRun run;
  WriteSamples(run.Path("a.txt"), 3000, 1);
  const auto shuffle = [&](const std::string& name, const std::string& seed) {
    run.Data({"shuffle", run.Path("a.txt"), "--output", run.Path(name), "--seed", seed});
    return ReadFile(run.Path(name));
  };
  const std::string one = shuffle("1.txt", "1");
  CHECK(one != ReadFile(run.Path("a.txt")));
  CHECK(shuffle("1.txt", "1") == one);
  CHECK(shuffle("2.txt", "2") != one);
  CHECK(one.substr(0, one.find('\n')) == "3000 300 200");
  run.Data({"convert", run.Path("a.txt"), "--to", "numbers", "--output", run.Path("b.txt")});
  CHECK(SortedLines(run.Path("b.txt")) == SortedLines(run.Path("1.txt")));
  const std::string matrices = run.Path("x.npz") + "," + run.Path("y.npz");
  run.Data({"convert", run.Path("a.txt"), "--to", "npz", "--output", matrices});
  run.Data({"shuffle", matrices, "--output", run.Path("u.npz") + "," + run.Path("v.npz")});
  run.Data({"convert", run.Path("u.npz") + "," + run.Path("v.npz"), "--to", "numbers", "--output",
            run.Path("w.txt")});
  CHECK(ReadFile(run.Path("w.txt")) == one);
}

TEST_CASE("data shuffle: lines without labels are of the format too, whatever the order") {
  DataRun run;
  std::string fast_text, tsv;
  for (int i = 0; i < 40; ++i) {
    fast_text += fmt::format("words number {}{}\n", i, i % 20 == 0 ? " __label__one" : "");
    tsv += fmt::format("words number {}{}\n", i, i % 20 == 0 ? "\tone" : "");
  }
  Write(run.Path("a.ft"), fast_text);
  Write(run.Path("a.tsv"), tsv);
  for (const std::string name : {"a.ft", "a.tsv"}) {
    for (const char* seed : {"1", "2", "3"}) {
      run.Data({"shuffle", run.Path(name), "--output", run.Path("b"), "--seed", seed});
      CHECK(SortedLines(run.Path("b")) == SortedLines(run.Path(name)));
      run.Data({"stats", run.Path("b"), "--json"});
      CHECK(Contains(run.last_output(), name == "a.ft" ? "fastText" : "TSV"));
    }
  }
  Write(run.Path("none.ft"),
        fast_text.substr(0, fast_text.find('\n') + 1) + "more words\nyet more\n");
  run.Data({"split", run.Path("none.ft"), "--share", "0.5", "--part", run.Path("x"), "--rest",
            run.Path("y")});
  CHECK(SortedLines(run.Path("x")).size() + SortedLines(run.Path("y")).size() == 3);
}

TEST_CASE("data stats: text and JSON") {
  DataRun run;
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "some words\tlabel " + std::to_string(i / 100) + "\tall of them\n";
  }
  Write(run.Path("a.tsv"), text + "no label\t\n\n\t a\n");
  run.Data({"stats", run.Path("a.tsv"), "--json"});
  const auto json = nlohmann::json::parse(run.last_output());
  CHECK(json["format"] == "TSV");
  CHECK(json["samples"] == 402);
  CHECK(json["without_labels"] == 1);
  CHECK(json["without_text"] == 1);
  CHECK(json["duplicates"] == 399);
  CHECK(json["labels"] == 6);
  CHECK(json["words_a_sample"]["most"] == 2);
  CHECK(json["most_frequent"][0]["label"] == "all of them");
  CHECK(json["sorted_by_label"] == false);  // all share a label
  std::string sorted;
  for (int i = 0; i < 400; ++i) sorted += "words\tlabel " + std::to_string(i / 100) + "\n";
  Write(run.Path("b.tsv"), sorted);
  run.Data({"stats", run.Path("b.tsv")});
  CHECK(Contains(run.last_output(), "by label, at least in part: 99.2 % of neighbours"));
  CHECK(Contains(run.last_output(), "dslide data shuffle " + run.Path("b.tsv") + " --output FILE"));
  Write(run.Path("a.txt"), kNumbers);
  run.Data({"stats", run.Path("a.txt")});
  CHECK(Contains(run.last_output(), "labels             4 of 6, with 4 entries\n"));
}

TEST_CASE("data: - is standard input and output") {
  DataRun run;
  const std::string records =
      "{\"text\":\"a b\",\"labels\":[\"c\"]}\n{\"text\":\"b a\",\"labels\":[\"c\"]}\n";
  Write(run.Path("a.jsonl"), records);
  Write(run.Path("a.txt"), kNumbers);
  for (const auto kind : {StandardInput::Kind::kFile, StandardInput::Kind::kPipe}) {
    {
      const StandardInput input(run.Path("a.jsonl"), kind);
      run.Data({"convert", "-", "--to", "jsonl", "--output", "-"});
      CHECK(run.last_output() == records);
      CHECK(run.last_errors() == "-: 2 samples\n");
    }
    {
      const StandardInput input(run.Path("a.txt"), kind);
      run.Data({"shuffle", "-", "--output", "-", "--memory-mb", "1"});
      CHECK(run.last_output().starts_with("5 10 6\n"));
      CHECK(run.last_errors() == "-: 5 samples\n");
    }
    {
      const StandardInput input(run.Path("a.txt"), kind);
      run.Data({"split", "-", "--share", "0.5", "--part", run.Path("part"), "--rest", "-"});
      CHECK(Contains(run.last_output(), " 10 6\n"));
      CHECK(Contains(run.last_errors(), "\n-: "));
    }
    {
      const StandardInput input(run.Path("a.txt"), kind);
      run.Data({"stats", "-", "--json"});
      CHECK(nlohmann::json::parse(run.last_output())["samples"] == 5);
    }
  }
  // Its name in the file system, which may be that of a file.
  run.Data({"convert", run.Path("a.jsonl"), "--to", "tsv", "--output", "/dev/stdout"});
  CHECK(run.last_output() == "a b\tc\nb a\tc\n");
  CHECK(run.last_errors() == "/dev/stdout: 2 samples\n");
  const StandardInput pipe(run.Path("a.jsonl"), StandardInput::Kind::kPipe);
  run.Refused({"convert", "-", "--to", "numbers", "--output", run.Path("out")}, "is read twice");
  run.Refused({"convert", run.Path("a.jsonl"), "--to", "libsvm", "--output", "-"},
              "--output -: files of names come beside it; name a file");
  run.Refused({"convert", run.Path("a.txt"), "--to", "npz", "--output", "-"},
              "-: npz wants a file of features and one of labels, X.npz,Y.npz");
  run.Refused({"split", run.Path("a.txt"), "--share", "0.5", "--part", "-", "--rest", "-"},
              "--rest -: would be written twice");
  const StandardInput file(run.Path("a.txt"));
  run.Refused({"shuffle", "-", "--output", run.Path("a.txt")}, "is the input");
}

TEST_CASE("data: stats tells how texts mention the names of a vocabulary") {
  DataRun run;
  Write(run.Path("v.tsv"), "u1\tHaus\tGeb\u00e4ude\nu2\tBoot\nu3\nu4\tBoot\n");
  Write(run.Path("a.jsonl"),
        "{\"text\": \"viele H\u00e4user am See\", \"labels\": [\"u1\"]}\n"
        "{\"text\": \"ein Boot\", \"labels\": [\"Haus\", \"other\"]}\n"
        "{\"text\": \"nichts\", \"labels\": [\"u3\"]}\n");
  const Arguments plain = {"stats", run.Path("a.jsonl"), "--vocabulary", run.Path("v.tsv")};
  run.Data(plain);
  CHECK(Contains(run.last_output(),
                 "vocabulary         4 concepts, of them 4 with names; 5 names, of them 1 of "
                 "several concepts\n"));
  CHECK(Contains(run.last_output(),
                 "labels mentioned in a sample: 0.7, of them 0.0 % its labels; of a sample's "
                 "labels 0.0 % mentioned, 25.0 % unknown\n"));
  Arguments stems = plain;
  stems.insert(stems.end(), {"--stem", "german", "--json"});
  run.Data(stems);
  const auto json = nlohmann::json::parse(run.last_output())["vocabulary"];
  CHECK(json["label_entries_mentioned"] == 1);
  CHECK(json["label_entries_unknown"] == 1);
  CHECK(json["labels_mentioned"] == 3);
  CHECK(json["ambiguous_names"] == 1);
  run.Refused({"stats", run.Path("a.jsonl"), "--stem", "german"}, "name one by --vocabulary");
  run.Refused({"stats", run.Path("a.jsonl"), "--vocabulary", run.Path("v.tsv"), "--stem", "x"},
              "--stem 'x': must be off or one of arabic, ");
  Write(run.Path("n.txt"), "1 2 2\n0 0:1\n");
  run.Refused({"stats", run.Path("n.txt"), "--vocabulary", run.Path("v.tsv")}, "has numbers");
}

TEST_CASE("data: wrong uses are named in one line and leave nothing") {
  DataRun run;
  std::filesystem::create_directory(run.Path("folder"));
  const std::string a = run.Path("a.txt");
  Write(a, kNumbers);
  Write(run.Path("a.jsonl"), "{\"text\": \"a b\", \"labels\": [\"c\"]}\n");
  Write(run.Path("empty.txt"), "");
  Write(run.Path("bad.jsonl"), "{\"text\": \"a\"}\n{\"text\": 5}\n");
  Write(run.Path("cut.txt"), "3 10 6\n1 2:3\n");
  Write(run.Path("big.svm"), "1 2:3\n1 4294967296:1\n");
  Write(run.Path("cut.npz"), std::string("PK\x03\x04", 4) + "nothing");
  const std::string out = run.Path("out");
  for (const char* command : {"stats", "shuffle", "split", "convert"}) {
    const auto refused = [&](const std::string& input, const std::string& names) {
      Arguments arguments = {command, input};
      const std::string name = command;
      if (name == "shuffle") arguments.insert(arguments.end(), {"--output", out});
      if (name == "convert") {
        const bool text = input.ends_with("jsonl");
        arguments.insert(arguments.end(), {"--to", text ? "tsv" : "libsvm", "--output", out});
      }
      if (name == "split") {
        arguments.insert(arguments.end(), {"--share", "0.5", "--part", out, "--rest", out + "2"});
      }
      run.Refused(arguments, names);
    };
    CAPTURE(command);
    refused(run.Path("absent"), run.Path("absent") + ": cannot open: No such file");
    refused(run.Path("folder"), run.Path("folder") + ": is a directory");
    refused(run.Path("empty.txt"), run.Path("empty.txt") + ": the file is empty");
    refused(run.Path("cut.txt"), run.Path("cut.txt") + ":3: the file ends after 1 sample");
    refused(run.Path("big.svm"), run.Path("big.svm") + ":2: feature id '4294967296' is out of");
    refused(run.Path("cut.npz"), run.Path("cut.npz") + ": cannot open: Not a zip archive");
    refused("x.npz,y.npz", "x.npz: cannot open: No such file");
    if (std::string(command) != "shuffle") {  // which does not look into the lines
      refused(run.Path("bad.jsonl"), run.Path("bad.jsonl") + ":2: \"text\" is not a string");
    }
  }
  run.Refused({"stats"}, "argument FILE is missing");
  run.Refused({"stat", a}, "unknown command stat; did you mean stats?");
  run.Refused({"shuffle", a, "--output", a}, "--output " + a + ": is the input");
  run.Refused({"shuffle", a, "--output", run.Path("./a.txt")}, "is the input");
  run.Refused({"shuffle", a}, "option --output FILE is required");
  run.Refused({"shuffle", a, "--output", run.Path("no/out")}, "no/out: cannot create: No such");
  run.Refused({"shuffle", a, "--output", run.Path("")}, "is a directory");
  run.Refused({"shuffle", a, "--output", out, "--seed", "-1"}, "--seed -1: must be 0 to");
  run.Refused({"split", a, "--share", "0.5", "--part", out, "--rest", out},
              "--rest " + out + ": would be written twice");
  run.Refused({"split", a, "--share", "0.5", "--part", a, "--rest", out}, "--part " + a);
  for (const char* share : {"0", "1", "1.5", "-0.1", "half", "nan"}) {
    run.Refused({"split", a, "--share", share, "--part", out, "--rest", out + "2"},
                std::string("--share ") + share + ": must be a number between 0 and 1");
  }
  run.Refused({"convert", a, "--to", "csv", "--output", out},
              "--to csv: must be one of jsonl|fasttext|tsv|numbers|libsvm|npz");
  run.Refused({"convert", a, "--to", "tsv", "--output", out},
              a + ": has numbers, from which no text can be made (--to tsv)");
  run.Refused({"convert", a, "--to", "npz", "--output", run.Path("x.npz")},
              "x.npz: npz wants a file of features and one of labels, X.npz,Y.npz");
  run.Refused(
      {"convert", a, "--to", "npz", "--output", run.Path("x.npz") + "," + run.Path("x.npz")},
      "would be written twice");
  run.Refused({"convert", a, "--to", "libsvm", "--output", out, "--like", run.Path("none")},
              a + ": has numbers, which --like does not change");
  run.Refused(
      {"convert", run.Path("a.jsonl"), "--to", "tsv", "--output", out, "--set", "text.title=false"},
      "--set: counts only where text becomes numbers");
  run.Refused(
      {"convert", run.Path("a.jsonl"), "--to", "npz", "--output", out, "--set", "train.batch=5"},
      "--set train.batch=5: only keys of [text] count here");
  run.Refused(
      {"convert", run.Path("a.jsonl"), "--to", "libsvm", "--output", out, "--set", "text.titel=5"},
      "text.title");
  run.Refused({"convert", run.Path("a.jsonl"), "--to", "libsvm", "--output", out},
              "no word occurs in 2 samples or more");
  run.Refused({"convert", run.Path("a.jsonl"), "--to", "libsvm", "--output", out, "--like",
               run.Path("none")},
              run.Path("none"));
}

}  // namespace
}  // namespace dslide::data_test
