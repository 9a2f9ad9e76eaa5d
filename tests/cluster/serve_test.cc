// A trained model in one file, and served over HTTP by a real process while newer ones come.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/process.h"
#include "common/checkpoint/manifest.h"
#include "tests/cluster/cluster.h"
#include "tests/support/change_byte.h"

namespace dslide::serve_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// `dslide serve`, which any free port has been given to.
class Served {
 public:
  Served(TestRun* run, const std::string& model, const Arguments& more = {},
         const std::string& bind = "tcp://127.0.0.1:*") {
    Arguments arguments = {"serve", "--model", model, "--bind", bind};
    arguments.insert(arguments.end(), more.begin(), more.end());
    process_ = run->Start("dslide", arguments);
    REQUIRE(WaitFor([&] { return Contains(process_->Output(), "/\n"); }));
    const std::string output = process_->Output();
    const size_t colon = output.rfind(':');
    port_ = std::stoi(output.substr(colon + 1));
  }
  int port() const { return port_; }
  Process& process() { return *process_; }
  httplib::Client Client() const { return httplib::Client("127.0.0.1", port_); }

 private:
  std::unique_ptr<Process> process_;
  int port_ = 0;
};

// In the tests' data feature i means label i.
std::string Ask(int label) {
  return R"({"features": {")" + std::to_string(label) + R"(": 1}, "k": 1})";
}

std::string BestOf(const std::string& answer) {
  return Json::parse(answer)["predictions"][0]["labels"][0]["label"];
}

TEST_CASE("export: a file predicts what its run predicts") {
  TestRun run;
  REQUIRE(run.Train()->Wait() == 0);
  const std::string file = run.Path("model.dslide");
  REQUIRE_MESSAGE(run.Run("dslide", {"export", run.run_directory(), "--to", file}) == 0,
                  run.last_errors());
  CHECK(Contains(run.last_errors(), "model.dslide: "));
  const auto predictions = [&](const std::string& model) {
    REQUIRE(run.Run("dslide", {"predict", "--checkpoint", model, "--data", run.Path("test.txt"),
                               "--top-k", "1", "--search", "exact", "--json"}) == 0);
    return run.last_output();
  };
  std::istringstream of_run(predictions(run.run_directory())), of_file(predictions(file));
  int lines = 0;
  for (std::string a, b; std::getline(of_run, a) && std::getline(of_file, b); ++lines) {
    const Json first = Json::parse(a), second = Json::parse(b);
    CHECK(first["labels"] == second["labels"]);
    CHECK(first["scores"][0].get<double>() ==
          doctest::Approx(second["scores"][0].get<double>()).epsilon(0.02));
  }
  CHECK(lines == kTestSamples);
}

// What a server answers for every label.
std::vector<std::string> AnswersOf(const Served& served) {
  httplib::Client client = served.Client();
  client.set_keep_alive(true);
  std::vector<std::string> answers;
  for (int label = 0; label < kLabels; ++label) {
    const auto answer = client.Post("/predict", Ask(label), "application/json");
    REQUIRE(answer);
    answers.push_back(answer->body);
  }
  return answers;
}

TEST_CASE("serve: no request is lost or wrong while newer models come, and when it ends") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=2"})->Wait() == 0);
  Served served(&run, run.run_directory(), {"--reload", "1"});
  const std::vector<std::string> by_first = AnswersOf(served);
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0, lost = 0;
  std::vector<std::vector<std::pair<int, std::string>>> answers(4);
  std::vector<std::jthread> clients;
  for (auto& own : answers) {
    clients.emplace_back([&] {
      httplib::Client client = served.Client();
      client.set_keep_alive(true);
      for (int i = 0; !stop; ++i) {
        const auto answer = client.Post("/predict", Ask(i % kLabels), "application/json");
        answer && answer->status == 200 ? own.emplace_back(i % kLabels, answer->body)
                                        : own.emplace_back(0, std::to_string(++lost));
        ++answered;
      }
    });
  }
  REQUIRE(WaitFor([&] { return answered > 1000; }));
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                             "train.epochs=3"}) == 0);
  REQUIRE(WaitFor([&] {
    const auto metrics = served.Client().Get("/metrics");
    return metrics &&
           Contains(metrics->body, "dslide_serve_model_loads_total{result=\"loaded\"} 2");
  }));
  const int before = answered;
  REQUIRE(WaitFor([&] { return answered > before + 1000; }));
  stop = true;
  clients.clear();
  const std::vector<std::string> by_second = AnswersOf(served);
  CHECK(lost == 0);
  CHECK(by_first != by_second);
  size_t first = 0, second = 0, neither = 0;
  for (const auto& own : answers) {
    for (const auto& [label, answer] : own) {
      answer == by_first[label] ? ++first : answer == by_second[label] ? ++second : ++neither;
    }
  }
  CHECK(neither == 0);
  CHECK(first > 0);
  CHECK(second > 0);
  served.process().Signal(SIGTERM);
  CHECK(served.process().Wait() == 0);
}

TEST_CASE("serve: a damaged newer file is refused, and the present model stays") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=2"})->Wait() == 0);
  const std::string file = run.Path("m.dslide");
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", file}) == 0);
  Served served(&run, file, {"--reload", "1"});
  const Json model = Json::parse(served.Client().Get("/model")->body);
  CHECK(model["run"] == "run");  // the name of its directory
  CHECK(model["trained_samples"] == 2 * kSamples);
  CHECK(Contains(served.process().Errors(), "trained on 12000 samples over all epochs"));
  std::ofstream(file + ".new") << "no model";
  fs::rename(file + ".new", file);
  REQUIRE(WaitFor([&] { return Contains(served.process().Errors(), "[model.load.fail]"); }));
  const auto answer = served.Client().Post("/predict", Ask(7), "application/json");
  REQUIRE(answer);
  CHECK(BestOf(answer->body) == "7");
  served.process().Signal(SIGTERM);
  CHECK(served.process().Wait() == 0);
}

TEST_CASE("serve: a model file with a changed byte is refused, at the start and as a newer one") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=2"})->Wait() == 0);
  const std::string file = run.Path("m.dslide"), damaged = run.Path("damaged.dslide");
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", file}) == 0);
  fs::copy_file(file, damaged);
  testing::ChangeByte(damaged, 64,
                      0x10);  // the first byte of the first section, which is a large one
  const auto refuses = [&](const Arguments& arguments) {
    CHECK(run.Run("dslide", arguments) == 2);
    CHECK_MESSAGE(Contains(run.last_errors(), "damaged.dslide: damaged (input); copy it again"),
                  run.last_errors());
  };
  refuses({"serve", "--model", damaged, "--bind", "tcp://127.0.0.1:*"});
  const std::string data = run.Path("test.txt");
  refuses({"predict", "--checkpoint", damaged, "--data", data, "--search", "exact"});
  refuses({"evaluate", "--checkpoint", damaged, "--data", data});
  refuses({"export", damaged, "--to", run.Path("m.npz")});

  Served served(&run, file, {"--reload", "1"});
  const std::vector<std::string> answers = AnswersOf(served);
  fs::rename(damaged, file);
  REQUIRE(WaitFor([&] { return Contains(served.process().Errors(), "[model.load.fail]"); }));
  CHECK(Contains(served.process().Errors(), "m.dslide: damaged (input); copy it again"));
  CHECK(AnswersOf(served) == answers);
  served.process().Signal(SIGTERM);
  CHECK(served.process().Wait() == 0);
}

TEST_CASE("predict: a checkpoint with a changed byte is refused, or predicts the same") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=2"})->Wait() == 0);
  const auto predict = [&](const std::string& model) {
    return run.Run("dslide", {"predict", "--checkpoint", model, "--data", run.Path("test.txt"),
                              "--top-k", "1", "--search", "exact"});
  };
  REQUIRE(predict(run.run_directory()) == 0);
  const std::string predictions = run.last_output();
  const std::string checkpoint = *FindCheckpoint(run.run_directory());
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(checkpoint)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  int refused = 0;
  for (const fs::path& file : files) {
    const uint64_t bytes = fs::file_size(file);
    const bool is_manifest = file.filename() == "manifest";
    for (const uint64_t share : {0, 3, 5, 7}) {
      const uint64_t at = share * bytes / 8;
      CAPTURE(file.string());
      CAPTURE(at);
      testing::ChangeByte(file, at, 0x10);
      const int code = predict(checkpoint);
      CHECK_MESSAGE((code == 2 || (code == 0 && !is_manifest)), run.last_errors());
      if (code == 0) CHECK(run.last_output() == predictions);
      refused += code != 0;
      testing::ChangeByte(file, at, 0x10);  // as it was
    }
  }
  CHECK(refused > 8);
  REQUIRE(predict(checkpoint) == 0);
  CHECK(run.last_output() == predictions);
}

// A model file that gives nothing: loading it takes as long as its writer lets it.
class EndlessFile {
 public:
  explicit EndlessFile(const std::string& path) : path_(path) {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  }
  ~EndlessFile() {
    if (writer_ >= 0) close(writer_);
  }
  // Whether a process reads it.
  bool IsRead() {
    writer_ = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return writer_ >= 0;
  }

 private:
  std::string path_;
  int writer_ = -1;
};

TEST_CASE("serve: a signal ends it while a model is loaded") {
  TestRun run;
  EndlessFile first(run.Path("first.dslide")), second(run.Path("second.dslide"));
  const auto loading = run.Start(
      "dslide", {"serve", "--model", run.Path("first.dslide"), "--bind", "tcp://127.0.0.1:*"});
  REQUIRE(WaitFor([&] { return first.IsRead(); }));
  loading->Signal(SIGTERM);
  CHECK(loading->Wait() == 0);
  CHECK(Contains(loading->Errors(), "[process.stop]"));

  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  const std::string file = run.Path("m.dslide");
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", file}) == 0);
  Served served(&run, file, {"--reload", "1"});
  fs::rename(run.Path("second.dslide"), file);
  fs::create_symlink(file, run.Path("second.dslide"));
  REQUIRE(WaitFor([&] { return second.IsRead(); }));
  const auto answer = served.Client().Post("/predict", Ask(7), "application/json");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  served.process().Signal(SIGTERM);
  CHECK(served.process().Wait() == 0);
}

// A connection that sends a request and does not read its answer.
class Impatient {
 public:
  Impatient(int port, const std::string& body) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const std::string request = "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body;
    REQUIRE(send(socket_, request.data(), request.size(), 0) ==
            static_cast<ssize_t>(request.size()));
  }
  Impatient(const Impatient&) = delete;
  ~Impatient() { close(socket_); }

 private:
  int socket_;
};

TEST_CASE("serve: a second signal ends it at once, whatever waits") {
  constexpr int kWaiting = 200;
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  Served served(&run, run.run_directory(), {"--threads", "1", "--timeout-ms", "3600000"});
  // As much work as a request may ask for.
  Json large = {{"k", 100}, {"samples", Json::array()}};
  for (int i = 0; i < 1000; ++i) large["samples"].push_back({{"features", {{"7", 1}}}});
  const std::string body = large.dump();
  const int64_t asked_ms = MonotonicMillis();
  const auto answer = served.Client().Post("/predict", body, "application/json");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  const int64_t one_ms = MonotonicMillis() - asked_ms;
  std::deque<Impatient> waiting;
  for (int i = 0; i < kWaiting; ++i) waiting.emplace_back(served.port(), body);
  served.process().Signal(SIGTERM);
  const int64_t signalled_ms = MonotonicMillis();
  REQUIRE(WaitFor([&] { return MonotonicMillis() - signalled_ms > StopSignals::kSameMs + 100; }));
  REQUIRE(served.process().Running());
  served.process().Signal(SIGTERM);
  const int64_t again_ms = MonotonicMillis();
  CHECK(served.process().Wait() == 0);
  CHECK(Contains(served.process().Errors(), "[serve.stop.unanswered]"));
  // Far less than their answers would have taken.
  CHECK(MonotonicMillis() - again_ms < kWaiting / 4 * one_ms);
}

// The lines of `dslide predict` on the test file.
std::vector<std::string> Predicted(TestRun* run, const std::string& model, const Arguments& more) {
  REQUIRE_MESSAGE(
      run->Run("dslide", With({"predict", "--checkpoint", model, "--data", run->Path("test.txt")},
                              more)) == 0,
      run->last_errors());
  std::vector<std::string> lines;
  std::istringstream output(run->last_output());
  for (std::string line; std::getline(output, line);) lines.push_back(line);
  REQUIRE(lines.size() == kTestSamples);
  return lines;
}

TEST_CASE("predict: probabilities are the softmax of all labels' scores, and those of serve") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  const std::string file = run.Path("m.dslide"), all = std::to_string(kLabels);
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", file}) == 0);
  const auto lines =
      Predicted(&run, run.run_directory(), {"--probabilities", "--json", "--top-k", all});
  CHECK(Contains(run.last_errors(), "probabilities: softmax over all 200 labels, scored exactly"));
  for (const std::string& line : lines) {
    const Json json = Json::parse(line);
    const std::vector<double> scores = json["scores"], probabilities = json["probabilities"];
    REQUIRE(scores.size() == kLabels);
    REQUIRE(probabilities.size() == kLabels);
    double total = 0;
    for (const double z : scores) total += std::exp(z - scores[0]);
    for (int rank = 0; rank < kLabels; ++rank) {
      CHECK(probabilities[rank] ==
            doctest::Approx(std::exp(scores[rank] - scores[0]) / total).epsilon(1e-4));
    }
  }
  // A file has its rows in another order, so sums may differ in the last digits.
  const auto of_file = Predicted(&run, file, {"--probabilities", "--json", "--top-k", all});
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json a = Json::parse(lines[i]), b = Json::parse(of_file[i]);
    CHECK(a["labels"][0] == b["labels"][0]);
    CHECK(a["probabilities"][0].get<double>() ==
          doctest::Approx(b["probabilities"][0].get<double>()).epsilon(1e-4));
  }

  // As serve has them, and as text; a threshold leaves the same labels out.
  Served served(&run, file, {"--search", "exact"});
  const auto text = Predicted(&run, file, {"--probabilities", "--top-k", "3"});
  const auto above = Predicted(&run, file, {"--threshold", "0.05", "--top-k", all, "--json"});
  std::ifstream samples(run.Path("test.txt"));
  std::string sample;
  std::getline(samples, sample);  // the header
  for (int i = 0; i < 20; ++i) {
    std::getline(samples, sample);
    Json features = Json::object();
    std::istringstream words(sample.substr(sample.find(' ') + 1));
    for (std::string word; words >> word;) {
      features[word.substr(0, word.find(':'))] = std::stod(word.substr(word.find(':') + 1));
    }
    const auto ask = [&](const Json& more) {
      Json request = {{"features", features}};
      request.update(more);
      const auto answer = served.Client().Post("/predict", request.dump(), "application/json");
      REQUIRE(answer);
      return Json::parse(answer->body)["predictions"][0]["labels"];
    };
    std::string expected;
    for (const Json& label : ask({{"k", 3}})) {
      expected +=
          fmt::format("{}{}:{:.6g}", expected.empty() ? "" : " ", label["label"].get<std::string>(),
                      label["probability"].get<double>());
    }
    CHECK(text[i] == expected);
    std::vector<int> ids;
    for (const Json& label : ask({{"k", kLabels}, {"threshold", 0.05}})) ids.push_back(label["id"]);
    CHECK(Json::parse(above[i])["labels"] == Json(ids));
  }
  served.process().Signal(SIGTERM);
  CHECK(served.process().Wait() == 0);

  // A scan in 8 bits sums over all labels, too.
  const auto scanned = Predicted(&run, file, {"--probabilities", "--json", "--search", "scan"});
  CHECK(Contains(run.last_errors(), "scored in 8 bits except the best; --search exact"));
  for (size_t i = 0; i < scanned.size(); ++i) {
    CHECK(Json::parse(scanned[i])["probabilities"][0].get<double>() ==
          doctest::Approx(Json::parse(lines[i])["probabilities"][0].get<double>()).epsilon(0.1));
  }
  for (const auto& [more, line] : std::vector<std::pair<Arguments, std::string>>{
           {{"--threshold", "1.5"}, "--threshold 1.5: must be a number from 0 to 1"},
           {{"--threshold", "x"}, "--threshold x: must be a number from 0 to 1"},
           {{"--threshold", "nan"}, "--threshold nan: must be a number from 0 to 1"},
           {{"--probabilities", "--search", "lsh"}, "--search lsh: "}}) {
    CHECK(run.Run("dslide", With({"predict", "--checkpoint", file, "--data", run.Path("test.txt")},
                                 more)) == 2);
    CHECK_MESSAGE(Contains(run.last_errors(), line), run.last_errors());
  }
}

TEST_CASE("serve: web pages of an allowed origin may ask, and a wrong origin is a usage error") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  Served served(&run, run.run_directory(),
                {"--allow-origin", "https://a.example", "--allow-origin", "http://localhost:3000"});
  const httplib::Headers page = {{"Origin", "http://localhost:3000"},
                                 {"Access-Control-Request-Method", "POST"}};
  const auto preflight = served.Client().Options("/predict", page);
  REQUIRE(preflight);
  CHECK(preflight->status == 204);
  CHECK(preflight->get_header_value("Access-Control-Allow-Origin") == "http://localhost:3000");
  const auto answer = served.Client().Post("/predict", page, Ask(7), "application/json");
  CHECK(answer->get_header_value("Access-Control-Allow-Origin") == "http://localhost:3000");
  CHECK(run.Run("dslide", {"serve", "--model", run.run_directory(), "--allow-origin",
                           "https://a.example/"}) == 2);
  CHECK_MESSAGE(
      Contains(run.last_errors(),
               "--allow-origin: 'https://a.example/' is not an origin (expected SCHEME://HOST"),
      run.last_errors());
}

TEST_CASE("serve: on loopback requests by other names are refused, unless they are given") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  const auto status_of = [](const Served& served, const char* path, const char* host) {
    const auto answer = served.Client().Get(path, {{"Host", host}});
    REQUIRE(answer);
    return answer->status;
  };
  const Served plain(&run, run.run_directory());
  CHECK(status_of(plain, "/model", "localhost:8080") == 200);
  CHECK(status_of(plain, "/model", "other.example") == 403);
  CHECK(status_of(plain, "/healthz", "other.example") == 200);
  CHECK(status_of(plain, "/model%00", "localhost") == 400);
  const Served named(&run, run.run_directory(), {"--allow-host", "desk.example.org"});
  CHECK(status_of(named, "/model", "desk.example.org") == 200);
  CHECK(status_of(named, "/model", "127.0.0.1") == 200);
  CHECK(status_of(named, "/model", "other.example") == 403);
  const Served any(&run, run.run_directory(), {"--allow-host", "*"});
  CHECK(status_of(any, "/model", "other.example") == 200);
  // Elsewhere nobody knows its names.
  const Served open(&run, run.run_directory(), {"--allow-plaintext"}, "tcp://0.0.0.0:*");
  CHECK(status_of(open, "/model", "desk.example.org") == 200);
  CHECK(run.Run("dslide", {"serve", "--model", run.run_directory(), "--allow-host",
                           "desk.example.org:80"}) == 2);
  CHECK_MESSAGE(Contains(run.last_errors(), "--allow-host 'desk.example.org:80': is not the name"),
                run.last_errors());
}

TEST_CASE("serve: with a token nobody is answered without it, but who asks for its health") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  const std::string token = "a-token-of-my-own";
  std::ofstream(run.Path("token")) << token << "\n";
  Served served(&run, run.run_directory(), {"--token", run.Path("token")});
  httplib::Client client = served.Client();
  for (const char* path : {"/", "/model", "/metrics", "/openapi.json"}) {
    CHECK(client.Get(path)->status == 401);
    CHECK(client.Get(path, {{"Authorization", "Bearer " + token}})->status == 200);
  }
  CHECK(client.Get("/healthz")->status == 200);
  CHECK(client.Get("/readyz")->status == 200);
  CHECK(client.Post("/predict", Ask(7), "application/json")->status == 401);
  const auto answer =
      client.Post("/predict", {{"Authorization", "Bearer " + token}}, Ask(7), "application/json");
  CHECK(answer->status == 200);
}

TEST_CASE("export and serve: wrong uses are told in one line") {
  TestRun run;
  std::ofstream(run.Path("text.txt")) << "no model\n";
  fs::create_directory(run.Path("empty"));
  for (const char* device : {"device.dslide", "device.npz"}) {
    fs::create_symlink("/dev/null", run.Path(device));
  }
  const std::string none = run.Path("none");
  struct Wrong {
    Arguments arguments;
    std::string line;
  };
  const std::vector<Wrong> wrong = {
      {{"export", none, "--to", run.Path("m.dslide")}, none},
      {{"export", run.Path("empty"), "--to", run.Path("m.dslide")}, "empty"},
      {{"export", run.Path("text.txt"), "--to", run.Path("m.dslide")}, "text.txt"},
      {{"export", run.Path("empty"), "--to", run.Path("m.onnx")}, "--to"},
      {{"export", "--to", run.Path("m.dslide")}, "no model is given: name a run directory"},
      {{"export", run.Path("empty")}, "--to"},
      {{"export", run.Path("empty"), "--to", run.Path("m.dslide"), "--rows", "fp8"}, "--rows fp8"},
      {{"export", run.Path("empty"), "--to", run.Path("device.dslide")}, "is no regular file"},
      {{"export", run.Path("empty"), "--to", run.Path("device.npz")}, "is no regular file"},
      {{"export", run.Path("text.txt"), "--to", run.Path("text.dslide"), "--data",
        run.Path("text.dslide")},
       "text.dslide: is the input"},
      {{"export", run.Path("empty"), "--to", run.Path("m.npz"), "--data", run.Path("text.txt")},
       "m.npz gets no index"},
      {{"serve"}, "--model"},
      {{"serve", "--model", none}, none},
      {{"serve", "--model", run.Path("text.txt")}, "text.txt"},
      {{"serve", "--model", run.Path("empty")}, "empty"},
      {{"serve", "--model", none, "--bind", "8080"}, "--bind 8080"},
      {{"serve", "--model", none, "--bind", "tcp://0.0.0.0:80"}, "--allow-plaintext"},
      {{"serve", "--model", none, "--search", "fast"}, "--search fast"},
      {{"serve", "--model", none, "--name", "a/b"}, "--name a/b"},
      {{"serve", "--model", none, "--threads", "many"}, "--threads"},
      {{"serve", "--model", none, "--reload", "-1"}, "--reload"},
      {{"serve", "--model", none, "--token", none}, "--token: " + none},
      {{"serve", "--model", none, "--port", "80"}, "--port"},
  };
  for (const Wrong& each : wrong) {
    CAPTURE(each.arguments.back());
    CHECK(run.Run("dslide", each.arguments) == 2);
    const std::string& errors = run.last_errors();
    CHECK_MESSAGE(Contains(errors, each.line), errors);
    CHECK_MESSAGE(std::count(errors.begin(), errors.end(), '\n') == 1, errors);
  }
  CHECK_FALSE(fs::exists(run.Path("m.dslide")));
  CHECK_FALSE(fs::exists(run.Path("m.dslide.tmp")));
}

}  // namespace
}  // namespace dslide::serve_test
