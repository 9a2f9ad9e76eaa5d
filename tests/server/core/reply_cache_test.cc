#include "server/core/reply_cache.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace dslide::reply_cache_test {
namespace {

using Seen = ReplyCache::Seen;

std::shared_ptr<const Bytes> Reply(uint8_t byte) {
  return std::make_shared<const Bytes>(Bytes{byte});
}

TEST_CASE("a repeated request waits for, then gets the stored reply") {
  ReplyCache cache;
  CHECK(cache.Begin({1}, 5) == Seen::kNew);
  CHECK(cache.Begin({1}, 5) == Seen::kInProgress);
  CHECK(cache.Begin({2}, 5) == Seen::kNew);  // another sender's
  cache.Finish({1}, 5, Reply(9));
  CHECK(cache.Begin({1}, 5) == Seen::kAnswered);
  CHECK(*cache.Reply({1}, 5) == Bytes{9});
  CHECK(cache.Begin({2}, 5) == Seen::kInProgress);
}

TEST_CASE("the oldest answered replies are forgotten, and known to be") {
  ReplyCache cache;
  for (uint64_t s = 1; s <= ReplyCache::kKept + 10; ++s) {
    CHECK(cache.Begin({1}, s) == Seen::kNew);
    cache.Finish({1}, s, Reply(static_cast<uint8_t>(s)));
  }
  CHECK(cache.Begin({1}, 10) == Seen::kForgotten);
  CHECK(cache.Begin({1}, 11) == Seen::kAnswered);
  CHECK(*cache.Reply({1}, 11) == Bytes{11});
}

TEST_CASE("a request in progress is never forgotten") {
  ReplyCache cache;
  CHECK(cache.Begin({1}, 1) == Seen::kNew);
  for (uint64_t s = 2; s <= ReplyCache::kKept + 50; ++s) {
    CHECK(cache.Begin({1}, s) == Seen::kNew);
    cache.Finish({1}, s, Reply(1));
  }
  CHECK(cache.Begin({1}, 1) == Seen::kInProgress);
  cache.Finish({1}, 1, Reply(7));
  CHECK(*cache.Reply({1}, 1) == Bytes{7});
}

TEST_CASE("requests may come out of order") {
  ReplyCache cache;
  CHECK(cache.Begin({1}, 8) == Seen::kNew);
  CHECK(cache.Begin({1}, 3) == Seen::kNew);
  cache.Finish({1}, 3, Reply(3));
  CHECK(cache.Begin({1}, 3) == Seen::kAnswered);
  CHECK(cache.Begin({1}, 8) == Seen::kInProgress);
}

TEST_CASE("a forgotten sender's replies are gone, late results are dropped") {
  ReplyCache cache;
  CHECK(cache.Begin({1}, 1) == Seen::kNew);
  cache.Forget({1});
  cache.Finish({1}, 1, Reply(1));
  CHECK(cache.Begin({1}, 1) == Seen::kNew);
}

TEST_CASE("the bytes of all kept replies are known") {
  ReplyCache cache;
  for (uint64_t s = 1; s <= ReplyCache::kKept + 10; ++s) {
    (void)cache.Begin({1}, s);
    CHECK(cache.bytes() == std::min<uint64_t>(s - 1, ReplyCache::kKept - 1));
    cache.Finish({1}, s, Reply(1));
  }
  (void)cache.Begin({2}, 1);
  cache.Finish({2}, 1, std::make_shared<const Bytes>(Bytes(50)));
  CHECK(cache.bytes() == ReplyCache::kKept + 50);
  cache.Forget({1});
  CHECK(cache.bytes() == 50);
  cache.Forget({2});
  CHECK(cache.bytes() == 0);
}

}  // namespace
}  // namespace dslide::reply_cache_test
