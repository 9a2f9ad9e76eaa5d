#include "scheduler/ledger/ledger.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/scheduler/ledger/ledger_entries.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::ledger_test {
namespace {

namespace fs = std::filesystem;
using testing::FixedEntry;
using testing::RandomEntries;

std::unique_ptr<Ledger> MustOpen(const std::string& path, LedgerState* state) {
  auto ledger = Ledger::Open(path, state);
  if (!ledger.ok()) FAIL(ledger.error().message);
  return std::move(*ledger);
}

// A scheduler that cannot write tells its members so, and with that it writes nothing.
TEST_CASE("ledger: after a failure only entries fail") {
  const TempDirectory directory;
  LedgerState state;
  const auto ledger = MustOpen(directory.path() + "/ledger", &state);
  const std::vector<LedgerEntry> entries = {FixedEntry(0), FixedEntry(1)};
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Status failed = ledger->Append(entries);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, handler);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message.find("cannot write") != std::string::npos);
  CHECK_FALSE(ledger->Append(entries).ok());
  CHECK_FALSE(ledger->Sync().ok());
  CHECK(ledger->Append(std::span<const LedgerEntry>()).ok());
}

TEST_CASE("ledger: the last entry is read without the others") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/ledger";
  CHECK_FALSE(Ledger::Last(path).ok());
  LedgerState state;
  { MustOpen(path, &state); }
  const auto none = Ledger::Last(path);
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
  for (uint64_t n = 0; n < 60; ++n) {
    {
      const auto ledger = MustOpen(path, &state);
      REQUIRE(ledger->Append(FixedEntry(n)).ok());
    }
    const auto last = Ledger::Last(path);
    REQUIRE(last.ok());
    CHECK(*last == FixedEntry(n));
  }
}

// Files with their sizes.
std::map<std::string, uintmax_t> Listing(const std::string& path) {
  std::map<std::string, uintmax_t> files;
  for (const auto& file : fs::directory_iterator(path)) files[file.path()] = file.file_size();
  return files;
}

// A process of its own that appends FixedEntry after FixedEntry until it is killed, and writes a
// byte to a pipe after each.
class Appender {
 public:
  explicit Appender(const std::string& ledger) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    child_ = fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(DSLIDE_LEDGER_APPENDER, DSLIDE_LEDGER_APPENDER, ledger.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Appender() { close(out_); }

  // Lets it append so many entries, kills it, and returns how many it had appended.
  uint64_t KillAfter(uint64_t entries) {
    uint64_t appended = 0;
    while (appended < entries) {
      const uint64_t more = ReadSome();
      if (more == 0) FAIL("the appender ended by itself");
      appended += more;
    }
    kill(child_, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child_, &status, 0) == child_);
    REQUIRE(WIFSIGNALED(status));
    while (const uint64_t more = ReadSome()) appended += more;
    return appended;
  }

 private:
  uint64_t ReadSome() {
    char bytes[256];
    const ssize_t n = read(out_, bytes, sizeof bytes);
    REQUIRE(n >= 0);
    return static_cast<uint64_t>(n);
  }

  pid_t child_ = -1;
  int out_ = -1;
};

TEST_CASE("a ledger comes back with every entry, and its state is theirs") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/run/ledger";
  RandomEntries random(3);
  std::vector<LedgerEntry> written = {random.Next(0)};
  LedgerState expected;
  for (int life = 0; life < 3; ++life) {
    LedgerState state;
    const auto ledger = MustOpen(path, &state);
    CHECK(ledger->entries() == expected.entries);
    CHECK(state.entries == expected.entries);
    CHECK(state.opened == (life > 0));
    CHECK(state.run == expected.run);
    CHECK(state.plan == expected.plan);
    CHECK(state.done == expected.done);
    CHECK(state.batches == expected.batches);
    for (size_t i = 0; i < 50; ++i) {
      if (i + static_cast<size_t>(life) > 0) written.push_back(random.Next(1 + i % 6));
      REQUIRE(ledger->Append(written.back()).ok());
      expected.Apply(written.back());
    }
  }
  const auto read = Ok(Ledger::Read(path));
  CHECK(read == written);
}

TEST_CASE("a ledger is read while a scheduler writes it, and nothing on disk changes") {
  const TempDirectory directory;
  LedgerState state;
  const auto ledger = MustOpen(directory.path(), &state);
  for (uint64_t n = 0; n < 400; ++n) {
    REQUIRE(ledger->Append(FixedEntry(n)).ok());
    if (n % 40 != 0) continue;
    const auto before = Listing(directory.path());
    const auto read = Ok(Ledger::Read(directory.path()));
    REQUIRE(read.size() == n + 1);
    CHECK(read.back() == FixedEntry(n));
    CHECK(Listing(directory.path()) == before);
  }
}

TEST_CASE("a ledger that another process writes reads as a beginning of what it writes") {
  const TempDirectory directory;
  Appender appender(directory.path());
  size_t entries = 0;
  while (entries < 4000) {
    const auto read = Ledger::Read(directory.path());
    if (!read.ok()) {
      // Not created yet, or the writer was too quick for a reader that hardly gets a processor.
      REQUIRE((entries == 0 || read.error().kind == ErrorKind::kTryLater));
      continue;
    }
    REQUIRE(read->size() >= entries);
    for (size_t n = entries; n < read->size(); ++n) REQUIRE((*read)[n] == FixedEntry(n));
    entries = read->size();
  }
  CHECK(appender.KillAfter(entries) >= entries);
}

TEST_CASE("what Append() has returned for outlives a kill") {
  const TempDirectory directory;
  Random random(4);
  uint64_t entries = 0;
  for (int life = 0; life < 12; ++life) {
    Appender appender(directory.path());
    const uint64_t appended = entries + appender.KillAfter(1 + random.Below(1000));
    LedgerState state;
    entries = MustOpen(directory.path(), &state)->entries();
    CHECK(entries >= appended);
    CHECK(entries <= appended + 1);  // the one under way
  }
  const auto read = Ok(Ledger::Read(directory.path()));
  REQUIRE(read.size() == entries);
  for (size_t n = 0; n < entries; ++n) REQUIRE(read[n] == FixedEntry(n));
}

TEST_CASE("a second scheduler is refused, whether of this process or of another") {
  const TempDirectory directory;
  LedgerState state;
  {
    const auto first = MustOpen(directory.path(), &state);
    const auto second = Ledger::Open(directory.path(), &state);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().kind == ErrorKind::kTryLater);
    CHECK(second.error().message ==
          directory.path() + ": another scheduler works on this run; stop that one first");
  }
  Appender appender(directory.path());
  while (!Ledger::Read(directory.path()).ok() || Ledger::Read(directory.path())->empty()) {
  }
  const auto second = Ledger::Open(directory.path(), &state);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message ==
        directory.path() + ": another scheduler works on this run; stop that one first");
  appender.KillAfter(1);
  CHECK(Ledger::Open(directory.path(), &state).ok());
}

TEST_CASE("a ledger that is not there, and a place that cannot hold one, are named") {
  const TempDirectory directory;
  const std::string nowhere = directory.path() + "/nowhere";
  const auto read = Ledger::Read(nowhere);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().kind == ErrorKind::kBadInput);
  CHECK(read.error().message == nowhere + ": there is no ledger; give the directory of a run");
  CHECK_FALSE(fs::exists(nowhere));

  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "text";
  LedgerState state;
  const auto opened = Ledger::Open(file + "/ledger", &state);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().message.find(file + "/ledger: cannot create the ledger: ") == 0);
}

}  // namespace
}  // namespace dslide::ledger_test
