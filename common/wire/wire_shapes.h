// What has to hold between the fields of a message, besides what wire_fields.h says of each.
//
// CheckShape(m, reader) is called when the fields of m's table are read, inner tables first. Faults
// name the field.
#pragma once

#include <algorithm>
#include <tuple>
#include <variant>

#include "common/security/keyed_hash.h"
#include "common/security/signature.h"
#include "common/wire/messages.h"
#include "common/wire/wire_reader.h"

namespace dslide {

// A ticket is a signature, or not there.
inline void CheckTicket(const Bytes& ticket, WireReader* reader) {
  if (!ticket.empty()) reader->RequireSize("ticket", ticket.size(), std::tuple_size_v<Signature>);
}

// Most messages have nothing to check but a ticket.
template <typename M>
void CheckShape([[maybe_unused]] const M& m, [[maybe_unused]] WireReader* reader) {
  if constexpr (requires { m.ticket; }) CheckTicket(m.ticket, reader);
}

// Of the samples of a batch; none: all are 1.
inline void CheckWeights(const std::vector<float>& weights, size_t samples, WireReader* reader) {
  if (weights.empty()) return;
  reader->RequireSize("weights", weights.size(), samples);
  if (std::ranges::any_of(weights, [](float weight) { return weight < 0; })) {
    reader->Fail("weights", "has a negative number");
  }
}

inline void CheckShape(const JoinReply& m, WireReader* reader) {
  if (m.verify_key.empty() && m.receipt_key.empty()) return;
  reader->RequireSize("verify_key", m.verify_key.size(), sizeof(VerifyKey::bytes));
  reader->RequireSize("receipt_key", m.receipt_key.size(), std::tuple_size_v<HashKey>);
}

inline void CheckShape(const LayerRows& m, WireReader* reader) {
  reader->RequireSize("values", m.values.rows, m.ids.size());
  const auto not_above = [](uint32_t a, uint32_t b) { return a >= b; };
  if (std::ranges::adjacent_find(m.ids, not_above) != m.ids.end()) {
    reader->Fail("ids", "do not ascend");
  }
}

inline void CheckShape(const LeaseBatch& m, WireReader* reader) {
  reader->RequireSize("labels", m.labels.rows(), m.features.rows());
  reader->RequireAtMost("samples", m.samples, kMaxBatchSamples);
  if (m.samples != 0) reader->RequireSize("features", m.features.rows(), 0);
  CheckWeights(m.weights, m.features.rows(), reader);
  CheckTicket(m.ticket, reader);
}

inline void CheckShape(const BatchDone& m, WireReader* reader) {
  if (!m.bytes_by_kind.empty()) {
    reader->RequireSize("bytes_by_kind", m.bytes_by_kind.size(), kBodyKinds);
  }
  reader->RequireAtMost("samples", m.samples, kMaxBatchSamples);
  const size_t rows = m.predictions.offsets.size() - 1;
  if (rows != 0) reader->RequireSize("predictions", rows, m.samples);
}

inline void CheckShape(const AuditReport& m, WireReader* reader) {
  reader->RequireSize("digests", m.digests.size(), m.workers.size());
  reader->RequireSize("input_digests", m.input_digests.size(), m.workers.size());
}

inline void CheckShape(const ActiveQuery& m, WireReader* reader) {
  reader->RequireSize("labels", m.labels.rows(), m.hidden.rows);
  reader->RequireSize("totals", m.label_totals.size(), m.hidden.rows);
  CheckWeights(m.weights, m.hidden.rows, reader);
  CheckTicket(m.ticket, reader);
}

inline void CheckShape(const ActiveReply& m, WireReader* reader) {
  const size_t rows = m.max.size();
  reader->RequireAtMost("max", rows, kMaxBatchSamples);
  reader->RequireSize("sum_exp", m.sum_exp.size(), rows);
  reader->RequireSize("target_logit", m.target_logit.size(), rows);
  reader->RequireSize("active", m.active.size(), rows);
  if (!m.loss.empty()) reader->RequireSize("loss", m.loss.size(), rows);
  reader->RequireAtMost("probes", m.probes.size(), rows);
  reader->RequireAtMost("tail_variance", m.tail_variance.size(), rows);
  if (!m.exp_sums.empty()) reader->RequireSize("exp_sums", m.exp_sums.size(), rows);
}

inline void CheckShape(const GradientPush& m, WireReader* reader) {
  reader->RequireAtMost("log_normaliser", m.log_normaliser.size(), kMaxBatchSamples);
}

inline void CheckShape(const GradientReply& m, WireReader* reader) {
  const uint32_t rows = std::visit([](const auto& partial) { return partial.rows; }, m.partial);
  if (m.active) reader->RequireSize("active.max", m.active->max.size(), rows);
}

inline void CheckShape(const StatusRequest& m, WireReader* reader) {
  reader->RequireAtMost("padding", m.padding.size(), StatusRequest::kMaxPadding);
}

inline void CheckShape(const TopKRequest& m, WireReader* reader) {
  const size_t rows = m.excluded.rows();
  if (rows != 0) reader->RequireSize("excluded", rows, m.hidden.rows);
  CheckTicket(m.ticket, reader);
}

inline void CheckShape(const SlotRows& m, WireReader* reader) {
  reader->RequireAtMost("input_rows", m.input_rows, m.rows.size());
  if (!std::is_sorted(m.ends.begin(), m.ends.end())) reader->Fail("ends", "do not ascend");
  reader->RequireSize("bytes", m.bytes.size(), m.ends.empty() ? 0 : m.ends.back());
}

}  // namespace dslide
