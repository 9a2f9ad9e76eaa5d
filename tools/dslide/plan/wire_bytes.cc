#include "tools/dslide/plan/wire_bytes.h"

#include "common/run/dense_copies.h"
#include "common/run/dense_layers.h"
#include "common/wire/wire_arrays.h"

namespace dslide {
namespace {

constexpr double kVectorBytes = 8;  // offset and length of a vector
constexpr double kTableBytes = 24;  // of a matrix or of sparse rows, with its vtable
constexpr double kBitmapGain = 12;  // a bitmap has to spare more (common/wire/wire_writer.cc)
constexpr double kFloat = sizeof(float);

// Of every sample a number.
double FloatsBytes(double batch) { return batch * kFloat + kVectorBytes; }

// Rows of dense layers, with their ids.
double DenseBytes(double rows, double width, WirePrecision precision) {
  return rows * sizeof(uint32_t) + kTableBytes + kVectorBytes +
         MatrixBytes(rows, width, 1, precision);
}

}  // namespace

double MatrixBytes(double batch, double hidden, double share, WirePrecision precision, bool fixed) {
  const double elements = batch * hidden;
  const double each = fixed ? sizeof(int64_t) : static_cast<double>(WireFloatBytes(precision));
  const double packed = elements / 8 + share * elements * each;
  const bool bitmap = packed + kBitmapGain < elements * each;
  const double scales =
      precision == WirePrecision::kInt8 && !fixed ? batch * kFloat + kVectorBytes : 0;
  return kTableBytes + kVectorBytes + scales + (bitmap ? packed + kVectorBytes : elements * each);
}

double SparseRowsBytes(double batch, const IdShape& ids, double share, double servers, bool values,
                       double more, WirePrecision precision) {
  // A sample's length takes a byte as long as it is below 128.
  const double length = share > 0.9 ? ids.length_bytes : 1 + (ids.length_bytes - 1) * share;
  const double of_ids = ids.per_sample * share * ids.GapBytes(servers);
  // The bias comes after the last feature, so its gap takes two bytes as a rule.
  const double of_more = 2 * more;
  const double each = static_cast<double>(WireFloatBytes(precision));
  const double of_values = values ? (ids.per_sample * share + more) * each : 0;
  const double scales =
      values && precision == WirePrecision::kInt8 ? batch * kFloat + kVectorBytes : 0;
  return kTableBytes + 3 * kVectorBytes + scales + batch * (length + of_ids + of_more + of_values);
}

MessageBytes BytesOfBatch(const Config& config, const DataShape& shape, const Activity& activity,
                          const ServerPart& part, WirePrecision precision) {
  const double batch = config.train.batch, width = config.model.hidden;
  const double hidden = OutputWidth(config.model);
  const bool synchronous = IsSynchronous(config.train);
  MessageBytes bytes;
  if (part.neurons > 0) {
    const double labels = SparseRowsBytes(batch, shape.labels, part.neurons, part.neuron_servers,
                                          false, 0, precision);
    const double totals = batch + kVectorBytes;
    const double weights = shape.weighted ? FloatsBytes(batch) : 0;
    bytes.active_query = kEnvelopeBytes + labels + totals + weights +
                         MatrixBytes(batch, hidden, activity.hidden.Of(precision), precision);
    // max, sum_exp and target_logit; the number of neurons is the same for all samples.
    double statistics = 3 * FloatsBytes(batch);
    if (config.model.sharing == Sharing::kSample) statistics += FloatsBytes(batch);
    if (config.model.loss == Loss::kSigmoid) statistics += FloatsBytes(batch);
    constexpr double kExpSumBytes = 24;
    if (synchronous && config.model.loss == Loss::kSoftmax) statistics += batch * kExpSumBytes;
    const double gradient =
        MatrixBytes(batch, hidden, activity.hidden_gradient.Of(precision), precision, synchronous);
    if (part.neuron_servers > 1) {
      bytes.active_reply = kEnvelopeBytes + statistics;
      bytes.gradient_push = kEnvelopeBytes + FloatsBytes(batch);
      bytes.gradient_reply = kEnvelopeBytes + gradient;
    } else {
      bytes.gradient_reply = kEnvelopeBytes + statistics + gradient;
    }
  }
  if (part.input > 0) {
    const double features = SparseRowsBytes(batch, shape.features, part.input, part.input_servers,
                                            true, part.input, precision);
    bytes.embed_push = kEnvelopeBytes + features +
                       MatrixBytes(batch, width, activity.gradient.Of(precision), precision);
    bytes.embed_reply =
        kEnvelopeBytes +
        MatrixBytes(batch, width, activity.pre_activations.Of(precision), precision, synchronous);
    const double rows = DenseRowCount(config.model) * part.input;
    if (rows > 0) {
      const WirePrecision weights =
          precision == WirePrecision::kInt8 ? WirePrecision::kBf16 : precision;
      const double batches = synchronous ? 1 : DenseCopies::kMostBatches;  // with one copy
      bytes.embed_push += DenseBytes(rows, width, precision);
      bytes.embed_reply += DenseBytes(rows, width, weights) / batches;
    }
  }
  return bytes;
}

double LeaseBytes(const Config& config, const DataShape& shape) {
  const double batch = config.train.batch;
  const WirePrecision precision = FixedPrecision(config.cluster.wire);
  const double weights = shape.weighted ? FloatsBytes(batch) : 0;
  return kTableBytes + weights + SparseRowsBytes(batch, shape.features, 1, 1, true, 0, precision) +
         SparseRowsBytes(batch, shape.labels, 1, 1, false, 0, precision);
}

}  // namespace dslide
