// What an attack works with, in the attacker's own process: the target, a key, time, and the lines
// that it leaves for the table.
//
// The process is niced, and floods are paced, so that what honest workers lose is lost to the
// attack's effect and not to the CPU that the attacker itself burns.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/net/socket.h"
#include "common/security/keys.h"
#include "common/wire/messages.h"
#include "tests/attacks/attack.h"

namespace dslide {

// What an attacker can know of a cluster: addresses, public keys and the roster.
struct Target {
  std::string run_directory;
  std::string scheduler;  // tcp://HOST:PORT
  int status_port = 0;
  int serve_port = 0;  // 0 where nothing is served
  bool encrypted = false;
  bool synchronous = false;
  std::optional<PublicKey> scheduler_key;
  std::map<std::string, PublicKey> server_keys;  // of honest servers, by name
  std::vector<PlanServer> servers;               // honest ones
  std::vector<Incarnation> workers;              // honest ones
  uint32_t plan_version = 0;

  // nullopt: it is not an honest server, or the run is not encrypted.
  std::optional<PublicKey> KeyOf(const std::string& server) const {
    const auto found = server_keys.find(server);
    return found == server_keys.end() ? std::nullopt : std::optional(found->second);
  }
};

// The name that the key of an attack has in the run's ring.
std::string KeyNameOf(const Attack& attack);

class Strike {
 public:
  // `status`: the scheduler's status, of which the target's roster is taken.
  Strike(const Attack& attack, const std::string& run_directory, const nlohmann::json& status,
         int status_port, int64_t run_ms);
  Strike(const Strike&) = delete;
  Strike& operator=(const Strike&) = delete;

  const Target& target() const { return target_; }
  void SetServePort(int port) { target_.serve_port = port; }
  const Attack& attack() const { return attack_; }
  NetContext& context() { return context_; }
  Random& random() { return random_; }

  // Whether there is time left.
  bool Goes() const;
  int64_t left_ms() const;
  // Waits until the next of `per_second` actions is due. False: the time is over.
  bool Pace(double per_second);
  // Waits, at most until the time is over.
  void Rest(int64_t ms) const;

  // The attacker's key; none for nobody, and in plaintext.
  const std::optional<KeyPair>& keys() const { return keys_; }
  // By which a peer is dialled: none if the attacker has no key.
  std::optional<CurvePeer> To(const std::optional<PublicKey>& peer) const;
  // Incarnations of the attacker's key, and such as those of its `index`th life.
  Incarnation Draw() const;

  // A remark for the table. Any thread may call it, and Breach().
  void Say(const std::string& line);
  // Something that must not work has worked: the attack counts as failed, whatever it did.
  void Breach(const std::string& line);
  // Writes what was said to standard output.
  void Report() const;

 private:
  Attack attack_;
  Target target_;
  std::optional<KeyPair> keys_;
  NetContext context_;
  Random random_;
  int64_t end_ms_;
  double next_ms_ = 0;
  mutable Mutex lines_;
  std::vector<std::string> said_ DSLIDE_GUARDED_BY(lines_);
  std::vector<std::string> breaches_ DSLIDE_GUARDED_BY(lines_);
};

// Burns `share` of a core for `ms`, with the priority of an attacker.
void BurnCpu(double share, int64_t ms);

// Runs the attack that `arguments` name; for the attacker's process.
Status RunStrike(const ParsedArguments& arguments);

}  // namespace dslide
