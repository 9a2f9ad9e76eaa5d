// Bytes from strangers at the sockets of a training cluster change nothing.
#include <doctest/doctest.h>

#include <regex>

#include "common/base/random.h"
#include "common/net/socket.h"
#include "tests/cluster/cluster.h"

namespace dslide::noise_test {
namespace {

Bytes Noise(Random* random) {
  Bytes bytes(random->Below(200));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random->Below(256));
  return bytes;
}

// A real message with some bytes changed, or cut short.
Bytes Damaged(Random* random) {
  Join join;
  join.role = Role::kWorker;
  join.name = "stranger";
  Bytes bytes =
      random->Below(2) == 0
          ? Encode({{{7}, {8}, 9, 0, 1}, std::move(join)}, WirePrecision::kFp32)
          : Encode({{{7}, {8}, 9, 0, 1}, GradientPush{{}, {1.0f, 2.0f}}}, WirePrecision::kFp32);
  if (random->Below(2) == 0) bytes.resize(random->Below(static_cast<uint32_t>(bytes.size())));
  for (uint32_t changes = 0; !bytes.empty() && changes < 8; ++changes) {
    bytes[random->Below(static_cast<uint32_t>(bytes.size()))] ^=
        static_cast<uint8_t>(1 + random->Below(255));
  }
  return bytes;
}

TEST_CASE("noise at all sockets is counted, and training finishes") {
  TestRun run;
  const auto train =
      run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=4"}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  NetContext context;
  std::vector<DealerSocket> sockets;
  for (const std::string& log : {run.ServerLog(1), run.ServerLog(2)}) {
    std::smatch found;
    REQUIRE(std::regex_search(log, found, std::regex("serving at (tcp://[0-9.:]+)")));
    auto socket = DealerSocket::Connect(context, found[1]);
    REQUIRE(socket.ok());
    sockets.push_back(std::move(*socket));
  }
  auto scheduler = DealerSocket::Connect(context, run.SchedulerAddress());
  REQUIRE(scheduler.ok());
  sockets.push_back(std::move(*scheduler));

  Random random(1);
  for (int i = 0; i < 200; ++i) {
    for (DealerSocket& socket : sockets) {
      CHECK(socket.Send(i % 2 == 0 ? Noise(&random) : Damaged(&random)));
    }
  }
  const auto counted = [&] {
    int servers = 0;
    const nlohmann::json status = run.Status();
    if (!status.contains("members")) return false;
    for (const auto& member : status["members"]) {
      if (member["role"] == "server" && member["malformed"] >= 100) ++servers;
    }
    return servers == 2;
  };
  CHECK(WaitFor(counted));
  // One line a second.
  for (const std::string& log : {run.ServerLog(1), run.ServerLog(2),
                                 ReadFile(run.run_directory() + "/logs/scheduler.log")}) {
    CHECK(Contains(log, "[net.message.malformed] malformed message number 1:"));
    CHECK_FALSE(Contains(log, "malformed message number 2:"));
  }
  REQUIRE(train->Wait() == 0);
  CHECK(run.Summary()["samples"] == 4 * kSamples);
  CHECK(run.Summary()["p_at_1"] > 0.9);
}

}  // namespace
}  // namespace dslide::noise_test
