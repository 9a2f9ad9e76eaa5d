#include "common/run/slot_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/config/config_keys.h"
#include "common/config/limits.h"

namespace dslide {
namespace {

// Why no scheduler sends these sizes; "": one could.
std::string WhyUnfit(const ModelShape& shape, const Config& config) {
  if (HasFixedSizes(config.train) != (shape.epoch == 0)) return "it does not fit the run";
  const auto all_below = [](const std::vector<uint32_t>& ids, uint32_t bound) {
    return std::ranges::all_of(ids, [bound](uint32_t id) { return id < bound; });
  };
  if (shape.epoch == 0) return "";
  if (shape.features == 0 || shape.labels == 0 || shape.features > kMostFeatures) {
    return fmt::format("it has {} features and {} labels", shape.features, shape.labels);
  }
  const bool known = all_below(shape.recycled_features, shape.features) &&
                     all_below(shape.recycled_labels, shape.labels) &&
                     all_below(shape.removed_labels, shape.labels);
  return known ? "" : "it has ids that the model lacks";
}

}  // namespace

Plan EqualPlan(uint32_t version, uint32_t slots, std::vector<PlanServer> servers) {
  DSLIDE_CHECK(!servers.empty() && servers.size() <= 65535);
  Plan plan;
  plan.version = version;
  plan.slot_owner.resize(slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    plan.slot_owner[slot] = static_cast<uint16_t>(uint64_t{slot} * servers.size() / slots);
  }
  plan.servers = std::move(servers);
  return plan;
}

std::vector<SlotId> SlotsOf(const Plan& plan, ServerIndex index) {
  std::vector<SlotId> slots;
  for (uint32_t slot = 0; slot < plan.slot_owner.size(); ++slot) {
    if (plan.slot_owner[slot] == index.value) slots.push_back({slot});
  }
  return slots;
}

std::vector<bool> ServersWith(const Plan& plan, const SlotRange& range) {
  std::vector<bool> with(plan.servers.size());
  for (uint32_t s = 0; s < range.count; ++s) with[plan.slot_owner[range.first + s]] = true;
  return with;
}

std::optional<uint32_t> IndexOf(const Plan& plan, Incarnation server) {
  const auto found = std::find_if(plan.servers.begin(), plan.servers.end(),
                                  [&](const PlanServer& s) { return s.incarnation == server; });
  if (found == plan.servers.end()) return std::nullopt;
  return static_cast<uint32_t>(found - plan.servers.begin());
}

Result<Config> ConfigUnder(const Plan& plan, const Config& config) {
  if (std::string why = WhyUnfit(plan.shape, config); !why.empty()) return BadInput(why);
  if (plan.settings.empty()) return SizedBy(plan.shape, config);
  Result<Config> chosen = LoadConfig("", plan.settings, config);
  DSLIDE_RETURN_IF_ERROR(chosen);
  if (const ConfigKey* key = FixedKeyThatDiffers(config, *chosen)) {
    return BadInput(fmt::format("{} cannot change", key->FullName()));
  }
  return SizedBy(plan.shape, *std::move(chosen));
}

}  // namespace dslide
