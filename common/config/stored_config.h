// The configuration of something that an earlier version may have stored.
#pragma once

#include <string_view>

#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

// INI text of a run, a checkpoint or a model file. Errors as ParseConfig(). Where a key is younger
// than the version that stored it and its default would change the model, the value is that of the
// time before the key: train.normalize is off.
Result<Config> ParseStoredConfig(std::string_view text, std::string_view origin);

}  // namespace dslide
