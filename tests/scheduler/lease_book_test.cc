#include "scheduler/lease_book.h"

#include <doctest/doctest.h>

#include "common/base/random.h"

namespace dslide {
namespace {

TEST_CASE("units are leased in order, the last may be short, and none twice at a time") {
  LeaseBook book(7, 3);
  const auto a = book.Grant("w", 0), b = book.Grant("x", 0), c = book.Grant("w", 0);
  REQUIRE((a && b && c));
  CHECK(a->batches == std::vector<uint32_t>{0, 1, 2});
  CHECK(b->unit == 1);
  CHECK(c->batches == std::vector<uint32_t>{0});
  CHECK_FALSE(book.Grant("w", 0));
  CHECK(book.leases() == 3);
  CHECK(book.Done(c->id, 2, 0, 0));
  CHECK(book.leases() == 2);
  CHECK_FALSE(book.Done(c->id, 2, 0, 0));
  CHECK_FALSE(book.Done(c->id, 2, 1, 0));  // the unit has one batch
  CHECK_FALSE(book.Done(a->id, 3, 0, 0));
  CHECK_FALSE(book.Done(a->id, 0xffffffff, 0xffffffff, 0));
  CHECK(book.Return("w") == 1);
  CHECK(book.Grant("y", 0)->unit == 0);
}

TEST_CASE("progress renews a lease, silence ends it, and only what is left is leased again") {
  LeaseBook book(6, 3);
  const auto a = book.Grant("w", 0), b = book.Grant("x", 0);
  CHECK(book.Done(a->id, 0, 1, 90));
  CHECK(book.Expire(100, 100) == 0);
  CHECK(book.Expire(101, 100) == 1);  // x's
  CHECK(book.Grant("y", 101)->unit == 1);
  CHECK(book.Expire(191, 100) == 1);
  CHECK(book.Grant("y", 191)->batches == std::vector<uint32_t>{0, 2});
  CHECK(book.Done(b->id, 1, 2, 192));  // late, but the first
}

TEST_CASE("an empty book is complete, a restored one knows what is done") {
  CHECK(LeaseBook(0, 3).complete());
  LeaseBook book(4, 2);
  book.Restore(0, 0);
  book.Restore(0, 1);
  book.Restore(1, 1);
  book.Restore(7, 7);
  CHECK(book.done() == 3);
  const auto lease = book.Grant("w", 0);
  CHECK(lease->unit == 1);
  CHECK(lease->batches == std::vector<uint32_t>{0});
  CHECK(book.Done(lease->id, 1, 0, 0));
  CHECK(book.complete());
  CHECK(book.leases() == 0);
}

// Random grants, reports, deaths and expiries against plain lists of what is done and leased.
void RunProperty(uint64_t seed) {
  struct Held {
    Lease lease;
    std::string holder;
    int64_t renewed_ms;
    bool over = false;
  };
  Random random(seed);
  const uint64_t batches = 1 + random.Below(60);
  const auto unit_batches = static_cast<uint32_t>(1 + random.Below(7));
  LeaseBook book(batches, unit_batches);
  std::vector<int> counted(batches);
  std::vector<Held> all;  // every lease ever given; late reports come from those that are over
  int64_t now = 0;
  const auto unit_done = [&](uint32_t unit) {
    for (uint64_t n = uint64_t{unit} * unit_batches;
         n < std::min(batches, (uint64_t{unit} + 1) * unit_batches); ++n) {
      if (counted[n] == 0) return false;
    }
    return true;
  };
  for (int step = 0; step < 20000 && !book.complete(); ++step) {
    now += static_cast<int64_t>(random.Below(10));
    const std::string holder = "w" + std::to_string(random.Below(4));
    size_t held = 0;
    for (const Held& h : all) held += !h.over;
    REQUIRE(book.leases() == held);
    switch (random.Below(8)) {
      case 0:
      case 1: {
        const auto lease = book.Grant(holder, now);
        if (!lease) break;
        for (const Held& h : all) REQUIRE((h.over || h.lease.unit != lease->unit));
        for (const uint32_t i : lease->batches) {
          REQUIRE(counted[lease->unit * unit_batches + i] == 0);
        }
        REQUIRE_FALSE(lease->batches.empty());
        all.push_back({*lease, holder, now});
        break;
      }
      case 2: {
        size_t returned = 0;
        for (Held& h : all) {
          if (!h.over && h.holder == holder) h.over = true, ++returned;
        }
        REQUIRE(book.Return(holder) == returned);
        break;
      }
      case 3: {
        size_t expired = 0;
        for (Held& h : all) {
          if (!h.over && now - h.renewed_ms > 50) h.over = true, ++expired;
        }
        REQUIRE(book.Expire(now, 50) == expired);
        break;
      }
      default: {
        if (all.empty()) break;
        Held& h = all[all.size() - 1 - random.Below(std::min<uint64_t>(all.size(), 6))];
        const uint32_t index = h.lease.batches[random.Below(h.lease.batches.size())];
        int& count = counted[h.lease.unit * unit_batches + index];
        const bool counts = book.Done(h.lease.id, h.lease.unit, index, now);
        REQUIRE(counts == (count == 0));
        count += counts;
        if (!h.over) h.renewed_ms = now;
        if (!h.over && unit_done(h.lease.unit)) h.over = true;
        break;
      }
    }
  }
  REQUIRE(book.complete());
  for (const int count : counted) REQUIRE(count == 1);
  CHECK_FALSE(book.Grant("w", now));
}

TEST_CASE("whatever happens, every batch counts exactly once") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RunProperty(seed);
  }
}

}  // namespace
}  // namespace dslide
