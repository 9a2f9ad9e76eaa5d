// Connections that speak no ZeroMQ, half of it, or too much of it: nobody needs a key for these.
#include <fmt/core.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/process.h"
#include "tests/attacks/strike.h"
#include "tests/attacks/tcp.h"

namespace dslide::connection_attacks {
namespace {

// ZMTP 3.1 (RFC 37): signature, version, mechanism, as-server, filler.
std::string Greeting(const std::string& mechanism, char minor = 1) {
  std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03", 11);
  greeting += minor;
  greeting += mechanism;
  greeting.resize(12 + 20, '\0');
  greeting.resize(64, '\0');
  return greeting;
}

std::string Mechanism(const Strike& strike) { return strike.target().encrypted ? "CURVE" : "NULL"; }

// Long frames have 8 bytes of length.
std::string LongFrame(char flags, uint64_t size) {
  std::string head(1, flags);
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(size >> shift);
  return head;
}

// The NULL mechanism's command.
std::string ReadyCommand() {
  const std::string body = std::string("\x05READY\x0bSocket-Type", 18) +
                           std::string("\0\0\0\x06", 4) + "DEALER" +
                           std::string("\x08Identity", 9) + std::string("\0\0\0\0", 4);
  return std::string("\x04", 1) + static_cast<char>(body.size()) + body;
}

std::vector<int> Ports(const Strike& strike) {
  std::vector<int> ports = {PortOf(strike.target().scheduler)};
  for (const PlanServer& server : strike.target().servers) ports.push_back(PortOf(server.address));
  return ports;
}

// Opens `count` connections, gives each `first`, and holds them.
void Hold(Strike& strike, size_t count, const std::string& first) {
  std::vector<Tcp> held;
  const std::vector<int> ports = Ports(strike);
  size_t failed = 0;
  while (held.size() < count && strike.Goes()) {
    Tcp tcp(ports[held.size() % ports.size()]);
    if (!tcp.open()) {
      if (++failed > 50) break;
      strike.Rest(10);
      continue;
    }
    if (!first.empty()) (void)tcp.Send(first, 20);
    held.push_back(std::move(tcp));
  }
  while (strike.Goes()) strike.Rest(100);
  strike.Say(fmt::format("{} connections held", held.size()));
}

void Silent(Strike& strike) { Hold(strike, 1000, ""); }
void AsManyAsGo(Strike& strike) { Hold(strike, 15000, ""); }
void HalfGreetings(Strike& strike) { Hold(strike, 1000, Greeting("CURVE").substr(0, 11)); }
void Greetings(Strike& strike) { Hold(strike, 1000, Greeting(Mechanism(strike))); }

// A byte a tick, on many connections.
void SlowHandshakes(Strike& strike) {
  std::vector<Tcp> held;
  const std::vector<int> ports = Ports(strike);
  for (size_t i = 0; i < 300; ++i) held.emplace_back(ports[i % ports.size()]);
  const std::string greeting = Greeting(Mechanism(strike));
  size_t at = 0;
  for (; strike.Goes(); ++at) {
    for (Tcp& tcp : held) (void)tcp.Send(greeting.substr(at % greeting.size(), 1), 1);
    strike.Rest(100);
  }
  strike.Say(fmt::format("300 connections, {} bytes each", at));
}

// Opens connections one after another, says on each what `says` gives for its number, and closes
// it.
void Dial(Strike& strike, double per_second,
          const std::function<std::string(uint64_t number)>& says) {
  uint64_t made = 0;
  const std::vector<int> ports = Ports(strike);
  while (strike.Pace(per_second)) {
    Tcp tcp(ports[made % ports.size()]);
    if (const std::string bytes = says(made++); !bytes.empty()) (void)tcp.Send(bytes, 20);
  }
  strike.Say(fmt::format("{} connections", made));
}
void WrongMechanism(Strike& strike) {
  const char* const mechanisms[] = {"NULL", "PLAIN", "CURVE", "GSSAPI", "\xff\xff", ""};
  Dial(strike, 300, [&](uint64_t number) {
    return Greeting(mechanisms[number % std::size(mechanisms)]) + ReadyCommand();
  });
}

void Garbage(Strike& strike) {
  Dial(strike, 300, [&](uint64_t number) -> std::string {
    if (number % 5 == 0) return "GET / HTTP/1.1\r\nHost: eve\r\n\r\n";
    std::string bytes = number % 2 == 0 ? Greeting(Mechanism(strike)) : "";
    for (size_t i = 0; i < 600; ++i) bytes += static_cast<char>(strike.random().Next());
    return bytes;
  });
}

// HELLO commands of CURVE (RFC 26): 200 bytes each, of which a server computes with 80 in vain.
void Hellos(Strike& strike) {
  std::string hello = std::string("\x04\xc8\x05HELLO\x01\0", 10);
  while (hello.size() < 202) hello += static_cast<char>(strike.random().Next());
  Dial(strike, 500, [&](uint64_t) { return Greeting("CURVE") + hello; });
}

// Announces the longest frame that is allowed, and one above, and sends `bytes` of it.
void Announce(Strike& strike, const std::string& before, uint64_t size, size_t count,
              size_t bytes) {
  std::vector<Tcp> held;
  const std::vector<int> ports = Ports(strike);
  for (size_t i = 0; i < count; ++i) {
    Tcp tcp(ports[i % ports.size()]);
    (void)tcp.Send(before + LongFrame(2, size), 50);
    held.push_back(std::move(tcp));
  }
  const std::string chunk(1 << 20, 'e');
  size_t sent = 0;
  while (sent < bytes && strike.Pace(200)) {
    const long n = held[sent / chunk.size() % held.size()].Send(chunk, 50);
    sent += n > 0 ? static_cast<size_t>(n) : chunk.size();
  }
  while (strike.Goes()) strike.Rest(100);
  strike.Say(
      fmt::format("{} frames of {} MB announced, {} MB sent", count, size >> 20, sent >> 20));
}

void GiantEarly(Strike& strike) {
  Announce(strike, Greeting(Mechanism(strike)), uint64_t{511} << 20, 30, 200 << 20);
}
void GiantPlain(Strike& strike) {
  Announce(strike, Greeting("NULL") + ReadyCommand(), uint64_t{511} << 20, 6, 300 << 20);
}
void OverlongPlain(Strike& strike) {
  Announce(strike, Greeting("NULL") + ReadyCommand(), uint64_t{1} << 62, 30, 30 << 20);
}

// Multipart messages that never end.
void EndlessPlain(Strike& strike) {
  Tcp tcp(PortOf(strike.target().scheduler));
  (void)tcp.Send(Greeting("NULL") + ReadyCommand());
  const std::string frame = LongFrame(3, 1 << 20) + std::string(1 << 20, 'e');
  int sent = 0;
  for (; sent < 400 && strike.Pace(200); ++sent) {
    if (tcp.Send(frame, 200) <= 0) break;
  }
  while (strike.Goes()) strike.Rest(100);
  strike.Say(fmt::format("{} MiB of one message", sent));
}

// Connects and closes as fast as it goes.
void OpenAndClose(Strike& strike) {
  Dial(strike, 2000, [](uint64_t) { return ""; });
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"connection.silent", As::kNobody, "1,000 connections that say nothing", Silent},
      {"connection.half-greeting", As::kNobody, "1,000 connections with half a greeting",
       HalfGreetings},
      {"connection.greeting", As::kNobody, "1,000 connections with a greeting and no more",
       Greetings},
      {"connection.slow-handshakes", As::kNobody, "300 connections with ten bytes a second",
       SlowHandshakes, on::kQuick},
      {"connection.wrong-mechanism", As::kNobody, "NULL, PLAIN and unknown mechanisms",
       WrongMechanism},
      {"connection.garbage", As::kNobody, "random bytes and HTTP instead of ZeroMQ", Garbage},
      {"connection.hellos", As::kNobody, "500 CURVE handshakes a second with wrong boxes", Hellos},
      {"connection.giant-early", As::kNobody, "30 frames of 511 MB before the handshake",
       GiantEarly},
      {"connection.open-close", As::kNobody, "2,000 connections a second, closed at once",
       OpenAndClose},
      {"connection.all-files", As::kNobody, "as many connections as the attacker has files",
       AsManyAsGo},
      {"connection.plain-giant", As::kAnyone, "6 frames of 511 MB announced, 300 MB sent",
       GiantPlain, on::kPlain},
      {"connection.plain-overlong", As::kAnyone, "frames of 2^62 bytes announced", OverlongPlain,
       on::kPlain},
      {"connection.plain-endless", As::kAnyone, "a message of 400 frames of 1 MiB without end",
       EndlessPlain, on::kPlain},
  };
}

}  // namespace dslide::connection_attacks
