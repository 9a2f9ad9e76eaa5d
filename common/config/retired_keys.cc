#include "common/config/retired_keys.h"

#include <algorithm>

namespace dslide {
namespace {

constexpr bool kNoEffect = false;
constexpr bool kEffect = true;
constexpr bool kNearest = false;
constexpr bool kSame = true;

constexpr std::string_view kLeaveOut = "leave the key out";

constexpr RetiredKey kRetiredKeys[] = {
    {"checkpoint.hook_timeout_s", "600", kNoEffect, "", kLeaveOut},
    {"checkpoint.hook_timeout_s", "", kEffect, "",
     "leave the key out; a hook may run for 600 s, `timeout 60 COMMAND` for less"},
    {"cluster.balance_threshold", "1.15", kNoEffect, "", kLeaveOut},
    {"cluster.balance_threshold", "", kEffect, "", "leave the key out; slots move above 1.15"},
    {"hash.bin", "8", kNoEffect, "", kLeaveOut},
    {"hash.bin", "", kEffect, "", kLeaveOut},
    {"hash.family", "dwta", kNoEffect, "", kLeaveOut},
    {"hash.family", "", kEffect, "model.active=mass hash.k=0",
     "leave the key out; the family is dwta", kNearest, "0.1.0"},
    {"hash.tables", "24", kNoEffect, "", kLeaveOut},
    {"hash.tables", "", kEffect, "", kLeaveOut},
    {"idle.network_hours", "always", kNoEffect, "", kLeaveOut},
    {"idle.network_hours", "", kEffect, "",
     "set idle.hours to the hours that both have: a worker needs the network to compute"},
    {"idle.quiet_s", "5", kNoEffect, "", kLeaveOut},
    {"idle.quiet_s", "", kEffect, "", "leave the key out; a pause ends after 5 s of less use"},
    {"model.activation", "", kNoEffect, "", "leave the key out; text.format decides it"},
    {"model.active", "sampled", kEffect, "model.active=mass", "use model.active = mass", kNearest},
    {"model.candidates", "", kNoEffect, "", kLeaveOut},
    {"model.features", "", kNoEffect, "", "leave the key out; the data decides it"},
    {"model.input_init", "", kNoEffect, "", kLeaveOut},
    {"model.labels", "", kNoEffect, "", "leave the key out; the data decides it"},
    {"model.output_init", "", kNoEffect, "", kLeaveOut},
    {"model.popular", "", kNoEffect, "", kLeaveOut},
    {"model.products", "", kNoEffect, "", "use model.precision, which products follow"},
    {"model.tail", "weighted", kNoEffect, "", kLeaveOut},
    {"model.tail", "none", kEffect, "",
     "leave the key out; neurons that are drawn always stand for the others"},
    {"model.uniform", "", kNoEffect, "",
     "leave the key out; model.active = mass draws model.negatives"},
    {"security.allow_plaintext", "false", kNoEffect, "", kLeaveOut},
    {"security.allow_plaintext", "true", kEffect, "security.encryption=trusted-network",
     "use security.encryption = trusted-network"},
    {"text.bad_records", "leave-out", kNoEffect, "", kLeaveOut},
    {"text.bad_records", "", kEffect, "",
     "leave the key out; dslide data stats counts unreadable records before training"},
    {"text.title_pairs", "true", kNoEffect, "", kLeaveOut},
    {"text.title_pairs", "", kEffect, "", "use text.title = false"},
    {"train.batches_in_flight", "0", kNoEffect, "", kLeaveOut},
    {"train.batches_in_flight", "", kEffect, "", "leave the key out; a worker adapts the number"},
    {"train.beta1", "0.9", kNoEffect, "", kLeaveOut},
    {"train.beta1", "", kEffect, "", kLeaveOut, kSame, "0.1.0"},
    {"train.beta2", "0.999", kNoEffect, "", kLeaveOut},
    {"train.beta2", "", kEffect, "", kLeaveOut, kSame, "0.1.0"},
    {"train.dense_batches", "4", kNoEffect, "", kLeaveOut},
    {"train.dense_batches", "", kEffect, "", kLeaveOut},
    {"train.dense_rate", "0.03", kNoEffect, "", kLeaveOut},
    {"train.dense_rate", "", kEffect, "", kLeaveOut},
    {"train.dropout_input", "0", kNoEffect, "", kLeaveOut},
    {"train.dropout_input", "", kEffect, "", "use train.dropout_hidden", kSame, "0.1.0"},
    {"train.epsilon", "1e-08", kNoEffect, "", kLeaveOut},
    {"train.epsilon", "", kEffect, "", kLeaveOut, kSame, "0.1.0"},
    {"train.moments", "", kNoEffect, "", "use model.precision, which moments follow"},
    {"train.probe_batches", "", kNoEffect, "", kLeaveOut},
    {"train.probe_samples", "", kNoEffect, "", kLeaveOut},
    {"train.race_share", "0", kNoEffect, "", kLeaveOut},
    {"train.race_share", "", kEffect, "", "dslide tune tries settings as runs of their own"},
    {"train.sparsify", "0.01", kNoEffect, "", kLeaveOut},
    {"train.sparsify", "", kEffect, "", kLeaveOut},
    {"train.unit_batches", "", kNoEffect, "", kLeaveOut},
};

}  // namespace

std::span<const RetiredKey> RetiredKeys() { return kRetiredKeys; }

bool IsStoredKey(std::string_view key) {
  return std::ranges::any_of(kRetiredKeys, [&](const RetiredKey& retired) {
    return retired.key == key && retired.value.empty();
  });
}

const RetiredKey* FindRetiredKey(std::string_view key, std::string_view value) {
  const auto* const row = std::ranges::find_if(kRetiredKeys, [&](const RetiredKey& retired) {
    return retired.key == key && (retired.value.empty() || retired.value == value);
  });
  return row == std::end(kRetiredKeys) ? nullptr : row;
}

}  // namespace dslide
