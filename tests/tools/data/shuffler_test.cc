#include "tools/dslide/data/shuffler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::shuffler_test {
namespace {

std::vector<std::string> Shuffled(uint64_t seed, size_t memory_bytes, size_t lines) {
  const TempDirectory directory;
  Shuffler shuffler(seed, directory.path() + "/out", memory_bytes);
  for (size_t i = 0; i < lines; ++i) {
    REQUIRE(shuffler.Add(i % 50 == 0 ? "" : "line " + std::to_string(i)).ok());
  }
  std::vector<std::string> taken;
  REQUIRE(shuffler.TakeAll([&](std::string_view line) { taken.emplace_back(line); }).ok());
  CHECK(std::filesystem::is_empty(directory.path()));
  return taken;
}

TEST_CASE("shuffler: every line once, in an order that the seed gives, whatever the memory") {
  const auto in_memory = Shuffled(3, size_t{1} << 30, 5000);
  CHECK(in_memory.size() == 5000);
  CHECK(Shuffled(3, 1000, 5000) == in_memory);
  CHECK(Shuffled(3, 100'000, 5000) == in_memory);
  const auto other = Shuffled(4, 1000, 5000);
  CHECK(other != in_memory);
  auto sorted = in_memory;
  auto sorted_other = other;
  std::ranges::sort(sorted);
  std::ranges::sort(sorted_other);
  CHECK(sorted == sorted_other);
  CHECK(std::ranges::adjacent_find(sorted.begin() + 100, sorted.end()) == sorted.end());
  // The line that was the first is anywhere.
  double place = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto lines = Shuffled(seed, size_t{1} << 20, 101);
    place += static_cast<double>(std::ranges::find(lines, "line 1") - lines.begin());
  }
  CHECK(place / 100 == doctest::Approx(50).epsilon(0.2));
  CHECK(Shuffled(1, 1000, 0).empty());
}

TEST_CASE("shuffler: a place that cannot be written is named") {
  Shuffler shuffler(1, "/no/such/out", 10);
  CHECK(MessageOf(shuffler.Add("a line of more than ten bytes"))
            .starts_with("/no/such: cannot create a temporary file: "));
}

}  // namespace
}  // namespace dslide::shuffler_test
