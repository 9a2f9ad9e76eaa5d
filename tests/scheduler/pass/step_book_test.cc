#include "scheduler/pass/step_book.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "scheduler/leases/lease_book.h"

namespace dslide::step_book_test {
namespace {

constexpr Incarnation kA{1}, kB{2}, kC{3}, kD{4}, kE{5};

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

TEST_CASE(
    "batches behind the end are not leased, of those behind the open ones each gets a share") {
  LeaseBook book(12, 2);
  const LeaseLimits first{.end = 8, .open = 4, .share = 2},
      second{.end = 12, .open = 8, .share = 2};
  CHECK(book.Grant(kA, 0, first)->unit == 0);
  CHECK(book.Grant(kA, 0, first)->unit == 1);
  CHECK(book.Grant(kA, 0, first)->unit == 2);
  CHECK_FALSE(book.Grant(kA, 0, first));  // it has two that wait
  CHECK(book.Grant(kB, 0, first)->unit == 3);
  CHECK_FALSE(book.Grant(kB, 0, first));
  CHECK_FALSE(book.Grant(kC, 0, first));  // the next begins at the end
  CHECK(book.Return(kB) == 1);
  CHECK(book.Grant(kC, 0, first)->unit == 3);
  // When the step opens there is more for those who waited.
  CHECK(book.Grant(kA, 0, second)->unit == 4);
  CHECK_FALSE(book.Grant(kA, 0, second));
  // What returns of an open step is leased at once, also to one who has its share that waits.
  CHECK(book.Return(kC) == 1);
  CHECK(book.Grant(kA, 0, second)->unit == 3);
}

TEST_CASE("a share cuts a unit, and what is returned makes room for more") {
  LeaseBook book(24, 4);  // unit 0 is open, 1 to 4 may be leased
  const auto grant = [&](Incarnation holder, uint64_t share) {
    const auto lease = book.Grant(holder, 0, {.end = 18, .open = 4, .share = share});
    return lease ? lease->batches : std::vector<uint32_t>();
  };
  using Batches = std::vector<uint32_t>;
  CHECK(grant(kA, 3) == Batches{0, 1, 2, 3});
  CHECK(grant(kA, 3) == Batches{0, 1, 2});
  CHECK(grant(kA, 3).empty());
  CHECK(grant(kB, 3) == Batches{3});
  CHECK(grant(kB, 3) == Batches{0, 1});
  CHECK(grant(kB, 3).empty());
  // Batches of the open step do not count.
  CHECK(book.Return(kA) == 2);
  CHECK(grant(kB, 3) == Batches{0, 1, 2, 3});
  CHECK(grant(kB, 3).empty());
  CHECK(grant(kC, 3) == Batches{0, 1, 2});
  // A share that grew, and one that shrank below what is held.
  CHECK(grant(kC, 4) == Batches{2});
  CHECK(grant(kC, 2).empty());
  CHECK(grant(kD, 1) == Batches{3});
  CHECK(grant(kD, 9) == Batches{0, 1, 2, 3});
  CHECK(grant(kE, 9) == Batches{0, 1});  // up to the end
  CHECK(grant(kE, 9).empty());
  // Without steps nothing is counted.
  CHECK(book.Grant(kE, 0)->batches == Batches{2, 3});
  CHECK(book.Grant(kE, 0)->unit == 5);
}

TEST_CASE("leases from a batch on are renewed, the others are not") {
  LeaseBook book(8, 2);
  const auto first = book.Grant(kA, 0), second = book.Grant(kB, 0), third = book.Grant(kC, 0);
  REQUIRE((first && second && third));
  book.RenewFrom(2, 90);
  CHECK(book.Expire(101, 100) == 1);
  CHECK(book.Grant(kD, 101)->unit == first->unit);
  book.RenewFrom(4, 150);
  CHECK(book.Expire(195, 100) == 1);
  CHECK(book.Grant(kD, 195)->unit == second->unit);
  CHECK(book.Expire(251, 100) == 2);
}

TEST_CASE("a lease is renewed only if none of its batches that are left could be done") {
  LeaseBook book(4, 4);
  const auto lease = book.Grant(kA, 0);
  book.RenewFrom(2, 90);
  CHECK(book.Done(lease->id, 0, 0, 10));
  CHECK(book.Done(lease->id, 0, 1, 10));
  book.RenewFrom(2, 90);
  CHECK(book.Expire(190, 100) == 0);
  CHECK(book.Expire(191, 100) == 1);
}

}  // namespace
}  // namespace dslide::step_book_test
