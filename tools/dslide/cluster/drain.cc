#include "tools/dslide/cluster/drain.h"

#include <fmt/core.h>

#include <cstdint>
#include <map>

#include <nlohmann/json.hpp>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/base/process.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr int64_t kAcceptMs = 60'000;  // the answer may wait for a checkpoint in progress

struct ServerState {
  std::string incarnation;  // empty: unknown, or the server is absent
  int64_t slots = -1;       // -1: unknown
};
using ServerStates = std::map<std::string, ServerState>;  // by name

std::string StringAt(const Json& json, const char* key) {
  const Json value = json.value(key, Json());
  return value.is_string() ? value.get<std::string>() : "";
}

struct ClusterState {
  ServerStates servers;
  std::map<std::string, std::string> lost;  // why, by incarnation
};

Result<ClusterState> AskState(Observer& observer) {
  const Result<std::string> text = observer.StatusJson();
  DSLIDE_RETURN_IF_ERROR(text);
  const Json status = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!status.is_object() || !status.contains("members") || !status["members"].is_array()) {
    return Failed("the scheduler's status lists no members");
  }
  ClusterState state;
  for (const Json& member : status["members"]) {
    if (!member.is_object() || StringAt(member, "role") != "server") continue;
    const Json slots = member.value("slots", Json());
    if (StringAt(member, "name").empty() || StringAt(member, "state") == "missing") continue;
    state.servers[StringAt(member, "name")] = {
        StringAt(member, "life"), slots.is_number_integer() ? slots.get<int64_t>() : -1};
  }
  for (const Json& gone : status.value("departures", Json::array())) {
    if (gone.is_object() && gone.value("lost", Json()) == true) {
      state.lost[StringAt(gone, "life")] = StringAt(gone, "why");
    }
  }
  return state;
}

std::string Names(const ServerStates& servers) {
  std::string names;
  for (const auto& [name, state] : servers) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

Status Drain(Observer& observer, const std::string& name,
             const std::function<void(const std::string& line)>& say, const DrainOptions& options) {
  auto state = AskState(observer);
  DSLIDE_RETURN_IF_ERROR(state);
  const auto known = state->servers.find(name);
  if (known == state->servers.end()) {
    if (state->servers.empty()) return Failed("no server has joined");
    return Failed(fmt::format("there is no server {}; the servers are: {}", Printable(name),
                              Names(state->servers)));
  }
  const std::string incarnation = known->second.incarnation;
  DSLIDE_RETURN_IF_ERROR(observer.Ask(DrainServer{name}, kAcceptMs));
  int64_t fewest = INT64_MAX;
  int64_t progress_ms = MonotonicMillis();
  while (true) {
    state = AskState(observer);
    DSLIDE_RETURN_IF_ERROR(state);
    if (const auto lost = state->lost.find(incarnation); lost != state->lost.end()) {
      return Failed(fmt::format("{} was lost before all of its slots had moved: it {}", name,
                                Printable(lost->second)));
    }
    const auto server = state->servers.find(name);
    if (server == state->servers.end() || server->second.incarnation != incarnation) break;
    const int64_t slots = server->second.slots;
    if (slots >= 0 && slots < fewest) {
      fewest = slots;
      progress_ms = MonotonicMillis();
      say(fmt::format("{}: {} to move", name, Plural(static_cast<uint64_t>(fewest), "slot")));
    }
    if (MonotonicMillis() - progress_ms > options.patience_ms) {
      return TryLater(
          fmt::format("no slot of {} has moved for {} s; the drain goes on in the background", name,
                      options.patience_ms / 1000));
    }
    DSLIDE_RETURN_IF_ERROR(observer.Wait(options.poll_ms));
  }
  say(name + " has left");
  return {};
}

}  // namespace dslide
