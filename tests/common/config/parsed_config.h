// A configuration from text that must be good.
#pragma once

#include <string_view>

#include <doctest/doctest.h>

#include "common/config/config.h"

namespace dslide {

inline Config Parsed(std::string_view text, const Overrides& overrides = {}) {
  Result<Config> config = ParseConfig(text, "cluster.ini", overrides);
  REQUIRE_MESSAGE(config.ok(), config.error().message);
  return *config;
}

}  // namespace dslide
