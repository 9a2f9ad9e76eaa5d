// The table of every configuration key. Parsing, formatting, help, suggestions, what a resumed run
// keeps, what a server reads itself and the table in configs/README.md derive from it; a new key is
// a member in config.h and a line in config_keys.cc.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/config_fields.h"

namespace dslide {

// Whether a run that is resumed may have another value than its checkpoint.
enum class OnResume {
  kFree,
  kFixed,     // no: it decides what a stored row holds, or which batches there are
  kKeepsSign  // only of the same sign: train.staleness, where -1 is asynchronous
};

struct ConfigKey {
  std::string section;
  std::string name;
  std::string help;  // one line, without the range: see `field`
  Field field;
  OnResume on_resume = OnResume::kFree;
  // A server reads it from its own command line or file, before it has joined. All other keys come
  // from the scheduler.
  bool servers_own = false;
  // A worker reads it from its own command line or file: the owner's policy of a lent machine. One
  // that is not servers_own is refused by servers.
  bool workers_own = false;

  std::string FullName() const { return section + "." + name; }
};

// All keys, in file order, each section's keys together. Config{} has their defaults. Some are
// stored keys (retired_keys.h), which users do not set.
const std::vector<ConfigKey>& ConfigKeys();

// The key called "section.name", or nullptr.
const ConfigKey* FindConfigKey(std::string_view full_name);

// The names of the keys that the overrides and the file set, whether known or unknown. If `path` is
// empty, only the overrides are read.
Result<std::set<std::string>> GivenKeys(const std::string& path, const Overrides& overrides);

// ResolveConfig() lowers model.candidates and negatives, cluster.slots and cluster.input_slots to
// the number of labels or features, because a model cannot draw more neurons or fill more slots.
// Returns a line for each of these keys that is in `given` and differs between `asked` and
// `resolved`.
std::vector<std::string> LoweredValues(const Config& asked, const Config& resolved,
                                       const std::set<std::string>& given);

// The first key whose values in `now` and `then` OnResume does not allow together, or nullptr.
const ConfigKey* FixedKeyThatDiffers(const Config& now, Config then);

}  // namespace dslide
