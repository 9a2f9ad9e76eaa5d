// A server that joins with a right key, and then does what its attack wants.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "tests/attacks/strike.h"

namespace dslide {

struct LyingServerOptions {
  std::string name = "eve-server";
  std::string address;  // what it advertises; empty: where it listens
  uint64_t memory_bytes = uint64_t{8} << 30;
  // What it says to the scheduler besides, as often as it sends heartbeats.
  std::function<void(Heartbeat*)> beat;
  std::function<std::optional<Body>(uint64_t round)> tell;
  // Its answer to a peer; nullopt: silence. Greetings of workers and the scheduler's probe are
  // answered as they should be before.
  std::function<std::optional<Body>(const Body& request, const Config& config)> answer;
  // Receives the scheduler's reply to the server's first Join; then the server leaves.
  std::function<void(const JoinReply& told)> leaves_with;
  // Hears every message of a peer, greetings included.
  std::function<void(const Envelope& envelope)> hear;
  // Without slots for some seconds it leaves and joins again: newcomers do not always get some.
  bool wants_slots = true;
  bool drains = false;  // it asks to hand its slots over once it has some
  // Each life has another name and listens at another port.
  bool changes_name = false;
};

// Until the strike's time is over, or the time of one attack after it got slots. Says what became
// of it.
void RunLyingServer(Strike& strike, const LyingServerOptions& options);

}  // namespace dslide
