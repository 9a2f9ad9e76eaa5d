// A message of the wire: decoded, sent on, and added up with others as a receiver does.
#include "common/run/combine.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/messages/message_mutator.h"
#include "tests/support/message_invariants.h"
#include "tests/support/random_messages.h"

namespace dslide::message_fuzz {
namespace {

using fuzz::Inputs;

// What workers and servers do with partial replies.
struct Combine {
  void operator()(const EmbedReply& m) const { Sum(m.partial); }
  void operator()(const GradientReply& m) const {
    Sum(m.partial);
    if (m.active) (*this)(*m.active);
  }
  void operator()(const ActiveReply& m) const {
    ActiveReply merged = MergeActive({m, m});
    DSLIDE_CHECK(merged.max.size() == m.max.size());
    (void)PushAfter({}, merged);
    Condense(&merged);
    DSLIDE_CHECK(LogNormaliser(merged).size() == m.max.size());
  }
  void operator()(const TopKReply& m) const {
    const TopKReply parts[] = {m, m};
    DSLIDE_CHECK(MergeTopK(parts, 3).offsets.size() == m.offsets.size());
  }
  template <typename T>
  void operator()(const T&) const {}

 private:
  static void Sum(const PartialSum& part) { (void)InFloats(SumPartials({part, part})); }
};

bool Run(std::string_view input) {
  const Result<Message> message = fuzz::DecodeMessage(input);
  if (!message.ok()) return false;
  const AnyBody& body = message->body;
  DSLIDE_CHECK(std::visit(testing::IsConsistent(), body));
  const Bytes sent = Encode(*message, WirePrecision::kFp32);
  const Result<Message> again = Decode(sent);
  DSLIDE_CHECK(again.ok() && *again == *message);
  std::visit(Combine(), body);
  return true;
}

// Two of each kind, in the three precisions.
Inputs Seeds() {
  testing::RandomMessages messages(5);
  Inputs seeds;
  for (size_t i = 0; i < 2 * kBodyKinds; ++i) {
    seeds.push_back(
        fuzz::EncodedAs(messages.Next(i % kBodyKinds), static_cast<WirePrecision>(i % 3)));
  }
  return seeds;
}

const fuzz::Entered kEntered({"message", Run, Seeds, fuzz::MutateMessage});

}  // namespace
}  // namespace dslide::message_fuzz
