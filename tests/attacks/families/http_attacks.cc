// The scheduler's status page, by clients that are no browsers.
#include <fmt/core.h>
#include <signal.h>

#include <vector>

#include "common/base/process.h"
#include "tests/attacks/strike.h"
#include "tests/attacks/tcp.h"

namespace dslide::http_attacks {
namespace {

constexpr char kGet[] = "GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n";

Tcp Dial(const Strike& strike) { return Tcp(strike.target().status_port); }

// Sends a request in a loop, each on a connection of its own.
void Repeat(Strike& strike, double per_second, const std::vector<std::string>& requests) {
  uint64_t sent = 0, answered = 0;
  std::string first;
  while (strike.Pace(per_second)) {
    Tcp tcp = Dial(strike);
    (void)tcp.Send(requests[sent++ % requests.size()], 50);
    const std::string answer = tcp.Receive(200, 100);
    answered += !answer.empty();
    if (first.empty()) first = answer.substr(0, answer.find('\r'));
  }
  strike.Say(fmt::format("{} requests, {} answered: {}", sent, answered, first));
}

void Fast(Strike& strike) { Repeat(strike, 1500, {kGet}); }
void Announced(Strike& strike) {
  Repeat(strike, 100,
         {"POST /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1610612736\r\n\r\nabc"});
}
void Paths(Strike& strike) {
  std::vector<std::string> requests;
  for (const char* path :
       {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/\\..\\",
        "/api/status%00.html", "/%", "*", "http://eve/", "/?a=%ff&b"}) {
    requests.push_back(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path));
  }
  uint64_t sent = 0;
  while (strike.Pace(300)) {
    Tcp tcp = Dial(strike);
    (void)tcp.Send(requests[sent++ % requests.size()], 50);
    if (tcp.Receive(4000, 100).find("root:") != std::string::npos) strike.Breach("/etc/passwd");
  }
  strike.Say(fmt::format("{} requests", sent));
}
void Pipelines(Strike& strike) {
  std::string many;
  for (int i = 0; i < 500; ++i) many += kGet;
  Repeat(strike, 60, {many});
}

// A body of 1.5 GB, as far as it is taken.
void SentBody(Strike& strike) {
  const std::string chunk(1 << 20, 'e');
  uint64_t sent = 0;
  while (strike.Goes()) {
    Tcp tcp = Dial(strike);
    (void)tcp.Send(
        "POST /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1610612736\r\n\r\n");
    for (int i = 0; i < 1536 && strike.Pace(300); ++i) {
      const long n = tcp.Send(chunk, 100);
      if (n <= 0) break;
      sent += static_cast<uint64_t>(n);
    }
    strike.Rest(50);
  }
  strike.Say(fmt::format("{} MB sent", sent >> 20));
}

// 64 KB of gzip that unpack to 64 MB of zeros, as far as anybody unpacks them: the blocks repeat.
void Gzip(Strike& strike) {
  std::string body("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  body += std::string("\xec\xc1\x01\x0d\0\0\0\xc2\xa0\xf7\x4f\x6d\x0e\x37\xa0", 15);
  body.resize(65536, '\0');
  Repeat(strike, 100,
         {fmt::format("POST /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
                      "Content-Length: {}\r\n\r\n",
                      body.size()) +
          body});
}

// Holds connections open, each with a byte now and then.
size_t Hold(Strike& strike, size_t count, const std::string& first, bool trickle) {
  std::vector<Tcp> held;
  while (held.size() < count && strike.Goes()) {
    Tcp tcp(strike.target().status_port, false);
    if (!tcp.open()) break;
    held.push_back(std::move(tcp));
    if (held.size() % 50 == 0) strike.Rest(10);
  }
  for (Tcp& tcp : held) (void)tcp.Send(first, 1);
  while (strike.Goes()) {
    if (trickle) {
      for (Tcp& tcp : held) (void)tcp.Send("X", 1);
    }
    strike.Rest(200);
  }
  return held.size();
}
void Slowloris(Strike& strike) {
  strike.Say(fmt::format("{} connections", Hold(strike, 300, "GET / HTTP/1.1\r\nX-A: ", true)));
}

// Clients that ask and read nothing, while the run is told to stop: the trial's end shows whether
// it does.
void SlowReaders(Strike& strike) {
  std::string many;
  for (int i = 0; i < 50; ++i) many += "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  strike.Say(fmt::format("{} connections", Hold(strike, 60, many, false)));
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"http.fast", As::kNobody, "1,500 requests a second", Fast},
      {"http.announced", As::kNobody, "POST with a body of 1.5 GB announced", Announced,
       on::kQuick},
      {"http.sent", As::kNobody, "POST with a body of 1.5 GB sent", SentBody},
      {"http.gzip", As::kNobody, "POST of a gzip bomb", Gzip},
      {"http.paths", As::kNobody, "path traversal and strange paths", Paths},
      {"http.pipelines", As::kNobody, "500 requests at once on a connection", Pipelines},
      {"http.slowloris", As::kNobody, "300 connections with five bytes of a header a second",
       Slowloris},
      {"http.slow-readers",
       As::kNobody,
       "60 clients that read no answer, then SIGTERM",
       SlowReaders,
       {.alone = true, .stays = true}},
  };
}

}  // namespace dslide::http_attacks
