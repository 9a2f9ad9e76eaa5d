// The table of every configuration key. Parsing, formatting, help and suggestions derive from it;
// a new key is a member in config.h and a line in config_keys.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/config/config_fields.h"

namespace dslide {

struct ConfigKey {
  std::string section;
  std::string name;
  std::string help;  // one line, without the range, which `field` knows
  Field field;

  std::string FullName() const { return section + "." + name; }
};

// All keys, in file order, those of a section in a row. The default of each is that of Config{}.
const std::vector<ConfigKey>& ConfigKeys();

// The key called "section.name", or nullptr.
const ConfigKey* FindConfigKey(std::string_view full_name);

}  // namespace dslide
