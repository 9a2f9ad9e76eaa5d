// A member of a cluster that says what its attack wants: any message, in any order, in any name.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/net/access_list.h"
#include "common/net/socket.h"
#include "common/wire/messages.h"
#include "tests/attacks/strike.h"

namespace dslide {

class Intruder {
 public:
  // Dials the scheduler, and says nothing yet.
  explicit Intruder(Strike* strike);

  // Joins by the attacker's key. False: refused, or no answer; `why()` says what came. A worker
  // waits for the plan, too.
  bool Join(Role role, const std::string& name = "eve");
  const std::string& why() const { return why_; }

  // To the scheduler.
  void Tell(const Body& body);
  // The answer; nullopt: none within `ms`.
  std::optional<Body> Ask(const Body& body, int64_t ms = 1500);
  // The text of the refusal, "" if it was not refused, "no answer" if there was none.
  std::string Refusal(const Body& body, int64_t ms = 1500);

  // To the `server`th honest server.
  void TellServer(size_t server, const Body& body);
  std::optional<Body> AskServer(size_t server, const Body& body, int64_t ms = 1500);

  // A feature that the `server`th honest server owns; 0 without a plan.
  uint32_t FeatureOf(size_t server) const;

  // Takes what has come, waiting up to `ms`; sends a heartbeat if one is due.
  void Receive(int64_t ms = 0);
  // Messages that answered nothing, oldest first; at most a few hundred are kept.
  std::deque<Message>& inbox() { return inbox_; }

  // Of the next message; an attack may write anything into it. Sequences go up by themselves.
  Envelope& envelope() { return envelope_; }
  const std::optional<Config>& config() const { return config_; }
  const std::optional<Plan>& plan() const { return plan_; }
  uint64_t train_samples() const { return train_samples_; }

  // Bytes as they are.
  bool Throw(Bytes bytes) { return scheduler_.Send(std::move(bytes)); }
  bool ThrowAtServer(size_t server, Bytes bytes);
  void set_precision(WirePrecision precision) { precision_ = precision; }
  // Answers are counted, and not read.
  void set_deaf(bool deaf) { deaf_ = deaf; }
  void set_beats(bool beats) { beats_ = beats; }
  uint64_t received() const { return received_; }

 private:
  DealerSocket* Server(size_t server);
  void Take(const Bytes& bytes);
  std::optional<Body> Await(uint64_t request, int64_t ms);
  Bytes Next(const Body& body);

  Strike* strike_;
  DealerSocket scheduler_;
  std::vector<std::optional<DealerSocket>> servers_;
  Envelope envelope_;
  WirePrecision precision_ = WirePrecision::kFp32;
  std::optional<Config> config_;
  std::optional<Plan> plan_;
  uint64_t train_samples_ = 0;
  std::deque<Message> inbox_;
  std::optional<std::pair<uint64_t, Body>> answer_;
  uint64_t awaited_ = 0;
  std::string why_;
  bool beats_ = false;
  bool deaf_ = false;
  int64_t beat_ms_ = 0;
  uint64_t received_ = 0;
};

// An attack by one intruder that does the same thing again and again.
struct Repetition {
  double per_second;
  std::string what;                          // is counted in the table: "requests"
  std::optional<Role> role = Role::kWorker;  // it joins in, and has the plan; nullopt: no Join
  uint64_t most = ~uint64_t{0};              // times
  uint64_t listens_every = 20;               // times; 0: never
};

// Calls `act` with the number of the time, from 0. The inbox is empty again after each time, and
// the intruder stays until the strike's time is over.
void Repeat(Strike& strike, const Repetition& how,
            const std::function<void(Intruder& eve, uint64_t n)>& act);

// The kind of an answer, with the text of an ErrorReply; "no answer" for none.
std::string Described(const std::optional<Body>& answer);
// The text of an ErrorReply; "" for anything else.
std::string ErrorText(const Body& body);

}  // namespace dslide
