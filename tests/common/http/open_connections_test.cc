#include "common/http/open_connections.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>

namespace dslide::open_connections_test {
namespace {

// A connection whose other end hears whether it was closed.
struct Pair {
  Pair() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
  Pair(const Pair&) = delete;
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  bool Closed() const {
    char byte = 0;
    return recv(ends[1], &byte, 1, MSG_DONTWAIT) == 0;
  }
  int ends[2];
};

struct Setup {
  explicit Setup(size_t connections) : open({connections, 10, 60}) {}
  Pair& Add(int64_t now_ms) {
    Pair& pair = pairs.emplace_back();
    open.Add(&pair, pair.ends[0], now_ms);
    return pair;
  }
  std::deque<Pair> pairs;
  OpenConnections open;
};

TEST_CASE("open connections: headers and the rest of a request have their times") {
  Setup run(10);
  Pair& silent = run.Add(0);
  Pair& asking = run.Add(0);
  Pair& kept = run.Add(0);
  run.open.OnHeaders(&asking, 5000);
  run.open.OnHeaders(&kept, 5000);
  run.open.OnResponse(&kept);
  run.open.OnEnd(&kept, 6000);
  run.open.CloseLate(10'000);
  CHECK_FALSE(silent.Closed());
  run.open.CloseLate(10'001);
  CHECK(silent.Closed());
  CHECK_FALSE(kept.Closed());
  run.open.CloseLate(16'001);
  CHECK(kept.Closed());
  run.open.OnResponse(&asking);  // the time goes on
  run.open.CloseLate(65'000);
  CHECK_FALSE(asking.Closed());
  run.open.CloseLate(65'001);
  CHECK(asking.Closed());
}

TEST_CASE("open connections: who has waited longest without a request loses its place") {
  Setup run(3);
  Pair& asking = run.Add(0);
  run.open.OnHeaders(&asking, 0);
  run.open.OnComplete(&asking);
  Pair& first = run.Add(1);
  Pair& second = run.Add(2);
  Pair& third = run.Add(3);
  CHECK(first.Closed());
  CHECK_FALSE(second.Closed());
  run.open.Remove(&first);
  run.Add(4);
  CHECK(second.Closed());
  CHECK_FALSE(third.Closed());
  CHECK_FALSE(asking.Closed());
}

TEST_CASE("open connections: a client that is slow with its body loses its place first") {
  constexpr int64_t kRate = OpenConnections::kExpectedBytesPerMs;
  Setup run(4);
  Pair& answered = run.Add(0);
  run.open.OnHeaders(&answered, 0);
  run.open.OnComplete(&answered);
  Pair& fast = run.Add(0);
  run.open.OnHeaders(&fast, 0);
  Pair& slow = run.Add(500);
  run.open.OnHeaders(&slow, 600);
  run.open.OnBody(&slow, kRate, 1000);
  Pair& asking = run.Add(650);
  run.open.OnBody(&fast, 1000 * kRate, 1000);
  run.Add(1001);
  CHECK(slow.Closed());
  CHECK_FALSE(asking.Closed());
  run.open.Remove(&slow);
  run.Add(1002);
  CHECK(asking.Closed());
  CHECK_FALSE(fast.Closed());
  CHECK_FALSE(answered.Closed());
}

TEST_CASE("open connections: a client that was fast and has stopped waits since then, at most") {
  Setup run(2);
  Pair& burst = run.Add(0);
  run.open.OnHeaders(&burst, 0);
  run.open.OnBody(&burst, 100'000'000, 10);
  Pair& asking = run.Add(20);
  run.Add(30);
  CHECK(burst.Closed());
  CHECK_FALSE(asking.Closed());
}

TEST_CASE("open connections: of those that wait as long the first to come is closed") {
  Setup run(4);
  for (int i = 0; i < 4; ++i) run.Add(0);
  // Its headers came after all others.
  run.open.OnHeaders(&run.pairs[0], 5);
  run.Add(5);
  CHECK(run.pairs[0].Closed());
  run.Add(5);
  CHECK(run.pairs[1].Closed());
  CHECK_FALSE(run.pairs[2].Closed());
}

TEST_CASE("open connections: a kept connection waits for a body since its headers came") {
  Setup run(2);
  Pair& kept = run.Add(0);
  run.open.OnHeaders(&kept, 0);
  run.open.OnComplete(&kept);
  run.open.OnResponse(&kept);
  run.open.OnEnd(&kept, 1);
  Pair& slow = run.Add(2);
  run.open.OnHeaders(&kept, 3);
  run.Add(4);
  CHECK(slow.Closed());
  CHECK_FALSE(kept.Closed());
}

TEST_CASE("open connections: one may be closed by itself") {
  Setup run(3);
  Pair& one = run.Add(0);
  Pair& other = run.Add(0);
  run.open.Close(&one);
  run.open.Close(&run);  // no connection of these
  CHECK(one.Closed());
  CHECK_FALSE(other.Closed());
}

TEST_CASE("open connections: readers of responses leave a place too") {
  Setup run(3);
  for (int i = 0; i < 4; ++i) {
    Pair& reader = run.Add(i);
    run.open.OnHeaders(&reader, i);
    run.open.OnResponse(&reader);
  }
  CHECK_FALSE(run.pairs[0].Closed());
  run.Add(5);
  CHECK(run.pairs[0].Closed());
  CHECK_FALSE(run.pairs[1].Closed());
}

}  // namespace
}  // namespace dslide::open_connections_test
