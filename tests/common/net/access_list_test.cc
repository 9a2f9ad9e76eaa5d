#include "common/net/access_list.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <utility>

namespace dslide::access_list_test {
namespace {

// Every kind of message, by its name.
template <size_t... kIndex>
std::map<std::string, Body> AllBodies(std::index_sequence<kIndex...>) {
  return {{std::string(BodyName(kIndex)), Body(std::variant_alternative_t<kIndex, AnyBody>())}...};
}
const std::map<std::string, Body> kBodies = AllBodies(std::make_index_sequence<kBodyKinds>());

std::set<std::string> AllowedTo(KeyRole role, Receiver receiver) {
  std::set<std::string> names;
  for (const auto& [name, body] : kBodies) {
    if (WhyForbidden(role, body, receiver).empty()) names.insert(name);
  }
  return names;
}

using Names = std::set<std::string>;

// The table of SECURITY.md.
TEST_CASE("permissions: each role may say what the protocol gives it, and nothing else") {
  Join as_worker, as_server, as_observer;
  as_server.role = Role::kServer;
  as_observer.role = Role::kObserver;
  const auto joins = [&](KeyRole role) {
    std::set<int> allowed;
    for (const Join& join : {as_worker, as_server, as_observer}) {
      if (WhyForbidden(role, join, Receiver::kScheduler).empty()) {
        allowed.insert(static_cast<int>(join.role));
      }
    }
    return allowed;
  };
  CHECK(joins(KeyRole::kServer) == std::set{static_cast<int>(Role::kServer)});
  CHECK(joins(KeyRole::kWorker) == std::set{static_cast<int>(Role::kWorker)});
  CHECK(joins(KeyRole::kObserver) == std::set{static_cast<int>(Role::kObserver)});
  CHECK(joins(KeyRole::kOperator) == std::set{static_cast<int>(Role::kObserver)});
  CHECK(joins(KeyRole::kScheduler).empty());
  CHECK(WhyForbidden(KeyRole::kWorker, as_server, Receiver::kScheduler) ==
        "a key of role worker may not join as server");

  const auto of_members = [](Names names) {
    names.merge(Names{"Heartbeat", "Leave", "Ack"});
    return names;
  };
  const Receiver scheduler = Receiver::kScheduler, server = Receiver::kServer;
  // The default Join is a worker's.
  CHECK(AllowedTo(KeyRole::kWorker, scheduler) ==
        of_members({"Join", "LeaseRequest", "BatchDone", "ErrorReply"}));
  CHECK(AllowedTo(KeyRole::kServer, scheduler) ==
        of_members({"Ready", "StepsCommitted", "CheckpointDone", "CheckpointNow", "MoveReady",
                    "DrainServer", "AuditReport", "Offence", "ErrorReply"}));
  CHECK(AllowedTo(KeyRole::kObserver, scheduler) == of_members({"StatusRequest"}));
  CHECK(AllowedTo(KeyRole::kOperator, scheduler) ==
        of_members({"StatusRequest", "CheckpointNow", "DrainServer"}));
  CHECK(AllowedTo(KeyRole::kScheduler, scheduler).empty());

  CHECK(AllowedTo(KeyRole::kWorker, server) ==
        Names{"EmbedRequest", "ActiveQuery", "GradientPush", "EmbedPush", "TopKRequest"});
  CHECK(AllowedTo(KeyRole::kServer, server) == Names{"SlotPull"});
  CHECK(AllowedTo(KeyRole::kScheduler, server) == Names{"StatusRequest"});
  CHECK(AllowedTo(KeyRole::kObserver, server) == Names{"StatusRequest"});
  CHECK(AllowedTo(KeyRole::kOperator, server) == Names{"StatusRequest"});
  CHECK(WhyForbidden(KeyRole::kObserver, TopKRequest(), server) ==
        "a key of role observer may not send TopKRequest to a server");
}

TEST_CASE("access list: a key speaks for its own incarnations, while it is on the list") {
  const KeyPair alice = DrawKeyPair(), bob = DrawKeyPair();
  AccessListHolder access;
  access.Set({{{TextOf(alice.public_key), KeyRole::kWorker},
               {TextOf(bob.public_key), KeyRole::kWorker},
               {"no key", KeyRole::kOperator}}});
  Message message;
  message.envelope.incarnation = DrawIncarnation(alice);
  message.body = LeaseRequest();
  const auto why = [&](const KeyPair& keys) {
    return access.WhyRefused(keys.public_key, message, Receiver::kScheduler);
  };
  CHECK(why(alice) == "");
  CHECK(why(bob) ==
        "a holder of the key " + ShortTextOf(bob.public_key) + " speaks for another member");
  CHECK(why(DrawKeyPair()).find("does not count here any more") != std::string::npos);
  CHECK(access.KeyOf(message.envelope.incarnation) == alice.public_key);
  CHECK_FALSE(access.KeyOf(DrawIncarnation(DrawKeyPair())).has_value());
  // A key that only begins like one of the list is another one.
  PublicKey twin = alice.public_key;
  twin.bytes[31] ^= 1;
  CHECK_FALSE(access.RoleOf(twin).has_value());
  CHECK(access.WhyRefused(twin, message, Receiver::kScheduler) != "");

  access.Set({{{TextOf(bob.public_key), KeyRole::kWorker}}});
  CHECK(why(alice).find("does not count here any more") != std::string::npos);
}

}  // namespace
}  // namespace dslide::access_list_test
