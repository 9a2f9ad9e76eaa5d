// Limits of the configuration that several files use, and their relations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/config/config.h"

namespace dslide {

// model.active = auto: up to this many labels every neuron is computed. That is exact and costs no
// more than an active set of the default size.
inline constexpr uint32_t kMaxLabelsForAll = 2000;
inline constexpr double kMaxRepeatsForCentroids = 16;

// Fewer samples are trained in smaller batches, more often, and with learned neurons.
inline constexpr uint64_t kManySamples = 30'000;

// train.dropout_hidden of a model that would learn its training samples by heart. A narrow one
// needs all of its units.
inline constexpr float kHighDropout = 0.5f;
inline constexpr uint32_t kLeastUnitsForHighDropout = 128;

// train.epochs, of data that is no stream.
inline constexpr uint32_t kMostEpochs = 1'000'000;

// model.hidden: the most units of a layer, and the most layers.
inline constexpr uint32_t kMostHiddenUnits = 8192;
inline constexpr size_t kMostHiddenLayers = 8;

// R, the rows of the dense layers (common/run/dense_layers.h); 0 without.
uint64_t RowsOfDenseLayers(const ModelConfig& model);

// A copy of the dense layers is a matrix in a message: so many rows it may have, and bytes of a
// message (schema/PROTOCOL.md, section 12; the same as kMaxBatchSamples and kMaxMessageBytes).
inline constexpr uint32_t kMostDenseRows = 65536;
inline constexpr uint64_t kMostMessageBytes = uint64_t{512} << 20;

// model.features: behind the features come ids of the bias and of dense layers, and slots divide
// all of them in equal parts. They have 32 bits.
inline constexpr uint32_t kMostFeatures = 4'290'000'000;

// train.batch = 0: what many samples have.
inline constexpr uint32_t kMostDerivedBatch = 512;

// hash.k = 0: the least mean number of neurons per bucket. From 80 to 10, gnd-tibkat lost no
// accuracy at 20 % less work; from 50 to 6, linux-calls lost 0.2 points of P@1.
inline constexpr uint32_t kMinBucketNeurons = 8;

// A table has 2^(K * bits per hash) buckets. Codes are stored in 16 bits, one of them for "in no
// bucket". A million neurons put dozens into each of 32,768 buckets.
inline constexpr uint32_t kMaxCodeBits = 15;

// The number of tables that agree on a candidate is counted in a byte.
inline constexpr uint32_t kMaxTables = 255;

// The largest train.batches_in_flight: batches that a worker computes at once.
inline constexpr uint32_t kMostBatchesInFlight = 64;

// Requests that a worker may have open at a server (schema/PROTOCOL.md, section 10). A batch has
// one request open at each server. A batch whose gradients are pushed no longer counts as in
// flight, and a worker has at most one such batch for each batch in flight.
inline constexpr size_t kMostOpenRequests = 2 * size_t{kMostBatchesInFlight};

// text.hash_bits, if it is not 0. Fewer make too many terms one feature; more, rows that no machine
// has memory for.
inline constexpr uint32_t kLeastHashBits = 10;
inline constexpr uint32_t kMostHashBits = 30;

// Active-set recall is measured on the first samples of a batch, where it takes a scan of all
// neurons in one batch of kProbedBatches.
inline constexpr uint32_t kProbedSamples = 16;
inline constexpr uint32_t kProbedBatches = 50;

// Bits of a bucket's index that one hash gives. REQUIRES hash.bin to be a power of two.
uint32_t BitsPerHash(const HashConfig& hash);

}  // namespace dslide
