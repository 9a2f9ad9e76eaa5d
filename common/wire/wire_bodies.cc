#include "common/wire/wire_bodies.h"

#include <algorithm>

#include "common/wire/wire_arrays.h"
#include "common/wire/wire_reader.h"

namespace dslide {
namespace {

// One Read() for each table of the schema.
class BodyReader : private WireReader {
 public:
  using WireReader::WireReader;

  Result<Body> ReadBody(const wire::Message& message);

 private:
  Join Read(const wire::Join& m);
  JoinReply Read(const wire::JoinReply& m);
  Plan Read(const wire::Plan& m);
  Ready Read(const wire::Ready& m);
  Heartbeat Read(const wire::Heartbeat& m);
  LoadReport Read(const wire::LoadReport& m);
  HeartbeatReply Read(const wire::HeartbeatReply& m) { return {m.in_flight_cap(), m.pause_ms()}; }
  LeaseRequest Read(const wire::LeaseRequest& m) { return {m.has_data()}; }
  LeaseGrant Read(const wire::LeaseGrant& m);
  LeaseBatch Read(const wire::LeaseBatch& m);
  LeaseWait Read(const wire::LeaseWait& m) { return {m.retry_ms(), m.finished()}; }
  BatchDone Read(const wire::BatchDone& m);
  EmbedRequest Read(const wire::EmbedRequest& m);
  EmbedReply Read(const wire::EmbedReply& m) { return {DenseMatrix("partial", m.partial())}; }
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
    return {m.slot(), m.part(), m.cold_only(), m.max_bytes(), m.release()};
  }
  SlotRows Read(const wire::SlotRows& m);
  DrainServer Read(const wire::DrainServer& m) { return {String("name", m.name())}; }
  StatusRequest Read(const wire::StatusRequest&) { return {}; }
  StatusReply Read(const wire::StatusReply& m) {
    return {String("json", m.json(), kMaxStatusBytes)};
  }
  RebuildTables Read(const wire::RebuildTables& m) { return {m.round(), m.k()}; }

  PlanServer Read(const wire::PlanServer& m) {
    return {String("servers.name", m.name()),
            String("servers.address", m.address()),
            {m.incarnation()}};
  }
  ShardFile Read(const wire::ShardFile& m) {
    return {String("files.name", m.name()), m.bytes(), m.checksum()};
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
};

Join BodyReader::Read(const wire::Join& m) {
  return {m.protocol(),
          Enum<Role>("role", m.role()),
          String("name", m.name()),
          String("address", m.address()),
          m.cores(),
          m.memory_bytes(),
          m.plan_version()};
}

JoinReply BodyReader::Read(const wire::JoinReply& m) {
  return {String("name", m.name()), String("config", m.config()), m.train_samples(),
          m.train_checksum()};
}

Plan BodyReader::Read(const wire::Plan& m) {
  return {m.version(), Tables<PlanServer>("servers", m.servers()),
          Vector("slot_owner", m.slot_owner()), String("restore", m.restore()), m.generation()};
}

Ready BodyReader::Read(const wire::Ready& m) {
  return {m.plan_version(), m.rows(),     m.memory_bytes(),
          m.moved_bytes(),  m.stall_us(), m.slot_bytes()};
}

LoadReport BodyReader::Read(const wire::LoadReport& m) {
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

Heartbeat BodyReader::Read(const wire::Heartbeat& m) {
  Finite("cpu_seconds", m.cpu_seconds());
  Finite("bucket_empty_share", m.bucket_empty_share());
  Finite("bucket_mean", m.bucket_mean());
  Heartbeat beat{
      m.cpu_seconds(),        m.peak_rss_bytes(),     m.bytes_sent(),      m.bytes_received(),
      m.rehash_lag_batches(), m.bucket_empty_share(), m.bucket_mean(),     m.bucket_p99(),
      m.bucket_largest(),     m.batches_in_flight(),  m.malformed(),       m.in_flight_limit(),
      m.round_trip_us(),      m.bits_per_second(),    m.int8_links(),      {},
      m.memory_used_bytes(),  m.hash_round(),         m.longest_batch_us()};
  if (m.load() != nullptr) beat.load = Read(*m.load());
  return beat;
}

LeaseBatch BodyReader::Read(const wire::LeaseBatch& m) {
  LeaseBatch batch{m.index(), m.first_sample(), Rows("batches.features", m.features()),
                   Rows("batches.labels", m.labels()), m.samples()};
  RequireSize("batches.labels", batch.labels.rows(), batch.features.rows());
  RequireAtMost("batches.samples", batch.samples, kMaxBatchSamples);
  if (batch.samples != 0) RequireSize("batches.features", batch.features.rows(), 0);
  return batch;
}

LeaseGrant BodyReader::Read(const wire::LeaseGrant& m) {
  return {m.lease(), Enum<LeaseKind>("kind", m.kind()),         m.epoch(), m.unit(),
          m.top_k(), Tables<LeaseBatch>("batches", m.batches())};
}

BatchDone BodyReader::Read(const wire::BatchDone& m) {
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

EmbedRequest BodyReader::Read(const wire::EmbedRequest& m) {
  return {Batch(m.batch()), m.training(), Rows("features", m.features())};
}

ActiveQuery BodyReader::Read(const wire::ActiveQuery& m) {
  ActiveQuery query{Batch(m.batch()),           DenseMatrix("hidden", m.hidden()),
                    Rows("labels", m.labels()), Numbers("totals", m.totals()),
                    m.probe_samples(),          m.finish()};
  RequireSize("labels", query.labels.rows(), query.hidden.rows);
  RequireSize("totals", query.label_totals.size(), query.hidden.rows);
  return query;
}

Probe BodyReader::Read(const wire::Probe& m) {
  Probe probe{Vector("probes.ids", m.ids()), Floats("probes.logits", m.logits()),
              Vector("probes.in_set", m.in_set()), Vector("probes.in_hash", m.in_hash())};
  RequireSize("probes.logits", probe.logits.size(), probe.ids.size());
  RequireSize("probes.in_set", probe.in_set.size(), probe.ids.size());
  RequireSize("probes.in_hash", probe.in_hash.size(), probe.ids.size());
  return probe;
}

ActiveReply BodyReader::Read(const wire::ActiveReply& m) {
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

GradientPush BodyReader::Read(const wire::GradientPush& m) {
  GradientPush push{Batch(m.batch()), Floats("log_normaliser", m.log_normaliser())};
  RequireAtMost("log_normaliser", push.log_normaliser.size(), kMaxBatchSamples);
  return push;
}

GradientReply BodyReader::Read(const wire::GradientReply& m) {
  GradientReply reply{DenseMatrix("partial", m.partial()), {}};
  if (m.active() != nullptr) {
    reply.active = Read(*m.active());
    RequireSize("active.max", reply.active->max.size(), reply.partial.rows);
  }
  return reply;
}

EmbedPush BodyReader::Read(const wire::EmbedPush& m) {
  EmbedPush push{Batch(m.batch()), DenseMatrix("gradient", m.gradient()), {}};
  if (m.next() != nullptr) push.next = Read(*m.next());
  return push;
}

TopKRequest BodyReader::Read(const wire::TopKRequest& m) {
  TopKRequest request{DenseMatrix("hidden", m.hidden()), m.k(), Enum<Search>("search", m.search()),
                      Rows("excluded", m.excluded())};
  const size_t rows = request.excluded.rows();
  if (rows != 0) RequireSize("excluded", rows, request.hidden.rows);
  return request;
}

TopKReply BodyReader::Read(const wire::TopKReply& m) {
  TopKReply reply;
  reply.ids = Vector("ids", m.ids());
  reply.scores = Floats("scores", m.scores());
  reply.offsets = Offsets("lengths", m.lengths(), reply.ids.size());
  RequireSize("scores", reply.scores.size(), reply.ids.size());
  return reply;
}

CheckpointRequest BodyReader::Read(const wire::CheckpointRequest& m) {
  return {String("name", m.name()), String("directory", m.directory()), m.committed(),
          Strings("keep", m.keep())};
}

CheckpointDone BodyReader::Read(const wire::CheckpointDone& m) {
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

ErrorReply BodyReader::Read(const wire::ErrorReply& m) {
  return {Enum<ErrorCode>("code", m.code()), String("text", m.text())};
}

MoveSlots BodyReader::Read(const wire::MoveSlots& m) {
  MoveSlots move{m.move(), Vector("slots", m.slots()), Vector("from", m.from()),
                 m.bytes_per_second()};
  RequireSize("from", move.from.size(), move.slots.size());
  return move;
}

SlotRows BodyReader::Read(const wire::SlotRows& m) {
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

Result<Body> BodyReader::ReadBody(const wire::Message& message) {
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
  if (!fault().empty()) return Failed(fault());
  return body;
}

}  // namespace

Result<Body> ReadBody(const wire::Message& message, size_t message_bytes) {
  return BodyReader(wire::EnumNameBody(message.body_type()), message_bytes).ReadBody(message);
}

}  // namespace dslide
