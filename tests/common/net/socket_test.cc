// Real sockets between threads. Every wait is a Poller's and has a deadline.
#include "common/net/socket.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "tests/support/results.h"

namespace dslide::socket_test {
namespace {

constexpr char kAnyPort[] = "tcp://127.0.0.1:*";
constexpr int kDeadlineMs = 10000;

// Looks whenever the poller wakes, until `done` or the deadline. Returns whether it was done.
bool PollUntil(Poller& poller, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDeadlineMs);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    poller.Wait(10);
  }
  return true;
}

// The next message; empty if none came before the deadline.
template <typename Socket>
auto ReceiveSoon(Socket& socket) {
  Poller poller;
  poller.Add(socket);
  auto received = socket.Receive();
  (void)PollUntil(poller, [&] {
    if (!received) received = socket.Receive();
    return received.has_value();
  });
  return received;
}

RouterSocket BindAny(NetContext& context) { return Ok(RouterSocket::Bind(context, kAnyPort)); }

DealerSocket Dial(NetContext& context, const std::string& address) {
  return Ok(DealerSocket::Connect(context, address));
}

Bytes Pattern(size_t size, uint8_t first) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(first + i);
  return bytes;
}

// An ipc address that nobody listens on; the file goes with the object.
class IpcAddress {
 public:
  explicit IpcAddress(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("dslide_socket_test_" + name + "_" + std::to_string(getpid()))) {}
  ~IpcAddress() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string address() const { return "ipc://" + path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST_CASE("socket: messages of every size go to a server thread and come back in order") {
  NetContext context;
  std::promise<std::string> address;
  std::thread echo([&] {
    Result<RouterSocket> router = RouterSocket::Bind(context, kAnyPort);
    address.set_value(router.ok() ? router->address() : "");
    while (router.ok()) {
      auto message = ReceiveSoon(*router);
      if (!message || message->bytes.empty()) return;  // the empty one says stop
      if (!router->Send(message->peer, std::move(message->bytes))) return;
    }
  });
  const std::string where = address.get_future().get();
  CHECK(where.starts_with("tcp://127.0.0.1:"));
  CHECK(where.find('*') == std::string::npos);
  {
    DealerSocket dealer = Dial(context, where);
    const size_t sizes[] = {1, 2, 29, 30, 33, 34, 255, 256, 65536, 3 << 20};
    for (const size_t size : sizes) CHECK(dealer.Send(Pattern(size, 7)));
    for (const size_t size : sizes) {
      const auto reply = ReceiveSoon(dealer);
      REQUIRE(reply.has_value());
      CHECK(*reply == Pattern(size, 7));
    }
    CHECK_FALSE(dealer.Receive().has_value());
    CHECK(dealer.Send({}));
    echo.join();
  }
}

TEST_CASE("socket: a router answers the peer that asked") {
  NetContext context;
  RouterSocket router = BindAny(context);
  DealerSocket first = Dial(context, router.address());
  DealerSocket second = Dial(context, router.address());
  REQUIRE(first.Send({1}));
  REQUIRE(second.Send({2}));
  for (int i = 0; i < 2; ++i) {
    const auto message = ReceiveSoon(router);
    REQUIRE(message.has_value());
    const uint8_t from = message->bytes.at(0);
    CHECK(router.Send(message->peer, {static_cast<uint8_t>(from * 10)}));
  }
  CHECK(ReceiveSoon(second) == Bytes{20});
  CHECK(ReceiveSoon(first) == Bytes{10});
}

TEST_CASE("socket: an address in use is an error that names it") {
  NetContext context;
  const RouterSocket router = BindAny(context);
  const std::string message = MessageOf(RouterSocket::Bind(context, router.address()));
  CHECK(message.find(router.address()) != std::string::npos);
  CHECK(message.find("in use") != std::string::npos);
}

TEST_CASE("socket: addresses that make no sense are errors") {
  NetContext context;
  for (const char* address :
       {"", "127.0.0.1:7000", "udp://127.0.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:", "tcp://:1", "tcp://127.0.0.1:7x", "bogus://x"}) {
    CAPTURE(address);
    (void)MessageOf(RouterSocket::Bind(context, address));
    CHECK(MessageOf(DealerSocket::Connect(context, address)).find(address) != std::string::npos);
  }
}

TEST_CASE("socket: the bound address is the one asked for, with a port") {
  NetContext context;
  for (const std::string& host :
       std::vector<std::string>{"tcp://127.0.0.1:", "tcp://*:", "tcp://[::1]:"}) {
    const Result<RouterSocket> router = RouterSocket::Bind(context, host + "*");
    if (!router.ok() && host.find("::1") != std::string::npos) continue;  // a host without IPv6
    REQUIRE(router.ok());
    CHECK(router->address().starts_with(host));
  }
}

TEST_CASE("socket: localhost reaches a peer on 127.0.0.1, a v4 peer one that listens on *") {
  NetContext context;
  for (const char* listen : {"tcp://127.0.0.1:*", "tcp://*:*"}) {
    RouterSocket router = Ok(RouterSocket::Bind(context, listen));
    const std::string port = router.address().substr(router.address().rfind(':'));
    for (const char* host : {"tcp://localhost", "tcp://127.0.0.1"}) {
      DealerSocket dealer = Dial(context, host + port);
      REQUIRE(dealer.Send({3}));
      CHECK(ReceiveSoon(router).has_value());
    }
  }
}

TEST_CASE("socket: sending to a peer that is unknown or has left is reported") {
  NetContext context;
  RouterSocket router = BindAny(context);
  CHECK_FALSE(router.Send("nobody", {1, 2, 3}));
  PeerId peer;
  {
    DealerSocket dealer = Dial(context, router.address());
    REQUIRE(dealer.Send({1}));
    const auto message = ReceiveSoon(router);
    REQUIRE(message.has_value());
    peer = message->peer;
    CHECK(router.Send(peer, {2}));
  }
  Poller poller;
  poller.Add(router);
  CHECK(PollUntil(poller, [&] { return !router.Send(peer, {3}); }));
}

TEST_CASE("socket: a full queue is reported and does not block") {
  const IpcAddress nobody("full");
  NetContext context;
  DealerSocket dealer = Dial(context, nobody.address());
  int sent = 0;
  while (sent <= kSendHighWater && dealer.Send(Bytes(16))) ++sent;
  CHECK(sent == kSendHighWater);
}

TEST_CASE("socket: what is sent before the peer listens arrives when it does") {
  const IpcAddress late("late");
  NetContext context;
  DealerSocket dealer = Dial(context, late.address());
  REQUIRE(dealer.Send({42}));
  RouterSocket router = Ok(RouterSocket::Bind(context, late.address()));
  const auto message = ReceiveSoon(router);
  REQUIRE(message.has_value());
  CHECK(message->bytes == Bytes{42});
}

TEST_CASE("socket: what a process sends just before it ends still arrives") {
  NetContext context;
  RouterSocket router = BindAny(context);
  {
    NetContext ending;
    DealerSocket dealer = Dial(ending, router.address());
    REQUIRE(dealer.Send({9}));
  }
  const auto message = ReceiveSoon(router);
  REQUIRE(message.has_value());
  CHECK(message->bytes == Bytes{9});
}

TEST_CASE("socket: a poller follows sockets that are moved") {
  NetContext context;
  RouterSocket bound = BindAny(context);
  Poller poller;
  poller.Add(bound);
  RouterSocket router = std::move(bound);
  DealerSocket dealer = Dial(context, router.address());
  REQUIRE(dealer.Send({5}));
  std::optional<RouterSocket::Received> message;
  CHECK(PollUntil(poller, [&] { return (message = router.Receive()).has_value(); }));
  CHECK(message->bytes == Bytes{5});
}

TEST_CASE("socket: a poller wakes for a file descriptor beside a socket") {
  NetContext context;
  RouterSocket router = BindAny(context);
  BoundedQueue<int> queue(4);
  Poller poller;
  poller.Add(router);
  poller.AddFd(queue.fd());

  poller.Wait(0);  // nothing there: back at once
  CHECK_FALSE(queue.Pop().has_value());

  std::thread producer([&] { CHECK(queue.Push(17)); });
  const auto start = std::chrono::steady_clock::now();
  poller.Wait(kDeadlineMs);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(kDeadlineMs));
  CHECK(queue.Pop() == 17);
  producer.join();

  poller.Clear();
  CHECK(queue.Push(18));
  poller.Wait(1);  // no source any more: just the time
  CHECK(queue.Pop() == 18);
}

}  // namespace
}  // namespace dslide::socket_test
