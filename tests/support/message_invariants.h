// What messages.h promises of the messages that Decode() returns, written down once more.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "common/wire/messages.h"

namespace dslide::testing {

class IsConsistent {
 public:
  bool operator()(const LeaseGrant& m) const {
    return std::ranges::all_of(m.batches, [&](const LeaseBatch& b) {
      return Good(b.features) && Good(b.labels) && b.features.rows() == b.labels.rows() &&
             b.samples <= kMaxBatchSamples && (b.samples == 0 || b.features.rows() == 0) &&
             AreWeights(b.weights, b.features.rows());
    });
  }
  bool operator()(const BatchDone& m) const {
    const size_t rows = m.predictions.offsets.size() - 1;
    return (*this)(m.predictions) && std::isfinite(m.loss_sum) && m.samples <= kMaxBatchSamples &&
           (rows == 0 || rows == m.samples) &&
           (m.bytes_by_kind.empty() || m.bytes_by_kind.size() == kBodyKinds);
  }
  bool operator()(const EmbedRequest& m) const { return Good(m.features); }
  bool operator()(const EmbedReply& m) const { return Good(m.partial) && Good(m.dense); }
  bool operator()(const ActiveQuery& m) const {
    return Good(m.hidden) && Good(m.labels) && m.labels.rows() == m.hidden.rows &&
           m.label_totals.size() == m.hidden.rows && AreWeights(m.weights, m.hidden.rows);
  }
  bool operator()(const ActiveReply& m) const {
    const size_t rows = m.max.size();
    for (const Probe& p : m.probes) {
      const size_t n = p.ids.size();
      if (p.logits.size() != n || p.in_set.size() != n || p.in_hash.size() != n) return false;
    }
    return rows <= kMaxBatchSamples && m.sum_exp.size() == rows && m.target_logit.size() == rows &&
           m.active.size() == rows && (m.loss.empty() || m.loss.size() == rows) &&
           m.probes.size() <= rows && m.tail_variance.size() <= rows &&
           (m.exp_sums.empty() || m.exp_sums.size() == rows);
  }
  bool operator()(const GradientPush& m) const {
    return m.log_normaliser.size() <= kMaxBatchSamples && AreFinite(m.log_normaliser);
  }
  bool operator()(const GradientReply& m) const {
    return Good(m.partial) && (!m.active || (*this)(*m.active));
  }
  bool operator()(const EmbedPush& m) const {
    return Good(m.gradient) && Good(m.dense) && (!m.next || (*this)(*m.next));
  }
  bool operator()(const TopKRequest& m) const {
    const uint32_t excluded = m.excluded.rows();
    return Good(m.hidden) && Good(m.excluded) && (excluded == 0 || excluded == m.hidden.rows);
  }
  bool operator()(const TopKReply& m) const {
    return Good(m.offsets, m.ids.size()) && m.scores.size() == m.ids.size() && AreFinite(m.scores);
  }
  bool operator()(const Heartbeat& m) const {
    if (!m.load) return true;
    const LoadReport& load = *m.load;
    const size_t slots = load.slots.size();
    return load.executor.size() == slots && load.retrieved.size() == slots &&
           load.used.size() == slots && load.updated.size() == slots && load.work.size() == slots &&
           load.service_us.size() == slots && load.bytes.size() == slots && AreFinite(load.work) &&
           AreFinite(load.service_us) && AreFinite(load.busy);
  }
  bool operator()(const MoveSlots& m) const { return m.from.size() == m.slots.size(); }
  bool operator()(const SlotRows& m) const {
    const size_t end = m.ends.empty() ? 0 : m.ends.back();
    return m.ends.size() == m.rows.size() && m.input_rows <= m.rows.size() &&
           std::ranges::is_sorted(m.ends) && end == m.bytes.size();
  }
  bool operator()(const AuditReport& m) const { return m.digests.size() == m.workers.size(); }
  template <typename T>
  bool operator()(const T&) const {
    return true;
  }

 private:
  static bool AreFinite(std::span<const float> values) {
    return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
  }
  static bool AreWeights(std::span<const float> weights, size_t samples) {
    return AreFinite(weights) && (weights.empty() || weights.size() == samples) &&
           std::ranges::all_of(weights, [](float x) { return x >= 0; });
  }
  static bool Good(const Matrix& m) {
    return m.data.size() == size_t{m.rows} * m.cols && AreFinite(m.data);
  }
  static bool Good(const std::optional<LayerRows>& rows) {
    return !rows || (Good(rows->values) && rows->values.rows == rows->ids.size() &&
                     std::ranges::is_sorted(rows->ids, std::less_equal<>()));
  }
  static bool Good(const FixedMatrix& m) {
    return m.in_range && m.data.size() == size_t{m.rows} * m.cols;
  }
  static bool Good(const PartialSum& sum) {
    return std::visit([](const auto& m) { return Good(m); }, sum);
  }
  static bool Good(const std::vector<uint32_t>& offsets, size_t total) {
    return !offsets.empty() && offsets.front() == 0 && offsets.back() == total &&
           std::ranges::is_sorted(offsets);
  }
  static bool Good(const SparseRows& r) {
    return Good(r.offsets, r.ids.size()) && (r.values.empty() || r.values.size() == r.ids.size()) &&
           AreFinite(r.values);
  }
};

}  // namespace dslide::testing
