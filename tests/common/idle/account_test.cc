#include "common/idle/account.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/idle/published.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::account_test {
namespace {

constexpr int32_t kToday = 20261125, kTomorrow = 20261126;
const Deeds kDone = {100, 1.5, 2000, 3000};

TEST_CASE("an account is kept over restarts, and a day begins at nothing") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lent.json";
  CHECK(Account(path).Add(kDone, kToday)->today == kDone);
  CHECK(Account(path).Add(kDone, kToday)->today.bytes_sent == 4000);
  const Totals totals = *Account(path).Add(kDone, kTomorrow);
  CHECK(totals.today == kDone);
  CHECK(totals.ever.samples == 300);
  CHECK(totals.today.transferred() == 5000);
}

TEST_CASE("what several workers add at once is all there") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lent.json";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Account account(path);
      for (int n = 0; n < 100; ++n) (void)account.Add(kDone, kToday);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) CHECK(waitpid(child, nullptr, 0) == child);
  CHECK(Account(path).Read(kToday)->ever.samples == 4 * 100 * 100);
}

TEST_CASE("a damaged account counts as empty, and one that cannot be written keeps its work") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lent.json";
  for (const char* text : {"", "{", "[]", "{\"date\": \"x\"}", "null"}) {
    std::ofstream(path) << text;
    CHECK(Account(path).Add(kDone, kToday)->ever == kDone);
    std::filesystem::remove(path);
  }
  Account account(directory.path() + "/none/lent.json");
  CHECK(MessageOf(account.Add(kDone, kToday), ErrorKind::kFailed)
            .find("/none/lent.json: cannot open") != std::string::npos);
  std::filesystem::create_directory(directory.path() + "/none");
  CHECK(account.Read(kToday)->today == kDone);
}

PublishedWorker Example() {
  PublishedWorker worker;
  worker.name = "worker-2";
  worker.scheduler = "tcp://10.0.0.1:7700";
  worker.state = "paused";
  worker.why = "others use 63 % of the CPU";
  worker.since_unix_s = 1'800'000'000;
  worker.until_unix_s = 1'800'003'600;
  worker.policy = "idle priority";
  worker.upload_kbit = 5;
  worker.download_kbit = 6;
  worker.daily_transfer_mb = 7;
  worker.done = kDone;
  return worker;
}

TEST_CASE("a published worker is found while it runs, by its own user only") {
  const TempDirectory directory;
  {
    Publisher publisher(directory.path());
    CHECK(ReadPublished(directory.path()).empty());
    REQUIRE(publisher.Publish(Example()).ok());
    const auto workers = ReadPublished(directory.path());
    REQUIRE(workers.size() == 1);
    PublishedWorker expected = Example();
    expected.pid = getpid();
    expected.started = workers[0].started;
    CHECK(workers[0] == expected);
    CHECK(ParsePublished(FormatPublished(expected)) == expected);
    const std::string file = directory.path() + "/worker-" + std::to_string(getpid()) + ".json";
    CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms::others_all) ==
          std::filesystem::perms::none);
  }
  CHECK(ReadPublished(directory.path()).empty());
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("files of processes that have ended are removed") {
  const TempDirectory directory;
  PublishedWorker ended = Example();
  ended.pid = fork();
  REQUIRE(ended.pid >= 0);
  if (ended.pid == 0) _exit(0);
  CHECK(waitpid(ended.pid, nullptr, 0) == ended.pid);
  PublishedWorker reused = Example();  // another process has its id by now
  reused.pid = getpid();
  reused.started = 1;
  for (const PublishedWorker& worker : {ended, reused}) {
    std::ofstream(directory.path() + "/worker-" + std::to_string(worker.pid) + ".json")
        << FormatPublished(worker);
  }
  std::ofstream(directory.path() + "/worker-" + std::to_string(ended.pid) + ".json.new") << "{";
  std::ofstream(directory.path() + "/something-else") << "stays";
  CHECK(ReadPublished(directory.path()).empty());
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

}  // namespace
}  // namespace dslide::account_test
