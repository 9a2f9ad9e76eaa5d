#include "scheduler/leases/lease_book.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/random.h"

namespace dslide::lease_book_test {
namespace {

constexpr Incarnation kA{1}, kB{2}, kC{3}, kD{4}, kW{5}, kX{6}, kY{7};
constexpr Incarnation kSlow{10}, kMiddling{11}, kQuick{12}, kIdle{13};

TEST_CASE("whole units are leased in order, the last may be short, and none twice at a time") {
  LeaseBook book(7, 3);
  const auto a = book.Grant(kW, 0), b = book.Grant(kX, 0), c = book.Grant(kW, 0);
  REQUIRE((a && b && c));
  CHECK(a->batches == std::vector<uint32_t>{0, 1, 2});
  CHECK(b->unit == 1);
  CHECK(c->batches == std::vector<uint32_t>{0});
  CHECK_FALSE(book.Grant(kW, 0));
  CHECK(book.leases() == 3);
  CHECK(book.Done(c->id, 2, 0, 0));
  CHECK(book.leases() == 2);
  CHECK_FALSE(book.Done(c->id, 2, 0, 0));
  CHECK_FALSE(book.Done(c->id, 2, 1, 0));  // the unit has one batch
  CHECK_FALSE(book.Done(a->id, 3, 0, 0));
  CHECK_FALSE(book.Done(a->id, 0xffffffff, 0xffffffff, 0));
  CHECK(book.Return(kW) == 1);
  CHECK(book.Grant(kY, 0)->unit == 0);
}

TEST_CASE("progress renews a lease, silence ends it, and only what is left is leased again") {
  LeaseBook book(6, 3);
  const auto a = book.Grant(kW, 0), b = book.Grant(kX, 0);
  CHECK(book.Done(a->id, 0, 1, 90));
  CHECK(book.Expire(100, 100) == 0);
  CHECK(book.Expire(101, 100) == 1);  // x's
  CHECK(book.Grant(kY, 101)->unit == 1);
  CHECK(book.Expire(191, 100) == 1);
  CHECK(book.Grant(kY, 191)->batches == std::vector<uint32_t>{0, 2});
  CHECK(book.Done(b->id, 1, 2, 192));  // late, but the first
}

TEST_CASE("a batch that is reported again renews nothing") {
  LeaseBook book(6, 3);
  const auto lease = book.Grant(kA, 0);
  REQUIRE(lease);
  REQUIRE(book.Grant(kA, 0));
  CHECK(book.Done(lease->id, 0, 0, 90));
  CHECK_FALSE(book.Done(lease->id, 0, 0, 150));
  CHECK(book.Expire(190, 100) == 0);
  CHECK(book.Expire(191, 100) == 2);
}

TEST_CASE("progress renews its holder's leases of later batches, for those wait behind it") {
  LeaseBook book(40, 4);
  const auto first = book.Grant(kA, 0);
  REQUIRE(book.Grant(kX, 0));
  const auto third = book.Grant(kA, 0);
  REQUIRE(book.Grant(kB, 0));
  REQUIRE(book.Return(kX) == 1);
  const auto again = book.Grant(kA, 0);  // younger than the third, but its batches come earlier
  REQUIRE(again->unit == 1);
  CHECK(book.Done(again->id, 1, 0, 900));
  CHECK(book.Expire(1001, 1000) == 2);                // a's first and b's
  CHECK(book.Done(first->id, first->unit, 0, 1500));  // that lease is over, and renews nothing
  CHECK(book.Expire(1900, 1000) == 0);
  CHECK(book.Expire(1901, 1000) == 2);
  CHECK_FALSE(book.IsDone(third->unit, 0));
}

TEST_CASE("an empty book is complete, a restored one knows what is done") {
  CHECK(LeaseBook(0, 3).complete());
  LeaseBook book(4, 2);
  book.Restore(0, 0);
  book.Restore(0, 1);
  book.Restore(1, 1);
  book.Restore(7, 7);
  CHECK(book.done() == 3);
  const auto lease = book.Grant(kW, 0);
  CHECK(lease->unit == 1);
  CHECK(lease->batches == std::vector<uint32_t>{0});
  CHECK(book.Done(lease->id, 1, 0, 0));
  CHECK(book.complete());
  CHECK(book.leases() == 0);
}

TEST_CASE("several leases are open on a unit, each of as many batches as was asked for") {
  LeaseBook book(7, 4);
  const auto a = book.Grant(kA, 0, {.batches = 2}), b = book.Grant(kB, 0, {.batches = 1});
  REQUIRE((a && b));
  CHECK(a->batches == std::vector<uint32_t>{0, 1});
  CHECK(b->batches == std::vector<uint32_t>{2});
  CHECK(book.Done(b->id, 0, 2, 5));
  CHECK(book.leases() == 1);
  CHECK(book.Grant(kB, 5, {.batches = 2})->batches == std::vector<uint32_t>{3});
  // What comes back is leased before what is behind it, around what others hold.
  CHECK(book.Done(a->id, 0, 0, 6));
  CHECK(book.Return(kA) == 1);
  CHECK(book.Return(kB) == 1);
  CHECK(book.Grant(kC, 6, {.batches = 3})->batches == std::vector<uint32_t>{1, 3});
  CHECK(book.Grant(kC, 6, {.batches = 9})->batches == std::vector<uint32_t>{0, 1, 2});
  const auto open = book.OpenLeases();
  REQUIRE(open.size() == 2);
  CHECK(open[0].holder == kC);
  CHECK(open[0].granted == 2);
  CHECK(open[1].left == 3);
}

// Speeds in batches a second.
LeaseBook::Speed Speeds(std::map<Incarnation, double> speeds) {
  return [speeds = std::move(speeds)](Incarnation holder) {
    const auto found = speeds.find(holder);
    return found == speeds.end() ? 0.0 : found->second;
  };
}

TEST_CASE("who has nothing to do gets copies of the batches that would be ready last") {
  LeaseBook book(14, 8);
  const auto slow = book.Grant(kSlow, 0, {.batches = 8});
  const auto middling = book.Grant(kMiddling, 0, {.batches = 6});
  REQUIRE((slow && middling));
  const auto speeds = Speeds({{kSlow, 1}, {kMiddling, 2}, {kQuick, 3}});
  CHECK_FALSE(book.Grant(kQuick, 0));
  const auto copy = book.LeaseBackup(kQuick, 0, speeds);
  REQUIRE(copy);
  CHECK(copy->unit == 0);
  CHECK(copy->batches == std::vector<uint32_t>{2, 3, 4, 5, 6, 7});  // in 2 s, as the other two
  CHECK(book.OpenLeases().back().copy);
  // With that middling's are the last.
  CHECK_FALSE(book.LeaseBackup(kMiddling, 0, speeds));
  const auto other = book.LeaseBackup(kIdle, 0, speeds);
  REQUIRE(other);
  CHECK(other->unit == 1);
  CHECK(other->batches == std::vector<uint32_t>{3, 4, 5});
  // The first report counts, whose ever it is; the lease of who was late ends with it.
  CHECK(book.Done(copy->id, 0, 2, 1));
  CHECK_FALSE(book.Done(slow->id, 0, 2, 1));
  CHECK(book.Done(slow->id, 0, 3, 1));
  CHECK_FALSE(book.Done(copy->id, 0, 3, 1));
  for (const uint32_t i : {4u, 5u, 6u, 7u}) CHECK(book.Done(copy->id, 0, i, 2));
  for (const uint32_t i : {0u, 1u}) CHECK(book.Done(slow->id, 0, i, 2));
  CHECK(book.leases() == 2);  // unit 1
  CHECK(book.Return(kSlow) == 0);
}

TEST_CASE("a copy is not given where it would be late as well, but one who is silent gets help") {
  LeaseBook book(4, 4);
  const auto lease = book.Grant(kA, 0, {.batches = 1});
  REQUIRE(lease);
  const auto speeds = Speeds({{kA, 1}, {kB, 1}, {kSlow, 0.1}});
  CHECK_FALSE(book.LeaseBackup(kB, 0, speeds));
  CHECK_FALSE(book.LeaseBackup(kSlow, 2000, speeds));
  const auto copy = book.LeaseBackup(kB, 2000, speeds);  // no progress for two seconds
  REQUIRE(copy);
  CHECK_FALSE(book.LeaseBackup(kC, 9000, speeds));  // it has its copy
  // What the copier has already to do counts, and batches behind the end are not given.
  LeaseBook other(8, 4);
  CHECK(other.Grant(kB, 0));
  CHECK(other.Grant(kA, 0, {.batches = 3}));
  CHECK_FALSE(other.LeaseBackup(kB, 0, speeds));
  CHECK(other.LeaseBackup(kC, 0, speeds, {.end = 6})->batches == std::vector<uint32_t>{2, 3});
  CHECK(other.LeaseBackup(kD, 0, speeds, {.end = 6})->batches == std::vector<uint32_t>{1});
}

TEST_CASE("with thousands of leases who asks in vain does not look at all of them") {
  constexpr uint32_t kMany = 20'000;
  LeaseBook book(kMany, 1);
  for (uint64_t worker = 1; worker <= kMany; ++worker) REQUIRE(book.Grant({worker}, 0));
  size_t looks = 0;
  const auto speeds = [&](Incarnation) {
    ++looks;
    return 1.0;
  };
  for (uint64_t idle = 1; idle <= kMany; ++idle) {
    CHECK_FALSE(book.LeaseBackup({kMany + idle}, 1, speeds));
  }
  CHECK(looks <= 2 * kMany);
  // Those that are silent get help, each from one.
  looks = 0;
  std::set<std::pair<uint32_t, uint32_t>> copied;
  for (uint64_t idle = 1; idle <= kMany; ++idle) {
    const auto copy = book.LeaseBackup({kMany + idle}, 5000, speeds);
    REQUIRE(copy);
    copied.emplace(copy->unit, copy->batches.at(0));
  }
  CHECK(copied.size() == kMany);
  CHECK(looks <= 2 * kMany);
}

TEST_CASE("a lease that has to wait does not hide that its holder is silent") {
  const auto speeds = [](Incarnation) { return 10.0; };
  LeaseBook book(4, 1);
  REQUIRE((book.Grant(kSlow, 0) && book.Grant(kB, 0)));
  REQUIRE(book.Grant(kSlow, 0));  // of the next step
  book.RenewFrom(2, 2000);
  CHECK(book.LeaseBackup(kB, 2000, speeds, {.end = 2})->batches == std::vector<uint32_t>{0});
}

TEST_CASE("who fails leaves the batch to who has its copy, and the other way round") {
  LeaseBook book(2, 2);
  const auto lease = book.Grant(kA, 0);
  const auto speeds = Speeds({{kA, 1}, {kB, 100}});
  auto copy = book.LeaseBackup(kB, 0, speeds);
  REQUIRE((lease && copy));
  CHECK(copy->batches.size() == 1);
  CHECK(book.Return(kA) == 1);
  CHECK(book.Grant(kC, 0)->batches == std::vector<uint32_t>{0});
  CHECK(book.Return(kB) == 1);
  CHECK(book.Grant(kC, 0)->batches == std::vector<uint32_t>{1});
  copy = book.LeaseBackup(kB, 0, speeds);
  REQUIRE(copy);
  CHECK(book.Return(kB) == 1);
  CHECK_FALSE(book.Grant(kD, 0));
  CHECK(book.LeaseBackup(kB, 0, speeds)->batches == copy->batches);
}

// Random grants, copies, reports, deaths and expiries against plain lists of what is done and who
// has what.
void RunProperty(uint64_t seed) {
  struct Held {
    Lease lease;
    Incarnation holder;
    int64_t renewed_ms;
    std::vector<uint64_t> left;
    bool over() const { return left.empty(); }
  };
  Random random(seed);
  const uint64_t batches = 1 + random.Below(60);
  const auto unit_batches = static_cast<uint32_t>(1 + random.Below(7));
  LeaseBook book(batches, unit_batches);
  std::vector<int> counted(batches);
  std::vector<Held> all;  // every lease ever given; late reports come from those that are over
  int64_t now = 0;
  const auto holders_of = [&](uint64_t batch) {
    std::vector<Incarnation> holders;
    for (const Held& h : all) {
      if (std::find(h.left.begin(), h.left.end(), batch) != h.left.end()) {
        holders.push_back(h.holder);
      }
    }
    return holders;
  };
  const auto note = [&](const Lease& lease, Incarnation holder) {
    REQUIRE_FALSE(lease.batches.empty());
    REQUIRE(std::is_sorted(lease.batches.begin(), lease.batches.end()));
    Held held{lease, holder, now, {}};
    for (const uint32_t i : lease.batches) {
      held.left.push_back(uint64_t{lease.unit} * unit_batches + i);
      REQUIRE(counted[held.left.back()] == 0);
    }
    all.push_back(std::move(held));
  };
  for (int step = 0; step < 20000 && !book.complete(); ++step) {
    now += static_cast<int64_t>(random.Below(10));
    const Incarnation holder{random.Below(4)};
    const LeaseLimits limits{.batches = static_cast<uint32_t>(1 + random.Below(4)),
                             .end = random.Below(2) == 0 ? batches : random.Below(batches + 1)};
    REQUIRE(book.leases() == static_cast<size_t>(std::count_if(
                                 all.begin(), all.end(), [](const Held& h) { return !h.over(); })));
    uint64_t free = 0;  // the first that can be leased
    while (free < batches && (counted[free] > 0 || !holders_of(free).empty())) ++free;
    switch (random.Below(10)) {
      case 0:
      case 1: {
        const auto lease = book.Grant(holder, now, limits);
        REQUIRE(lease.has_value() == (free < std::min(batches, limits.end)));
        if (!lease) break;
        REQUIRE(lease->unit == free / unit_batches);
        REQUIRE(lease->batches[0] == free % unit_batches);
        REQUIRE(lease->batches.size() <= limits.batches);
        for (const uint32_t i : lease->batches) {
          REQUIRE(uint64_t{lease->unit} * unit_batches + i < limits.end);
          REQUIRE(holders_of(uint64_t{lease->unit} * unit_batches + i).empty());
        }
        note(*lease, holder);
        break;
      }
      case 2: {
        const auto speed = [](Incarnation of) { return static_cast<double>(of.value); };
        const auto lease = book.LeaseBackup(holder, now, speed, limits);
        if (!lease) break;
        REQUIRE(lease->batches.size() <= limits.batches);
        for (const uint32_t i : lease->batches) {
          const uint64_t batch = uint64_t{lease->unit} * unit_batches + i;
          REQUIRE(batch < limits.end);
          const auto holders = holders_of(batch);
          REQUIRE(holders.size() == 1);
          REQUIRE(holders[0] != holder);
        }
        note(*lease, holder);
        break;
      }
      case 3: {
        size_t returned = 0;
        for (Held& h : all) {
          if (!h.over() && h.holder == holder) h.left.clear(), ++returned;
        }
        REQUIRE(book.Return(holder) == returned);
        break;
      }
      case 4: {
        size_t expired = 0;
        for (Held& h : all) {
          if (!h.over() && now - h.renewed_ms > 50) h.left.clear(), ++expired;
        }
        REQUIRE(book.Expire(now, 50) == expired);
        break;
      }
      default: {
        if (all.empty()) break;
        Held& h = all[all.size() - 1 - random.Below(std::min<uint64_t>(all.size(), 6))];
        const uint32_t index = h.lease.batches[random.Below(h.lease.batches.size())];
        const uint64_t batch = uint64_t{h.lease.unit} * unit_batches + index;
        const bool open = !h.over() && counted[batch] == 0;
        const bool counts = book.Done(h.lease.id, h.lease.unit, index, now);
        REQUIRE(counts == (counted[batch] == 0));
        counted[batch] += counts;
        for (Held& later : all) {
          const bool behind = later.holder == h.holder && !later.over() &&
                              (later.lease.id == h.lease.id || later.left.front() > batch);
          if (open && behind) later.renewed_ms = now;
        }
        for (Held& other : all) std::erase(other.left, batch);
        break;
      }
    }
  }
  REQUIRE(book.complete());
  REQUIRE(book.leases() == 0);
  for (const int count : counted) REQUIRE(count == 1);
  CHECK_FALSE(book.Grant(kW, now));
  CHECK_FALSE(book.LeaseBackup(kW, now, [](Incarnation) { return 1.0; }));
}

TEST_CASE("whatever happens, every batch counts exactly once") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RunProperty(seed);
  }
}

TEST_CASE("runs of batches against a plain set") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const uint64_t batches = random.Below(40);
    BatchRuns runs(batches);
    std::set<uint64_t> expected;
    for (uint64_t n = 0; n < batches; ++n) expected.insert(n);
    for (int step = 0; step < 500 && batches > 0; ++step) {
      const uint64_t n = random.Below(batches);
      if (random.Below(2) == 0) {
        runs.Insert(n);
        expected.insert(n);
      } else {
        runs.Erase(n);
        expected.erase(n);
      }
      REQUIRE(runs.empty() == expected.empty());
      if (!expected.empty()) REQUIRE(runs.first() == *expected.begin());
      const uint64_t from = random.Below(batches + 1);
      const auto next = expected.lower_bound(from);
      REQUIRE(runs.Next(from, 99) == (next == expected.end() ? 99 : *next));
    }
  }
}

}  // namespace
}  // namespace dslide::lease_book_test
