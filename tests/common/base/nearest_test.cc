#include "common/base/nearest.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace dslide {

TEST_CASE("nearest: distances by hand") {
  CHECK(EditDistance("", "") == 0);
  CHECK(EditDistance("", "abc") == 3);
  CHECK(EditDistance("abc", "") == 3);
  CHECK(EditDistance("kitten", "sitting") == 3);
  CHECK(EditDistance("flaw", "lawn") == 2);
  const std::vector<std::string> known = {"train", "evaluate", "predict"};
  CHECK(*Nearest("trian", known) == "train");
  CHECK(*Nearest("evalaute", known) == "evaluate");
  CHECK(Nearest("xyz", known) == nullptr);
  CHECK(Nearest("", known) == nullptr);
}

TEST_CASE("nearest: a long word is not cut within a character") {
  CHECK(Printable("") == "(empty)");
  CHECK(Printable("a\tb") == "a?b");
  const std::string key(43, 'k');
  CHECK(Printable("dslide://h:77/" + key + "/" + key) == "dslide://...");
  CHECK(Printable("see dslide://h:77/" + key) == "see dslide://...");
  CHECK(Printable(key) == "(a key)");
  CHECK(Printable(std::string(99, 'a') + "ü") == std::string(99, 'a') + "...");
}

}  // namespace dslide
