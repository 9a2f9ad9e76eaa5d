// Which way of finding a sample's best labels (Search) is the cheapest for a model: each is tried
// on some of the samples that are to be ranked.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

// The ways by name, as `--search` takes them; nullopt: none has it.
std::string_view SearchName(Search search);
std::optional<Search> SearchByName(std::string_view name);
// The names of all ways, as "exact|scan|lsh".
std::string SearchNames();

// Those that a model can be searched by, exact first.
std::vector<Search> SearchesOf(const ModelConfig& model);

struct SearchTrial {
  Search search;
  double recall;  // the share of the exactly best labels that were found
  double cost;    // CPU time, as a share of the exact search's
};

struct SearchChoice {
  Search search = Search::kExact;
  std::vector<SearchTrial> trials;  // without the exact search

  // One line for the user.
  std::string Text() const;
};

constexpr double kWantedRecall = 0.99;

// Tries each of `ways`, exact first, and chooses the cheapest that has kWantedRecall and is at
// least a tenth cheaper than the exact search. `rank` ranks always the same samples; what it keeps
// after a way's first call (rows in int8) is not counted. `cpu_seconds` is a clock.
Result<SearchChoice> ChooseSearch(std::span<const Search> ways,
                                  const std::function<Result<TopKReply>(Search)>& rank,
                                  const std::function<double()>& cpu_seconds);

}  // namespace dslide
