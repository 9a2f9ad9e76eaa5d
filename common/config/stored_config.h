// The configuration of something that an earlier version may have stored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

// Parses the INI text of a run, a checkpoint or a model file. Errors are those of ParseConfig(). A
// version without train.normalize did not divide values, and one without train.heldout trained all
// samples, so these keys are off if the text lacks them: their defaults would change the model.
// Retired keys (retired_keys.h) have their old meaning where this version has it; *without_effect
// gets a line, for the user, for each of the others. A caller that passes it is about to train on:
// a value with which only an earlier release can is an error for it.
Result<Config> ParseStoredConfig(std::string_view text, std::string_view origin,
                                 std::vector<std::string>* without_effect = nullptr);

}  // namespace dslide
