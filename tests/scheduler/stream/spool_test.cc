#include "scheduler/stream/spool.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/temporary_directory.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

struct Pipe {
  Pipe() { REQUIRE(pipe(ends) == 0); }
  ~Pipe() {
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
  }
  void Write(const std::string& text) const {
    REQUIRE(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void Close() {
    close(ends[1]);
    ends[1] = -1;
  }
  int ends[2];
};

TEST_CASE("spool: bytes stay across lives, and are read by their places") {
  const TemporaryDirectory directory("spool");
  {
    Spool spool = Ok(Spool::Open(directory.path()));
    CHECK(spool.end() == 0);
    REQUIRE(spool.Append("hello ").ok());
    REQUIRE(spool.Append("world").ok());
  }
  Spool spool = Ok(Spool::Open(directory.path()));
  CHECK(spool.end() == 11);
  REQUIRE(spool.Append("!").ok());
  CHECK(*spool.Read(6, 12) == "world!");
  CHECK(spool.Read(3, 3)->empty());
}

TEST_CASE("spool: what a pipe has is taken from it and kept") {
  const TemporaryDirectory directory("spool");
  Spool spool = Ok(Spool::Open(directory.path()));
  REQUIRE(spool.Append("a").ok());
  Pipe pipe;
  Result<std::optional<size_t>> moved = spool.Splice(pipe.ends[0], 100);
  REQUIRE(moved.ok());
  CHECK(!moved->has_value());  // nothing now
  pipe.Write("bcdef");
  moved = spool.Splice(pipe.ends[0], 3);
  REQUIRE(moved.ok());
  CHECK(**moved == 3);
  moved = spool.Splice(pipe.ends[0], 100);
  REQUIRE(moved.ok());
  CHECK(**moved == 2);
  pipe.Close();
  moved = spool.Splice(pipe.ends[0], 100);
  REQUIRE(moved.ok());
  CHECK(**moved == 0);  // the end
  CHECK(*spool.Read(0, 6) == "abcdef");
}

TEST_CASE("spool: files that nobody goes back to are removed") {
  const TemporaryDirectory directory("spool");
  Spool spool = Ok(Spool::Open(directory.path()));
  const std::string part(Spool::kFileBytes / 2 + 1, 'x');
  for (int i = 0; i < 5; ++i) REQUIRE(spool.Append(part).ok());
  const uint64_t second = 2 * part.size();  // a file has two parts
  const auto files = [&] {
    const std::filesystem::directory_iterator begin(directory.path());
    return std::distance(begin, std::filesystem::directory_iterator());
  };
  CHECK(files() == 3);
  spool.Forget(second - 1);
  CHECK(spool.begin() == 0);
  spool.Forget(second);
  CHECK(spool.begin() == second);
  CHECK(files() == 2);
  spool.Forget(spool.end());
  CHECK(files() == 1);
  const uint64_t end = spool.end(), begin = spool.begin();
  CHECK(*spool.Read(begin, begin + 3) == "xxx");

  Spool again = Ok(Spool::Open(directory.path()));
  CHECK(again.begin() == begin);
  CHECK(again.end() == end);
}

TEST_CASE("spool: a file that is gone from the middle is an error that says which bytes") {
  const TemporaryDirectory directory("spool");
  {
    Spool spool = Ok(Spool::Open(directory.path()));
    const std::string part(Spool::kFileBytes, 'x');
    for (int i = 0; i < 3; ++i) REQUIRE(spool.Append(part).ok());
  }
  std::filesystem::remove(directory.path() + "/input-00000000000016777216");
  const Result<Spool> spool = Spool::Open(directory.path());
  REQUIRE(!spool.ok());
  CHECK(spool.error().message ==
        directory.path() + ": bytes 16777216 to 33554432 of the stream are gone");
}

}  // namespace
}  // namespace dslide
