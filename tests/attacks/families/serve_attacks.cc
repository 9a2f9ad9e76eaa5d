// `dslide serve` of the run, by clients without a token and by web pages. Each attack asks it as an
// honest client does meanwhile: a request that is lost is a breach.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/base/process.h"
#include "tests/attacks/strike.h"
#include "tests/attacks/tcp.h"

namespace dslide::serve_attacks {
namespace {

constexpr size_t kMostBody = 4 << 20;
constexpr int kAnswerMs = 10'000;
constexpr uint64_t kRounds = 8;  // of an attack for one of an honest client

std::string Request(const std::string& line, const std::string& headers, const std::string& body,
                    size_t length) {
  return fmt::format("{} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{}", line, headers, length, body);
}
std::string Post(const std::string& body, size_t length) {
  return Request("POST /predict", "Host: localhost\r\nConnection: close\r\n", body, length);
}
std::string Post(const std::string& body) { return Post(body, body.size()); }

// An honest client, on a connection of its own each time.
class Honest {
 public:
  explicit Honest(Strike* strike) : strike_(*strike) {}
  ~Honest() {
    std::ranges::sort(took_ms_);
    const auto at = [&](double share) {
      return took_ms_.empty()
                 ? 0
                 : took_ms_[static_cast<size_t>(share * static_cast<double>(took_ms_.size() - 1))];
    };
    strike_.Say(fmt::format("{} honest requests, p50 {} ms, p99 {} ms", took_ms_.size(), at(0.5),
                            at(0.99)));
    if (lost_ > 0) strike_.Breach(fmt::format("{} honest requests are lost", lost_));
  }

  void Ask() {
    Send(Post(R"({"features": {"1": 1}, "k": 1})"), "\"predictions\"");
    Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "ok");
  }

 private:
  void Send(const std::string& request, const std::string& has) {
    const int64_t begun_ms = MonotonicMillis();
    Tcp tcp(strike_.target().serve_port);
    (void)tcp.Send(request, kAnswerMs);
    lost_ += tcp.Receive(65536, kAnswerMs).find(has) == std::string::npos;
    took_ms_.push_back(MonotonicMillis() - begun_ms);
  }

  Strike& strike_;
  std::vector<int64_t> took_ms_;
  int lost_ = 0;
};

// Holds connections open, each with the beginning of a request.
void Hold(Strike& strike, size_t count, const std::string& first, const std::string& flood = "") {
  Honest honest(&strike);
  std::vector<Tcp> held;
  for (uint64_t round = 0; strike.Pace(500); ++round) {
    if (held.size() < count) {
      held.emplace_back(strike.target().serve_port);
      (void)held.back().Send(first, 50);
    }
    if (!flood.empty()) {
      Tcp tcp(strike.target().serve_port);
      (void)tcp.Send(flood, 50);
      (void)tcp.Receive(4096, 50);
    }
    if (round % kRounds == 0) honest.Ask();
  }
  strike.Say(fmt::format("{} connections", held.size()));
}

// Sends a request again and again over two connections, and reads little of the answers.
void Repeat(Strike& strike, const std::string& request) {
  Honest honest(&strike);
  uint64_t sent = 0;
  std::vector<Tcp> open;
  while (strike.Pace(20)) {
    open.emplace_back(strike.target().serve_port);
    (void)open.back().Send(request, 200);
    ++sent;
    honest.Ask();
    if (open.size() > 2) open.clear();
  }
  strike.Say(fmt::format("{} requests", sent));
}

std::string List(size_t count, const std::string& before, const std::string& after) {
  std::string list;
  list.reserve(count * (before.size() + after.size() + 9));
  for (size_t i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(list), "{}\"{}{:06}\"{}", i == 0 ? "" : ",", before, i,
                   after);
  }
  return list;
}

void Bodies(Strike& strike) {
  Hold(strike, 600, Post(std::string(kMostBody - 200, ' '), kMostBody - 100));
}
void Slow(Strike& strike) { Hold(strike, 1100, Post("{", 4000), Post("x", 16 * kMostBody)); }
void Keys(Strike& strike) { Repeat(strike, Post("{" + List(330'000, "k", ":1") + "}")); }
void Names(Strike& strike) {
  Repeat(strike, Post(R"({"features": {"1": 1}, "deny": [)" + List(330'000, "x", "") + "]}"));
}
void Numbers(Strike& strike) {
  std::string body = R"({"vector": [0)";
  for (int i = 1; i < 499'000; ++i) body += ",0.25";
  Repeat(strike, Post(body + "]}"));
}
// As long an answer as there is, which nobody reads.
void Answers(Strike& strike) {
  std::string samples;
  for (int i = 0; i < 500; ++i)
    samples += (i == 0 ? "" : ",") + std::string(R"({"features":{"1":1}})");
  Hold(strike, 300, Post(R"({"k": 200, "samples": [)" + samples + "]}"));
}

// Requests that must have this status.
void Expect(Strike& strike, const std::vector<std::string>& requests, const std::string& status) {
  Honest honest(&strike);
  uint64_t sent = 0;
  while (strike.Pace(100)) {
    const std::string& request = requests[sent++ % requests.size()];
    Tcp tcp(strike.target().serve_port);
    (void)tcp.Send(request, 200);
    const std::string answer = tcp.Receive(4096, kAnswerMs);
    if (!answer.starts_with("HTTP/1.1 " + status)) {
      strike.Breach(fmt::format("{} has the answer {}", request.substr(0, request.find('\r')),
                                answer.substr(0, answer.find('\r'))));
      return;
    }
    honest.Ask();
  }
}

void Pages(Strike& strike) {
  std::vector<std::string> requests;
  for (const char* headers :
       {"Host: other.example\r\n", "Host: other.example\r\nOrigin: http://other.example\r\n",
        "Host: localhost.other.example:80\r\n", "Host: 10.0.0.1\r\n",
        "Host: localhost\r\nOrigin: http://other.example\r\n",
        "Host: localhost\r\nOrigin: null\r\nSec-Fetch-Site: cross-site\r\n"}) {
    const std::string all = std::string(headers) + "Connection: close\r\n";
    requests.push_back(Request("GET /model", all, "", 0));
    requests.push_back(Request("POST /predict", all, R"({"features":{}})", 15));
  }
  Expect(strike, requests, "403");
}
void Nul(Strike& strike) {
  using namespace std::string_literals;
  std::vector<std::string> requests;
  for (const std::string& path : {"/model%00"s, "/model%00.html"s, "/model\0"s, "/model\0x"s,
                                  "/model\0 x"s, "/model?a=%00"s, "/%00"s, "/model\0HTTP/1.1"s}) {
    requests.push_back("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  }
  Expect(strike, requests, "400");
}

}  // namespace

std::vector<Attack> All() {
  const On on = {.serves = true};
  const On longer = {.serves = true, .times = 2};
  return {
      {"serve.bodies", As::kNobody, "600 bodies of 4 MiB less some bytes", Bodies, longer},
      {"serve.slow", As::kNobody, "1,100 slow bodies and a flood of 413", Slow, longer},
      {"serve.keys", As::kNobody, "JSON of 330,000 unknown keys", Keys, longer},
      {"serve.names", As::kNobody, "a deny list of 330,000 names", Names, longer},
      {"serve.numbers", As::kNobody, "a vector of 499,000 numbers", Numbers, on},
      {"serve.answers", As::kNobody, "300 long answers that nobody reads", Answers, on},
      {"serve.pages", As::kNobody, "web pages by other hosts and origins", Pages, on},
      {"serve.nul", As::kNobody, "addresses with NUL bytes", Nul, on},
  };
}

}  // namespace dslide::serve_attacks
