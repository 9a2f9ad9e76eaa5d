// Addresses and names in paths, which configurations, peers and directories have.
#include "common/base/address.h"

#include "common/checkpoint/layout.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::address_fuzz {
namespace {

using fuzz::Inputs;

void ReadNames(const std::string& name) {
  if (const std::optional<Orphan> orphan = ParseOrphanName(name)) {
    DSLIDE_CHECK(ParseOrphanName(OrphanName(*orphan)) == orphan);
  }
  (void)PlanVersionOfShard(name);
  (void)IsCheckpointName(name);
  const std::string store = StoreName(name);
  DSLIDE_CHECK(store.find('/') == std::string::npos);
  DSLIDE_CHECK(!IsStoreOfOtherLife(store, store));
  (void)IsStoreOfOtherLife(name, store);
  (void)ParentOf(name);
}

bool Run(std::string_view input) {
  ReadNames(std::string(input));
  const std::optional<TcpAddress> parts = ParseTcp(input);
  if (parts) {
    DSLIDE_CHECK(!parts->host.empty() && !parts->port.empty());
    DSLIDE_CHECK("tcp://" + parts->host + ":" + parts->port == input);
    (void)IsIpv4Literal(parts->host);
  }
  (void)IsLoopback(input);
  const std::string why[] = {WhyNotListenable(input), WhyNotDialable(input),
                             WhyNotAdvertisable(input)};
  for (const std::string& each : why) {
    if (!each.empty()) fuzz::CheckError(BadInput(each));
  }
  // What may be dialled may be advertised.
  if (why[1].empty()) DSLIDE_CHECK(why[2].empty());
  return why[1].empty();
}

Inputs Seeds() {
  return {"tcp://127.0.0.1:5555", "tcp://*:*",
          "tcp://[::1]:80",       "tcp://host.example:65535",
          "ipc:///tmp/socket",    "tcp://eth0:*",
          "inproc://a",           "tcp://1.2.3.4:0",
          "orphan-3-12",          "shard-3-0",
          "step-000000001412",    "store-server-1-00000000000000ff",
          "tcp://a:b:1",          ""};
}

const fuzz::Entered kEntered({"address", Run, Seeds});

}  // namespace
}  // namespace dslide::address_fuzz
