// Bytes of the messages of a training batch, as common/wire encodes them.
//
// Pure. `batch` is B, `hidden` is H; shares are of elements that are not 0. Each is within a few
// bytes of what Encode() gives; a test compares them.
#pragma once

#include "common/config/config.h"
#include "tools/dslide/plan/data_shape.h"

namespace dslide {

// A B x H matrix. `fixed`: of a partial sum in synchronous training, in 8 bytes an element.
double MatrixBytes(double batch, double hidden, double share, WirePrecision precision,
                   bool fixed = false);

// A part of a batch's ids: `share` of them, at one of `servers` servers with such rows. `values`:
// features have values, labels have none. `more`: ids of every sample besides, such as the bias.
double SparseRowsBytes(double batch, const IdShape& ids, double share, double servers, bool values,
                       double more, WirePrecision precision);

// What a message has besides its arrays: the envelope, tables and offsets.
inline constexpr double kEnvelopeBytes = 100;

// The bytes of a batch's messages between one worker and one server. Requests are sent by the
// worker. 0: there is no such message.
struct MessageBytes {
  double active_query = 0, gradient_push = 0, embed_push = 0;    // requests
  double active_reply = 0, gradient_reply = 0, embed_reply = 0;  // replies

  double sent() const { return active_query + gradient_push + embed_push; }
  double received() const { return active_reply + gradient_reply + embed_reply; }
};

// How a server takes part.
struct ServerPart {
  double neurons = 0;         // its share of them
  double input = 0;           // its share of the input rows
  double neuron_servers = 1;  // servers with neurons, and with input rows
  double input_servers = 1;
};

MessageBytes BytesOfBatch(const Config& config, const DataShape& shape, const Activity& activity,
                          const ServerPart& part, WirePrecision precision);

// What the scheduler sends a worker for a batch, with its samples.
double LeaseBytes(const Config& config, const DataShape& shape);

}  // namespace dslide
