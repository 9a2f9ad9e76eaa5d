#include "tests/attacks/attack.h"

#include <iterator>

namespace dslide {

const char* NameOf(As as) {
  // In the order of As.
  constexpr const char* kNames[] = {"nobody",   "wrong key", "revoked", "expired", "rotated",
                                    "observer", "worker",    "server",  "anyone"};
  return kNames[static_cast<size_t>(as)];
}

std::string FamilyOf(const Attack& attack) {
  const std::string name = attack.name;
  return name.substr(0, name.find('.'));
}

std::vector<Attack> AllAttacks() {
  std::vector<Attack> all;
  for (const auto family :
       {key_attacks::All, state_attacks::All, forged_attacks::All, report_attacks::All,
        flood_attacks::All, connection_attacks::All, http_attacks::All, poison_attacks::All,
        liar_attacks::All, server_attacks::All, insider_attacks::All, serve_attacks::All}) {
    std::vector<Attack> some = family();
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace dslide
