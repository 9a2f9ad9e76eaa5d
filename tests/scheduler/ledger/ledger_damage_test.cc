// A ledger whose files are cut, changed or missing: never entries that nobody appended.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/scheduler/ledger/ledger_entries.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::ledger_damage_test {
namespace {

namespace fs = std::filesystem;
using testing::FixedEntry;

constexpr uint64_t kEntries = 48;  // before FixedEntry's first large one

void AppendTo(const std::string& path, uint64_t entries) {
  LedgerState state;
  const auto ledger = Ok(Ledger::Open(path, &state));
  for (uint64_t i = 0; i < entries; ++i) {
    REQUIRE(ledger->Append(FixedEntry(ledger->entries())).ok());
  }
}

// The only file of a directory that ends so and is not empty.
std::string FileOf(const std::string& path, const std::string& extension) {
  std::string found;
  for (const auto& file : fs::directory_iterator(path)) {
    if (file.path().extension() != extension || file.file_size() == 0) continue;
    REQUIRE(found.empty());
    found = file.path();
  }
  REQUIRE_FALSE(found.empty());
  return found;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void Put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// How many entries can be read: the first ones, as they were appended. Negative: damage was
// reported, in a line that begins with the directory.
int64_t Readable(const std::string& path) {
  const auto read = Ledger::Read(path);
  if (!read.ok()) {
    CAPTURE(read.error().message);
    CHECK(read.error().message.find(path + ": ") == 0);
    CHECK(read.error().message.find('\n') == std::string::npos);
    return -1;
  }
  for (size_t n = 0; n < read->size(); ++n) REQUIRE((*read)[n] == FixedEntry(n));
  return static_cast<int64_t>(read->size());
}

TEST_CASE("of a write-ahead log that was cut off anywhere a beginning of the entries remains") {
  const TempDirectory directory;
  const std::string whole = directory.path() + "/whole";
  AppendTo(whole, kEntries);
  const std::string bytes = Contents(FileOf(whole, ".log"));
  int64_t before = 0;
  for (size_t size = 0; size <= bytes.size(); size += size + 40 < bytes.size() ? 37 : 1) {
    CAPTURE(size);
    const TempDirectory copy;
    fs::copy(whole, copy.path());
    Put(FileOf(copy.path(), ".log"), bytes.substr(0, size));
    const int64_t readable = Readable(copy.path());
    REQUIRE(readable >= before);
    before = readable;
    AppendTo(copy.path(), 3);  // and it goes on from there
    REQUIRE(Readable(copy.path()) == (readable == 0 ? 3 : readable + 3));
  }
  CHECK(before == kEntries);
}

// Changes bytes of a file one after another. Each time the damage is reported, both to readers and
// to a scheduler, or nothing is lost; returns how often it was not reported.
size_t CountUnreported(const std::string& path, const std::string& file, size_t step) {
  const std::string good = Contents(file);
  size_t unreported = 0;
  for (size_t at = 0; at < good.size(); at += step) {
    CAPTURE(at);
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    Put(file, bad);
    const int64_t readable = Readable(path);
    REQUIRE((readable < 0 || readable == static_cast<int64_t>(kEntries)));
    if (readable < 0) {
      LedgerState state;
      REQUIRE_FALSE(Ledger::Open(path, &state).ok());
      REQUIRE(Contents(file) == bad);
    } else {
      unreported++;
    }
  }
  Put(file, good);
  REQUIRE(Readable(path) == static_cast<int64_t>(kEntries));
  return unreported;
}

TEST_CASE("a changed byte of the write-ahead log is reported") {
  const TempDirectory directory;
  AppendTo(directory.path(), kEntries);
  CHECK(CountUnreported(directory.path(), FileOf(directory.path(), ".log"), 3) == 0);
}

TEST_CASE("a changed byte of a table is reported, except where it means nothing") {
  const TempDirectory directory;
  AppendTo(directory.path(), kEntries);
  AppendTo(directory.path(), 0);  // moves the entries from the log to a table
  const size_t unreported = CountUnreported(directory.path(), FileOf(directory.path(), ".sst"), 3);
  CHECK(unreported <= 53 / 3 + 1);  // the footer, most of which is padding
}

TEST_CASE("the table with a damaged entry is named") {
  const TempDirectory directory;
  AppendTo(directory.path(), kEntries);
  AppendTo(directory.path(), 0);
  const std::string file = FileOf(directory.path(), ".sst");
  std::string bytes = Contents(file);
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  Put(file, bytes);
  const auto read = Ledger::Read(directory.path());
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().kind == ErrorKind::kBadInput);
  CHECK(read.error().message.find(": the ledger is damaged: ") != std::string::npos);
  CHECK(read.error().message.find(fs::path(file).filename()) != std::string::npos);
}

TEST_CASE("each missing file of a ledger is reported") {
  const TempDirectory directory;
  const std::string whole = directory.path() + "/whole";
  AppendTo(whole, kEntries);
  AppendTo(whole, 2);
  for (const auto& file : fs::directory_iterator(whole)) {
    const std::string name = file.path().filename();
    const bool data = file.path().extension() == ".sst" || file.path().extension() == ".log" ||
                      name == "CURRENT" || name.starts_with("MANIFEST");
    if (!data) continue;
    CAPTURE(name);
    const TempDirectory copy;
    fs::copy(whole, copy.path());
    fs::remove(fs::path(copy.path()) / name);
    CHECK(Readable(copy.path()) < 0);
    LedgerState state;
    const auto opened = Ledger::Open(copy.path(), &state);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().message.find(copy.path() + ": ") == 0);
  }
}

}  // namespace
}  // namespace dslide::ledger_damage_test
