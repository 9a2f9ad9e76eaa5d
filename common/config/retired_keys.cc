#include "common/config/retired_keys.h"

#include <algorithm>

namespace dslide {
namespace {

constexpr bool kNoEffect = false;
constexpr bool kEffect = true;
constexpr bool kNearest = false;

constexpr RetiredKey kRetiredKeys[] = {
    {"model.active", "sampled", kEffect, "model.active=mass", "use model.active = mass", kNearest},
    {"model.popular", "", kNoEffect, "", "leave the key out"},
    {"model.uniform", "", kNoEffect, "",
     "leave the key out; model.active = mass draws model.negatives"},
    {"model.tail", "weighted", kNoEffect, "", "leave the key out"},
    {"model.tail", "none", kEffect, "",
     "leave the key out; neurons that are drawn always stand for the others"},
    {"security.allow_plaintext", "false", kNoEffect, "", "leave the key out"},
    {"security.allow_plaintext", "true", kEffect, "security.encryption=trusted-network",
     "use security.encryption = trusted-network"},
    {"train.race_share", "0", kNoEffect, "", "leave the key out"},
    {"train.race_share", "", kEffect, "", "dslide tune tries settings as runs of their own"},
};

}  // namespace

std::span<const RetiredKey> RetiredKeys() { return kRetiredKeys; }

const RetiredKey* FindRetiredKey(std::string_view key, std::string_view value) {
  const auto* const row = std::ranges::find_if(kRetiredKeys, [&](const RetiredKey& retired) {
    return retired.key == key && (retired.value.empty() || retired.value == value);
  });
  return row == std::end(kRetiredKeys) ? nullptr : row;
}

}  // namespace dslide
