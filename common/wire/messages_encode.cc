// Message -> FlatBuffer, field by field (wire_fields.h).
#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/wire/messages.h"
#include "common/wire/wire_fields.h"
#include "common/wire/wire_writer.h"
#include "protocol_generated.h"

namespace dslide {
namespace {

// A builder's buffer is kept for the next message up to this size.
constexpr size_t kKeptBuilderBytes = size_t{16} << 20;

// The table T of `const T*` and of a pointer to a vector of T's.
template <typename Field>
struct TableOfField;
template <typename T>
struct TableOfField<const T*> {
  using Type = T;
};
template <typename T>
struct TableOfField<const flatbuffers::Vector<flatbuffers::Offset<T>>*> {
  using Type = T;
};
template <typename Field>
using TableOf = typename TableOfField<Field>::Type;

// The type of a table's field kIndex, as Decode() gets it.
template <typename Table, size_t kIndex>
using FieldType = decltype(std::declval<Table>().template get_field<kIndex>());

class Encoder : private WireWriter {
 public:
  using WireWriter::WireWriter;

  // The finished table. Strings, vectors and inner tables are written before it, in the order of
  // its fields.
  template <typename Table, typename M>
  Offset<Table> Write(const M& m) {
    const auto fields = FieldsOf(m);
    using Traits = typename Table::Traits;
    static_assert(std::tuple_size_v<decltype(fields)> == Traits::fields_number);
    if constexpr (Traits::fields_number == 0) {  // flatc makes get_field for fields only
      return Traits::Create(builder());
    } else {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        const std::tuple written{Put<FieldType<Table, I>>(std::get<I>(fields))...};
        return Traits::Create(builder(), Argument(std::get<I>(written))...);
      }
      (std::make_index_sequence<Traits::fields_number>());
    }
  }

 private:
  // What Create() takes for a field of type `Field`.
  template <typename Field, typename T>
  requires std::is_arithmetic_v<T> Field Put(const T& number) {
    static_assert(std::is_same_v<Field, T>);
    return number;
  }
  template <typename Field, typename T>
  requires std::is_enum_v<T> Field Put(const T& value) { return static_cast<Field>(value); }
  template <typename Field, typename Tag>
  Field Put(const Id<Tag, Field>& id) {
    return id.value;
  }
  template <typename>
  wire::BatchId Put(const BatchId& batch) {
    return {batch.epoch, batch.unit, batch.index};
  }
  template <typename>
  auto Put(const std::string& text) {
    return String(text);
  }
  template <typename>
  auto Put(const std::vector<std::string>& strings) {
    return Strings(strings);
  }
  template <typename Field, typename T>
  auto Put(const std::vector<T>& v) {
    if constexpr (std::is_arithmetic_v<T>) {
      return Vector(v);
    } else {
      std::vector<Offset<TableOf<Field>>> tables;
      for (const T& m : v) tables.push_back(Write<TableOf<Field>>(m));
      return Vector(tables);
    }
  }
  template <typename Field, typename T>
  Offset<TableOf<Field>> Put(const std::optional<T>& m) {
    if (!m) return {};
    return Write<TableOf<Field>>(*m);
  }
  template <typename>
  auto Put(const Matrix& matrix) {
    return DenseMatrix(matrix, Rounding::kNearest);
  }
  template <typename>
  auto Put(const PartialSum& partial) {
    return Partial(partial, Rounding::kNearest);
  }
  template <typename>
  auto Put(const SparseRows& rows) {
    return Rows(rows);
  }
  template <typename Field, typename V, typename Of>
  auto Put(const OneEach<V, Of>& field) {
    DSLIDE_CHECK(field.values.size() == field.of.size());
    return Put<Field>(field.values);
  }
  template <typename, typename V>
  auto Put(const Leb128<V>& field) {
    return Numbers(field.numbers);
  }
  template <typename, typename V>
  auto Put(const RowLengths<V>& field) {
    DSLIDE_CHECK(!field.offsets.empty() && field.offsets.back() == field.ids.size());
    return Lengths(field.offsets);
  }
  template <typename, typename V>
  auto Put(const LongString<V>& field) {
    return String(field.text);
  }
  template <typename, typename V>
  auto Put(const Gradient<V>& field) {
    if constexpr (std::is_same_v<std::remove_const_t<V>, PartialSum>) {
      return Partial(field.matrix, Rounding::kErrorFeedback);
    } else {
      return DenseMatrix(field.matrix, Rounding::kErrorFeedback);
    }
  }
  template <typename, typename V>
  Offset<wire::LayerRows> Put(const Parameters<V>& field) {
    if (!field.rows) return {};
    const auto ids = Vector(field.rows->ids);
    return wire::CreateLayerRows(builder(), ids, ParameterMatrix(field.rows->values));
  }
  template <typename, typename V>
  Offset<wire::LayerRows> Put(const RandomlyRounded<V>& field) {
    if (!field.rows) return {};
    const auto ids = Vector(field.rows->ids);
    return wire::CreateLayerRows(builder(), ids, GradientRows(*field.rows, field.batch));
  }
  template <typename Field, typename V>
  Offset<TableOf<Field>> Put(const UnlessNoRows<V>& field) {
    if (field.rows.offsets.size() <= 1) return {};
    return Write<TableOf<Field>>(field.rows);
  }
  template <typename, typename V>
  bool Put(const HasValue<V>& field) {
    return field.optional.has_value();
  }
  template <typename Field, typename V>
  Field Put(const ValueOf<V>& field) {
    return field.optional.value_or(0);
  }

  Offset<wire::Matrix> Partial(const PartialSum& partial, Rounding rounding) {
    const auto* floats = std::get_if<Matrix>(&partial);
    return floats != nullptr ? DenseMatrix(*floats, rounding)
                             : DenseMatrix(std::get<FixedMatrix>(partial));
  }

  template <typename T>
  static T Argument(const T& written) {
    return written;
  }
  static const wire::BatchId* Argument(const wire::BatchId& batch) { return &batch; }
};

// Its numbers of each sample are often the same, and the largest logits' exponentials are 1.
template <>
flatbuffers::Offset<wire::ActiveReply> Encoder::Write<wire::ActiveReply>(const ActiveReply& m) {
  const auto probes = Put<const flatbuffers::Vector<Offset<wire::Probe>>*>(m.probes);
  const auto max = Vector(m.max);
  const bool ones = std::all_of(m.sum_exp.begin(), m.sum_exp.end(), [](float x) { return x == 1; });
  const auto sum_exp = ones ? VectorOffset<float>() : Vector(m.sum_exp);
  const auto target_logit = Vector(m.target_logit);
  const auto active = OnceIfEqual(m.active);
  const auto loss = Vector(m.loss);
  const auto tail_variance = Vector(m.tail_variance);
  const auto exp_sums = ExpSums(m.exp_sums);
  return wire::CreateActiveReply(builder(), max, sum_exp, target_logit, active, loss, m.active_rows,
                                 probes, tail_variance, exp_sums);
}

using Builder = WireWriter::Builder;

template <size_t kIndex>
flatbuffers::Offset<void> WriteBody(const Body& body, Encoder encoder) {
  return encoder.Write<BodyTable<kIndex>>(*std::get_if<kIndex>(&body)).Union();
}

flatbuffers::Offset<void> WriteBody(const Body& body, Encoder encoder) {
  static constexpr auto kWrite = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{&WriteBody<I>...};
  }
  (std::make_index_sequence<kBodyKinds>());
  return kWrite[body.index()](body, encoder);
}

}  // namespace

Bytes Encode(const Message& message, WirePrecision precision) {
  // One buffer a thread: growing and faulting in a fresh one costs more than filling it.
  thread_local Builder builder;
  builder.Clear();
  const auto type = static_cast<wire::Body>(message.body.index() + 1);
  const auto body = WriteBody(message.body, Encoder(builder, precision));
  const Envelope& e = message.envelope;
  wire::FinishMessageBuffer(builder, wire::CreateMessage(builder, e.run.value, e.incarnation.value,
                                                         e.sequence, e.reply_to, e.plan_version,
                                                         type, body, ToWire(e.reply_precision),
                                                         e.service_us, e.receipt, e.loss_part));
  Bytes bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  if (builder.GetSize() > kKeptBuilderBytes) builder.Reset();
  return bytes;
}

std::string_view BodyName(size_t kind) {
  return wire::EnumNameBody(static_cast<wire::Body>(kind + 1));
}

}  // namespace dslide
