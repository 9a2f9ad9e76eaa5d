#include "server/executor/request_round.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace dslide::request_round_test {
namespace {

using Progress = RequestRound::Progress;

TopKReply Top(uint32_t id, float score) { return {{0, 1}, {id}, {score}}; }

ActiveReply Active(float max, float sum_exp) {
  ActiveReply active;
  active.max = {max};
  active.sum_exp = {sum_exp};
  active.target_logit = {0.5f};
  active.active = {2};
  return active;
}

TEST_CASE("the parts of a request are added up in one round") {
  RequestRound round(TopKRequest{Matrix(1, 4), 1, {}, {}});
  CHECK(round.Gather({Top(3, 0.5f), Top(4, 0.7f)}) == Progress::kReplied);
  CHECK(std::get<TopKReply>(round.TakeReply()).ids == std::vector<uint32_t>{4});
}

TEST_CASE("a query with `finish` takes a second round, and both are in the reply") {
  ActiveQuery query;
  query.batch = {0, 1, 2};
  query.finish = true;
  RequestRound round(query);
  CHECK(round.Gather({Active(1, 2), Active(1, 3)}) == Progress::kSecondRound);
  const auto& push = std::get<GradientPush>(*round.request());
  CHECK(push.batch == query.batch);
  REQUIRE(push.log_normaliser.size() == 1);
  CHECK(push.log_normaliser[0] == doctest::Approx(1 + std::log(5.0)));
  GradientReply part;
  part.partial = Matrix(1, 4);
  CHECK(round.Gather({part, part}) == Progress::kReplied);
  const Body reply = round.TakeReply();
  REQUIRE(std::get<GradientReply>(reply).active);
  CHECK(std::get<GradientReply>(reply).active->sum_exp[0] == doctest::Approx(5));
}

TEST_CASE("an error of any executor is the reply, also in a query's first round") {
  ActiveQuery query;
  query.finish = true;
  RequestRound round(query);
  CHECK(round.Gather({Active(1, 2), ErrorReply{ErrorCode::kUnknownBatch, "gone"}}) ==
        Progress::kReplied);
  CHECK(std::get<ErrorReply>(round.TakeReply()).code == ErrorCode::kUnknownBatch);
}

TEST_CASE("floats that are not finite mean that training has diverged") {
  RequestRound round(TopKRequest{Matrix(1, 4), 1, {}, {}});
  CHECK(round.Gather({Top(3, std::numeric_limits<float>::quiet_NaN())}) == Progress::kOutOfRange);
  ActiveQuery query;
  RequestRound nothing_active(query);  // -infinity is the largest of no logits
  CHECK(nothing_active.Gather({Active(-HUGE_VALF, 0)}) == Progress::kReplied);
}

}  // namespace
}  // namespace dslide::request_round_test
