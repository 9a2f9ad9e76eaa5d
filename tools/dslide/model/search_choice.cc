#include "tools/dslide/model/search_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/run/combine.h"

namespace dslide {
namespace {

constexpr std::array<std::pair<Search, std::string_view>, 3> kNames = {
    {{Search::kExact, "exact"}, {Search::kScan, "scan"}, {Search::kLsh, "lsh"}}};

// The share of the labels of `best` that are also in the same row of `found`.
double Recall(const TopKReply& best, const TopKReply& found) {
  size_t both = 0;
  for (size_t i = 0; i + 1 < best.offsets.size(); ++i) {
    both += CountCommon(best.Ids(i), found.Ids(i));
  }
  return best.ids.empty() ? 1 : static_cast<double>(both) / static_cast<double>(best.ids.size());
}

}  // namespace

std::string_view SearchName(Search search) {
  const auto* const found = std::ranges::find(kNames, search, &decltype(kNames)::value_type::first);
  DSLIDE_CHECK(found != kNames.end());
  return found->second;
}

std::optional<Search> SearchByName(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name, &decltype(kNames)::value_type::second);
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

std::string SearchNames() {
  std::string names;
  for (const auto& [search, name] : kNames) {
    names += names.empty() ? "" : "|";
    names += name;
  }
  return names;
}

std::vector<Search> SearchesOf(const ModelConfig& model) {
  std::vector<Search> ways = {Search::kExact};
  if (!IsLinear(model)) ways.push_back(Search::kScan);
  if (HasNeuronIndex(model)) ways.push_back(Search::kLsh);
  return ways;
}

std::string SearchChoice::Text() const {
  std::string text = fmt::format("search: {}", SearchName(search));
  if (trials.empty()) return text;
  text += " (";
  for (const SearchTrial& trial : trials) {
    text += fmt::format("{}{} has recall {:.3f} at {:.2f} of exact's CPU",
                        &trial == trials.data() ? "" : ", ", SearchName(trial.search), trial.recall,
                        trial.cost);
  }
  return text + ")";
}

Result<SearchChoice> ChooseSearch(std::span<const Search> ways,
                                  const std::function<Result<TopKReply>(Search)>& rank,
                                  const std::function<double()>& cpu_seconds) {
  constexpr double kWorthIt = 0.9;
  DSLIDE_CHECK(!ways.empty() && ways[0] == Search::kExact);
  const double start = cpu_seconds();
  const Result<TopKReply> best = rank(Search::kExact);
  DSLIDE_RETURN_IF_ERROR(best);
  const double exact_seconds = std::max(cpu_seconds() - start, 1e-9);
  SearchChoice choice;
  double least = kWorthIt;
  for (const Search way : ways.subspan(1)) {
    DSLIDE_RETURN_IF_ERROR(rank(way));
    const double before = cpu_seconds();
    const Result<TopKReply> found = rank(way);
    DSLIDE_RETURN_IF_ERROR(found);
    const double cost = (cpu_seconds() - before) / exact_seconds;
    choice.trials.push_back({way, Recall(*best, *found), cost});
    if (choice.trials.back().recall < kWantedRecall || cost >= least) continue;
    least = cost;
    choice.search = way;
  }
  return choice;
}

}  // namespace dslide
