// One attack on a live cluster: who does what, and on which ground.
#pragma once

#include <string>
#include <vector>

namespace dslide {

// The rights of an attacker: the key that it holds.
enum class As {
  kNobody,    // no key
  kWrongKey,  // a key that the run does not know
  kRevoked,
  kExpired,
  kRotated,  // replaced by another one of its name
  kObserver,
  kWorker,
  kServer,
  kAnyone,  // in plaintext, where nobody has a key
};
const char* NameOf(As as);

// What it is done to.
struct On {
  bool alone = false;        // a cluster of its own, so that what becomes of it has one cause
  bool plain = false;        // only where nothing is encrypted
  bool synchronous = false;  // in synchronous training with audits
  int workers = 2;           // honest ones
  bool serves = false;       // beside `dslide serve` of the run
  bool stays = false;        // it goes on while the run is asked to stop
  bool first = false;        // it is in the run before honest workers come (implies `alone`)
  int times = 1;             // it takes so many times as long as others
  bool quick = false;        // one of those that ctest runs
};

namespace on {
constexpr On kQuick = {.quick = true};
constexpr On kAlone = {.alone = true};
constexpr On kPlain = {.plain = true};
constexpr On kAlonePlain = {.alone = true, .plain = true};
constexpr On kSynchronous = {.synchronous = true};
constexpr On Lasting(int times) { return {.times = times}; }
}  // namespace on

struct Attack {
  const char* name;  // FAMILY.WHAT
  As as;
  const char* what;  // one line
  void (*run)(
      class Strike& strike);  // in a process of its own; returns when the strike's time is over
  On on = {};
};

std::string FamilyOf(const Attack& attack);

// The families, a file each.
namespace key_attacks {
std::vector<Attack> All();
}
namespace state_attacks {
std::vector<Attack> All();
}
namespace forged_attacks {
std::vector<Attack> All();
}
namespace report_attacks {
std::vector<Attack> All();
}
namespace flood_attacks {
std::vector<Attack> All();
}
namespace connection_attacks {
std::vector<Attack> All();
}
namespace http_attacks {
std::vector<Attack> All();
}
namespace poison_attacks {
std::vector<Attack> All();
}
namespace liar_attacks {
std::vector<Attack> All();
}
namespace server_attacks {
std::vector<Attack> All();
}
namespace serve_attacks {
std::vector<Attack> All();
}

namespace insider_attacks {
std::vector<Attack> All();
}

// Of all families.
std::vector<Attack> AllAttacks();

}  // namespace dslide
