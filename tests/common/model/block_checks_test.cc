#include "common/model/block_checks.h"

#include <doctest/doctest.h>

#include <span>

#include "common/checkpoint/file_checksum.h"
#include "tests/support/results.h"

namespace dslide::block_checks_test {
namespace {

constexpr size_t kBlock = 10;

// Two sections of 25 and 30 bytes: 3 blocks each.
struct Fixture {
  std::string a = "the first section 1234567";
  std::string b = "another one, and no byte less.";
  BlockChecks checks{"m.dslide", {Checked("a", a), Checked("b", b)}};

  static BlockChecks::Section Checked(const std::string& name, const std::string& bytes) {
    BlockChecks::Section section{name, bytes, kBlock, {}};
    for (size_t at = 0; at < bytes.size(); at += kBlock) {
      const std::string block = bytes.substr(at, kBlock);
      section.checksums.push_back(
          ChecksumOf({reinterpret_cast<const uint8_t*>(block.data()), block.size()}));
    }
    return section;
  }
  Status Check(const std::string& section, size_t begin, size_t count) const {
    return checks.Check(std::string_view(section).substr(begin, count));
  }
};

TEST_CASE_FIXTURE(Fixture, "block checks: the blocks of a part are checked, and no others") {
  CHECK(Check(a, 0, 0).ok());
  CHECK(checks.checked_blocks() == 0);
  CHECK(Check(a, 9, 1).ok());
  CHECK(checks.checked_blocks() == 1);
  CHECK(Check(a, 9, 2).ok());
  CHECK(checks.checked_blocks() == 2);
  CHECK(Check(a, 24, 1).ok());
  CHECK(checks.checked_blocks() == 3);
  CHECK(Check(b, 0, 30).ok());
  CHECK(checks.checked_blocks() == 6);
}

TEST_CASE_FIXTURE(Fixture, "block checks: damage is an error wherever its block is read") {
  a[10] = 'x';
  CHECK(Check(a, 0, 10).ok());
  CHECK(Check(a, 20, 5).ok());
  for (int again = 0; again < 2; ++again) {
    CHECK(MessageOf(Check(a, 19, 1)) == "m.dslide: damaged (a); copy it again, or export it again");
  }
  CHECK_FALSE(Check(a, 0, 25).ok());
  CHECK_FALSE(checks.CheckAll().ok());
  CHECK(Check(b, 0, 30).ok());
  a[10] = 's';  // as it was
  b[29] = ',';
  CHECK(Check(a, 0, 25).ok());
  CHECK(checks.CheckAll().ok());  // the last block of b was checked before
  CHECK(checks.checked_blocks() == 6);
}

}  // namespace
}  // namespace dslide::block_checks_test
