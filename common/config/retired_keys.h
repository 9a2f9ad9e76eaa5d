// Keys and values of keys that earlier versions had. A stored configuration may hold them: that of
// a checkpoint, a ledger or a model file, and config.ini in a run directory. A new one may not,
// except values without effect in a file, because it may be a copy of a run's. A key that is
// removed from config_keys.cc gets a row in retired_keys.cc, and so does a value that a key no
// longer has.
//
// A stored key is in both tables: the run derives it, or it is a constant of this version. Stored
// configurations and the scheduler's set it, so that a resumed run keeps its value. Users do not:
// it is not in the help, a new file's value is ignored if it may be that of a copied config.ini,
// and every other one is refused.
#pragma once

#include <span>
#include <string_view>

namespace dslide {

struct RetiredKey {
  std::string_view key;          // "section.name"
  std::string_view value;        // with which the row applies; empty: every value
  bool has_effect = true;        // false: this version does the same without it
  std::string_view replacement;  // "section.name=value" settings used for it, a blank between
  std::string_view remedy;       // for the user: what to use instead
  bool means_the_same = true;    // false: the replacement is only the nearest there is
  // The last release that trains a run with it, which this version refuses to continue; empty: this
  // version continues it.
  std::string_view last_release = {};
};

// All rows, those of one key together.
std::span<const RetiredKey> RetiredKeys();

// Whether `key` is a stored key, if config_keys.cc has it.
bool IsStoredKey(std::string_view key);

// The first row that applies, or nullptr.
const RetiredKey* FindRetiredKey(std::string_view key, std::string_view value);

}  // namespace dslide
