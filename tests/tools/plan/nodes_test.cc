// The machines of --nodes.
#include "tools/dslide/plan/nodes.h"

#include <doctest/doctest.h>

namespace dslide::nodes_test {
namespace {

TEST_CASE("plan: nodes are counted, and have cores, memory and a link") {
  const auto nodes = ParseNodes("4x2x8x100");
  REQUIRE(nodes.ok());
  REQUIRE((*nodes).size() == 4);
  for (const PlannedNode& node : *nodes) {
    CHECK(node.cores == 2);
    CHECK(node.memory_bytes == uint64_t{8} << 30);
    CHECK(node.bits_per_second == 1e8);
    CHECK(node.servers == 1);
    CHECK(node.workers == 1);
  }
}

TEST_CASE("plan: groups of nodes, and nodes with other processes than one of each") {
  const auto nodes = ParseNodes("2x4x16x1000:2+0,3x0.5x1.5x12.5:0+1");
  REQUIRE(nodes.ok());
  REQUIRE((*nodes).size() == 5);
  CHECK((*nodes)[1].servers == 2);
  CHECK((*nodes)[1].workers == 0);
  CHECK((*nodes)[2].cores == 0.5);
  CHECK((*nodes)[2].memory_bytes == uint64_t{3} << 29);
  CHECK((*nodes)[2].bits_per_second == 1.25e7);
  CHECK((*nodes)[2].servers == 0);
  CHECK((*nodes)[4].workers == 1);
}

TEST_CASE("plan: what is no list of nodes is refused with what is expected") {
  const auto why = [](const char* text) {
    const auto nodes = ParseNodes(text);
    REQUIRE_FALSE(nodes.ok());
    CHECK(nodes.error().kind == ErrorKind::kBadInput);
    CHECK(nodes.error().message.starts_with("--nodes "));
    return nodes.error().message;
  };
  for (const char* text :
       {"", "4", "4x2x8", "4x2x8x100x1", "ax2x8x100", "4x2x8x100:", "4x2x8x100:1", "4x2x8x100:1+",
        "4x2x8x100:1+1:1", "4x2x8x100,", "-4x2x8x100", "4x2xnanx100", "4x2x8x100:x+1"}) {
    CAPTURE(text);
    CHECK(why(text).find("such as 4x2x8x100") != std::string::npos);
  }
  CHECK(why("0x2x8x100").find("1 to 256 nodes") != std::string::npos);
  CHECK(why("257x2x8x100").find("1 to 256 nodes") != std::string::npos);
  CHECK(why("200x2x8x100,57x1x1x1").find("257 nodes are more than 256") != std::string::npos);
  CHECK(why("129x2x8x100").find("129 servers and 129 workers are more than the 256 processes") !=
        std::string::npos);
  CHECK(ParseNodes("128x2x8x100").ok());
  CHECK(why("4x0x8x100").find("cores") != std::string::npos);
  CHECK(why("4x2x0x100").find("memory") != std::string::npos);
  CHECK(why("4x2x8x0").find("Mbit/s") != std::string::npos);
  CHECK(why("4x2x8x100:0+0").find("one of them at least") != std::string::npos);
  CHECK(why("4x2x8x100:65+1").find("up to 64 servers") != std::string::npos);
  CHECK(why("4x2x8x100:1+0").find("no node has a worker") != std::string::npos);
  CHECK(why("4x2x8x100:0+1").find("no node has a server") != std::string::npos);
}

}  // namespace
}  // namespace dslide::nodes_test
