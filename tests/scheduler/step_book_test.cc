#include "scheduler/step_book.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "scheduler/lease_book.h"

namespace dslide {
namespace {

TEST_CASE("a step is committed when it and all before it are complete") {
  StepBook book(10, 4, 7, 0);  // steps 7, 8 and 9, the last of two batches
  CHECK(book.committed() == 7);
  for (const uint64_t n : {4, 5, 6, 7, 0, 1, 2}) book.Done(n);
  CHECK(book.committed() == 7);  // the second step is complete, the first lacks a batch
  book.Done(3);
  CHECK(book.committed() == 9);
  book.Done(9);
  CHECK(book.committed() == 9);
  book.Done(8);
  CHECK(book.committed() == 10);
}

TEST_CASE("batches of the open steps may be worked on, those of one step more be leased") {
  StepBook book(11, 2, 0, 0);
  CHECK(book.OpenBatches() == 2);
  CHECK(book.LeasableBatches() == 4);
  book.Done(0);
  CHECK(book.OpenBatches() == 2);
  book.Done(1);
  CHECK(book.OpenBatches() == 4);
  CHECK(book.LeasableBatches() == 6);
  StepBook ahead(11, 2, 5, 2);
  CHECK(ahead.OpenBatches() == 6);
  CHECK(ahead.LeasableBatches() == 8);
  for (uint64_t n = 0; n < 6; ++n) ahead.Done(n);
  CHECK(ahead.OpenBatches() == 11);
  CHECK(ahead.LeasableBatches() == 11);
}

TEST_CASE("a boundary is where no step that was leased from is incomplete") {
  StepBook book(10, 4, 3, 0);
  CHECK(book.AtBoundary());
  CHECK(book.StartedBatches() == 0);
  book.Leased(0);
  CHECK_FALSE(book.AtBoundary());
  CHECK(book.StartedBatches() == 4);
  book.Leased(5);
  CHECK(book.StartedBatches() == 8);
  book.Leased(1);  // again, of an earlier step
  CHECK(book.StartedBatches() == 8);
  for (uint64_t n = 0; n < 4; ++n) book.Done(n);
  CHECK_FALSE(book.AtBoundary());
  for (uint64_t n = 4; n < 8; ++n) book.Done(n);
  CHECK(book.AtBoundary());
  book.Leased(8);
  CHECK(book.StartedBatches() == 10);
  CHECK_FALSE(book.AtBoundary());
}

TEST_CASE("whatever the order, as many steps are committed as are complete from the first on") {
  Random random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const uint64_t batches = 1 + random.Below(40), per_step = 1 + random.Below(8);
    const uint64_t staleness = random.Below(3);
    StepBook book(batches, per_step, 100, staleness);
    std::vector<uint64_t> order(batches);
    for (uint64_t n = 0; n < batches; ++n) order[n] = n;
    for (size_t i = batches; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    std::vector<bool> done(batches);
    for (const uint64_t n : order) {
      book.Done(n);
      done[n] = true;
      const auto first_missing =
          static_cast<uint64_t>(std::find(done.begin(), done.end(), false) - done.begin());
      const uint64_t steps = (batches + per_step - 1) / per_step;
      const uint64_t complete = first_missing == batches ? steps : first_missing / per_step;
      REQUIRE(book.committed() == 100 + complete);
      REQUIRE(book.OpenBatches() == std::min(batches, (complete + staleness + 1) * per_step));
      REQUIRE(book.LeasableBatches() == std::min(batches, (complete + staleness + 2) * per_step));
    }
  }
}

TEST_CASE("units behind the end are not leased, of those behind the open ones each gets one") {
  LeaseBook book(12, 2);
  CHECK(book.Grant("a", 0, 4, 8)->unit == 0);
  CHECK(book.Grant("a", 0, 4, 8)->unit == 1);
  CHECK(book.Grant("a", 0, 4, 8)->unit == 2);
  CHECK_FALSE(book.Grant("a", 0, 4, 8));  // it has one that waits
  CHECK(book.Grant("b", 0, 4, 8)->unit == 3);
  CHECK_FALSE(book.Grant("b", 0, 4, 8));
  CHECK_FALSE(book.Grant("c", 0, 4, 8));  // the next begins at the end
  CHECK(book.Return("b") == 1);
  CHECK(book.Grant("c", 0, 4, 8)->unit == 3);
  // When the step opens there is more for those who waited.
  CHECK(book.Grant("a", 0, 8, 12)->unit == 4);
  CHECK_FALSE(book.Grant("a", 0, 8, 12));
  // What returns of an open step is leased at once, also to one who has a unit that waits.
  CHECK(book.Return("c") == 1);
  CHECK(book.Grant("a", 0, 8, 12)->unit == 3);
}

TEST_CASE("leases from a batch on are renewed, the others are not") {
  LeaseBook book(8, 2);
  const auto first = book.Grant("a", 0), second = book.Grant("b", 0), third = book.Grant("c", 0);
  REQUIRE((first && second && third));
  book.RenewFrom(2, 90);
  CHECK(book.Expire(101, 100) == 1);
  CHECK(book.Grant("d", 101)->unit == first->unit);
  book.RenewFrom(4, 150);
  CHECK(book.Expire(195, 100) == 1);
  CHECK(book.Grant("d", 195)->unit == second->unit);
  CHECK(book.Expire(251, 100) == 2);
}

}  // namespace
}  // namespace dslide
