#include "server/core/slot_intake.h"

#include <doctest/doctest.h>

#include <set>

namespace dslide {
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

SlotPull Pull(uint32_t slot, uint32_t part, bool resting = true) {
  return {slot, part, resting, SlotIntake::kPartBytes, false};
}

std::vector<SlotPull> Pulls(SlotIntake* intake, int64_t now_ms) {
  std::vector<SlotPull> pulls;
  for (const auto& due : intake->TakeDue(now_ms)) pulls.push_back(due.pull);
  return pulls;
}

using Asked = std::vector<SlotPull>;

TEST_CASE("slot intake: parts are asked for one after the other, until only what changes is left") {
  SlotIntake intake;
  CHECK(intake.AllRest());  // nothing is wanted
  CHECK(intake.Begin({3}, kFrom));
  CHECK_FALSE(intake.AllRest());
  const auto due = intake.TakeDue(0);
  REQUIRE(due.size() == 1);
  CHECK(due[0].from == kFrom);
  CHECK(due[0].pull == Pull(3, 0));
  CHECK(Pulls(&intake, 0).empty());  // an answer is awaited
  CHECK(intake.Take(Rows(3, 0, {0, 1}, 4), 5));
  CHECK_FALSE(intake.AllRest());
  // The source watches for a while what changes.
  CHECK(Pulls(&intake, 4 + SlotIntake::kWatchMs).empty());
  CHECK(Pulls(&intake, 5 + SlotIntake::kWatchMs) == Asked{Pull(3, 1)});
  CHECK(intake.Take(Rows(3, 1, {2}, 3), 600));
  CHECK(Pulls(&intake, 600) == Asked{Pull(3, 2)});
  CHECK(intake.left_bytes() == 300);
  CHECK(intake.Take(Rows(3, 2, {}, 3), 700));
  CHECK(intake.AllRest());
  CHECK_FALSE(intake.AllThere());
  CHECK(Pulls(&intake, 60'000).empty());  // the plan has to come first
  intake.Complete({3});
  CHECK(Pulls(&intake, 60'000) == Asked{Pull(3, 3, false)});
  CHECK(intake.Take(Rows(3, 3, {3, 4}, 1), 60'001));
  CHECK_FALSE(intake.AllThere());
  CHECK(Pulls(&intake, 60'001) == Asked{Pull(3, 4, false)});
  CHECK(intake.Take(Rows(3, 4, {5}, 0, true), 60'002));
  CHECK(intake.AllThere());
  CHECK(intake.AllRest());
  CHECK(Pulls(&intake, 120'000).empty());
  CHECK(intake.bytes() == 600);
  CHECK(intake.BytesOf({3}) == 600);
  CHECK(intake.ContentOf({3}) == 600);
  CHECK(intake.left_bytes() == 0);
}

TEST_CASE("slot intake: a part without an answer is asked for again, less and less often") {
  SlotIntake intake;
  intake.Begin({3}, kFrom);
  CHECK(Pulls(&intake, 0).size() == 1);
  int64_t asked = 0, wait = SlotIntake::kAgainMs;
  for (int again = 0; again < 5; ++again) {
    CHECK(Pulls(&intake, asked + wait - 1).empty());
    asked += wait;
    CHECK(Pulls(&intake, asked) == Asked{Pull(3, 0)});
    wait = 2 * wait;
  }
  CHECK(intake.Take(Rows(3, 0, {0}, 1), asked + wait - 1));
  // Where answers take so long the next part is given as much time.
  asked += wait - 1 + SlotIntake::kWatchMs;
  CHECK(Pulls(&intake, asked) == Asked{Pull(3, 1)});
  CHECK(Pulls(&intake, asked + wait - 1).empty());
  CHECK(Pulls(&intake, asked + wait) == Asked{Pull(3, 1)});
  for (int again = 0; again < 20; ++again) {
    asked += SlotIntake::kMostAgainMs + 2 * wait;
    CHECK(Pulls(&intake, asked) == Asked{Pull(3, 1)});  // it is never given up
  }
}

TEST_CASE("slot intake: doubles, parts out of order and slots that nobody wants are not taken") {
  SlotIntake intake;
  CHECK_FALSE(intake.Take(Rows(3, 0, {0}, 1), 0));
  intake.Begin({3}, kFrom);
  CHECK_FALSE(intake.Take(Rows(3, 0, {0}, 1), 0));  // not asked for
  (void)intake.TakeDue(0);
  CHECK_FALSE(intake.Take(Rows(4, 0, {0}, 1), 0));
  CHECK_FALSE(intake.Take(Rows(3, 1, {0}, 1), 0));
  CHECK(intake.Take(Rows(3, 0, {0}, 1), 0));
  CHECK_FALSE(intake.Take(Rows(3, 0, {0}, 1), 0));
  (void)intake.TakeDue(SlotIntake::kWatchMs);
  CHECK_FALSE(intake.Take(Rows(3, 0, {0}, 1), 0));
  CHECK(intake.Take(Rows(3, 1, {}, 0, true), 0));
  CHECK_FALSE(intake.Take(Rows(3, 2, {0}, 1), 0));
  CHECK(intake.bytes() == 100);
  intake.Give({3});
  CHECK_FALSE(intake.SourceOf({3}));
  CHECK(intake.AllThere());
}

TEST_CASE("slot intake: with a refusal the copy begins again, a little later") {
  SlotIntake intake;
  intake.Begin({3}, kFrom);
  (void)intake.TakeDue(0);
  CHECK(intake.Take(Rows(3, 0, {0, 1}, 4), 0));
  bool resting = true;
  SUBCASE("while it rests") {}
  SUBCASE("after the plan") {
    intake.Complete({3});
    resting = false;
  }
  CHECK(Pulls(&intake, SlotIntake::kWatchMs) == Asked{Pull(3, 1, resting)});
  intake.Refused({3}, 600);
  intake.Refused({3}, 600);  // of a repetition
  intake.Refused({5}, 600);
  CHECK(Pulls(&intake, 600 + SlotIntake::kRefusedMs - 1).empty());
  CHECK(Pulls(&intake, 600 + SlotIntake::kRefusedMs) == Asked{Pull(3, 0, resting)});
  CHECK(intake.Take(Rows(3, 0, {0, 1}, 0, true), 800));
  CHECK(intake.AllThere());
  CHECK(intake.BytesOf({3}) == 400);    // that went over the wire
  CHECK(intake.ContentOf({3}) == 200);  // each row once
}

TEST_CASE("slot intake: a copy goes on with its server, and begins anew with another one") {
  SlotIntake intake;
  CHECK(intake.Begin({3}, kFrom));
  (void)intake.TakeDue(0);
  CHECK(intake.Take(Rows(3, 0, {0}, 4), 0));
  CHECK_FALSE(intake.Begin({3}, kFrom));
  CHECK(Pulls(&intake, SlotIntake::kWatchMs) == Asked{Pull(3, 1)});
  CHECK(intake.Begin({3}, kOther));
  CHECK_FALSE(intake.Take(Rows(3, 1, {1}, 3), 0));  // of the one before
  CHECK(intake.SourceOf({3}) == kOther);
  CHECK_FALSE(intake.SourceOf({4}));
  const auto due = intake.TakeDue(0);
  REQUIRE(due.size() == 1);
  CHECK(due[0].from == kOther);
  CHECK(due[0].pull == Pull(3, 0));
}

TEST_CASE("slot intake: a part that was asked for before the plan may be empty") {
  SlotIntake intake;
  intake.Begin({3}, kFrom);
  CHECK(Pulls(&intake, 0) == Asked{Pull(3, 0)});
  intake.Complete({3});
  CHECK(Pulls(&intake, 1).empty());  // the answer is on its way
  CHECK(intake.Take(Rows(3, 0, {}, 6), 10));
  CHECK_FALSE(intake.AllThere());
  CHECK(Pulls(&intake, 10) == Asked{Pull(3, 1, false)});  // requests wait meanwhile
  // A source that has not heard of the plan yet is not asked in a loop.
  CHECK(intake.Take(Rows(3, 1, {}, 6), 20));
  CHECK(Pulls(&intake, 20).empty());
  CHECK(Pulls(&intake, 20 + SlotIntake::kRefusedMs) == Asked{Pull(3, 2, false)});
}

TEST_CASE("slot intake: so many slots are pulled at a time, all in the end") {
  SlotIntake intake;
  const auto slots = static_cast<uint32_t>(2 * SlotIntake::kPulling + 3);
  for (uint32_t slot = 0; slot < slots; ++slot) CHECK(intake.Begin({slot}, kFrom));
  CHECK(intake.slots().size() == slots);
  std::set<uint32_t> there;
  Asked asked = Pulls(&intake, 0);
  while (!asked.empty()) {
    CHECK(asked.size() <= SlotIntake::kPulling);
    CHECK(Pulls(&intake, 0).empty());
    for (const SlotPull& pull : asked) {
      CHECK(intake.Take(Rows(pull.slot, pull.part, {0}, 0, true), 0));
      there.insert(pull.slot);
    }
    asked = Pulls(&intake, 0);
  }
  CHECK(there.size() == slots);
  CHECK(intake.AllThere());
}

TEST_CASE("slot intake: what rests comes at so many bytes a second, the rest as fast as it can") {
  SlotIntake intake;
  intake.Limit(1000);
  intake.Begin({3}, kFrom);
  intake.Begin({4}, kFrom);
  CHECK(Pulls(&intake, 0).size() == 2);
  CHECK(intake.Take(Rows(3, 0, {0, 1, 2, 3, 4}, 9), 0));  // half a second's worth
  CHECK(Pulls(&intake, 499).empty());
  CHECK(intake.Take(Rows(4, 0, {0, 1, 2, 3, 4}, 9), 499));  // and another
  CHECK(Pulls(&intake, 999).empty());
  CHECK(Pulls(&intake, 1000).size() == 2);
  CHECK(intake.Take(Rows(3, 1, {5, 6, 7, 8, 9}, 4), 1000));
  CHECK(Pulls(&intake, 1001).empty());
  intake.Complete({3});
  CHECK(Pulls(&intake, 1001) == Asked{Pull(3, 2, false)});
}

TEST_CASE("slot intake: rows of the two layers are different rows, a row that comes again is one") {
  SlotIntake intake;
  intake.Begin({3}, kFrom);
  (void)intake.TakeDue(0);
  CHECK(intake.Take(Rows(3, 0, {0, 1, 0}, 1, false, 2), 0));  // two input rows, an output row
  CHECK(intake.ContentOf({3}) == 300);
  (void)intake.TakeDue(SlotIntake::kWatchMs);
  CHECK(intake.Take(Rows(3, 1, {1, 1}, 0, true, 1), 0));
  CHECK(intake.BytesOf({3}) == 500);
  CHECK(intake.ContentOf({3}) == 400);
  intake.Clear();
  CHECK(intake.bytes() == 0);
  CHECK(intake.slots().empty());
}

TEST_CASE("slot intake: answers that come soon shorten the time until a part is asked for again") {
  SlotIntake intake;
  intake.Begin({3}, kFrom);
  intake.Complete({3});
  int64_t now = 0, wait = SlotIntake::kAgainMs;
  for (; now < 60'000; now += wait, wait *= 2) CHECK(Pulls(&intake, now).size() == 1);
  CHECK(Pulls(&intake, now) == Asked{Pull(3, 0, false)});
  now += 900;
  CHECK(intake.Take(Rows(3, 0, {0}, 5), now));
  // A part that took so long may take somewhat longer.
  wait = SlotIntake::kAgainTimes * 900;
  CHECK(Pulls(&intake, now) == Asked{Pull(3, 1, false)});
  CHECK(Pulls(&intake, now + wait - 1).empty());
  now += 10;
  CHECK(intake.Take(Rows(3, 1, {1}, 4), now));
  CHECK(Pulls(&intake, now) == Asked{Pull(3, 2, false)});
  CHECK(Pulls(&intake, now + SlotIntake::kAgainMs - 1).empty());
  CHECK(Pulls(&intake, now + SlotIntake::kAgainMs) == Asked{Pull(3, 2, false)});
}

}  // namespace
}  // namespace dslide
