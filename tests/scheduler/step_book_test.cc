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
      REQUIRE(book.CommittedBatches() == std::min(batches, complete * per_step));
      REQUIRE(book.OpenBatches() == std::min(batches, (complete + staleness + 1) * per_step));
      REQUIRE(book.LeasableBatches() == std::min(batches, (complete + staleness + 2) * per_step));
    }
  }
}

TEST_CASE("units behind the end are not leased, of those behind the open ones each gets a share") {
  LeaseBook book(12, 2);
  CHECK(book.Grant("a", 0, 4, 8, 1)->unit == 0);
  CHECK(book.Grant("a", 0, 4, 8, 1)->unit == 1);
  CHECK(book.Grant("a", 0, 4, 8, 1)->unit == 2);
  CHECK_FALSE(book.Grant("a", 0, 4, 8, 1));  // it has one that waits
  CHECK(book.Grant("b", 0, 4, 8, 1)->unit == 3);
  CHECK_FALSE(book.Grant("b", 0, 4, 8, 1));
  CHECK_FALSE(book.Grant("c", 0, 4, 8, 1));  // the next begins at the end
  CHECK(book.Return("b") == 1);
  CHECK(book.Grant("c", 0, 4, 8, 1)->unit == 3);
  // When the step opens there is more for those who waited.
  CHECK(book.Grant("a", 0, 8, 12, 1)->unit == 4);
  CHECK_FALSE(book.Grant("a", 0, 8, 12, 1));
  // What returns of an open step is leased at once, also to one who has a unit that waits.
  CHECK(book.Return("c") == 1);
  CHECK(book.Grant("a", 0, 8, 12, 1)->unit == 3);
}

TEST_CASE("a share of several units, of which what is done or returned makes room for more") {
  LeaseBook book(24, 2);  // units 0 and 1 are open, 2 to 9 may be leased
  const auto grant = [&](const char* holder) { return book.Grant(holder, 0, 4, 20, 3); };
  for (uint32_t unit = 0; unit < 5; ++unit) CHECK(grant("a")->unit == unit);
  CHECK_FALSE(grant("a"));
  for (uint32_t unit = 5; unit < 8; ++unit) CHECK(grant("b")->unit == unit);
  CHECK_FALSE(grant("b"));
  // Units of the open step do not count.
  CHECK(book.Return("a") == 5);
  CHECK(grant("b")->unit == 0);
  CHECK(grant("b")->unit == 1);
  CHECK_FALSE(grant("b"));
  for (uint32_t unit = 2; unit < 5; ++unit) CHECK(grant("a")->unit == unit);
  CHECK_FALSE(grant("a"));
  // A share that grew, and one that shrank below what is held.
  CHECK(book.Grant("a", 0, 4, 20, 4)->unit == 8);
  CHECK_FALSE(book.Grant("a", 0, 4, 20, 1));
  CHECK_FALSE(book.Grant("c", 0, 4, 20, 0));
  CHECK(book.Grant("c", 0, 4, 20, 1)->unit == 9);
  CHECK_FALSE(book.Grant("c", 0, 4, 20, 9));  // the next begins at the end
  // Without steps nothing is counted.
  CHECK(book.Grant("c", 0)->unit == 10);
  CHECK(book.Grant("c", 0)->unit == 11);
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
