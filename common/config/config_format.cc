// A Config as text: for the run directory, for other processes, and for people.
#include <string>

#include <fmt/format.h>

#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/config/quoted.h"
#include "common/config/retired_keys.h"

namespace dslide {
namespace {

// Appends "[section]" before the first key of each section, with a blank line between sections.
void StartSection(const std::string& section, std::string* current, std::string* text) {
  if (section == *current) return;
  *text += fmt::format("{}[{}]\n", text->empty() ? "" : "\n", section);
  *current = section;
}

// "key = value", and "key =" rather than a trailing space.
std::string KeyLine(const ConfigKey& key, const Config& config) {
  const std::string value = QuotedValue(key.field.format(config));
  return value.empty() ? key.name + " =\n" : fmt::format("{} = {}\n", key.name, value);
}

// What a key is besides its value, a line each.
std::string Notes(const ConfigKey& key) {
  std::string notes;
  if (key.on_resume == OnResume::kFixed) notes += "      A resumed run keeps it.\n";
  if (key.on_resume == OnResume::kKeepsSign) notes += "      A resumed run keeps its sign.\n";
  if (key.servers_own && !key.workers_own) notes += "      Each server reads its own.\n";
  if (key.servers_own && key.workers_own) {
    notes += "      Each server and worker reads its own.\n";
  }
  if (!key.servers_own && key.workers_own) {
    notes += "      Each worker reads its own; a server refuses it.\n";
  }
  return notes;
}

}  // namespace

std::string FormatConfig(const Config& config) {
  std::string text;
  std::string section;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.workers_own && !config.idle.given) continue;  // the owner's, and nobody else's concern
    StartSection(key.section, &section, &text);
    text += KeyLine(key, config);
  }
  return text;
}

std::string ConfigHelp() {
  std::string text;
  std::string section;
  const Config defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    if (IsStoredKey(key.FullName())) continue;
    StartSection(key.section, &section, &text);
    text += "  " + KeyLine(key, defaults);
    text += fmt::format("      {} ({})\n{}", key.help, key.field.allowed, Notes(key));
  }
  return text;
}

}  // namespace dslide
