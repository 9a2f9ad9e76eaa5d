// Servers that may not take part: those that the scheduler has not reached yet, and those that were
// left out a short time ago.
//
// Workers and other servers dial the address that a server advertises. A server that nobody can
// reach there would get slots, and training would stop. So the scheduler dials that address first
// and sends a request: the server that asked to join has to be the one that answers. Until then it
// is no member. A server that does not do its part in a plan is left out, and no server may join
// from its address, or with its key, for a minute, then for two, then for four. So is one that is
// lost twice before it has proved itself.
//
// Strangers make the scheduler dial: kMostApplicants addresses at once, kMostOfOne of them for one
// connection. When all places are taken, who asks by the connection with the most loses its oldest.
//
// Pure: the shell dials, and reports who answered (SchedulerCore::OnProbe).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace dslide {

class Admission {
 public:
  // A server that waits to be reached.
  struct Applicant {
    PeerId peer;
    Message join;  // the latest
    int64_t since_ms = 0;
    int64_t probed_ms = 0;           // last
    bool stranger_answered = false;  // at its address, but it is another process
  };
  // A request to be sent to `address`, by a socket that is kept while Awaits(server).
  struct Probe {
    Incarnation server;
    std::string address;
  };
  struct Refusal {
    Applicant applicant;
    std::string why;  // with the address and the remedy
  };

  explicit Admission(int64_t heartbeat_ms);

  static constexpr size_t kMostApplicants = 64;
  static constexpr size_t kMostOfOne = 8;
  static constexpr size_t kMostBarred = 1024;  // addresses and keys that are remembered

  // A server asks to join, for the first time or again. False: too many do. REQUIRES a Join in
  // `message`.
  bool Ask(const PeerId& from, const Message& message, int64_t now_ms);
  // A server that waits says by its connection that it does not want to join any more. False: none
  // such waits.
  bool Withdraw(const PeerId& from, Incarnation server);
  bool Awaits(Incarnation server) const { return applicants_.contains(server); }
  // The probes that are due, one a second for each applicant.
  std::vector<Probe> DueProbes(int64_t now_ms);
  // `who` answered at the address of `server`; Incarnation(): what came was no message. Returns the
  // applicant if it has been reached, and forgets it.
  std::optional<Applicant> Answered(Incarnation server, Incarnation who);
  // Applicants that were not reached in time. They are forgotten.
  std::vector<Refusal> Expire(int64_t now_ms);

  // A server was left out. `of`: its address, or its key.
  void Bar(const std::string& of, const std::string& why, int64_t now_ms);
  // A server was lost before it had proved itself, which may happen once in ten minutes.
  void Strike(const std::string& of, const std::string& why, int64_t now_ms);
  // Why no server may join from an address, or with a key, now; "" if one may.
  std::string WhyBarred(const std::string& of, int64_t now_ms) const;

 private:
  struct Barred {
    std::string why;
    int64_t until_ms = 0;
    uint32_t times = 0;
    std::optional<int64_t> struck_ms = {};
  };
  bool MakeRoom(const PeerId& from);
  Barred& Remember(const std::string& of, int64_t now_ms);

  int64_t patience_ms_;  // how long an applicant is tried
  std::map<Incarnation, Applicant> applicants_;
  std::map<std::string, Barred> barred_;  // by address or key
};

}  // namespace dslide
