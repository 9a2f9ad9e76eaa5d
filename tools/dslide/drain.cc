#include "tools/dslide/drain.h"

#include <fmt/core.h>

#include <cstdint>
#include <map>

#include <nlohmann/json.hpp>

#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/config/nearest.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr int64_t kAcceptMs = 60'000;  // it may wait for a checkpoint that is being written

// Servers by name, with the slots that each has; -1: not told.
Result<std::map<std::string, int64_t>> Servers(Observer& observer) {
  const Result<std::string> text = observer.StatusJson();
  DSLIDE_RETURN_IF_ERROR(text);
  const Json status = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!status.is_object() || !status.contains("members") || !status["members"].is_array()) {
    return Failed("the scheduler's status lists no members");
  }
  std::map<std::string, int64_t> servers;
  for (const Json& member : status["members"]) {
    if (!member.is_object() || member.value("role", Json()) != "server") continue;
    const Json name = member.value("name", Json());
    const Json slots = member.value("slots", Json());
    if (!name.is_string()) continue;
    servers[name] = slots.is_number_integer() ? slots.get<int64_t>() : -1;
  }
  return servers;
}

std::string Names(const std::map<std::string, int64_t>& servers) {
  std::string names;
  for (const auto& [name, slots] : servers) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "there are none" : "there are " + names;
}

}  // namespace

Status Drain(Observer& observer, const std::string& name,
             const std::function<void(const std::string& line)>& say, const DrainOptions& options) {
  auto servers = Servers(observer);
  DSLIDE_RETURN_IF_ERROR(servers);
  if (!servers->contains(name)) {
    return Failed(fmt::format("no server is called {}; {}", Printable(name), Names(*servers)));
  }
  DSLIDE_RETURN_IF_ERROR(observer.Ask(DrainServer{name}, kAcceptMs));
  int64_t fewest = INT64_MAX;
  int64_t progress_ms = MonotonicMillis();
  while (true) {
    servers = Servers(observer);
    DSLIDE_RETURN_IF_ERROR(servers);
    const auto server = servers->find(name);
    if (server == servers->end()) break;
    if (server->second >= 0 && server->second < fewest) {
      fewest = server->second;
      progress_ms = MonotonicMillis();
      say(fmt::format("{}: {} to hand over", name, Plural(static_cast<uint64_t>(fewest), "slot")));
    }
    if (MonotonicMillis() - progress_ms > options.patience_ms) {
      return TryLater(
          fmt::format("{} has handed over nothing for {} s; it goes on in the background", name,
                      options.patience_ms / 1000));
    }
    DSLIDE_RETURN_IF_ERROR(observer.Wait(options.poll_ms));
  }
  say(name + " has left");
  return {};
}

}  // namespace dslide
