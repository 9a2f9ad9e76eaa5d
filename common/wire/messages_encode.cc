// Message -> FlatBuffer. Empty strings, vectors and row sets are left out of the buffer.
#include <algorithm>
#include <functional>

#include "common/base/check.h"
#include "common/wire/messages.h"
#include "common/wire/wire_arrays.h"
#include "protocol_generated.h"

namespace dslide {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <typename T>
using Offset = flatbuffers::Offset<T>;
template <typename T>
using VectorOffset = Offset<flatbuffers::Vector<T>>;

// A builder's buffer is kept for the next message up to this size.
constexpr size_t kKeptBuilderBytes = size_t{16} << 20;

// The union's members are numbered from 1 in the variant's order.
static_assert(std::variant_size_v<Body> == static_cast<size_t>(wire::Body::MAX));

wire::BatchId ToWire(const BatchId& batch) { return {batch.epoch, batch.unit, batch.index}; }

wire::Precision ToWire(WirePrecision precision) {
  if (precision == WirePrecision::kInt8) return wire::Precision::Int8;
  return precision == WirePrecision::kFp32 ? wire::Precision::Fp32 : wire::Precision::Bf16;
}

// How a matrix is rounded to int8 (wire_arrays.h). Gradients end up in sums over samples.
enum class Rounding { kNearest, kErrorFeedback };

// Builds one message. Each Encode...() returns the offset of a finished table.
class Encoder {
 public:
  Encoder(Builder& builder, WirePrecision precision) : b_(builder), precision_(precision) {}

  Offset<void> operator()(const Join& m) {
    const auto name = String(m.name);
    const auto address = String(m.address);
    return wire::CreateJoin(b_, m.protocol, static_cast<wire::Role>(m.role), name, address, m.cores,
                            m.memory_bytes, m.plan_version)
        .Union();
  }
  Offset<void> operator()(const JoinReply& m) {
    const auto name = String(m.name);
    const auto config = String(m.config);
    return wire::CreateJoinReply(b_, name, config, m.train_samples, m.train_checksum).Union();
  }
  Offset<void> operator()(const Plan& m) {
    std::vector<Offset<wire::PlanServer>> servers;
    for (const PlanServer& server : m.servers) {
      const auto name = String(server.name);
      servers.push_back(
          wire::CreatePlanServer(b_, name, String(server.address), server.incarnation.value));
    }
    const auto servers_offset = Vector(servers);
    const auto owners = Vector(m.slot_owner);
    return wire::CreatePlan(b_, m.version, servers_offset, owners, String(m.restore), m.generation)
        .Union();
  }
  Offset<void> operator()(const Ready& m) {
    return wire::CreateReady(b_, m.plan_version, m.rows, m.memory_bytes, m.moved_bytes, m.stall_us,
                             m.slot_bytes)
        .Union();
  }
  Offset<void> operator()(const Heartbeat& m) {
    const auto load = m.load ? Load(*m.load) : Offset<wire::LoadReport>();
    return wire::CreateHeartbeat(b_, m.cpu_seconds, m.peak_rss_bytes, m.bytes_sent,
                                 m.bytes_received, m.rehash_lag_batches, m.bucket_empty_share,
                                 m.bucket_mean, m.bucket_p99, m.bucket_largest, m.batches_in_flight,
                                 m.malformed, m.in_flight_limit, m.round_trip_us, m.bits_per_second,
                                 m.int8_links, load, m.memory_used_bytes, m.hash_round,
                                 m.longest_batch_us)
        .Union();
  }
  Offset<void> operator()(const HeartbeatReply& m) {
    return wire::CreateHeartbeatReply(b_, m.in_flight_cap, m.pause_ms).Union();
  }

  Offset<void> operator()(const LeaseRequest& m) {
    return wire::CreateLeaseRequest(b_, m.has_data).Union();
  }
  Offset<void> operator()(const LeaseGrant& m) {
    std::vector<Offset<wire::LeaseBatch>> batches;
    for (const LeaseBatch& batch : m.batches) {
      const auto features = Rows(batch.features);
      const auto labels = Rows(batch.labels);
      batches.push_back(wire::CreateLeaseBatch(b_, batch.index, features, labels,
                                               batch.first_sample, batch.samples));
    }
    const auto batches_offset = Vector(batches);
    return wire::CreateLeaseGrant(b_, m.lease, static_cast<wire::LeaseKind>(m.kind), m.epoch,
                                  m.unit, m.top_k, batches_offset)
        .Union();
  }
  Offset<void> operator()(const LeaseWait& m) {
    return wire::CreateLeaseWait(b_, m.retry_ms, m.finished).Union();
  }
  Offset<void> operator()(const BatchDone& m) {
    const auto predictions =
        m.predictions.offsets.size() > 1 ? TopK(m.predictions) : Offset<wire::TopKReply>();
    const auto bytes_by_kind = Vector(m.bytes_by_kind);
    const auto batch = ToWire(m.batch);
    return wire::CreateBatchDone(b_, m.lease, &batch, m.samples, m.loss_sum, m.active_neurons_sum,
                                 m.active_rows, m.bytes_sent, m.bytes_received, m.probed,
                                 m.recall_set, m.recall_hash, m.recall_uniform, predictions,
                                 bytes_by_kind)
        .Union();
  }

  Offset<void> operator()(const EmbedRequest& m) { return Embed(m).Union(); }
  Offset<void> operator()(const EmbedReply& m) {
    return wire::CreateEmbedReply(b_, MatrixOf(m.partial)).Union();
  }
  Offset<void> operator()(const ActiveQuery& m) {
    const auto hidden = MatrixOf(m.hidden);
    const auto labels = Rows(m.labels);
    const auto totals = Numbers(m.label_totals);
    const auto batch = ToWire(m.batch);
    return wire::CreateActiveQuery(b_, &batch, hidden, labels, m.probe_samples, totals, m.finish)
        .Union();
  }
  Offset<void> operator()(const ActiveReply& m) { return Active(m).Union(); }
  Offset<void> operator()(const GradientPush& m) {
    const auto log_normaliser = Vector(m.log_normaliser);
    const auto batch = ToWire(m.batch);
    return wire::CreateGradientPush(b_, &batch, log_normaliser).Union();
  }
  Offset<void> operator()(const GradientReply& m) {
    const auto partial = MatrixOf(m.partial, Rounding::kErrorFeedback);
    const auto active = m.active ? Active(*m.active) : Offset<wire::ActiveReply>();
    return wire::CreateGradientReply(b_, partial, active).Union();
  }
  Offset<void> operator()(const EmbedPush& m) {
    const auto gradient = MatrixOf(m.gradient, Rounding::kErrorFeedback);
    const auto next = m.next ? Embed(*m.next) : Offset<wire::EmbedRequest>();
    const auto batch = ToWire(m.batch);
    return wire::CreateEmbedPush(b_, &batch, gradient, next).Union();
  }
  Offset<void> operator()(const Ack&) { return wire::CreateAck(b_).Union(); }
  Offset<void> operator()(const DropBatches& m) {
    return wire::CreateDropBatches(b_, m.incarnation.value).Union();
  }
  Offset<void> operator()(const TopKRequest& m) {
    const auto hidden = MatrixOf(m.hidden);
    const auto excluded = Rows(m.excluded);
    return wire::CreateTopKRequest(b_, hidden, m.k, static_cast<wire::Search>(m.search), excluded)
        .Union();
  }
  Offset<void> operator()(const TopKReply& m) { return TopK(m).Union(); }

  Offset<void> operator()(const CheckpointRequest& m) {
    const auto name = String(m.name);
    const auto directory = String(m.directory);
    std::vector<Offset<flatbuffers::String>> keep;
    for (const std::string& kept : m.keep) keep.push_back(b_.CreateString(kept));
    return wire::CreateCheckpointRequest(b_, name, directory, m.committed, Vector(keep)).Union();
  }
  Offset<void> operator()(const CheckpointDone& m) {
    const auto name = String(m.name);
    const auto error = String(m.error);
    const auto shard = String(m.shard);
    std::vector<Offset<wire::ShardFile>> files;
    for (const ShardFile& file : m.files) {
      const auto file_name = String(file.name);
      files.push_back(wire::CreateShardFile(b_, file_name, file.bytes, file.checksum));
    }
    return wire::CreateCheckpointDone(b_, name, error, shard, m.rows, m.bytes, Vector(files),
                                      m.written_bytes, m.stall_us, m.retry)
        .Union();
  }
  Offset<void> operator()(const CheckpointNow&) { return wire::CreateCheckpointNow(b_).Union(); }
  Offset<void> operator()(const Leave&) { return wire::CreateLeave(b_).Union(); }
  Offset<void> operator()(const CommitSteps& m) {
    return wire::CreateCommitSteps(b_, m.committed).Union();
  }
  Offset<void> operator()(const StepsCommitted& m) {
    return wire::CreateStepsCommitted(b_, m.committed).Union();
  }
  Offset<void> operator()(const Shutdown& m) {
    return wire::CreateShutdown(b_, String(m.reason), m.exit_code).Union();
  }
  Offset<void> operator()(const ErrorReply& m) {
    return wire::CreateErrorReply(b_, static_cast<wire::ErrorCode>(m.code), String(m.text)).Union();
  }

  Offset<void> operator()(const MoveSlots& m) {
    const auto slots = Vector(m.slots);
    return wire::CreateMoveSlots(b_, m.move, slots, Vector(m.from), m.bytes_per_second).Union();
  }
  Offset<void> operator()(const MoveReady& m) {
    return wire::CreateMoveReady(b_, m.move, m.bytes, m.left_bytes).Union();
  }
  Offset<void> operator()(const SlotPull& m) {
    return wire::CreateSlotPull(b_, m.slot, m.part, m.cold_only, m.max_bytes, m.release).Union();
  }
  Offset<void> operator()(const SlotRows& m) {
    const auto rows = Vector(m.rows);
    const auto ends = Vector(m.ends);
    const auto bytes = Vector(m.bytes);
    const auto output = Vector(m.applied_output);
    const auto input = Vector(m.applied_input);
    return wire::CreateSlotRows(b_, m.slot, m.part, m.input_rows, rows, ends, bytes, m.left, m.hash,
                                m.last, output, input, m.committed.has_value(),
                                m.committed.value_or(0))
        .Union();
  }
  Offset<void> operator()(const DrainServer& m) {
    return wire::CreateDrainServer(b_, String(m.name)).Union();
  }
  Offset<void> operator()(const StatusRequest&) { return wire::CreateStatusRequest(b_).Union(); }
  Offset<void> operator()(const StatusReply& m) {
    return wire::CreateStatusReply(b_, String(m.json)).Union();
  }
  Offset<void> operator()(const RebuildTables& m) {
    return wire::CreateRebuildTables(b_, m.round, m.k).Union();
  }

 private:
  Offset<wire::LoadReport> Load(const LoadReport& m) {
    const auto slots = Vector(m.slots);
    const auto executor = Vector(m.executor);
    const auto retrieved = Vector(m.retrieved);
    const auto used = Vector(m.used);
    const auto updated = Vector(m.updated);
    const auto work = Vector(m.work);
    const auto service_us = Vector(m.service_us);
    const auto bytes = Vector(m.bytes);
    return wire::CreateLoadReport(b_, m.interval_ms, m.batches, slots, executor, retrieved, used,
                                  updated, work, service_us, bytes, Vector(m.busy));
  }

  Offset<flatbuffers::String> String(const std::string& s) {
    return s.empty() ? Offset<flatbuffers::String>() : b_.CreateString(s);
  }

  template <typename T>
  VectorOffset<T> Vector(const std::vector<T>& v) {
    return v.empty() ? VectorOffset<T>() : b_.CreateVector(v);
  }

  VectorOffset<uint8_t> Numbers(std::span<const uint32_t> numbers) {
    return Vector(PackNumbers(numbers));
  }

  // One entry if all are the same.
  VectorOffset<uint32_t> OnceIfEqual(const std::vector<uint32_t>& v) {
    if (v.empty()) return {};
    const bool equal = std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
    return b_.CreateVector(v.data(), equal ? 1 : v.size());
  }

  // Not for int8.
  VectorOffset<uint8_t> Floats(std::span<const float> x) {
    if (x.empty()) return {};
    uint8_t* bytes = nullptr;
    const VectorOffset<uint8_t> offset =
        b_.CreateUninitializedVector<uint8_t>(x.size() * WireFloatBytes(precision_), &bytes);
    PackFloats(x, precision_, bytes);
    return offset;
  }

  // Lengths of the rows.
  VectorOffset<uint8_t> Lengths(const std::vector<uint32_t>& offsets) {
    std::vector<uint32_t> lengths(offsets.size() - 1);
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = offsets[i + 1] - offsets[i];
    return Numbers(lengths);
  }

  struct Elements {
    VectorOffset<uint8_t> bitmap;
    VectorOffset<uint8_t> data;
  };

  // Whether `nonzero` elements and a bitmap are smaller than all of them.
  bool BitmapPays(size_t elements, size_t nonzero) const {
    const size_t element_bytes = WireFloatBytes(precision_);
    return BitmapBytes(elements) + nonzero * element_bytes + kVectorHeaderBytes <
           elements * element_bytes;
  }

  Elements FloatElements(std::span<const float> x) {
    const size_t nonzero = CountNonzero(x);
    if (!BitmapPays(x.size(), nonzero)) return {{}, Floats(x)};
    std::vector<float> packed(nonzero + 1);
    uint8_t* bits = nullptr;
    const auto bitmap = b_.CreateUninitializedVector<uint8_t>(BitmapBytes(x.size()), &bits);
    PackNonzero(x, bits, packed.data());
    return {bitmap, Floats({packed.data(), nonzero})};
  }

  // The bitmap is of the bytes: elements that were rounded to 0 are left out too.
  Elements Int8Elements(const std::vector<uint8_t>& bytes) {
    const size_t nonzero = CountNonzero(bytes);
    if (!BitmapPays(bytes.size(), nonzero)) return {{}, Vector(bytes)};
    std::vector<uint8_t> packed(nonzero + 1);
    uint8_t* bits = nullptr;
    const auto bitmap = b_.CreateUninitializedVector<uint8_t>(BitmapBytes(bytes.size()), &bits);
    PackNonzero(bytes, bits, packed.data());
    packed.pop_back();
    return {bitmap, Vector(packed)};
  }

  Offset<wire::Matrix> Int8MatrixOf(const Matrix& m, Rounding rounding) {
    std::vector<uint8_t> bytes(m.data.size());
    std::vector<float> scales(m.rows);
    std::vector<float> carry(rounding == Rounding::kErrorFeedback ? m.cols : 0);
    for (size_t i = 0; i < m.rows; ++i) {
      const std::span<const float> row(m.row(i), m.cols);
      uint8_t* out = bytes.data() + i * m.cols;
      scales[i] = carry.empty() ? PackInt8(row, out) : PackInt8(row, carry, out);
    }
    const Elements elements = Int8Elements(bytes);
    return wire::CreateMatrix(b_, m.rows, m.cols, wire::Precision::Int8, elements.bitmap,
                              elements.data, Vector(scales));
  }

  Offset<wire::Matrix> MatrixOf(const Matrix& m, Rounding rounding = Rounding::kNearest) {
    DSLIDE_CHECK(m.data.size() == size_t{m.rows} * m.cols);
    if (precision_ == WirePrecision::kInt8) return Int8MatrixOf(m, rounding);
    const Elements elements = FloatElements(m.data);
    return wire::CreateMatrix(b_, m.rows, m.cols, ToWire(precision_), elements.bitmap,
                              elements.data);
  }

  // Bytes of the values, whose rows' scales go into `scales`.
  VectorOffset<uint8_t> Int8Values(const SparseRows& rows, VectorOffset<float>* scales) {
    if (rows.values.empty()) return {};
    std::vector<uint8_t> bytes(rows.values.size());
    std::vector<float> of_row(rows.rows());
    for (size_t i = 0; i < of_row.size(); ++i) {
      of_row[i] = PackInt8(rows.Values(i), bytes.data() + rows.offsets[i]);
    }
    *scales = Vector(of_row);
    return Vector(bytes);
  }

  Offset<wire::SparseRows> Rows(const SparseRows& rows) {
    DSLIDE_CHECK(!rows.offsets.empty() && rows.offsets.back() == rows.ids.size());
    DSLIDE_CHECK(rows.values.empty() || rows.values.size() == rows.ids.size());
    if (rows.rows() == 0) return {};
    const auto lengths = Lengths(rows.offsets);
    const bool ascend = RowsAscend(rows.offsets, rows.ids);
    const auto ids = ascend ? VectorOffset<uint32_t>() : Vector(rows.ids);
    const auto gaps = ascend ? Vector(PackGaps(rows.offsets, rows.ids)) : VectorOffset<uint8_t>();
    VectorOffset<float> scales;
    const auto values =
        precision_ == WirePrecision::kInt8 ? Int8Values(rows, &scales) : Floats(rows.values);
    return wire::CreateSparseRows(b_, ids, ToWire(precision_), values, gaps, lengths, scales);
  }

  Offset<wire::EmbedRequest> Embed(const EmbedRequest& m) {
    const auto features = Rows(m.features);
    const auto batch = ToWire(m.batch);
    return wire::CreateEmbedRequest(b_, &batch, m.training, features);
  }

  Offset<wire::ActiveReply> Active(const ActiveReply& m) {
    std::vector<Offset<wire::Probe>> probes;
    for (const Probe& probe : m.probes) probes.push_back(ProbeOf(probe));
    const auto probes_offset = Vector(probes);
    const auto max = Vector(m.max);
    const bool ones =
        std::all_of(m.sum_exp.begin(), m.sum_exp.end(), [](float x) { return x == 1; });
    const auto sum_exp = ones ? VectorOffset<float>() : Vector(m.sum_exp);
    const auto target_logit = Vector(m.target_logit);
    const auto active = OnceIfEqual(m.active);
    const auto loss = Vector(m.loss);
    return wire::CreateActiveReply(b_, max, sum_exp, target_logit, active, loss, m.active_rows,
                                   probes_offset);
  }

  Offset<wire::Probe> ProbeOf(const Probe& probe) {
    const auto ids = Vector(probe.ids);
    const auto logits = Vector(probe.logits);
    const auto in_set = Vector(probe.in_set);
    const auto in_hash = Vector(probe.in_hash);
    return wire::CreateProbe(b_, ids, logits, in_set, in_hash);
  }

  Offset<wire::TopKReply> TopK(const TopKReply& top) {
    DSLIDE_CHECK(!top.offsets.empty() && top.offsets.back() == top.ids.size());
    DSLIDE_CHECK(top.scores.size() == top.ids.size());
    const auto ids = Vector(top.ids);
    const auto scores = Vector(top.scores);
    return wire::CreateTopKReply(b_, ids, scores, Lengths(top.offsets));
  }

  // What a vector costs besides its elements: length, offset, and up to 4 bytes of padding.
  static constexpr size_t kVectorHeaderBytes = 12;

  Builder& b_;
  const WirePrecision precision_;
};

}  // namespace

Bytes Encode(const Message& message, WirePrecision precision) {
  // One buffer a thread: growing and faulting in a fresh one costs more than filling it.
  thread_local Builder builder;
  builder.Clear();
  const auto type = static_cast<wire::Body>(message.body.index() + 1);
  const auto body = std::visit(Encoder(builder, precision), message.body);
  const Envelope& e = message.envelope;
  wire::FinishMessageBuffer(
      builder,
      wire::CreateMessage(builder, e.run.value, e.incarnation.value, e.sequence, e.reply_to,
                          e.plan_version, type, body, ToWire(e.reply_precision), e.service_us));
  Bytes bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  if (builder.GetSize() > kKeptBuilderBytes) builder.Reset();
  return bytes;
}

std::string_view BodyName(size_t kind) {
  return wire::EnumNameBody(static_cast<wire::Body>(kind + 1));
}

}  // namespace dslide
