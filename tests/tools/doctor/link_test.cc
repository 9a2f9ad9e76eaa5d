// What dslide doctor finds out about the link to a server.
#include "tools/dslide/doctor/link.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "common/net/socket.h"
#include "common/wire/messages.h"
#include "tests/support/results.h"

namespace dslide::link_test {
namespace {

// A server that refuses whatever it is asked, and remembers how much that was.
class RefusingServer {
 public:
  RefusingServer()
      : socket_(*RouterSocket::Bind(context_, "tcp://127.0.0.1:*")),
        address_(socket_.address()),
        thread_([this] { Serve(); }) {}
  ~RefusingServer() {
    stop_ = true;
    thread_.join();
  }
  const std::string& address() const { return address_; }
  uint64_t received_bytes() const { return bytes_; }
  uint64_t longest() const { return longest_; }

 private:
  void Serve() {
    Poller poller;
    poller.Add(socket_);
    while (!stop_) {
      poller.Wait(5);
      while (const auto received = socket_.Receive()) {
        bytes_ += received->bytes.size();
        longest_ = std::max<uint64_t>(longest_, received->bytes.size());
        const Result<Message> request = Decode(received->bytes);
        if (!request.ok()) continue;
        const Envelope envelope{{77}, {1}, ++sequence_, request->envelope.sequence, 0};
        (void)socket_.Send(received->peer,
                           Encode({envelope, ErrorReply{ErrorCode::kWrongRun, "not in that run"}},
                                  WirePrecision::kFp32));
      }
    }
  }

  NetContext context_;
  RouterSocket socket_;
  std::string address_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> longest_ = 0;
  uint64_t sequence_ = 0;
  std::thread thread_;
};

TEST_CASE("doctor: a link is measured by about 1 MiB at most") {
  RefusingServer server;
  const LinkFacts link = Ok(MeasureLink({server.address(), {}}, server.address(), {}));
  CHECK(link.delay_ms > 0);
  CHECK(link.bits_per_second > 0);
  CHECK(server.longest() <= StatusRequest::kMaxPadding + 200);
  CHECK(server.received_bytes() < StatusRequest::kMaxPadding + (size_t{70} << 10));
}

TEST_CASE("doctor: the speed of a link is that of the longer message") {
  // 125,000 bytes more take 100 ms more: 10 Mbit/s.
  const LinkFacts link = LinkOf(20'000, 100, 120'000, 125'100);
  CHECK(link.delay_ms == 20);
  CHECK(link.bits_per_second == doctest::Approx(1e7));
  CHECK(LinkOf(100, 100, 90, 1100).bits_per_second == doctest::Approx(8e9));  // never negative
}

TEST_CASE("doctor: slow links are named, with their mend") {
  const auto found = [](const LinkFacts& link) {
    Findings findings;
    JudgeLink("s1", link, &findings);
    REQUIRE(findings.all().size() == 1);
    return findings.all().front();
  };
  CHECK(found({0.25, 2.5e9}).what == "delay 0.25 ms, 2.5 Gbit/s to it");
  CHECK(found({0.25, 2.5e9}).level == Finding::Level::kFine);
  CHECK(found({400, 1e8}).level == Finding::Level::kNote);
  const Finding slow = found({20, 5e6});
  CHECK(slow.level == Finding::Level::kNote);
  CHECK(slow.check == "s1: link");
  CHECK(slow.what == "delay 20 ms, 5 Mbit/s to it");
  CHECK(slow.mend.find("Slow links") != std::string::npos);
}

}  // namespace
}  // namespace dslide::link_test
