#include "server/migration/slot_fetcher.h"

#include <doctest/doctest.h>

#include <set>

namespace dslide::slot_fetcher_test {
namespace {

const PlanServer kFrom{"a", "tcp://a", {7}}, kOther{"b", "tcp://b", {8}};

// Rows of 100 bytes each.
SlotRows Rows(uint32_t slot, uint32_t part, std::vector<uint32_t> rows, uint32_t left,
              bool last = false, uint32_t input_rows = 0) {
  SlotRows made;
  made.slot = slot;
  made.part = part;
  made.input_rows = input_rows;
  made.rows = std::move(rows);
  for (uint32_t i = 0; i < made.rows.size(); ++i) made.ends.push_back(100 * (i + 1));
  made.bytes.resize(100 * made.rows.size());
  made.left = left;
  made.last = last;
  return made;
}

SlotPull Pull(uint32_t slot, uint32_t part, bool cold = true) {
  return {slot, part, cold, SlotFetcher::kPartBytes, false};
}

std::vector<SlotPull> Pulls(SlotFetcher* fetcher, int64_t now_ms) {
  std::vector<SlotPull> pulls;
  for (const auto& due : fetcher->TakeDue(now_ms)) pulls.push_back(due.pull);
  return pulls;
}

using Asked = std::vector<SlotPull>;

TEST_CASE(
    "slot fetcher: parts are asked for one after the other, until only what changes is left") {
  SlotFetcher fetcher;
  CHECK(fetcher.AllColdThere());  // nothing is wanted
  CHECK(fetcher.Begin({3}, kFrom));
  CHECK_FALSE(fetcher.AllColdThere());
  const auto due = fetcher.TakeDue(0);
  REQUIRE(due.size() == 1);
  CHECK(due[0].from == kFrom);
  CHECK(due[0].pull == Pull(3, 0));
  CHECK(Pulls(&fetcher, 0).empty());  // an answer is awaited
  CHECK(fetcher.Take(Rows(3, 0, {0, 1}, 4), 5));
  CHECK_FALSE(fetcher.AllColdThere());
  // The source watches for a while what changes.
  CHECK(Pulls(&fetcher, 4 + SlotFetcher::kWatchMs).empty());
  CHECK(Pulls(&fetcher, 5 + SlotFetcher::kWatchMs) == Asked{Pull(3, 1)});
  CHECK(fetcher.Take(Rows(3, 1, {2}, 3), 600));
  CHECK(Pulls(&fetcher, 600) == Asked{Pull(3, 2)});
  CHECK(fetcher.left_bytes() == 300);
  CHECK(fetcher.Take(Rows(3, 2, {}, 3), 700));
  CHECK(fetcher.AllColdThere());
  CHECK_FALSE(fetcher.AllThere());
  CHECK(Pulls(&fetcher, 60'000).empty());  // the plan has to come first
  fetcher.Complete({3});
  CHECK(Pulls(&fetcher, 60'000) == Asked{Pull(3, 3, false)});
  CHECK(fetcher.Take(Rows(3, 3, {3, 4}, 1), 60'001));
  CHECK_FALSE(fetcher.AllThere());
  CHECK(Pulls(&fetcher, 60'001) == Asked{Pull(3, 4, false)});
  CHECK(fetcher.Take(Rows(3, 4, {5}, 0, true), 60'002));
  CHECK(fetcher.AllThere());
  CHECK(fetcher.AllColdThere());
  CHECK(Pulls(&fetcher, 120'000).empty());
  CHECK(fetcher.bytes() == 600);
  CHECK(fetcher.BytesOf({3}) == 600);
  CHECK(fetcher.ContentOf({3}) == 600);
  CHECK(fetcher.left_bytes() == 0);
}

TEST_CASE("slot fetcher: a part without an answer is asked for again, less and less often") {
  SlotFetcher fetcher;
  fetcher.Begin({3}, kFrom);
  CHECK(Pulls(&fetcher, 0).size() == 1);
  int64_t asked = 0, wait = SlotFetcher::kAgainMs;
  for (int again = 0; again < 5; ++again) {
    CHECK(Pulls(&fetcher, asked + wait - 1).empty());
    asked += wait;
    CHECK(Pulls(&fetcher, asked) == Asked{Pull(3, 0)});
    wait = 2 * wait;
  }
  CHECK(fetcher.Take(Rows(3, 0, {0}, 1), asked + wait - 1));
  // Where answers take so long the next part is given as much time.
  asked += wait - 1 + SlotFetcher::kWatchMs;
  CHECK(Pulls(&fetcher, asked) == Asked{Pull(3, 1)});
  CHECK(Pulls(&fetcher, asked + wait - 1).empty());
  CHECK(Pulls(&fetcher, asked + wait) == Asked{Pull(3, 1)});
  for (int again = 0; again < 20; ++again) {
    asked += SlotFetcher::kMostAgainMs + 2 * wait;
    CHECK(Pulls(&fetcher, asked) == Asked{Pull(3, 1)});  // it is never given up
  }
}

TEST_CASE("slot fetcher: doubles, parts out of order and slots that nobody wants are not taken") {
  SlotFetcher fetcher;
  CHECK_FALSE(fetcher.Take(Rows(3, 0, {0}, 1), 0));
  fetcher.Begin({3}, kFrom);
  CHECK_FALSE(fetcher.Take(Rows(3, 0, {0}, 1), 0));  // not asked for
  (void)fetcher.TakeDue(0);
  CHECK_FALSE(fetcher.Take(Rows(4, 0, {0}, 1), 0));
  CHECK_FALSE(fetcher.Take(Rows(3, 1, {0}, 1), 0));
  CHECK(fetcher.Take(Rows(3, 0, {0}, 1), 0));
  CHECK_FALSE(fetcher.Take(Rows(3, 0, {0}, 1), 0));
  (void)fetcher.TakeDue(SlotFetcher::kWatchMs);
  CHECK_FALSE(fetcher.Take(Rows(3, 0, {0}, 1), 0));
  CHECK(fetcher.Take(Rows(3, 1, {}, 0, true), 0));
  CHECK_FALSE(fetcher.Take(Rows(3, 2, {0}, 1), 0));
  CHECK(fetcher.bytes() == 100);
  fetcher.GiveUp({3});
  CHECK_FALSE(fetcher.SourceOf({3}));
  CHECK(fetcher.AllThere());
}

TEST_CASE("slot fetcher: with a refusal the copy begins again, a little later") {
  SlotFetcher fetcher;
  fetcher.Begin({3}, kFrom);
  (void)fetcher.TakeDue(0);
  CHECK(fetcher.Take(Rows(3, 0, {0, 1}, 4), 0));
  bool cold = true;
  SUBCASE("while it rests") {}
  SUBCASE("after the plan") {
    fetcher.Complete({3});
    cold = false;
  }
  CHECK(Pulls(&fetcher, SlotFetcher::kWatchMs) == Asked{Pull(3, 1, cold)});
  fetcher.Refused({3}, 600);
  fetcher.Refused({3}, 600);  // of a repetition
  fetcher.Refused({5}, 600);
  CHECK(Pulls(&fetcher, 600 + SlotFetcher::kRefusedMs - 1).empty());
  CHECK(Pulls(&fetcher, 600 + SlotFetcher::kRefusedMs) == Asked{Pull(3, 0, cold)});
  CHECK(fetcher.Take(Rows(3, 0, {0, 1}, 0, true), 800));
  CHECK(fetcher.AllThere());
  CHECK(fetcher.BytesOf({3}) == 400);    // that went over the wire
  CHECK(fetcher.ContentOf({3}) == 200);  // each row once
}

TEST_CASE("slot fetcher: a copy goes on with its server, and begins anew with another one") {
  SlotFetcher fetcher;
  CHECK(fetcher.Begin({3}, kFrom));
  (void)fetcher.TakeDue(0);
  CHECK(fetcher.Take(Rows(3, 0, {0}, 4), 0));
  CHECK_FALSE(fetcher.Begin({3}, kFrom));
  CHECK(Pulls(&fetcher, SlotFetcher::kWatchMs) == Asked{Pull(3, 1)});
  CHECK(fetcher.Begin({3}, kOther));
  CHECK_FALSE(fetcher.Take(Rows(3, 1, {1}, 3), 0));  // of the one before
  CHECK(fetcher.SourceOf({3}) == kOther);
  CHECK_FALSE(fetcher.SourceOf({4}));
  const auto due = fetcher.TakeDue(0);
  REQUIRE(due.size() == 1);
  CHECK(due[0].from == kOther);
  CHECK(due[0].pull == Pull(3, 0));
}

TEST_CASE("slot fetcher: a part that was asked for before the plan may be empty") {
  SlotFetcher fetcher;
  fetcher.Begin({3}, kFrom);
  CHECK(Pulls(&fetcher, 0) == Asked{Pull(3, 0)});
  fetcher.Complete({3});
  CHECK(Pulls(&fetcher, 1).empty());  // the answer is on its way
  CHECK(fetcher.Take(Rows(3, 0, {}, 6), 10));
  CHECK_FALSE(fetcher.AllThere());
  CHECK(Pulls(&fetcher, 10) == Asked{Pull(3, 1, false)});  // requests wait meanwhile
  // A source that has not heard of the plan yet is not asked in a loop.
  CHECK(fetcher.Take(Rows(3, 1, {}, 6), 20));
  CHECK(Pulls(&fetcher, 20).empty());
  CHECK(Pulls(&fetcher, 20 + SlotFetcher::kRefusedMs) == Asked{Pull(3, 2, false)});
}

TEST_CASE("slot fetcher: so many slots are pulled at a time, all in the end") {
  SlotFetcher fetcher;
  const auto slots = static_cast<uint32_t>(2 * SlotFetcher::kPulling + 3);
  for (uint32_t slot = 0; slot < slots; ++slot) CHECK(fetcher.Begin({slot}, kFrom));
  CHECK(fetcher.slots().size() == slots);
  std::set<uint32_t> there;
  Asked asked = Pulls(&fetcher, 0);
  while (!asked.empty()) {
    CHECK(asked.size() <= SlotFetcher::kPulling);
    CHECK(Pulls(&fetcher, 0).empty());
    for (const SlotPull& pull : asked) {
      CHECK(fetcher.Take(Rows(pull.slot, pull.part, {0}, 0, true), 0));
      there.insert(pull.slot);
    }
    asked = Pulls(&fetcher, 0);
  }
  CHECK(there.size() == slots);
  CHECK(fetcher.AllThere());
}

TEST_CASE("slot fetcher: what rests comes at so many bytes a second, the rest as fast as it can") {
  SlotFetcher fetcher;
  fetcher.Limit(1000);
  fetcher.Begin({3}, kFrom);
  fetcher.Begin({4}, kFrom);
  CHECK(Pulls(&fetcher, 0).size() == 2);
  CHECK(fetcher.Take(Rows(3, 0, {0, 1, 2, 3, 4}, 9), 0));  // half a second's worth
  CHECK(Pulls(&fetcher, 499).empty());
  CHECK(fetcher.Take(Rows(4, 0, {0, 1, 2, 3, 4}, 9), 499));  // and another
  CHECK(Pulls(&fetcher, 999).empty());
  CHECK(Pulls(&fetcher, 1000).size() == 2);
  CHECK(fetcher.Take(Rows(3, 1, {5, 6, 7, 8, 9}, 4), 1000));
  CHECK(Pulls(&fetcher, 1001).empty());
  fetcher.Complete({3});
  CHECK(Pulls(&fetcher, 1001) == Asked{Pull(3, 2, false)});
}

TEST_CASE(
    "slot fetcher: rows of the two layers are different rows, a row that comes again is one") {
  SlotFetcher fetcher;
  fetcher.Begin({3}, kFrom);
  (void)fetcher.TakeDue(0);
  CHECK(fetcher.Take(Rows(3, 0, {0, 1, 0}, 1, false, 2), 0));  // two input rows, an output row
  CHECK(fetcher.ContentOf({3}) == 300);
  (void)fetcher.TakeDue(SlotFetcher::kWatchMs);
  CHECK(fetcher.Take(Rows(3, 1, {1, 1}, 0, true, 1), 0));
  CHECK(fetcher.BytesOf({3}) == 500);
  CHECK(fetcher.ContentOf({3}) == 400);
  fetcher.Clear();
  CHECK(fetcher.bytes() == 0);
  CHECK(fetcher.slots().empty());
}

TEST_CASE("slot fetcher: answers that come soon shorten the time until a part is asked for again") {
  SlotFetcher fetcher;
  fetcher.Begin({3}, kFrom);
  fetcher.Complete({3});
  int64_t now = 0, wait = SlotFetcher::kAgainMs;
  for (; now < 60'000; now += wait, wait *= 2) CHECK(Pulls(&fetcher, now).size() == 1);
  CHECK(Pulls(&fetcher, now) == Asked{Pull(3, 0, false)});
  now += 900;
  CHECK(fetcher.Take(Rows(3, 0, {0}, 5), now));
  // A part that took so long may take somewhat longer.
  wait = SlotFetcher::kAgainTimes * 900;
  CHECK(Pulls(&fetcher, now) == Asked{Pull(3, 1, false)});
  CHECK(Pulls(&fetcher, now + wait - 1).empty());
  now += 10;
  CHECK(fetcher.Take(Rows(3, 1, {1}, 4), now));
  CHECK(Pulls(&fetcher, now) == Asked{Pull(3, 2, false)});
  CHECK(Pulls(&fetcher, now + SlotFetcher::kAgainMs - 1).empty());
  CHECK(Pulls(&fetcher, now + SlotFetcher::kAgainMs) == Asked{Pull(3, 2, false)});
}

}  // namespace
}  // namespace dslide::slot_fetcher_test
