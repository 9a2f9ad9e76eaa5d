// FlatBuffer -> Message. Nothing is read before the Verifier has passed it, nothing is returned
// before its shapes agree. The first fault found is the one that is reported.
#include <fmt/format.h>

#include "common/wire/messages.h"
#include "common/wire/wire_bodies.h"
#include "common/wire/wire_reader.h"
#include "protocol_generated.h"

namespace dslide {
namespace {

// A LeaseGrant nests deepest: message, grant, batch, rows.
constexpr flatbuffers::uoffset_t kMaxDepth = 8;
constexpr flatbuffers::uoffset_t kMaxTables = 4 * kMaxBatchSamples;

// FlatBuffers reads scalars where they lie, so the buffer itself has to be aligned.
constexpr size_t kBufferAlignment = 8;

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
  Result<Body> body = ReadBody(message, bytes.size());
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
