// The fields of every message, in the order of the schema: the one description that Encode() writes
// by and Decode() reads by.
//
// FieldsOf(m) is a tuple with an element for each field of m's table that is not deprecated: a
// reference to the member that has it, or, where the wire has another form, one of the structs
// below. The codec pairs them with flatc's static reflection (names, types), so that a field too
// many, too few or of another type does not compile. A float has to be finite, an enumeration has
// to have a value that the schema knows, and an empty string, vector or optional is left out of the
// buffer. What else has to hold is in wire_shapes.h.
//
// ActiveReply, Matrix and SparseRows have no description: their forms are their own.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/wire/messages.h"
#include "protocol_generated.h"

namespace dslide {

// A vector with one value for each element of `of`, a field before it.
template <typename Values, typename Of>
struct OneEach {
  Values& values;
  const Of& of;
};

// Numbers in LEB128.
template <typename Numbers>
struct Leb128 {
  Numbers& numbers;
};

// Row starts within `ids`, a field before it, as row lengths in LEB128.
template <typename Offsets>
struct RowLengths {
  Offsets& offsets;
  const std::vector<uint32_t>& ids;
};

// A string that may be longer than others: kMaxStatusBytes.
template <typename String>
struct LongString {
  String& text;
};

// Rounded to int8 with error feedback.
template <typename M>
struct Gradient {
  M& matrix;
};

// Optional rows that are weights: not rounded to int8.
template <typename Optional>
struct Parameters {
  Optional& rows;
};

// Optional rows that are gradients of a batch: rounded to int8 at random, without bias.
template <typename Optional>
struct RandomlyRounded {
  Optional& rows;
  const BatchId& batch;
};

// A table that is left out if it has no rows.
template <typename M>
struct UnlessNoRows {
  M& rows;
};

// An optional number as two fields.
template <typename Optional>
struct HasValue {
  Optional& optional;
};
template <typename Optional>
struct ValueOf {
  Optional& optional;
};

// Members by reference, structs by value.
template <typename... T>
std::tuple<T...> Fields(T&&... fields) {
  return {std::forward<T>(fields)...};
}

// M, constant or not.
template <typename T, typename M>
concept Is = std::same_as<std::remove_const_t<T>, M>;

auto FieldsOf(Is<Join> auto& m) {
  return Fields(m.protocol, m.role, m.name, m.address, m.cores, m.memory_bytes, m.plan_version,
                m.disk_bytes);
}
auto FieldsOf(Is<JoinReply> auto& m) {
  return Fields(m.name, m.config, m.train_samples, m.train_checksum, m.verify_key, m.receipt_key);
}
auto FieldsOf(Is<PlanServer> auto& m) { return Fields(m.name, m.address, m.incarnation); }
auto FieldsOf(Is<Plan> auto& m) {
  auto& shape = m.shape;
  return Fields(m.version, m.servers, m.slot_owner, m.restore, m.generation, shape.epoch,
                shape.features, shape.labels, shape.samples, shape.recycled_features,
                shape.recycled_labels, shape.removed_labels, m.settings);
}
auto FieldsOf(Is<Ready> auto& m) {
  return Fields(m.plan_version, m.rows, m.memory_bytes, m.moved_bytes, m.stall_us, m.slot_bytes);
}
auto FieldsOf(Is<LoadReport> auto& m) {
  return Fields(m.interval_ms, m.batches, m.slots, OneEach{m.executor, m.slots},
                OneEach{m.retrieved, m.slots}, OneEach{m.used, m.slots},
                OneEach{m.updated, m.slots}, OneEach{m.work, m.slots},
                OneEach{m.service_us, m.slots}, OneEach{m.bytes, m.slots}, m.busy);
}
auto FieldsOf(Is<Heartbeat> auto& m) {
  return Fields(m.cpu_seconds, m.peak_rss_bytes, m.bytes_sent, m.bytes_received,
                m.rehash_lag_batches, m.bucket_empty_share, m.bucket_mean, m.bucket_p99,
                m.bucket_largest, m.batches_in_flight, m.malformed, m.in_flight_limit,
                m.round_trip_us, m.bits_per_second, m.int8_links, m.load, m.memory_used_bytes,
                m.hash_round, m.longest_batch_us, m.silent_servers, m.hook_runs, m.hook_failures,
                m.disk_bytes_per_second, m.disk_sync_us, m.on_disk.bytes, m.on_disk.rows,
                m.on_disk.misses, m.bounds);
}
auto FieldsOf(Is<HeartbeatReply> auto& m) { return Fields(m.in_flight_cap, m.pause_ms); }

auto FieldsOf(Is<LeaseRequest> auto& m) { return Fields(m.has_data); }
auto FieldsOf(Is<LeaseBatch> auto& m) {
  return Fields(m.index, m.features, m.labels, m.first_sample, m.samples, m.weights, m.ticket);
}
auto FieldsOf(Is<LeaseGrant> auto& m) {
  return Fields(m.lease, m.kind, m.epoch, m.unit, m.top_k, m.batches);
}
auto FieldsOf(Is<LeaseWait> auto& m) { return Fields(m.retry_ms, m.finished); }
auto FieldsOf(Is<TopKReply> auto& m) {
  return Fields(m.ids, OneEach{m.scores, m.ids}, RowLengths{m.offsets, m.ids});
}
auto FieldsOf(Is<BatchDone> auto& m) {
  return Fields(m.lease, m.batch, m.samples, m.loss_sum, m.active_neurons_sum, m.active_rows,
                m.bytes_sent, m.bytes_received, m.probed, m.recall_set, m.recall_hash,
                m.recall_uniform, UnlessNoRows{m.predictions}, m.bytes_by_kind, m.tail_error,
                m.loss_parts, m.receipts);
}

auto FieldsOf(Is<EmbedRequest> auto& m) {
  return Fields(m.batch, m.training, m.features, m.alone, m.dense, m.ticket);
}
auto FieldsOf(Is<LayerRows> auto& m) { return Fields(m.ids, m.values); }
auto FieldsOf(Is<EmbedReply> auto& m) { return Fields(m.partial, Parameters{m.dense}); }
auto FieldsOf(Is<ActiveQuery> auto& m) {
  return Fields(m.batch, m.hidden, m.labels, m.probe_samples, Leb128{m.label_totals}, m.finish,
                m.alone, m.weights, m.ticket);
}
auto FieldsOf(Is<Probe> auto& m) {
  return Fields(m.ids, OneEach{m.logits, m.ids}, OneEach{m.in_set, m.ids},
                OneEach{m.in_hash, m.ids});
}
auto FieldsOf(Is<GradientPush> auto& m) { return Fields(m.batch, m.log_normaliser); }
auto FieldsOf(Is<GradientReply> auto& m) { return Fields(Gradient{m.partial}, m.active); }
auto FieldsOf(Is<EmbedPush> auto& m) {
  return Fields(m.batch, Gradient{m.gradient}, m.next, RandomlyRounded{m.dense, m.batch});
}
auto FieldsOf(Is<Ack> auto&) { return Fields(); }
auto FieldsOf(Is<DropBatches> auto& m) { return Fields(m.incarnation); }
auto FieldsOf(Is<TopKRequest> auto& m) {
  return Fields(m.hidden, m.k, m.search, m.excluded, m.recall, m.batch, m.ticket);
}

auto FieldsOf(Is<CheckpointRequest> auto& m) {
  return Fields(m.name, m.directory, m.committed, m.keep);
}
auto FieldsOf(Is<ShardFile> auto& m) { return Fields(m.name, m.bytes, m.checksum); }
auto FieldsOf(Is<CheckpointDone> auto& m) {
  return Fields(m.name, m.error, m.shard, m.rows, m.bytes, m.files, m.written_bytes, m.stall_us,
                m.retry);
}
auto FieldsOf(Is<CheckpointNow> auto&) { return Fields(); }
auto FieldsOf(Is<Shutdown> auto& m) { return Fields(m.reason, m.exit_code); }
auto FieldsOf(Is<ErrorReply> auto& m) { return Fields(m.code, m.text); }
auto FieldsOf(Is<Leave> auto&) { return Fields(); }
auto FieldsOf(Is<CommitSteps> auto& m) { return Fields(m.committed); }
auto FieldsOf(Is<StepsCommitted> auto& m) { return Fields(m.committed); }

auto FieldsOf(Is<MoveSlots> auto& m) {
  return Fields(m.move, m.slots, OneEach{m.from, m.slots}, m.bytes_per_second);
}
auto FieldsOf(Is<MoveReady> auto& m) { return Fields(m.move, m.bytes, m.left_bytes); }
auto FieldsOf(Is<SlotPull> auto& m) {
  return Fields(m.slot, m.part, m.cold_only, m.max_bytes, m.release);
}
auto FieldsOf(Is<SlotRows> auto& m) {
  return Fields(m.slot, m.part, m.input_rows, m.rows, OneEach{m.ends, m.rows}, m.bytes, m.left,
                m.hash, m.last, m.applied_output, m.applied_input, HasValue{m.committed},
                ValueOf{m.committed});
}
auto FieldsOf(Is<DrainServer> auto& m) { return Fields(m.name); }
auto FieldsOf(Is<StatusRequest> auto& m) { return Fields(m.padding); }
auto FieldsOf(Is<StatusReply> auto& m) { return Fields(LongString{m.json}); }
auto FieldsOf(Is<RebuildTables> auto& m) { return Fields(m.round, m.k); }
auto FieldsOf(Is<AccessKey> auto& m) { return Fields(m.key, m.role); }
auto FieldsOf(Is<AccessList> auto& m) { return Fields(m.keys); }
auto FieldsOf(Is<AuditReport> auto& m) {
  return Fields(m.batch, m.workers, m.digests, m.input_digests, m.output_counts, m.input_counts);
}
auto FieldsOf(Is<Offence> auto& m) { return Fields(m.worker, m.batch, m.reason, m.ticket); }

// The tables of the alternatives of Body, in its order, which is the schema's.
using BodyTables = std::tuple<
    wire::Join, wire::JoinReply, wire::Plan, wire::Ready, wire::Heartbeat, wire::HeartbeatReply,
    wire::LeaseRequest, wire::LeaseGrant, wire::LeaseWait, wire::BatchDone, wire::EmbedRequest,
    wire::EmbedReply, wire::ActiveQuery, wire::ActiveReply, wire::GradientPush, wire::GradientReply,
    wire::EmbedPush, wire::Ack, wire::DropBatches, wire::TopKRequest, wire::TopKReply,
    wire::CheckpointRequest, wire::CheckpointDone, wire::CheckpointNow, wire::Shutdown,
    wire::ErrorReply, wire::Leave, wire::CommitSteps, wire::StepsCommitted, wire::MoveSlots,
    wire::MoveReady, wire::SlotPull, wire::SlotRows, wire::DrainServer, wire::StatusRequest,
    wire::StatusReply, wire::RebuildTables, wire::AccessList, wire::AuditReport, wire::Offence>;

static_assert(kBodyKinds == std::tuple_size_v<BodyTables>);
static_assert(kBodyKinds == static_cast<size_t>(wire::Body::MAX));

// The table of Body's alternative kIndex; the union's members are numbered from 1.
template <size_t kIndex>
struct BodyTableOf {
  using Type = std::tuple_element_t<kIndex, BodyTables>;
  static_assert(static_cast<size_t>(wire::BodyTraits<Type>::enum_value) == kIndex + 1);
};
template <size_t kIndex>
using BodyTable = typename BodyTableOf<kIndex>::Type;

}  // namespace dslide
