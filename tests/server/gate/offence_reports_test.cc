#include "server/gate/offence_reports.h"

#include "tests/server/support/part_fixture.h"
#include "tests/server/support/sorted_actions.h"

namespace dslide::offence_reports_test {
namespace {

struct Fixture : PartFixture {
  OffenceReports reports;

  // What the scheduler is told of an offence at that time.
  std::vector<Message> Sent(uint64_t worker, int64_t now_us) {
    reports.Send({Offence{worker, {1, 2, 3}, "lies", {9}}}, now_us, &out);
    return SortedActions(out.Drain()).to_scheduler;
  }
};

TEST_CASE_FIXTURE(Fixture, "offences: a worker is reported once a second, and so many at most") {
  const auto first = Sent(5, 0);
  REQUIRE(first.size() == 1);
  CHECK(first[0].body == Body{Offence{5, {1, 2, 3}, "lies", {9}}});
  CHECK(Sent(5, 10).empty());
  CHECK(Sent(6, 10).size() == 1);
  CHECK(Sent(5, OffenceReports::kGapUs).size() == 1);
  size_t sent = 0;
  for (uint64_t worker = 1000; worker < 3000; ++worker) {
    sent += Sent(worker, 5 * OffenceReports::kGapUs).size();
  }
  CHECK(sent == OffenceReports::kMostRemembered);
}

}  // namespace
}  // namespace dslide::offence_reports_test
