#include "server/core/reply_cache.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace dslide::reply_cache_test {
namespace {

using Seen = ReplyCache::Seen;

std::shared_ptr<const Bytes> Reply(uint8_t byte) {
  return std::make_shared<const Bytes>(Bytes{byte});
}

// A cache whose clock stands still.
struct ReplyCacheAt0 : ReplyCache {
  using ReplyCache::ReplyCache;
  Seen Begin(Incarnation sender, uint64_t sequence, int64_t now_ms = 0) {
    return ReplyCache::Begin(sender, sequence, now_ms);
  }
};

TEST_CASE("a repeated request waits for, then gets the stored reply") {
  ReplyCacheAt0 cache;
  CHECK(cache.Begin({1}, 5) == Seen::kNew);
  CHECK(cache.Begin({1}, 5) == Seen::kInProgress);
  CHECK(cache.Begin({2}, 5) == Seen::kNew);  // another sender's
  cache.Finish({1}, 5, Reply(9));
  CHECK(cache.Begin({1}, 5) == Seen::kAnswered);
  CHECK(*cache.Reply({1}, 5) == Bytes{9});
  CHECK(cache.Begin({2}, 5) == Seen::kInProgress);
}

TEST_CASE("the oldest answered replies are forgotten, and known to be") {
  ReplyCacheAt0 cache;
  for (uint64_t s = 1; s <= ReplyCache::kKept + 10; ++s) {
    CHECK(cache.Begin({1}, s) == Seen::kNew);
    cache.Finish({1}, s, Reply(static_cast<uint8_t>(s)));
  }
  CHECK(cache.Begin({1}, 10) == Seen::kForgotten);
  CHECK(cache.Begin({1}, 11) == Seen::kAnswered);
  CHECK(*cache.Reply({1}, 11) == Bytes{11});
}

TEST_CASE("a request in progress is never forgotten") {
  ReplyCacheAt0 cache;
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
  ReplyCacheAt0 cache;
  CHECK(cache.Begin({1}, 8) == Seen::kNew);
  CHECK(cache.Begin({1}, 3) == Seen::kNew);
  cache.Finish({1}, 3, Reply(3));
  CHECK(cache.Begin({1}, 3) == Seen::kAnswered);
  CHECK(cache.Begin({1}, 8) == Seen::kInProgress);
}

TEST_CASE("a forgotten sender's replies are gone, late results are dropped") {
  ReplyCacheAt0 cache;
  CHECK(cache.Begin({1}, 1) == Seen::kNew);
  cache.Forget({1});
  cache.Finish({1}, 1, Reply(1));
  CHECK(cache.Begin({1}, 1) == Seen::kNew);
}

TEST_CASE("the bytes of all kept replies are known") {
  ReplyCacheAt0 cache;
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

TEST_CASE("a sender has a bounded number of requests in progress") {
  ReplyCacheAt0 cache;
  for (uint64_t s = 1; s <= ReplyCache::kKept; ++s) CHECK(cache.Begin({1}, s) == Seen::kNew);
  CHECK(cache.Begin({1}, 1000) == Seen::kTooMany);
  CHECK(cache.Begin({1}, 3) == Seen::kInProgress);
  CHECK(cache.Begin({2}, 1000) == Seen::kNew);
  cache.Finish({1}, 5, Reply(1));
  CHECK(cache.Begin({1}, 1000) == Seen::kNew);
}

TEST_CASE("beyond the bytes, the greatest holder's oldest replies are forgotten") {
  ReplyCacheAt0 cache(1000);
  const auto answer = [&](Incarnation sender, uint64_t sequence, size_t bytes) {
    REQUIRE(cache.Begin(sender, sequence) == Seen::kNew);
    cache.Finish(sender, sequence, std::make_shared<const Bytes>(Bytes(bytes)));
    CHECK(cache.bytes() <= 1000);
    cache.CheckInvariants();
  };
  answer({1}, 1, 200);
  for (uint64_t s = 1; s <= 100; ++s) answer({2}, s, 300);
  CHECK(cache.Begin({1}, 1) == Seen::kAnswered);
  CHECK(cache.Begin({2}, 100) == Seen::kAnswered);
  CHECK(cache.Begin({2}, 98) == Seen::kForgotten);
  answer({3}, 1, 5000);  // more than all: not kept
  CHECK(cache.Begin({3}, 1) == Seen::kForgotten);
}

TEST_CASE("of too many senders, strangers make room for each other") {
  ReplyCacheAt0 cache;
  const auto answer = [&](Incarnation sender, uint64_t sequence) {
    REQUIRE(cache.Begin(sender, sequence) == Seen::kNew);
    cache.Finish(sender, sequence, Reply(1));
  };
  for (uint64_t s = 1; s <= 10; ++s) answer({1}, s);
  CHECK(cache.Begin({2}, 1) == Seen::kNew);  // in progress
  for (uint64_t i = 0; i < ReplyCache::kSenders + 1000; ++i) {
    answer({100 + i}, 1);
  }
  CHECK(cache.Senders().size() == ReplyCache::kSenders);
  CHECK(cache.Begin({1}, 10) == Seen::kAnswered);
  CHECK(cache.Begin({2}, 1) == Seen::kInProgress);
  CHECK(cache.Begin({100}, 1) == Seen::kNew);  // forgotten, and its request with it
  cache.CheckInvariants();
}

TEST_CASE("silent senders are known") {
  ReplyCache cache;
  CHECK(cache.Begin({1}, 1, 1000) == Seen::kNew);
  CHECK(cache.Begin({2}, 1, 2000) == Seen::kNew);
  CHECK(cache.SilentSince(5000).empty());  // in progress
  cache.Finish({1}, 1, Reply(1));
  cache.Finish({2}, 1, Reply(1));
  CHECK(cache.SilentSince(1500) == std::vector<Incarnation>{{1}});
}

}  // namespace
}  // namespace dslide::reply_cache_test
