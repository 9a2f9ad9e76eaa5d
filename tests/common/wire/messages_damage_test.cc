// What Decode() makes of messages that were cut or changed by chance.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "common/wire/messages.h"
#include "tests/support/random_messages.h"

namespace dslide::messages_damage_test {
namespace {

TEST_CASE("malformed: truncation at every length") {
  testing::RandomMessages messages(11);
  for (size_t kind = 0; kind < testing::RandomMessages::kKinds; ++kind) {
    const Message message = messages.Next(kind);
    CAPTURE(BodyName(message.body));
    const bool int8 = messages.random().Below(2) == 1;
    const Bytes bytes = Encode(message, int8 ? WirePrecision::kInt8 : WirePrecision::kBf16);
    const Result<Message> whole = Decode(bytes);
    REQUIRE(whole.ok());
    for (size_t length = 0; length < bytes.size(); ++length) {
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      const Result<Message> decoded = Decode(part);
      // The last bytes may be padding; then nothing is lost.
      const bool harmless = bytes.size() - length < 8 && decoded.ok();
      if (harmless) CHECK(decoded->body == whole->body);
      if (!harmless) CHECK_FALSE(decoded.ok());
    }
  }
}

// The invariants that messages.h promises of what Decode() returns.
struct CheckInvariants {
  bool Good(const Matrix& m) const {
    if (m.data.size() != size_t{m.rows} * m.cols) return false;
    return std::all_of(m.data.begin(), m.data.end(), [](float x) { return std::isfinite(x); });
  }
  bool Good(const std::vector<uint32_t>& offsets, size_t total) const {
    return !offsets.empty() && offsets.front() == 0 && offsets.back() == total &&
           std::is_sorted(offsets.begin(), offsets.end());
  }
  bool Good(const SparseRows& r) const {
    return Good(r.offsets, r.ids.size()) && (r.values.empty() || r.values.size() == r.ids.size()) &&
           std::all_of(r.values.begin(), r.values.end(), [](float x) { return std::isfinite(x); });
  }
  bool Good(const FixedMatrix& m) const {
    return m.in_range && m.data.size() == size_t{m.rows} * m.cols;
  }
  bool Good(const PartialSum& sum) const {
    return std::visit([&](const auto& m) { return Good(m); }, sum);
  }
  bool operator()(const EmbedRequest& m) const { return Good(m.features); }
  bool operator()(const EmbedReply& m) const { return Good(m.partial); }
  bool operator()(const GradientReply& m) const { return Good(m.partial); }
  bool operator()(const EmbedPush& m) const { return Good(m.gradient); }
  bool operator()(const ActiveQuery& m) const {
    return Good(m.hidden) && Good(m.labels) && m.labels.rows() == m.hidden.rows &&
           m.label_totals.size() == m.hidden.rows;
  }
  bool operator()(const ActiveReply& m) const {
    const size_t rows = m.max.size();
    for (const Probe& p : m.probes) {
      const size_t n = p.ids.size();
      if (p.logits.size() != n || p.in_set.size() != n || p.in_hash.size() != n) return false;
    }
    return m.sum_exp.size() == rows && m.target_logit.size() == rows && m.active.size() == rows &&
           (m.loss.empty() || m.loss.size() == rows) && m.probes.size() <= rows;
  }
  bool operator()(const TopKRequest& m) const {
    const uint32_t excluded = m.excluded.rows();
    return Good(m.hidden) && Good(m.excluded) && (excluded == 0 || excluded == m.hidden.rows);
  }
  bool operator()(const TopKReply& m) const {
    return Good(m.offsets, m.ids.size()) && m.scores.size() == m.ids.size();
  }
  bool operator()(const BatchDone& m) const {
    return (*this)(m.predictions) && std::isfinite(m.loss_sum);
  }
  bool operator()(const LeaseGrant& m) const {
    return std::all_of(m.batches.begin(), m.batches.end(), [&](const LeaseBatch& b) {
      return Good(b.features) && Good(b.labels) && b.features.rows() == b.labels.rows();
    });
  }
  bool operator()(const Heartbeat& m) const {
    if (!m.load) return true;
    const LoadReport& load = *m.load;
    const size_t slots = load.slots.size();
    const auto finite = [](const std::vector<float>& v) {
      return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); });
    };
    return load.executor.size() == slots && load.retrieved.size() == slots &&
           load.used.size() == slots && load.updated.size() == slots && load.work.size() == slots &&
           load.service_us.size() == slots && load.bytes.size() == slots && finite(load.work) &&
           finite(load.service_us) && finite(load.busy);
  }
  bool operator()(const MoveSlots& m) const { return m.from.size() == m.slots.size(); }
  bool operator()(const SlotRows& m) const {
    const size_t end = m.ends.empty() ? 0 : m.ends.back();
    return m.ends.size() == m.rows.size() && m.input_rows <= m.rows.size() &&
           std::is_sorted(m.ends.begin(), m.ends.end()) && end == m.bytes.size();
  }
  template <typename T>
  bool operator()(const T&) const {
    return true;
  }
};

TEST_CASE("malformed: 50,000 random mutations are refused or leave a consistent message") {
  testing::RandomMessages messages(5);
  Random& random = messages.random();
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 50000; ++i) {
    const Message message = messages.Next(random.Below(testing::RandomMessages::kKinds));
    Bytes bytes = Encode(message, static_cast<WirePrecision>(random.Below(3)));
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
      uint8_t& byte = bytes[random.Below(bytes.size())];
      // Extreme bytes more often: they make sizes and offsets go wrong.
      const uint64_t how = random.Below(4);
      byte = static_cast<uint8_t>(how == 0 ? 0 : how == 1 ? 0xff : random.Next());
    }
    const Result<Message> decoded = Decode(bytes);
    (decoded.ok() ? accepted : refused)++;
    if (!decoded.ok()) continue;
    REQUIRE(std::visit(CheckInvariants(), decoded->body));
    // Consistent means: it can be sent on, and arrives as it is.
    const Result<Message> again = Decode(Encode(*decoded, WirePrecision::kFp32));
    REQUIRE(again.ok());
    REQUIRE(again->body == decoded->body);
  }
  CHECK(accepted > 5000);  // both sides are exercised
  CHECK(refused > 5000);
}

}  // namespace
}  // namespace dslide::messages_damage_test
