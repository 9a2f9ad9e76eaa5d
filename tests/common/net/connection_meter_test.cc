// What strangers may cost a RouterSocket: a TCP client that speaks ZMTP by hand sends messages that
// do not end, messages that nobody takes, and opens connections.
#include "common/net/connection_meter.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "common/base/process.h"
#include "common/net/socket.h"

namespace dslide::connection_meter_test {
namespace {

constexpr char kAnyPort[] = "tcp://127.0.0.1:*";
constexpr int kDeadlineMs = 20000;
constexpr size_t kMiB = size_t{1} << 20;

bool WaitUntil(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDeadlineMs);
  Poller nothing;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    nothing.Wait(5);
  }
  return true;
}

// A DEALER as bytes (RFC 23, RFC 26's NULL mechanism).
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    timeval timeout{kDeadlineMs / 1000, 0};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  }
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer() {
    if (fd_ >= 0) close(fd_);
  }

  bool Send(const Bytes& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  Bytes Receive(size_t size) const {
    Bytes bytes(size);
    REQUIRE(recv(fd_, bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size));
    return bytes;
  }
  void ShakeHands() const {
    Bytes greeting(64);
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    const std::string null = "NULL";
    std::copy(null.begin(), null.end(), greeting.begin() + 12);
    const std::string ready(
        "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06"
        "DEALER",
        30);
    REQUIRE(Send(greeting));
    REQUIRE(Send(Bytes(ready.begin(), ready.end())));
    // A frame before the other side's READY is a breach of the protocol.
    (void)Receive(64);
    (void)Receive(Receive(2).at(1));
  }
  // False: the connection was closed, or nothing was taken for long.
  bool SendFrame(size_t size, bool more) const {
    Bytes frame(9 + size);
    frame[0] = static_cast<uint8_t>(more ? 3 : 2);
    for (int i = 0; i < 8; ++i) frame[8 - i] = static_cast<uint8_t>(uint64_t{size} >> 8 * i);
    return Send(frame);
  }
  bool IsClosed() const {
    char byte;
    while (true) {
      const ssize_t n = recv(fd_, &byte, 1, MSG_DONTWAIT);
      if (n == 0) return true;
      if (n < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    }
  }

 private:
  int fd_;
};

struct Fixture {
  NetContext context;
  RouterLimits limits{4 * kMiB, 16 * kMiB, 40 * kMiB, 20};
  RouterSocket router = *RouterSocket::Bind(context, kAnyPort, std::nullopt, limits);

  RawPeer Dial() const {
    RawPeer peer(router.address());
    peer.ShakeHands();
    return peer;
  }
  // It brings a message, so that it is no stranger.
  void Introduce(const RawPeer& peer) {
    REQUIRE(peer.SendFrame(1, false));
    REQUIRE(WaitUntil([&] { return router.Receive().has_value(); }));
  }
  // An honest peer's message arrives.
  bool Serves() {
    DealerSocket dealer = *DealerSocket::Connect(context, router.address());
    REQUIRE(dealer.Send({7}));
    return WaitUntil([&] {
      while (auto message = router.Receive()) {
        if (message->bytes == Bytes{7}) return true;
      }
      return false;
    });
  }
  uint64_t Closed() { return closed += context.TakeClosings().count; }
  uint64_t closed = 0;
};

TEST_CASE_FIXTURE(Fixture, "meter: a message that does not end is cut off") {
  const RawPeer peer = Dial();
  size_t sent = 0;
  while (sent < 4096 && peer.SendFrame(kMiB, true)) {
    ++sent;
    CHECK_FALSE(router.Receive());
  }
  MESSAGE("frames of 1 MiB that were taken: ", sent);
  CHECK(sent > 8);
  CHECK(sent < 4096);
  CHECK(WaitUntil([&] { return Closed() == 1; }));
  CHECK(Serves());
}

TEST_CASE_FIXTURE(Fixture, "meter: who has brought no message may have less waiting") {
  const RawPeer stranger = Dial(), member = Dial();
  Introduce(member);
  for (int n = 0; n < 12; ++n) {
    (void)stranger.SendFrame(kMiB, true);
    CHECK(member.SendFrame(kMiB, true));
  }
  CHECK(WaitUntil([&] { return stranger.IsClosed(); }));
  CHECK_FALSE(member.IsClosed());
  CHECK(Closed() == 1);
}

TEST_CASE_FIXTURE(Fixture, "meter: messages that nobody takes are bounded in bytes") {
  const RawPeer peer = Dial();
  size_t sent = 0;
  while (sent < 2000 && peer.SendFrame(2 * kMiB, false)) ++sent;
  CHECK(sent < 2000);
  CHECK(WaitUntil([&] { return Closed() == 1; }));
  CHECK(Serves());  // behind the whole messages
}

TEST_CASE_FIXTURE(Fixture, "meter: messages that are taken may be any number") {
  const RawPeer peer = Dial();
  size_t taken = 0;
  for (int n = 0; n < 200; ++n) {
    REQUIRE(peer.SendFrame(kMiB, false));
    CHECK(WaitUntil([&] {
      const auto message = router.Receive();
      taken += message ? 1 : 0;
      return message.has_value();
    }));
  }
  CHECK(taken == 200);
  CHECK(Closed() == 0);
  CHECK_FALSE(peer.IsClosed());
}

TEST_CASE_FIXTURE(Fixture, "meter: of many that hold a little too much the greatest goes") {
  std::vector<RawPeer> peers;
  for (int n = 0; n < 4; ++n) {
    peers.push_back(Dial());
    Introduce(peers.back());
    for (int frames = 0; frames < (n == 2 ? 13 : 10); ++frames) {
      (void)peers.back().SendFrame(kMiB, true);
    }
  }
  CHECK(WaitUntil([&] { return Closed() >= 1; }));
  CHECK(WaitUntil([&] { return peers[2].IsClosed(); }));
  CHECK(Serves());
}

TEST_CASE_FIXTURE(Fixture, "meter: connections without end do not use up the descriptors") {
  DealerSocket honest = *DealerSocket::Connect(context, router.address());
  REQUIRE(honest.Send({1}));
  CHECK(WaitUntil([&] { return router.Receive().has_value(); }));
  std::vector<RawPeer> peers;
  for (int n = 0; n < 200; ++n) peers.emplace_back(router.address());  // no word of them
  CHECK(WaitUntil([&] { return Closed() >= 181; }));
  // The one that has brought something stays.
  REQUIRE(honest.Send({2}));
  CHECK(WaitUntil([&] { return router.Receive().has_value(); }));
}

TEST_CASE_FIXTURE(Fixture, "meter: a peer that takes no replies has a bounded queue") {
  const RawPeer peer = Dial();
  REQUIRE(peer.SendFrame(1, false));
  std::optional<RouterSocket::Received> request;
  REQUIRE(WaitUntil([&] { return (request = router.Receive()).has_value(); }));
  int sent = 0;
  while (sent < 900 && router.Send(request->peer, Bytes(kMiB))) ++sent;
  CHECK(sent >= 16);
  CHECK(sent < 40);  // with what the kernel has taken
}

TEST_CASE("meter: bytes on the wire") {
  CHECK(BytesOnWire(255, false) == 257);
  CHECK(BytesOnWire(256, false) == 265);
  CHECK(BytesOnWire(222, true) == 257);
  CHECK(BytesOnWire(223, true) == 265);
}

}  // namespace
}  // namespace dslide::connection_meter_test
