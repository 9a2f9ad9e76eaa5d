// Who gets through an encrypted connection: real sockets and handshakes in one thread. Every wait
// is a Poller's and has a deadline.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>

#include "common/net/socket.h"

namespace dslide::curve_test {
namespace {

constexpr char kAnyPort[] = "tcp://127.0.0.1:*";
constexpr int kDeadlineMs = 20'000;
constexpr int64_t kBrokenMs = 1000;  // a key that is not let in is refused before

struct Fixture {
  AccessListHolder access;
  NetContext context{&access};
  KeyPair own = DrawKeyPair();
  RouterSocket router = *RouterSocket::Bind(context, kAnyPort, own);
  NetContext of_peers;

  void LetIn(const std::vector<KeyPair>& peers) {
    AccessList list;
    for (const KeyPair& peer : peers) {
      list.keys.push_back({TextOf(peer.public_key), KeyRole::kWorker});
    }
    access.Set(list);
  }
  DealerSocket Dial(const std::optional<KeyPair>& keys, const PublicKey& expected) {
    return *DealerSocket::Connect(of_peers, router.address(),
                                  keys ? std::optional(CurvePeer{*keys, expected}) : std::nullopt);
  }
  // Looks at both ends until `done` or the deadline. Returns whether it was done.
  bool Until(DealerSocket& dealer, const std::function<bool()>& done) {
    Poller poller;
    poller.Add(router);
    poller.Add(dealer);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDeadlineMs);
    while (!done()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      poller.Wait(10);
    }
    return true;
  }
  // The refusal that the dealer hears of, or that connections break again and again. Nothing
  // arrives at the router before.
  HandshakeFailure FailureOf(DealerSocket& dealer) {
    std::optional<HandshakeFailure> failure;
    CHECK(Until(dealer, [&] {
      CHECK_FALSE(router.Receive().has_value());
      if (const auto next = dealer.TakeFailure()) failure = next;
      return failure && (failure->refused || failure->for_ms > kBrokenMs);
    }));
    return failure.value_or(HandshakeFailure());
  }
};

TEST_CASE_FIXTURE(Fixture, "curve: a key on the list gets through, and every message names it") {
  const KeyPair alice = DrawKeyPair(), bob = DrawKeyPair();
  LetIn({alice, bob});
  DealerSocket from_alice = Dial(alice, own.public_key), from_bob = Dial(bob, own.public_key);
  for (uint8_t round = 0; round < 3; ++round) {
    for (auto* peer : {&from_alice, &from_bob}) {
      REQUIRE(peer->Send({round}));
      std::optional<RouterSocket::Received> received;
      REQUIRE(Until(*peer, [&] { return (received = router.Receive()).has_value(); }));
      CHECK(received->bytes == Bytes{round});
      CHECK(received->key == (peer == &from_alice ? alice : bob).public_key);
      CHECK(router.Send(received->peer, {9}));
      std::optional<Bytes> answer;
      CHECK(Until(*peer, [&] { return (answer = peer->Receive()).has_value(); }));
    }
  }
  CHECK(context.TakeRefusals().count == 0);
}

TEST_CASE_FIXTURE(Fixture, "curve: who knows the public key but is not on the list stays out") {
  const KeyPair alice = DrawKeyPair(), eve = DrawKeyPair();
  LetIn({alice});
  DealerSocket dealer = Dial(eve, own.public_key);
  REQUIRE(dealer.Send({1}));
  CHECK(FailureOf(dealer).refused);
  const Refusals refusals = context.TakeRefusals();
  CHECK(refusals.count >= 1);
  CHECK(refusals.last_key == eve.public_key);
  CHECK(context.TakeRefusals().count == 0);

  // Once it is on the list the same socket gets through. What was sent before may be lost.
  LetIn({alice, eve});
  std::optional<RouterSocket::Received> received;
  CHECK(Until(dealer, [&] {
    (void)dealer.TakeFailure();
    (void)dealer.Send({2});
    return (received = router.Receive()).has_value();
  }));
  CHECK(received->key == eve.public_key);
}

TEST_CASE_FIXTURE(Fixture, "curve: an empty list lets nobody in") {
  DealerSocket dealer = Dial(DrawKeyPair(), own.public_key);
  REQUIRE(dealer.Send({1}));
  CHECK(FailureOf(dealer).refused);
}

TEST_CASE_FIXTURE(Fixture, "curve: without a key, or with one where none is wanted") {
  LetIn({});
  DealerSocket plain = Dial(std::nullopt, {});
  REQUIRE(plain.Send({1}));
  CHECK_FALSE(FailureOf(plain).refused);

  router = *RouterSocket::Bind(context, kAnyPort);
  DealerSocket keyed = Dial(DrawKeyPair(), own.public_key);
  REQUIRE(keyed.Send({1}));
  CHECK_FALSE(FailureOf(keyed).refused);
  DealerSocket open = Dial(std::nullopt, {});
  REQUIRE(open.Send({2}));
  std::optional<RouterSocket::Received> received;
  CHECK(Until(open, [&] { return (received = router.Receive()).has_value(); }));
  CHECK_FALSE(received->key.has_value());
}

TEST_CASE_FIXTURE(Fixture, "curve: nothing is said to a peer that does not hold the expected key") {
  const KeyPair alice = DrawKeyPair();
  LetIn({alice});
  DealerSocket dealer = Dial(alice, DrawKeyPair().public_key);
  REQUIRE(dealer.Send({1}));
  CHECK_FALSE(FailureOf(dealer).refused);
}

}  // namespace
}  // namespace dslide::curve_test
