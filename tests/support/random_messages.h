// Messages with random content, consistent in themselves as Decode() wants them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/random.h"
#include "common/wire/messages.h"

namespace dslide::testing {

class RandomMessages {
 public:
  // `dense`: also with what only models with dense layers have; the rest is the same without.
  explicit RandomMessages(uint64_t seed, bool dense = true)
      : random_(seed), dense_random_(SubSeed(seed, 1)), dense_(dense) {}

  Random& random() { return random_; }

  // A message whose body is the variant's alternative `kind`.
  Message Next(size_t kind) { return {Header(), BodyOf(kind, Kinds())}; }

  static constexpr size_t kKinds = kBodyKinds;

 private:
  using Kinds = std::make_index_sequence<kKinds>;

  template <size_t... kIndex>
  Body BodyOf(size_t kind, std::index_sequence<kIndex...>) {
    Body body;
    ((kind == kIndex ? void(body = Make(std::variant_alternative_t<kIndex, AnyBody>())) : void()),
     ...);
    return body;
  }

  Join Make(Join) {
    return {U32(), static_cast<Role>(random_.Below(3)), Text(), Text(), U32(), random_.Next(),
            U32()};
  }
  JoinReply Make(JoinReply) {
    JoinReply reply{Text(), Text(), random_.Next(), random_.Next()};
    if (random_.Below(2) == 1) {
      reply.verify_key = BytesOf(32);
      reply.receipt_key = BytesOf(16);
    }
    return reply;
  }
  Plan Make(Plan) {
    Plan plan{U32(), {}, {}, Text(), U32()};
    for (size_t i = Size(); i > 0; --i) plan.servers.push_back({Text(), Text(), {random_.Next()}});
    for (size_t i = Size(); i > 0; --i) plan.slot_owner.push_back(static_cast<uint16_t>(U32()));
    for (size_t i = Size(); i > 0; --i) plan.settings.push_back(Text());
    return plan;
  }
  Ready Make(Ready) {
    return {U32(), random_.Next(), random_.Next(), random_.Next(), U32(), random_.Next()};
  }
  Heartbeat Make(Heartbeat) {
    Heartbeat beat{Double(),       random_.Next(), random_.Next(), random_.Next(),
                   U32(),          Float(),        Float(),        U32(),
                   U32(),          U32(),          random_.Next(), U32(),
                   U32(),          random_.Next(), U32(),          {},
                   random_.Next(), U32(),          U32()};
    if (random_.Below(2) == 1) beat.load = Load(Size());
    beat.bounds = Text();
    return beat;
  }
  LoadReport Load(size_t slots) {
    LoadReport load{
        U32(),          U32(),         Numbers(slots), {}, Numbers(slots), Numbers(slots),
        Numbers(slots), Floats(slots), Floats(slots),  {}, Floats(Size())};
    for (size_t i = 0; i < slots; ++i) {
      load.executor.push_back(static_cast<uint16_t>(U32()));
      load.bytes.push_back(random_.Next());
    }
    return load;
  }
  HeartbeatReply Make(HeartbeatReply) { return {U32(), U32()}; }
  LeaseRequest Make(LeaseRequest) { return {random_.Below(2) == 1}; }
  LeaseGrant Make(LeaseGrant) {
    LeaseGrant grant{
        random_.Next(), static_cast<LeaseKind>(random_.Below(2)), U32(), U32(), U32(), {}};
    for (size_t i = Size(); i > 0; --i) {
      const size_t rows = Size();
      const uint32_t samples = static_cast<uint32_t>(Size());  // of a batch without rows
      grant.batches.push_back(
          {U32(), random_.Next(), Rows(rows), Rows(rows), rows == 0 ? samples : 0});
      grant.batches.back().ticket = Ticket();
    }
    return grant;
  }
  LeaseWait Make(LeaseWait) { return {U32(), random_.Below(2) == 1}; }
  BatchDone Make(BatchDone) {
    BatchDone done{
        random_.Next(), Batch(), 0,        Double(), random_.Next(), U32(), random_.Next(),
        random_.Next(), U32(),   Double(), Double(), Double(),       {}};
    done.samples = static_cast<uint32_t>(Size());
    if (random_.Below(2) == 1) done.predictions = TopK(done.samples);
    if (random_.Below(2) == 1) done.bytes_by_kind = Numbers(kKinds);
    done.receipts = {random_.Next(), random_.Next()};
    for (size_t i = Size(); i > 0; --i) done.loss_parts.push_back(Double());
    return done;
  }
  EmbedRequest Make(EmbedRequest) {
    return {Batch(), random_.Below(2) == 1, Rows(Size()), random_.Below(2) == 1, HasDense(),
            Ticket()};
  }
  EmbedReply Make(EmbedReply) {
    EmbedReply reply{MatrixOf(Size())};
    if (HasDense()) reply.dense = LayerRowsOf();
    return reply;
  }
  ActiveQuery Make(ActiveQuery) {
    const size_t rows = Size();
    ActiveQuery query{Batch(),       MatrixOf(rows), Rows(rows),
                      Numbers(rows), U32(),          random_.Below(2) == 1};
    query.ticket = Ticket();
    return query;
  }
  ActiveReply Make(ActiveReply) { return Active(Size()); }
  ActiveReply Active(size_t rows) {
    ActiveReply reply{Floats(rows), Floats(rows), Floats(rows), Numbers(rows), {}, U32(), {}};
    if (rows != 0) reply.max[0] = -std::numeric_limits<float>::infinity();
    if (random_.Below(2) == 1) reply.active.assign(rows, U32());
    if (random_.Below(2) == 1) reply.loss = Floats(rows);
    for (size_t i = random_.Below(rows + 1); i > 0; --i) reply.probes.push_back(ProbeOf(Size()));
    return reply;
  }
  GradientPush Make(GradientPush) { return {Batch(), Floats(Size())}; }
  GradientReply Make(GradientReply) {
    const Matrix partial = MatrixOf(Size());
    GradientReply reply{partial};
    if (random_.Below(2) == 1) reply.active = Active(partial.rows);
    return reply;
  }
  EmbedPush Make(EmbedPush) {
    EmbedPush push{Batch(), MatrixOf(Size())};
    if (random_.Below(2) == 1) push.next = Make(EmbedRequest());
    if (HasDense()) push.dense = LayerRowsOf();
    return push;
  }
  MoveSlots Make(MoveSlots) {
    MoveSlots move{random_.Next(), Numbers(Size()), {}, random_.Next()};
    for (size_t i = 0; i < move.slots.size(); ++i) {
      move.from.push_back(static_cast<uint16_t>(U32()));
    }
    return move;
  }
  MoveReady Make(MoveReady) { return {random_.Next(), random_.Next(), random_.Next()}; }
  SlotPull Make(SlotPull) {
    return {U32(), U32(), random_.Below(2) == 1, U32(), random_.Below(2) == 1};
  }
  SlotRows Make(SlotRows) {
    SlotRows part;
    part.slot = U32();
    part.part = U32();
    part.rows = Numbers(Size());
    part.input_rows = static_cast<uint32_t>(random_.Below(part.rows.size() + 1));
    for (size_t i = 0; i < part.rows.size(); ++i) {
      for (size_t n = Size(); n > 0; --n) part.bytes.push_back(static_cast<uint8_t>(U32()));
      part.ends.push_back(static_cast<uint32_t>(part.bytes.size()));
    }
    part.left = U32();
    part.hash = random_.Next();
    part.last = random_.Below(2) == 1;
    for (size_t n = Size(); n > 0; --n) part.applied_output.push_back(random_.Next());
    for (size_t n = Size(); n > 0; --n) part.applied_input.push_back(random_.Next());
    if (random_.Below(2) == 1) part.committed = random_.Next();
    return part;
  }
  DrainServer Make(DrainServer) { return {Text()}; }
  StatusRequest Make(StatusRequest) { return {}; }
  StatusReply Make(StatusReply) { return {Text()}; }
  RebuildTables Make(RebuildTables) { return {U32(), U32()}; }
  AccessList Make(AccessList) {
    AccessList list;
    for (size_t n = Size(); n > 0; --n) {
      list.keys.push_back({Text(), static_cast<KeyRole>(random_.Below(5))});
    }
    return list;
  }
  AuditReport Make(AuditReport) {
    AuditReport report{Batch(), {}, {}, {}, random_.Next(), random_.Next()};
    for (size_t n = Size(); n > 0; --n) {
      report.workers.push_back(random_.Next());
      report.digests.push_back(random_.Next());
      report.input_digests.push_back(random_.Next());
    }
    return report;
  }
  Offence Make(Offence) { return {random_.Next(), Batch(), Text(), Ticket()}; }
  Ack Make(Ack) { return {}; }
  DropBatches Make(DropBatches) { return {Incarnation{random_.Next()}}; }
  TopKRequest Make(TopKRequest) {
    const size_t rows = Size();
    return {MatrixOf(rows),
            U32(),
            static_cast<Search>(random_.Below(2)),
            Rows(random_.Below(2) == 1 ? rows : 0),
            Float(),
            Batch(),
            Ticket()};
  }
  TopKReply Make(TopKReply) { return TopK(Size()); }
  CheckpointRequest Make(CheckpointRequest) {
    CheckpointRequest request{Text(), Text(), random_.Next(), {}};
    for (size_t i = Size(); i > 0; --i) request.keep.push_back(Text());
    return request;
  }
  CheckpointDone Make(CheckpointDone) {
    CheckpointDone done{Text(), Text(),         Text(), random_.Next(),       random_.Next(),
                        {},     random_.Next(), U32(),  random_.Below(2) == 1};
    for (size_t i = Size(); i > 0; --i) {
      done.files.push_back({Text(), random_.Next(), random_.Next()});
    }
    return done;
  }
  CheckpointNow Make(CheckpointNow) { return {}; }
  Leave Make(Leave) { return {}; }
  CommitSteps Make(CommitSteps) { return {random_.Next()}; }
  StepsCommitted Make(StepsCommitted) { return {random_.Next()}; }
  Shutdown Make(Shutdown) { return {Text(), U32()}; }
  ErrorReply Make(ErrorReply) { return {static_cast<ErrorCode>(random_.Below(7)), Text()}; }

  Envelope Header() {
    return {RunId{random_.Next()},
            Incarnation{random_.Next()},
            random_.Next(),
            random_.Next(),
            U32(),
            static_cast<WirePrecision>(random_.Below(3)),
            U32(),
            random_.Next()};
  }
  size_t Size() { return random_.Below(7); }
  uint32_t U32() { return static_cast<uint32_t>(random_.Next()); }
  BatchId Batch() { return {U32(), U32(), U32()}; }

  // A third are zeros; the others have 8 significant bits and so are bf16 numbers.
  float Float() {
    if (random_.Below(3) == 0) return 0;
    return static_cast<float>(static_cast<int>(random_.Below(511)) - 255) / 16;
  }
  // No logarithm or cosine: the same on every machine.
  double Double() { return static_cast<double>(random_.Below(1 << 30)) / (1 << 20) - 512; }
  Bytes BytesOf(size_t n) {
    Bytes bytes(n);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(U32());
    return bytes;
  }
  // A ticket of a worker, or none.
  Bytes Ticket() { return BytesOf(random_.Below(2) == 1 ? 64 : 0); }
  std::vector<float> Floats(size_t n) {
    std::vector<float> result(n);
    for (float& value : result) value = Float();
    return result;
  }
  std::vector<uint32_t> Numbers(size_t n) {
    std::vector<uint32_t> result(n);
    for (uint32_t& value : result) value = U32();
    return result;
  }
  std::vector<uint8_t> Flags(size_t n) {
    std::vector<uint8_t> result(n);
    for (uint8_t& value : result) value = static_cast<uint8_t>(random_.Below(2));
    return result;
  }
  std::string Text() {
    std::string text;
    for (size_t i = random_.Below(20); i > 0; --i) {
      text += static_cast<char>('a' + random_.Below(26));
    }
    return text;
  }
  Matrix MatrixOf(size_t rows) {
    Matrix matrix(static_cast<uint32_t>(rows), static_cast<uint32_t>(random_.Below(40)));
    // Dense, mixed and nearly empty ones, so that both wire forms come up.
    const uint64_t kept = random_.Below(4);
    for (float& value : matrix.data) value = random_.Below(3) < kept ? Float() : 0;
    return matrix;
  }
  bool HasDense() { return dense_ && dense_random_.Below(2) == 1; }
  LayerRows LayerRowsOf() {
    const auto rows = static_cast<uint32_t>(dense_random_.Below(7));
    LayerRows dense{{}, Matrix(rows, static_cast<uint32_t>(dense_random_.Below(40)))};
    uint32_t id = 0;
    for (uint32_t i = 0; i < rows; ++i) {
      id += 1 + static_cast<uint32_t>(dense_random_.Below(1000));
      dense.ids.push_back(id);
    }
    for (float& value : dense.values.data) {
      value = static_cast<float>(static_cast<int>(dense_random_.Below(511)) - 255) / 16;
    }
    return dense;
  }
  SparseRows Rows(size_t n) {
    SparseRows rows;
    const bool with_values = random_.Below(2) == 1;
    const bool ascend = random_.Below(2) == 1;
    for (size_t i = 0; i < n; ++i) {
      for (size_t e = Size(); e > 0; --e) rows.ids.push_back(U32());
      rows.EndRow();
      if (ascend) std::sort(rows.ids.begin() + rows.offsets[i], rows.ids.end());
    }
    if (with_values) rows.values = Floats(rows.ids.size());
    return rows;
  }
  Probe ProbeOf(size_t n) { return {Numbers(n), Floats(n), Flags(n), Flags(n)}; }
  TopKReply TopK(size_t n) {
    TopKReply top;
    for (size_t i = 0; i < n; ++i) {
      for (size_t e = Size(); e > 0; --e) top.ids.push_back(U32());
      top.offsets.push_back(static_cast<uint32_t>(top.ids.size()));
    }
    top.scores = Floats(top.ids.size());
    return top;
  }

  Random random_;
  Random dense_random_;
  bool dense_;
};

}  // namespace dslide::testing
