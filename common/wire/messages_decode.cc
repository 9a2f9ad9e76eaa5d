// FlatBuffer -> Message, field by field (wire_fields.h). Nothing is read before the Verifier has
// passed it, nothing is returned before its shapes agree. The first fault found is the one that is
// reported.
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/wire/messages.h"
#include "common/wire/wire_arrays.h"
#include "common/wire/wire_fields.h"
#include "common/wire/wire_reader.h"
#include "common/wire/wire_shapes.h"
#include "protocol_generated.h"

namespace dslide {
namespace {

// A LeaseGrant nests deepest: message, grant, batch, rows.
constexpr flatbuffers::uoffset_t kMaxDepth = 8;
constexpr flatbuffers::uoffset_t kMaxTables = 4 * kMaxBatchSamples;

// FlatBuffers reads scalars where they lie, so the buffer itself has to be aligned.
constexpr size_t kBufferAlignment = 8;

template <typename T>
using VectorOf = flatbuffers::Vector<T>;
template <typename T>
using TablesOf = VectorOf<flatbuffers::Offset<T>>;

class Decoder : private WireReader {
 public:
  using WireReader::fault;
  using WireReader::WireReader;

  // Reads every field of a table, then checks that they agree.
  template <typename Table, typename M>
  void Read(const Table& table, M* m) {
    using Traits = typename Table::Traits;
    const auto fields = FieldsOf(*m);
    static_assert(std::tuple_size_v<decltype(fields)> == Traits::fields_number);
    if constexpr (Traits::fields_number > 0) {  // flatc makes get_field for fields only
      [&]<size_t... I>(std::index_sequence<I...>) {
        (GetField(Traits::field_names[I], table.template get_field<I>(), std::get<I>(fields)), ...);
      }
      (std::make_index_sequence<Traits::fields_number>());
    }
    CheckShape(*m, this);
  }

 private:
  template <typename From, typename To>
  void GetField(const char* name, From from, To&& to) {
    const InField in(this, name);
    Get(from, to);
  }

  template <typename T>
  requires std::is_arithmetic_v<T>
  void Get(T number, T& to) {
    if constexpr (std::is_floating_point_v<T>) RequireFinite(number);
    to = number;
  }
  template <typename From, typename To>
  requires std::is_enum_v<To>
  void Get(From value, To& to) { to = Enum<To>(value); }
  template <typename Tag, typename T>
  void Get(T number, Id<Tag, T>& to) {
    to.value = number;
  }
  void Get(const wire::BatchId* batch, BatchId& to) { to = Batch(batch); }
  void Get(const flatbuffers::String* text, std::string& to) { to = String(text); }
  void Get(const TablesOf<flatbuffers::String>* strings, std::vector<std::string>& to) {
    to = Strings(strings);
  }
  template <typename T>
  void Get(const VectorOf<T>* v, std::vector<T>& to) {
    to = Vector(v);
  }
  void Get(const VectorOf<float>* v, std::vector<float>& to) { to = Floats(v); }
  void Get(const VectorOf<const wire::ExpSum*>* v, std::vector<ExpSum>& to) { to = ExpSums(v); }
  template <typename Table, typename M>
  void Get(const TablesOf<Table>* tables, std::vector<M>& to) {
    if (tables == nullptr || !Charge(size_t{tables->size()} * sizeof(M))) return;
    to.reserve(tables->size());
    for (const Table* table : *tables) Read(*table, &to.emplace_back());
  }
  template <typename Table, typename M>
  void Get(const Table* table, std::optional<M>& to) {
    if (table != nullptr) Read(*table, &to.emplace());
  }
  void Get(const wire::Matrix* matrix, Matrix& to) { to = DenseMatrix(matrix); }
  void Get(const wire::Matrix* matrix, PartialSum& to) { to = Partial(matrix); }
  void Get(const wire::SparseRows* rows, SparseRows& to) { to = Rows(rows); }

  template <typename From, typename V, typename Of>
  void Get(const From* v, const OneEach<V, Of>& to) {
    Get(v, to.values);
    RequireSize(to.values.size(), to.of.size());
  }
  template <typename V>
  void Get(const VectorOf<uint8_t>* bytes, const Leb128<V>& to) {
    to.numbers = Numbers(bytes);
  }
  template <typename V>
  void Get(const VectorOf<uint8_t>* lengths, const RowLengths<V>& to) {
    to.offsets = Offsets(lengths, to.ids.size());
  }
  template <typename V>
  void Get(const flatbuffers::String* text, const LongString<V>& to) {
    to.text = String(text, kMaxStatusBytes);
  }
  template <typename V>
  void Get(const wire::Matrix* matrix, const Gradient<V>& to) {
    Get(matrix, to.matrix);
  }
  template <typename Table, typename V>
  void Get(const Table* table, const Parameters<V>& to) {
    Get(table, to.rows);
  }
  template <typename Table, typename V>
  void Get(const Table* table, const RandomlyRounded<V>& to) {
    Get(table, to.rows);
  }
  template <typename Table, typename V>
  void Get(const Table* table, const UnlessNoRows<V>& to) {
    if (table != nullptr) Read(*table, &to.rows);
  }
  template <typename V>
  void Get(bool has_value, const HasValue<V>& to) {
    if (has_value) to.optional.emplace();
  }
  template <typename T, typename V>
  void Get(T number, const ValueOf<V>& to) {
    if (to.optional) to.optional = number;
  }
};

// An absent `sum_exp` is all ones, and one entry of `active` counts for all samples.
template <>
void Decoder::Read<wire::ActiveReply>(const wire::ActiveReply& table, ActiveReply* m) {
  const auto get = [&](const char* name, auto from, auto* to) { GetField(name, from, *to); };
  m->max = Vector(table.max());
  if (!AllFiniteOrMinusInfinity(m->max)) Fail("max", "holds NaN or +infinity");
  const size_t rows = m->max.size();
  get("sum_exp", table.sum_exp(), &m->sum_exp);
  if (table.sum_exp() == nullptr && Charge(rows * sizeof(float))) m->sum_exp.assign(rows, 1.0f);
  get("target_logit", table.target_logit(), &m->target_logit);
  get("active", table.active(), &m->active);
  if (m->active.size() == 1 && rows > 1 && Charge(rows * sizeof(uint32_t))) {
    m->active.assign(rows, uint32_t{m->active[0]});
  }
  get("loss", table.loss(), &m->loss);
  m->active_rows = table.active_rows();
  get("probes", table.probes(), &m->probes);
  get("tail_variance", table.tail_variance(), &m->tail_variance);
  get("exp_sums", table.exp_sums(), &m->exp_sums);
  CheckShape(*m, this);
}

template <size_t kIndex>
void ReadBody(const wire::Message& message, Decoder* decoder, Body* body) {
  decoder->Read(*static_cast<const BodyTable<kIndex>*>(message.body()), &body->emplace<kIndex>());
}

// REQUIRES a body of a type that the schema has.
void ReadBody(const wire::Message& message, Decoder* decoder, Body* body) {
  static constexpr auto kRead = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{&ReadBody<I>...};
  }
  (std::make_index_sequence<kBodyKinds>());
  kRead[static_cast<size_t>(message.body_type()) - 1](message, decoder, body);
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
  if (message.body_type() == wire::Body::NONE) {
    return Failed("malformed message: it has no body");
  }
  const auto reply_precision = FromWire(message.reply_precision());
  if (!reply_precision) {
    return Failed(fmt::format("malformed message: reply_precision has the unknown value {}",
                              static_cast<int>(message.reply_precision())));
  }
  if (!std::isfinite(message.loss_part())) {
    return Failed("malformed message: loss_part is not finite");
  }
  Message result{{RunId{message.run_id()}, Incarnation{message.incarnation()}, message.sequence(),
                  message.reply_to(), message.plan_version(), *reply_precision,
                  message.service_us(), message.receipt(), message.loss_part()},
                 {}};
  Decoder decoder(wire::EnumNameBody(message.body_type()), bytes.size());
  ReadBody(message, &decoder, &result.body);
  if (!decoder.fault().empty()) return Failed(decoder.fault());
  return result;
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
