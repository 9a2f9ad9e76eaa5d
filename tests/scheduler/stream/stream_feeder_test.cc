#include "scheduler/stream/stream_feeder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "common/base/process.h"
#include "common/base/temporary_directory.h"
#include "common/data/whole_file.h"

namespace dslide::stream_feeder_test {
namespace {

namespace fs = std::filesystem;

constexpr int kDeadlineMs = 120'000;

struct Run {
  Run() {
    train.open_vocabulary = true;
    train.data = Path("data.jsonl");
    train.segment_samples = 10;
    train.admit_count = 1;
    fs::create_directory(Path("checkpoint"));
    Append(0);
  }
  std::string Path(const std::string& name) const { return directory.path() + "/" + name; }
  void Append(int lines) {
    std::ofstream file(train.data, std::ios::app);
    for (int i = 0; i < lines; ++i) {
      const std::string name = std::to_string(written++);
      file << R"({"text": "word)" + name + R"(", "labels": ["l)" + name + "\"]}\n";
    }
  }
  std::unique_ptr<StreamFeeder> Start(uint32_t goes_on_at) {
    TextConfig text;
    text.max_share = 1;
    auto feeder =
        StreamFeeder::Start({Path("stream"), Path("checkpoint"), train, text, limit}, goes_on_at);
    REQUIRE_MESSAGE(feeder.ok(), (feeder.ok() ? "" : feeder.error().message));
    return *std::move(feeder);
  }
  size_t Preprocessors() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(Path("checkpoint")), fs::directory_iterator()));
  }

  TemporaryDirectory directory{"feeder"};
  TrainConfig train;
  OpenVocabulary::Limit limit;
  int written = 0;
};

bool IsReadable(int fd, int timeout_ms) {
  pollfd ready{fd, POLLIN, 0};
  return poll(&ready, 1, timeout_ms) == 1;
}

StreamFeeder::Delivery Await(StreamFeeder* feeder, uint32_t number) {
  feeder->Want(number);
  REQUIRE(IsReadable(feeder->fd(), kDeadlineMs));
  std::optional<StreamFeeder::Delivery> delivery = feeder->Take();
  REQUIRE(delivery.has_value());
  return *std::move(delivery);
}

StreamFeeder::Fed Next(StreamFeeder* feeder, uint32_t number) {
  StreamFeeder::Delivery delivery = Await(feeder, number);
  REQUIRE(std::holds_alternative<StreamFeeder::Fed>(delivery));
  StreamFeeder::Fed fed = std::get<StreamFeeder::Fed>(std::move(delivery));
  CHECK(fed.segment.shape.epoch == number);
  return fed;
}

TEST_CASE("stream feeder: its descriptor is readable while what was wanted is there") {
  Run run;
  run.Append(25);
  const auto feeder = run.Start(0);
  CHECK(!IsReadable(feeder->fd(), 0));
  feeder->Want(1);
  REQUIRE(IsReadable(feeder->fd(), kDeadlineMs));
  feeder->Want(2);  // in its place
  REQUIRE(IsReadable(feeder->fd(), kDeadlineMs));
  const auto delivery = feeder->Take();
  REQUIRE(delivery.has_value());
  CHECK(std::get<StreamFeeder::Fed>(*delivery).segment.shape.epoch == 2);
  CHECK(!IsReadable(feeder->fd(), 0));
  CHECK(!feeder->Take());
}

TEST_CASE("stream feeder: what is appended to a file comes, and its end by order") {
  Run run;
  const auto feeder = run.Start(0);
  for (uint32_t number = 1; number <= 3; ++number) {
    feeder->Want(number);
    run.Append(10);
    CHECK(Next(feeder.get(), number).segment.data->size() == 10);
  }
  run.Append(4);
  feeder->Want(4);
  feeder->End();
  // What it has read of them by then.
  StreamFeeder::Delivery delivery = Await(feeder.get(), 4);
  if (std::holds_alternative<StreamFeeder::Fed>(delivery)) {
    delivery = Await(feeder.get(), 5);
  }
  CHECK(std::get<StreamEnd>(delivery).why.ok());
}

TEST_CASE("stream feeder: another life brings the same segments, and goes on after them") {
  Run run;
  run.Append(95);
  std::vector<std::string> before;
  {
    const auto feeder = run.Start(0);
    for (uint32_t number = 1; number <= 7; ++number) {
      before.push_back(Next(feeder.get(), number).preprocessor->ToBytes());
    }
  }
  const auto feeder = run.Start(3);
  for (const uint32_t number : {3, 4, 7, 1, 8, 9, 5}) {
    const StreamFeeder::Fed fed = Next(feeder.get(), number);
    if (number <= 7) CHECK(fed.preprocessor->ToBytes() == before[number - 1]);
    CHECK(fed.segment.data->size() == 10);
  }
}

// While it lives, files of this process have so many bytes at most, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit small{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

// What is logged while it lives (a test logs to standard output).
class Log {
 public:
  explicit Log(std::string path) : path_(std::move(path)), before_(dup(STDOUT_FILENO)) {
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    REQUIRE(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    close(file);
  }
  ~Log() {
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }
  void Await(const std::string& words) const {
    const int64_t deadline_ms = MonotonicMillis() + kDeadlineMs;
    while (ReadWholeFile(path_)->find(words) == std::string::npos) {
      REQUIRE(MonotonicMillis() < deadline_ms);
      std::this_thread::yield();
    }
  }

 private:
  std::string path_;
  int before_;
};

TEST_CASE("stream feeder: a disk that is full for a moment holds the stream up, and no more") {
  Run run;
  const auto append = [&](const std::string& text) {
    std::ofstream(run.train.data, std::ios::app) << text;
  };
  run.Append(10);
  append(R"({"text": "long)" + std::string(900, 'x'));  // a line without its end
  const std::string waits = "the stream waits until there is room";
  std::unique_ptr<StreamFeeder> feeder;
  {
    const Log log(run.Path("log"));
    SUBCASE("while bytes are taken") {
      const FullDisk disk(700);
      feeder = run.Start(0);
      log.Await(waits);
    }
    SUBCASE("while a segment is stored") {
      fs::rename(run.Path("checkpoint"), run.Path("away"));
      feeder = run.Start(0);
      log.Await(waits);
      fs::rename(run.Path("away"), run.Path("checkpoint"));
    }
  }
  CHECK(Next(feeder.get(), 1).segment.data->size() == 10);
  append("\", \"labels\": [\"long\"]}\n");
  run.Append(9);
  const StreamFeeder::Fed fed = Next(feeder.get(), 2);
  CHECK(fed.segment.data->size() == 10);
  CHECK(fed.segment.shape.labels == 20);
}

TEST_CASE("stream feeder: preprocessors go without a checkpoint, segments with one") {
  Run run;
  run.Append(200);
  const auto feeder = run.Start(0);
  std::vector<uint64_t> checksums;
  for (uint32_t number = 1; number <= 12; ++number) {
    checksums.push_back(Next(feeder.get(), number).segment.preprocessor);
  }
  CHECK(run.Preprocessors() >= 12);
  feeder->Forget(0, {checksums[4]});
  (void)Next(feeder.get(), 13);  // orders are followed one after another
  CHECK(run.Preprocessors() <= 6);
  CHECK(Next(feeder.get(), 1).segment.preprocessor == checksums[0]);
  feeder->Forget(10, {});
  (void)Next(feeder.get(), 14);
  CHECK(std::holds_alternative<StreamEnd>(Await(feeder.get(), 1)));
}

TEST_CASE("stream feeder: another file is refused before anything is taken of it") {
  Run run;
  run.Append(50);
  {
    const auto feeder = run.Start(0);
    (void)Next(feeder.get(), 1);
  }
  run.train.data = run.Path("other.jsonl");
  run.Append(500);
  const auto feeder = StreamFeeder::Start(
      {run.Path("stream"), run.Path("checkpoint"), run.train, TextConfig(), {}}, 1);
  REQUIRE(!feeder.ok());
  CHECK(feeder.error().message.starts_with("train.data = " + run.train.data));
}

}  // namespace
}  // namespace dslide::stream_feeder_test
