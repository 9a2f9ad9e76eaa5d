// FlatBuffer -> Message. Nothing is read before the Verifier has passed it, nothing is returned
// before its shapes agree. The first fault found is the one that is reported.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/net/messages.h"
#include "common/net/wire_arrays.h"
#include "protocol_generated.h"

namespace dslide {
namespace {

constexpr size_t kMaxStringBytes = size_t{1} << 20;
constexpr uint32_t kMaxMatrixCols = 65536;

// A LeaseGrant nests deepest: message, grant, batch, rows.
constexpr flatbuffers::uoffset_t kMaxDepth = 8;
constexpr flatbuffers::uoffset_t kMaxTables = 4 * kMaxBatchSamples;

// A message may unpack to so many times its own bytes: a small buffer can name the same vector many
// times. The largest honest factor is 40, of an all-zero matrix in int8: a bit an element becomes a
// byte and then a float.
constexpr size_t kMaxUnpackedFactor = 64;

// And to no more than this, twice the largest message: fp32 from bf16. A message in int8 that would
// need more is above 256 MiB.
constexpr size_t kMaxUnpackedBytes = 2 * kMaxMessageBytes;

// FlatBuffers reads scalars where they lie, so the buffer itself has to be aligned.
constexpr size_t kBufferAlignment = 8;

BatchId FromWire(const wire::BatchId& batch) {
  return {batch.epoch(), batch.unit(), batch.index()};
}

std::optional<WirePrecision> FromWire(wire::Precision precision) {
  switch (precision) {
    case wire::Precision::Fp32:
      return WirePrecision::kFp32;
    case wire::Precision::Bf16:
      return WirePrecision::kBf16;
    case wire::Precision::Int8:
      return WirePrecision::kInt8;
  }
  return std::nullopt;
}

// Reads one verified message. After a fault the rest is read as empty and the fault is kept.
class Decoder {
 public:
  Decoder(std::string_view name, size_t message_bytes)
      : name_(name),
        max_unpacked_bytes_(std::min(message_bytes * kMaxUnpackedFactor, kMaxUnpackedBytes)) {}

  Result<Body> Decode(const wire::Message& message);

 private:
  Join Read(const wire::Join& m);
  JoinReply Read(const wire::JoinReply& m);
  Plan Read(const wire::Plan& m);
  Ready Read(const wire::Ready& m);
  Heartbeat Read(const wire::Heartbeat& m);
  LoadReport Read(const wire::LoadReport& m);
  HeartbeatReply Read(const wire::HeartbeatReply& m) { return {m.in_flight_cap()}; }
  LeaseRequest Read(const wire::LeaseRequest& m) { return {m.has_data()}; }
  LeaseGrant Read(const wire::LeaseGrant& m);
  LeaseBatch Read(const wire::LeaseBatch& m);
  LeaseWait Read(const wire::LeaseWait& m) { return {m.retry_ms(), m.finished()}; }
  BatchDone Read(const wire::BatchDone& m);
  EmbedRequest Read(const wire::EmbedRequest& m);
  EmbedReply Read(const wire::EmbedReply& m) { return {ReadMatrix("partial", m.partial())}; }
  ActiveQuery Read(const wire::ActiveQuery& m);
  ActiveReply Read(const wire::ActiveReply& m);
  Probe Read(const wire::Probe& m);
  GradientPush Read(const wire::GradientPush& m);
  GradientReply Read(const wire::GradientReply& m);
  EmbedPush Read(const wire::EmbedPush& m);
  Ack Read(const wire::Ack&) { return {}; }
  DropBatches Read(const wire::DropBatches& m) { return {Incarnation{m.incarnation()}}; }
  TopKRequest Read(const wire::TopKRequest& m);
  TopKReply Read(const wire::TopKReply& m);
  CheckpointRequest Read(const wire::CheckpointRequest& m);
  CheckpointDone Read(const wire::CheckpointDone& m);
  CheckpointNow Read(const wire::CheckpointNow&) { return {}; }
  Leave Read(const wire::Leave&) { return {}; }
  CommitSteps Read(const wire::CommitSteps& m) { return {m.committed()}; }
  StepsCommitted Read(const wire::StepsCommitted& m) { return {m.committed()}; }
  Shutdown Read(const wire::Shutdown& m) { return {String("reason", m.reason()), m.exit_code()}; }
  ErrorReply Read(const wire::ErrorReply& m);
  MoveSlots Read(const wire::MoveSlots& m);
  MoveReady Read(const wire::MoveReady& m) { return {m.move(), m.bytes(), m.left_bytes()}; }
  SlotPull Read(const wire::SlotPull& m) {
    return {m.slot(), m.part(), m.resting(), m.max_bytes(), m.release()};
  }
  SlotRows Read(const wire::SlotRows& m);
  DrainServer Read(const wire::DrainServer& m) { return {String("name", m.name())}; }
  StatusRequest Read(const wire::StatusRequest&) { return {}; }
  StatusReply Read(const wire::StatusReply& m) { return {String("json", m.json())}; }
  RebuildTables Read(const wire::RebuildTables& m) { return {m.round(), m.k()}; }

  // Keeps the first fault.
  void Fail(std::string_view field, std::string_view reason) {
    if (!fault_.empty()) return;
    fault_ = fmt::format("malformed {}: {} {}", name_, field, reason);
  }

  // False, with a fault, if `bytes` more would be too much for one message.
  bool Charge(std::string_view field, size_t bytes);

  std::string String(std::string_view field, const flatbuffers::String* s);
  BatchId Batch(const wire::BatchId* batch);
  double Finite(std::string_view field, double value);
  Matrix ReadMatrix(std::string_view field, const wire::Matrix* matrix);
  SparseRows Rows(std::string_view field, const wire::SparseRows* rows);
  WirePrecision Precision(std::string_view field, wire::Precision precision);

  // Scalars as they are; an absent vector is an empty one.
  template <typename T>
  std::vector<T> Vector(std::string_view field, const flatbuffers::Vector<T>* v) {
    if (v == nullptr || !Charge(field, size_t{v->size()} * sizeof(T))) return {};
    return {v->data(), v->data() + v->size()};
  }

  std::vector<float> Floats(std::string_view field, const flatbuffers::Vector<float>* v) {
    std::vector<float> result = Vector(field, v);
    if (!AllFinite(result)) Fail(field, "holds a number that is not finite");
    return result;
  }

  // Tables of a vector, each by Read().
  template <typename To, typename From>
  std::vector<To> Tables(std::string_view field,
                         const flatbuffers::Vector<flatbuffers::Offset<From>>* tables) {
    std::vector<To> result;
    if (tables == nullptr || !Charge(field, size_t{tables->size()} * sizeof(To))) return result;
    result.reserve(tables->size());
    for (const From* table : *tables) result.push_back(Read(*table));
    return result;
  }
  PlanServer Read(const wire::PlanServer& m) {
    return {String("servers.name", m.name()),
            String("servers.address", m.address()),
            {m.incarnation()}};
  }

  ShardFile Read(const wire::ShardFile& m) {
    return {String("files.name", m.name()), m.bytes(), m.checksum()};
  }
  std::vector<std::string> Strings(
      std::string_view field,
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* strings) {
    std::vector<std::string> result;
    if (strings == nullptr || !Charge(field, size_t{strings->size()} * sizeof(std::string))) {
      return result;
    }
    for (const flatbuffers::String* s : *strings) result.push_back(String(field, s));
    return result;
  }

  // An enumeration whose wire form has the same numbers, up to From::MAX.
  template <typename To, typename From>
  To Enum(std::string_view field, From value) {
    if (value <= From::MAX) return static_cast<To>(value);
    Fail(field, fmt::format("has the unknown value {}", static_cast<int>(value)));
    return To{};
  }

  // Numbers in LEB128.
  std::vector<uint32_t> Numbers(std::string_view field, const flatbuffers::Vector<uint8_t>* bytes);

  // Row starts from row lengths; a fault unless they add up to `total`.
  std::vector<uint32_t> Offsets(std::string_view field, const flatbuffers::Vector<uint8_t>* lengths,
                                size_t total);

  // Scales of `rows` rows in int8; a fault unless there are none in another precision.
  std::vector<float> Scales(std::string_view field, const flatbuffers::Vector<float>* scales,
                            WirePrecision precision, size_t rows);

  // The elements of one matrix: its bytes, or those whose bit of `bits` is set.
  void ReadFloats(std::span<const uint8_t> data, bool packed, std::span<const uint8_t> bits,
                  WirePrecision precision, Matrix* result);
  void ReadValues(std::string_view field, const uint8_t* bytes, WirePrecision precision,
                  std::span<const float> scales, SparseRows* rows);
  void ReadInt8(std::span<const uint8_t> data, bool packed, std::span<const uint8_t> bits,
                std::span<const float> scales, Matrix* result);

  void RequireSize(std::string_view field, size_t size, size_t wanted) {
    if (size != wanted) Fail(field, fmt::format("has {} entries instead of {}", size, wanted));
  }
  void RequireAtMost(std::string_view field, size_t size, size_t limit) {
    if (size > limit) Fail(field, fmt::format("has {} entries, more than {}", size, limit));
  }

  const std::string_view name_;
  const size_t max_unpacked_bytes_;
  size_t unpacked_bytes_ = 0;
  std::string fault_;
};

bool Decoder::Charge(std::string_view field, size_t bytes) {
  if (bytes <= max_unpacked_bytes_ - unpacked_bytes_) {
    unpacked_bytes_ += bytes;
    return true;
  }
  Fail(field, fmt::format("makes the message unpack to more than {} bytes", max_unpacked_bytes_));
  return false;
}

std::string Decoder::String(std::string_view field, const flatbuffers::String* s) {
  if (s == nullptr) return {};
  if (s->size() > kMaxStringBytes) {
    Fail(field, fmt::format("is {} bytes long, more than {}", s->size(), kMaxStringBytes));
    return {};
  }
  return Charge(field, s->size()) ? s->str() : std::string();
}

BatchId Decoder::Batch(const wire::BatchId* batch) {
  if (batch != nullptr) return FromWire(*batch);
  Fail("batch", "is missing");
  return {};
}

double Decoder::Finite(std::string_view field, double value) {
  if (!std::isfinite(value)) Fail(field, "is not finite");
  return value;
}

WirePrecision Decoder::Precision(std::string_view field, wire::Precision precision) {
  const auto known = FromWire(precision);
  if (!known) Fail(field, fmt::format("has the unknown precision {}", static_cast<int>(precision)));
  return known.value_or(WirePrecision::kBf16);
}

std::vector<float> Decoder::Scales(std::string_view field, const flatbuffers::Vector<float>* scales,
                                   WirePrecision precision, size_t rows) {
  std::vector<float> result = Vector(field, scales);
  RequireSize(field, result.size(), precision == WirePrecision::kInt8 ? rows : 0);
  if (!AreInt8Scales(result)) Fail(field, "holds a number that is no scale from 0 to 2^120");
  return result;
}

void Decoder::ReadFloats(std::span<const uint8_t> data, bool packed, std::span<const uint8_t> bits,
                         WirePrecision precision, Matrix* result) {
  if (!packed) return UnpackFloats(data.data(), precision, result->data);
  std::vector<float> elements(data.size() / WireFloatBytes(precision));
  UnpackFloats(data.data(), precision, elements);
  UnpackNonzero(bits, elements, result->data);
}

void Decoder::ReadInt8(std::span<const uint8_t> data, bool packed, std::span<const uint8_t> bits,
                       std::span<const float> scales, Matrix* result) {
  Bytes spread(packed ? result->data.size() : 0);
  if (packed) {
    UnpackNonzero(bits, data, spread);
    data = spread;
  }
  for (size_t i = 0; i < result->rows; ++i) {
    UnpackInt8(data.data() + i * result->cols, scales[i], {result->row(i), result->cols});
  }
}

Matrix Decoder::ReadMatrix(std::string_view field, const wire::Matrix* matrix) {
  if (matrix == nullptr) {
    Fail(field, "is missing");
    return {};
  }
  if (matrix->rows() > kMaxBatchSamples || matrix->cols() > kMaxMatrixCols) {
    Fail(field, fmt::format("of {} x {} is larger than {} x {}", matrix->rows(), matrix->cols(),
                            kMaxBatchSamples, kMaxMatrixCols));
    return {};
  }
  const size_t elements = size_t{matrix->rows()} * matrix->cols();
  const auto* bitmap = matrix->nonzero();
  std::span<const uint8_t> bits;
  if (bitmap != nullptr) bits = {bitmap->data(), bitmap->size()};
  if (bitmap != nullptr &&
      (bits.size() != BitmapBytes(elements) || !PaddingIsZero(bits, elements))) {
    Fail(field, fmt::format("of {} x {} has a bitmap that does not fit ({} bytes)", matrix->rows(),
                            matrix->cols(), bits.size()));
    return {};
  }
  const size_t stored = bitmap != nullptr ? PopCount(bits) : elements;
  const WirePrecision precision = Precision(field, matrix->precision());
  const size_t bytes = matrix->data() != nullptr ? matrix->data()->size() : 0;
  if (bytes != stored * WireFloatBytes(precision)) {
    Fail(field, fmt::format("of {} x {} has {} bytes of data instead of {}", matrix->rows(),
                            matrix->cols(), bytes, stored * WireFloatBytes(precision)));
    return {};
  }
  const bool int8 = precision == WirePrecision::kInt8;
  const std::vector<float> scales =
      Scales(fmt::format("{}.scales", field), matrix->scales(), precision, matrix->rows());
  // With a bitmap twice: packed floats are unpacked before they are spread, bytes after it.
  const size_t spread = bitmap == nullptr ? 0 : int8 ? elements : stored * sizeof(float);
  if (!fault_.empty() || !Charge(field, elements * sizeof(float) + spread)) return {};

  std::span<const uint8_t> data;
  if (bytes != 0) data = {matrix->data()->data(), bytes};
  Matrix result(matrix->rows(), matrix->cols());
  if (int8) {
    ReadInt8(data, bitmap != nullptr, bits, scales, &result);
    return result;
  }
  ReadFloats(data, bitmap != nullptr, bits, precision, &result);
  if (!AllFinite(result.data)) Fail(field, "holds a number that is not finite");
  return result;
}

std::vector<uint32_t> Decoder::Numbers(std::string_view field,
                                       const flatbuffers::Vector<uint8_t>* bytes) {
  if (bytes == nullptr) return {};
  const std::span<const uint8_t> packed(bytes->data(), bytes->size());
  const size_t count = CountNumbers(packed);
  RequireAtMost(field, count, kMaxBatchSamples);
  if (!fault_.empty() || !Charge(field, count * sizeof(uint32_t))) return {};
  std::vector<uint32_t> numbers(count);
  if (!UnpackNumbers(packed, numbers)) Fail(field, "holds bytes that are no numbers");
  return numbers;
}

std::vector<uint32_t> Decoder::Offsets(std::string_view field,
                                       const flatbuffers::Vector<uint8_t>* lengths, size_t total) {
  std::vector<uint32_t> offsets = Numbers(field, lengths);
  uint64_t sum = 0;  // at most 2^16 lengths below 2^32: no overflow
  for (const uint32_t length : offsets) sum += length;
  if (sum != total) Fail(field, fmt::format("add up to {} instead of {} ids", sum, total));
  if (!fault_.empty()) return {0};

  offsets.insert(offsets.begin(), 0);
  for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  return offsets;
}

void Decoder::ReadValues(std::string_view field, const uint8_t* bytes, WirePrecision precision,
                         std::span<const float> scales, SparseRows* rows) {
  rows->values.resize(rows->ids.size());
  if (precision == WirePrecision::kInt8) {
    for (size_t i = 0; i < rows->rows(); ++i) {
      const uint32_t begin = rows->offsets[i];
      const uint32_t length = rows->offsets[i + 1] - begin;
      UnpackInt8(bytes + begin, scales[i], {rows->values.data() + begin, length});
    }
    return;
  }
  UnpackFloats(bytes, precision, rows->values);
  if (!AllFinite(rows->values)) Fail(field, "holds a number that is not finite");
}

SparseRows Decoder::Rows(std::string_view field, const wire::SparseRows* rows) {
  SparseRows result;
  if (rows == nullptr) return result;
  std::span<const uint8_t> gaps;
  if (rows->gaps() != nullptr) gaps = {rows->gaps()->data(), rows->gaps()->size()};
  if (!gaps.empty() && rows->ids() != nullptr && rows->ids()->size() > 0) {
    Fail(field, "has both ids and gaps");
    return result;
  }
  const size_t total =
      !gaps.empty() ? CountNumbers(gaps) : (rows->ids() != nullptr ? rows->ids()->size() : 0);
  const size_t bytes = rows->values() != nullptr ? rows->values()->size() : 0;
  const WirePrecision precision = Precision(field, rows->precision());
  if (bytes != 0 && bytes != total * WireFloatBytes(precision)) {
    Fail(field, fmt::format("has {} bytes of values for {} ids", bytes, total));
    return result;
  }
  result.offsets = Offsets(fmt::format("{}.lengths", field), rows->lengths(), total);
  const std::vector<float> scales = Scales(fmt::format("{}.scales", field), rows->scales(),
                                           precision, bytes != 0 ? result.rows() : 0);
  if (gaps.empty()) {
    result.ids = Vector(field, rows->ids());
  } else if (fault_.empty() && Charge(field, total * sizeof(uint32_t))) {
    result.ids.resize(total);
    if (!UnpackGaps(gaps, result.offsets, result.ids)) Fail(field, "has gaps that are no ids");
  }
  if (bytes != 0 && fault_.empty() && Charge(field, total * sizeof(float))) {
    ReadValues(field, rows->values()->data(), precision, scales, &result);
  }
  return result;
}

Join Decoder::Read(const wire::Join& m) {
  return {m.protocol(),
          Enum<Role>("role", m.role()),
          String("name", m.name()),
          String("address", m.address()),
          m.cores(),
          m.memory_bytes(),
          m.plan_version()};
}

JoinReply Decoder::Read(const wire::JoinReply& m) {
  return {String("name", m.name()), String("config", m.config()), m.train_samples(),
          m.train_checksum()};
}

Plan Decoder::Read(const wire::Plan& m) {
  return {m.version(), Tables<PlanServer>("servers", m.servers()),
          Vector("slot_owner", m.slot_owner()), String("restore", m.restore()), m.generation()};
}

Ready Decoder::Read(const wire::Ready& m) {
  return {m.plan_version(), m.rows(), m.memory_bytes(), m.moved_bytes(), m.stall_us()};
}

LoadReport Decoder::Read(const wire::LoadReport& m) {
  LoadReport load{m.interval_ms(),
                  m.batches(),
                  Vector("load.slots", m.slots()),
                  Vector("load.executor", m.executor()),
                  Vector("load.retrieved", m.retrieved()),
                  Vector("load.used", m.used()),
                  Vector("load.updated", m.updated()),
                  Floats("load.work", m.work()),
                  Floats("load.service_us", m.service_us()),
                  Vector("load.bytes", m.bytes()),
                  Floats("load.busy", m.busy())};
  const size_t slots = load.slots.size();
  RequireSize("load.executor", load.executor.size(), slots);
  RequireSize("load.retrieved", load.retrieved.size(), slots);
  RequireSize("load.used", load.used.size(), slots);
  RequireSize("load.updated", load.updated.size(), slots);
  RequireSize("load.work", load.work.size(), slots);
  RequireSize("load.service_us", load.service_us.size(), slots);
  RequireSize("load.bytes", load.bytes.size(), slots);
  return load;
}

Heartbeat Decoder::Read(const wire::Heartbeat& m) {
  Finite("cpu_seconds", m.cpu_seconds());
  Finite("bucket_empty_share", m.bucket_empty_share());
  Finite("bucket_mean", m.bucket_mean());
  Heartbeat beat{m.cpu_seconds(),        m.peak_rss_bytes(),     m.bytes_sent(),
                 m.bytes_received(),     m.rehash_lag_batches(), m.bucket_empty_share(),
                 m.bucket_mean(),        m.bucket_p99(),         m.bucket_largest(),
                 m.batches_in_flight(),  m.malformed(),          m.in_flight_limit(),
                 m.round_trip_us(),      m.bits_per_second(),    m.int8_links(),
                 {},                     m.memory_used_bytes(),  m.hash_round()};
  if (m.load() != nullptr) beat.load = Read(*m.load());
  return beat;
}

LeaseBatch Decoder::Read(const wire::LeaseBatch& m) {
  LeaseBatch batch{m.index(), m.first_sample(), Rows("batches.features", m.features()),
                   Rows("batches.labels", m.labels()), m.samples()};
  RequireSize("batches.labels", batch.labels.rows(), batch.features.rows());
  RequireAtMost("batches.samples", batch.samples, kMaxBatchSamples);
  if (batch.samples != 0) RequireSize("batches.features", batch.features.rows(), 0);
  return batch;
}

LeaseGrant Decoder::Read(const wire::LeaseGrant& m) {
  return {m.lease(), Enum<LeaseKind>("kind", m.kind()),         m.epoch(), m.unit(),
          m.top_k(), Tables<LeaseBatch>("batches", m.batches())};
}

BatchDone Decoder::Read(const wire::BatchDone& m) {
  BatchDone done{m.lease(),
                 Batch(m.batch()),
                 m.samples(),
                 Finite("loss_sum", m.loss_sum()),
                 m.active_neurons_sum(),
                 m.active_rows(),
                 m.bytes_sent(),
                 m.bytes_received(),
                 m.probed(),
                 Finite("recall_set", m.recall_set()),
                 Finite("recall_hash", m.recall_hash()),
                 Finite("recall_uniform", m.recall_uniform()),
                 {},
                 Vector("bytes_by_kind", m.bytes_by_kind())};
  if (!done.bytes_by_kind.empty()) {
    RequireSize("bytes_by_kind", done.bytes_by_kind.size(), std::variant_size_v<Body>);
  }
  RequireAtMost("samples", done.samples, kMaxBatchSamples);
  if (m.predictions() != nullptr) {
    done.predictions = Read(*m.predictions());
    const size_t rows = done.predictions.offsets.size() - 1;
    if (rows != 0) RequireSize("predictions", rows, done.samples);
  }
  return done;
}

EmbedRequest Decoder::Read(const wire::EmbedRequest& m) {
  return {Batch(m.batch()), m.training(), Rows("features", m.features())};
}

ActiveQuery Decoder::Read(const wire::ActiveQuery& m) {
  ActiveQuery query{Batch(m.batch()),           ReadMatrix("hidden", m.hidden()),
                    Rows("labels", m.labels()), Numbers("totals", m.totals()),
                    m.probe_samples(),          m.finish()};
  RequireSize("labels", query.labels.rows(), query.hidden.rows);
  RequireSize("totals", query.label_totals.size(), query.hidden.rows);
  return query;
}

Probe Decoder::Read(const wire::Probe& m) {
  Probe probe{Vector("probes.ids", m.ids()), Floats("probes.logits", m.logits()),
              Vector("probes.in_set", m.in_set()), Vector("probes.in_hash", m.in_hash())};
  RequireSize("probes.logits", probe.logits.size(), probe.ids.size());
  RequireSize("probes.in_set", probe.in_set.size(), probe.ids.size());
  RequireSize("probes.in_hash", probe.in_hash.size(), probe.ids.size());
  return probe;
}

ActiveReply Decoder::Read(const wire::ActiveReply& m) {
  ActiveReply reply{Vector("max", m.max()),
                    Floats("sum_exp", m.sum_exp()),
                    Floats("target_logit", m.target_logit()),
                    Vector("active", m.active()),
                    Floats("loss", m.loss()),
                    m.active_rows(),
                    Tables<Probe>("probes", m.probes())};
  const size_t rows = reply.max.size();
  if (m.sum_exp() == nullptr && Charge("sum_exp", rows * sizeof(float)))
    reply.sum_exp.assign(rows, 1.0f);
  if (!AllFiniteOrMinusInfinity(reply.max)) Fail("max", "holds NaN or +infinity");
  RequireAtMost("max", rows, kMaxBatchSamples);
  RequireSize("sum_exp", reply.sum_exp.size(), rows);
  RequireSize("target_logit", reply.target_logit.size(), rows);
  if (reply.active.size() == 1 && rows > 1 && Charge("active", rows * sizeof(uint32_t))) {
    reply.active.assign(rows, uint32_t{reply.active[0]});
  }
  RequireSize("active", reply.active.size(), rows);
  if (!reply.loss.empty()) RequireSize("loss", reply.loss.size(), rows);
  RequireAtMost("probes", reply.probes.size(), rows);
  return reply;
}

GradientPush Decoder::Read(const wire::GradientPush& m) {
  GradientPush push{Batch(m.batch()), Floats("log_normaliser", m.log_normaliser())};
  RequireAtMost("log_normaliser", push.log_normaliser.size(), kMaxBatchSamples);
  return push;
}

GradientReply Decoder::Read(const wire::GradientReply& m) {
  GradientReply reply{ReadMatrix("partial", m.partial()), {}};
  if (m.active() != nullptr) {
    reply.active = Read(*m.active());
    RequireSize("active.max", reply.active->max.size(), reply.partial.rows);
  }
  return reply;
}

EmbedPush Decoder::Read(const wire::EmbedPush& m) {
  EmbedPush push{Batch(m.batch()), ReadMatrix("gradient", m.gradient()), {}};
  if (m.next() != nullptr) push.next = Read(*m.next());
  return push;
}

TopKRequest Decoder::Read(const wire::TopKRequest& m) {
  TopKRequest request{ReadMatrix("hidden", m.hidden()), m.k(), Enum<Search>("search", m.search()),
                      Rows("excluded", m.excluded())};
  const size_t rows = request.excluded.rows();
  if (rows != 0) RequireSize("excluded", rows, request.hidden.rows);
  return request;
}

TopKReply Decoder::Read(const wire::TopKReply& m) {
  TopKReply reply;
  reply.ids = Vector("ids", m.ids());
  reply.scores = Floats("scores", m.scores());
  reply.offsets = Offsets("lengths", m.lengths(), reply.ids.size());
  RequireSize("scores", reply.scores.size(), reply.ids.size());
  return reply;
}

CheckpointRequest Decoder::Read(const wire::CheckpointRequest& m) {
  return {String("name", m.name()), String("directory", m.directory()), m.committed(),
          Strings("keep", m.keep())};
}

CheckpointDone Decoder::Read(const wire::CheckpointDone& m) {
  return {String("name", m.name()),
          String("error", m.error()),
          String("shard", m.shard()),
          m.rows(),
          m.bytes(),
          Tables<ShardFile>("files", m.files()),
          m.written_bytes(),
          m.stall_us(),
          m.retry()};
}

ErrorReply Decoder::Read(const wire::ErrorReply& m) {
  return {Enum<ErrorCode>("code", m.code()), String("text", m.text())};
}

MoveSlots Decoder::Read(const wire::MoveSlots& m) {
  MoveSlots move{m.move(), Vector("slots", m.slots()), Vector("from", m.from()),
                 m.bytes_per_second()};
  RequireSize("from", move.from.size(), move.slots.size());
  return move;
}

SlotRows Decoder::Read(const wire::SlotRows& m) {
  SlotRows part{m.slot(),
                m.part(),
                m.input_rows(),
                Vector("rows", m.rows()),
                Vector("ends", m.ends()),
                Vector("bytes", m.bytes()),
                m.left(),
                m.hash(),
                m.last(),
                Vector("applied_output", m.applied_output()),
                Vector("applied_input", m.applied_input()),
                {}};
  if (m.has_committed()) part.committed = m.committed();
  RequireSize("ends", part.ends.size(), part.rows.size());
  RequireAtMost("input_rows", part.input_rows, part.rows.size());
  const uint32_t end = part.ends.empty() ? 0 : part.ends.back();
  if (!std::is_sorted(part.ends.begin(), part.ends.end())) Fail("ends", "do not ascend");
  RequireSize("bytes", part.bytes.size(), end);
  return part;
}

Result<Body> Decoder::Decode(const wire::Message& message) {
  Body body;
  switch (message.body_type()) {
#define DSLIDE_READ_BODY(Type)              \
  case wire::Body::Type:                    \
    body = Read(*message.body_as_##Type()); \
    break;
    DSLIDE_READ_BODY(Join)
    DSLIDE_READ_BODY(JoinReply)
    DSLIDE_READ_BODY(Plan)
    DSLIDE_READ_BODY(Ready)
    DSLIDE_READ_BODY(Heartbeat)
    DSLIDE_READ_BODY(HeartbeatReply)
    DSLIDE_READ_BODY(LeaseRequest)
    DSLIDE_READ_BODY(LeaseGrant)
    DSLIDE_READ_BODY(LeaseWait)
    DSLIDE_READ_BODY(BatchDone)
    DSLIDE_READ_BODY(EmbedRequest)
    DSLIDE_READ_BODY(EmbedReply)
    DSLIDE_READ_BODY(ActiveQuery)
    DSLIDE_READ_BODY(ActiveReply)
    DSLIDE_READ_BODY(GradientPush)
    DSLIDE_READ_BODY(GradientReply)
    DSLIDE_READ_BODY(EmbedPush)
    DSLIDE_READ_BODY(Ack)
    DSLIDE_READ_BODY(DropBatches)
    DSLIDE_READ_BODY(TopKRequest)
    DSLIDE_READ_BODY(TopKReply)
    DSLIDE_READ_BODY(CheckpointRequest)
    DSLIDE_READ_BODY(CheckpointDone)
    DSLIDE_READ_BODY(CheckpointNow)
    DSLIDE_READ_BODY(Leave)
    DSLIDE_READ_BODY(CommitSteps)
    DSLIDE_READ_BODY(StepsCommitted)
    DSLIDE_READ_BODY(Shutdown)
    DSLIDE_READ_BODY(ErrorReply)
    DSLIDE_READ_BODY(MoveSlots)
    DSLIDE_READ_BODY(MoveReady)
    DSLIDE_READ_BODY(SlotPull)
    DSLIDE_READ_BODY(SlotRows)
    DSLIDE_READ_BODY(DrainServer)
    DSLIDE_READ_BODY(StatusRequest)
    DSLIDE_READ_BODY(StatusReply)
    DSLIDE_READ_BODY(RebuildTables)
#undef DSLIDE_READ_BODY
    case wire::Body::NONE:
      return Failed("malformed message: it has no body");
  }
  if (!fault_.empty()) return Failed(fault_);
  return body;
}

Result<Message> DecodeAligned(std::span<const uint8_t> bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), kMaxDepth, kMaxTables);
  if (!wire::VerifyMessageBuffer(verifier)) {
    return Failed(
        fmt::format("malformed message: the {} bytes are no valid DSLD FlatBuffer", bytes.size()));
  }
  const wire::Message& message = *wire::GetMessage(bytes.data());
  // The Verifier passes union members that it does not know.
  if (message.body_type() > wire::Body::MAX) {
    return Failed(fmt::format("malformed message: body type {} is unknown",
                              static_cast<int>(message.body_type())));
  }
  Result<Body> body =
      Decoder(wire::EnumNameBody(message.body_type()), bytes.size()).Decode(message);
  if (!body.ok()) return body.error();
  const auto reply_precision = FromWire(message.reply_precision());
  if (!reply_precision) {
    return Failed(fmt::format("malformed message: reply_precision has the unknown value {}",
                              static_cast<int>(message.reply_precision())));
  }
  const Envelope envelope{RunId{message.run_id()}, Incarnation{message.incarnation()},
                          message.sequence(),      message.reply_to(),
                          message.plan_version(),  *reply_precision,
                          message.service_us()};
  return Message{envelope, *std::move(body)};
}

}  // namespace

Result<Message> Decode(std::span<const uint8_t> bytes) {
  // The smallest buffer that VerifyMessageBuffer may look at: root offset and file identifier.
  constexpr size_t kMinBytes = 8;
  if (bytes.size() < kMinBytes || bytes.size() > kMaxMessageBytes) {
    return Failed(fmt::format("malformed message: {} bytes, allowed are {} to {}", bytes.size(),
                              kMinBytes, kMaxMessageBytes));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kBufferAlignment == 0) {
    return DecodeAligned(bytes);
  }
  const Bytes aligned(bytes.begin(), bytes.end());
  return DecodeAligned(aligned);
}

}  // namespace dslide
