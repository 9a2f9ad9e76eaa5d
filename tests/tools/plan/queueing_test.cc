// Queues whose speed can be worked out by hand.
#include "tools/dslide/plan/queueing.h"

#include <utility>

#include <doctest/doctest.h>

namespace dslide::queueing_test {
namespace {

Chain Line(double in_flight, std::vector<Visit> visits) {
  return {in_flight, {{std::move(visits), {}, {}}}};
}

TEST_CASE("plan: one batch at a time takes the sum of its visits") {
  const Network network{{}, {{}, {}}, {Line(1, {{0, 0.2}, {1, 0.3}})}};
  const Flow flow = SolveFlow(network);
  CHECK(flow.rate() == doctest::Approx(2));
  CHECK(flow.elapsed[0] == doctest::Approx(0.5));
  CHECK(flow.station_busy[0] == doctest::Approx(0.4));
  CHECK(flow.station_busy[1] == doctest::Approx(0.6));
}

TEST_CASE("plan: n batches at k equal stations flow at n / (n + k - 1) of a station's rate") {
  for (const double n : {1.0, 2.0, 5.0}) {
    const Network network{{}, {{}, {}, {}}, {Line(n, {{0, 0.1}, {1, 0.1}, {2, 0.1}})}};
    CHECK(SolveFlow(network).rate() == doctest::Approx(10 * n / (n + 2)).epsilon(1e-4));
  }
}

TEST_CASE("plan: many batches flow at the rate of the slowest station") {
  const Network network{{}, {{}, {}}, {Line(200, {{0, 0.1}, {1, 0.25}})}};
  const Flow flow = SolveFlow(network);
  CHECK(flow.rate() == doctest::Approx(4).epsilon(0.01));
  CHECK(flow.station_busy[1] == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("plan: branches run side by side, and the slowest one ends the stage") {
  const Network network{
      {}, {{}, {}, {}}, {{1, {{{{0, 0.1}}, {{{1, 0.2}}, {{2, 0.4}}}, {{0, 0.1}}}}}}};
  const Flow flow = SolveFlow(network);
  CHECK(flow.elapsed[0] == doctest::Approx(0.6));
  CHECK(flow.stretch[0][0] == doctest::Approx(1));
}

TEST_CASE("plan: threads share the cores of a machine") {
  // Two workers that would each use a core for all of the time: on one core half as fast.
  for (const double cores : {1.0, 2.0}) {
    const Network network{
        {{cores, 0}}, {{0, 1}, {0, 1}}, {Line(1, {{0, 0.1}}), Line(1, {{1, 0.1}})}};
    const Flow flow = SolveFlow(network);
    CHECK(flow.rate() == doctest::Approx(10 * cores).epsilon(0.01));
    CHECK(flow.processor_busy[0] == doctest::Approx(1).epsilon(0.01));
  }
  // Four threads of one server on two cores.
  const Network server{{{2, 0}}, {{0, 4}}, {Line(1, {{0, 0.1}})}};
  CHECK(SolveFlow(server).rate() == doctest::Approx(5));
  // Other work has one of two cores.
  const Network busy{{{2, 1}}, {{0, 2}}, {Line(1, {{0, 0.1}})}};
  CHECK(SolveFlow(busy).rate() == doctest::Approx(10 / 1.5));
}

}  // namespace
}  // namespace dslide::queueing_test
