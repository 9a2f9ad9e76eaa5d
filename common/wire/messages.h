// Every message of the protocol as plain structs, and their encoding as FlatBuffers.
//
// This is the only interface to FlatBuffers for messages. Decode() verifies the buffer before it
// reads, then checks every shape, so a Message that it returns is consistent in itself: matrices
// have rows * cols finite elements, sparse rows add up, vectors "[B]" of one message have one
// length. Id ranges and the meaning of a request are the receiver's to check. schema/PROTOCOL.md
// specifies who sends what and when.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/shard_file.h"
#include "common/config/config.h"
#include "common/math/exact_sums.h"
#include "common/security/keys.h"

namespace dslide {

constexpr uint32_t kProtocolVersion = 11;
constexpr size_t kMaxMessageBytes = size_t{512} << 20;
// Servers and workers leave when the scheduler has not been heard of for so long before its first
// answer (it may be started last); afterwards cluster.scheduler_silence_s counts.
constexpr int64_t kJoinPatienceMs = 600'000;

constexpr uint32_t kMaxBatchSamples = 65536;
constexpr uint32_t kProbeNeurons = 10;  // active-set recall is measured at so many neurons

using Bytes = std::vector<uint8_t>;

// Dense row-major matrix, data[i*cols + j].
struct Matrix {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<float> data;

  Matrix() = default;
  Matrix(uint32_t r, uint32_t c) : rows(r), cols(c), data(size_t{r} * c) {}
  float* row(size_t i) { return data.data() + i * cols; }
  const float* row(size_t i) const { return data.data() + i * cols; }
  bool operator==(const Matrix&) const = default;
};

// A matrix of fixed-point numbers (exact_sums.h), which can be added up in any order.
struct FixedMatrix {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<int64_t> data;
  bool in_range = true;  // of all messages that are sent

  FixedMatrix() = default;
  FixedMatrix(uint32_t r, uint32_t c) : rows(r), cols(c), data(size_t{r} * c) {}
  int64_t* row(size_t i) { return data.data() + i * cols; }
  bool operator==(const FixedMatrix&) const = default;
};

// A part of a sum over features or neurons: in fixed point in synchronous training.
using PartialSum = std::variant<Matrix, FixedMatrix>;

// Rows of ids with optional values: row i is [offsets[i], offsets[i+1]) of ids and values.
struct SparseRows {
  std::vector<uint32_t> offsets = {0};
  std::vector<uint32_t> ids;
  std::vector<float> values;  // empty, or as long as ids

  uint32_t rows() const { return static_cast<uint32_t>(offsets.size() - 1); }
  std::span<const uint32_t> Ids(size_t i) const {
    return {ids.data() + offsets[i], offsets[i + 1] - offsets[i]};
  }
  std::span<const float> Values(size_t i) const {
    return {values.data() + offsets[i], offsets[i + 1] - offsets[i]};
  }
  void EndRow() { offsets.push_back(static_cast<uint32_t>(ids.size())); }
  bool operator==(const SparseRows&) const = default;
};

// Rows of a layer by their ids, which ascend.
struct LayerRows {
  std::vector<uint32_t> ids;
  Matrix values;  // [ids x width]
  bool operator==(const LayerRows&) const = default;
};

enum class Role : uint8_t { kServer, kWorker, kObserver };
enum class LeaseKind : uint8_t { kTrain, kEvaluate };
enum class Search : uint8_t { kExact, kLsh, kScan };
// Whether it scores all neurons. The others score those that an index returns (HasNeuronIndex).
constexpr bool ScoresAllNeurons(Search search) { return search != Search::kLsh; }
enum class ErrorCode : uint8_t {
  kMalformed,
  kWrongRun,
  kStalePlan,
  kUnknownBatch,
  kRefused,
  kIncompatible,
  kFenced
};

// The name by which dslide doctor asks to join. It only looks: a refusal is for its user, not for
// the scheduler's log.
constexpr char kDoctorName[] = "dslide-doctor";

struct Join {
  uint32_t protocol = kProtocolVersion;
  Role role = Role::kWorker;
  std::string name;
  std::string address;
  uint32_t cores = 0;
  uint64_t memory_bytes = 0;
  uint32_t plan_version = 0;  // servers: whose slots are loaded; 0: none
  uint64_t disk_bytes = 0;    // servers: for rows that memory has no room for; 0: none
  bool operator==(const Join&) const = default;
};
struct JoinReply {
  std::string name;
  std::string config;
  uint64_t train_samples = 0;
  uint64_t train_checksum = 0;  // 0: not told
  // ServerKeys of common/run/lease_proofs.h: 32 and 16 bytes; only servers get them.
  Bytes verify_key = {};
  Bytes receipt_key = {};
  bool operator==(const JoinReply&) const = default;
};
struct PlanServer {
  std::string name;
  std::string address;
  Incarnation incarnation = {};
  bool operator==(const PlanServer&) const = default;
};
// The sizes of the model from an epoch on, where they change during training, and the ids that are
// recycled or removed before that epoch. An id may be both.
struct ModelShape {
  uint32_t epoch = 0;  // 1 + BatchId::epoch; 0: the model has the configuration's sizes throughout
  uint32_t features = 0;
  uint32_t labels = 0;
  uint32_t samples = 0;                     // of the epoch
  std::vector<uint32_t> recycled_features;  // ids that were another feature's: new initial rows
  std::vector<uint32_t> recycled_labels;    // the same of labels
  std::vector<uint32_t> removed_labels;     // see common/run/silence.h
  bool operator==(const ModelShape&) const = default;
};
struct Plan {
  uint32_t version = 0;
  std::vector<PlanServer> servers;
  std::vector<uint16_t> slot_owner;  // [V]
  std::string restore = {};          // checkpoint directory; empty: fresh from the seed
  uint32_t generation = 0;           // plans of one generation carry the same state on
  ModelShape shape = {};
  // "section.key=value": what the scheduler has chosen since the run began. Within a generation
  // only the schedule changes (common/config/schedule.h).
  std::vector<std::string> settings = {};
  bool operator==(const Plan&) const = default;
};
struct Ready {
  uint32_t plan_version = 0;
  uint64_t rows = 0;
  uint64_t memory_bytes = 0;
  uint64_t moved_bytes = 0;  // sent for the slots that this plan brought
  uint32_t stall_us = 0;     // from the plan's arrival until all these slots were here
  uint64_t slot_bytes = 0;   // size of these slots
  bool operator==(const Ready&) const = default;
};
// What the slots of a server cost since its last report.
struct LoadReport {
  uint32_t interval_ms = 0;
  uint32_t batches = 0;  // whose gradients were taken
  // Ascending. The vectors below, except busy, have one entry per slot.
  std::vector<uint32_t> slots;
  std::vector<uint16_t> executor;   // that has the slot
  std::vector<uint32_t> retrieved;  // bucket entries read
  std::vector<uint32_t> used;       // rows in active sets
  std::vector<uint32_t> updated;    // rows, of both layers
  std::vector<float> work;          // cost of these counts, in machine-independent units
  std::vector<float> service_us;    // its part of its executor's time
  std::vector<uint64_t> bytes;      // in memory
  std::vector<float> busy;          // [executors] share of the interval that it worked
  bool operator==(const LoadReport&) const = default;
};
// A server's files of rows since its slots were loaded. All fields are 0 if all rows are in memory.
struct RowsOnDisk {
  uint64_t bytes = 0;   // of the files
  uint64_t rows = 0;    // that batches have needed, wherever they were
  uint64_t misses = 0;  // of these, read from the disk
  bool operator==(const RowsOnDisk&) const = default;
  RowsOnDisk& operator+=(const RowsOnDisk& other) {
    bytes += other.bytes;
    rows += other.rows;
    misses += other.misses;
    return *this;
  }
};
struct Heartbeat {
  double cpu_seconds = 0;
  uint64_t peak_rss_bytes = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint32_t rehash_lag_batches = 0;
  float bucket_empty_share = 0;
  float bucket_mean = 0;
  uint32_t bucket_p99 = 0;
  uint32_t bucket_largest = 0;
  uint32_t batches_in_flight = 0;
  uint64_t malformed = 0;
  // Of workers:
  uint32_t in_flight_limit = 0;
  uint32_t round_trip_us = 0;
  uint64_t bits_per_second = 0;
  uint32_t int8_links = 0;
  // Of servers:
  std::optional<LoadReport> load = {};
  uint64_t memory_used_bytes = 0;             // by rows, optimiser and hash tables
  uint32_t hash_round = 0;                    // of the hash functions in use
  uint32_t longest_batch_us = 0;              // workers: that a batch took since the last heartbeat
  std::vector<uint64_t> silent_servers = {};  // workers: incarnations; silent while others answer
  uint32_t hook_runs = 0;                     // servers: of checkpoint.shard_hook
  uint32_t hook_failures = 0;                 // of those
  uint64_t disk_bytes_per_second = 0;         // servers: of the last checkpoint; 0: none yet
  uint32_t disk_sync_us = 0;                  // the longest wait for a file of it to be on disk
  RowsOnDisk on_disk = {};                    // servers
  std::string bounds = {};  // servers, for people: who has set what numbers are too large
  bool operator==(const Heartbeat&) const = default;
};
struct HeartbeatReply {
  uint32_t in_flight_cap = 0;  // workers: 0: none
  uint32_t pause_ms = 0;       // workers: begin no batch for so long, PROTOCOL section 4
  bool operator==(const HeartbeatReply&) const = default;
};

struct LeaseRequest {
  bool has_data = false;  // the worker has the training file
  bool operator==(const LeaseRequest&) const = default;
};
struct LeaseBatch {
  uint32_t index = 0;
  uint64_t first_sample = 0;        // position in the order of the epoch or the evaluation
  SparseRows features;              // [B], or no rows if the receiver has the file
  SparseRows labels;                // the same
  uint32_t samples = 0;             // B if there are no rows, else 0
  std::vector<float> weights = {};  // [B] of the samples' losses; empty: all 1
  Bytes ticket = {};                // shows servers that this worker may do the batch
  bool operator==(const LeaseBatch&) const = default;
};
struct LeaseGrant {
  uint64_t lease = 0;
  LeaseKind kind = LeaseKind::kTrain;
  uint32_t epoch = 0;
  uint32_t unit = 0;
  uint32_t top_k = 0;
  std::vector<LeaseBatch> batches;
  bool operator==(const LeaseGrant&) const = default;
};
struct LeaseWait {
  uint32_t retry_ms = 0;
  bool finished = false;
  bool operator==(const LeaseWait&) const = default;
};

// Best neurons of each row of a batch, best first.
struct TopKReply {
  std::vector<uint32_t> offsets = {0};  // [B + 1]
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  // Those of row i.
  std::span<const uint32_t> Ids(size_t i) const {
    return std::span(ids).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
  bool operator==(const TopKReply&) const = default;
};

struct BatchDone {
  uint64_t lease = 0;
  BatchId batch;
  uint32_t samples = 0;
  double loss_sum = 0;
  uint64_t active_neurons_sum = 0;
  uint32_t active_rows = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint32_t probed = 0;
  double recall_set = 0;
  double recall_hash = 0;
  double recall_uniform = 0;
  TopKReply predictions;
  std::vector<uint32_t> bytes_by_kind =
      {};  // of sent and received, by Body::index(); empty: unknown
  double tail_error = 0;
  std::vector<uint64_t> receipts = {};  // of the servers that the batch ended at, in plan order
  std::vector<double> loss_parts = {};  // training: of these servers
  bool operator==(const BatchDone&) const = default;
};

struct EmbedRequest {
  BatchId batch;
  bool training = false;
  SparseRows features;
  bool alone = false;  // training: no ActiveQuery follows, EmbedPush is next
  bool dense = false;  // the reply shall have the receiver's rows of the dense layers
  Bytes ticket = {};   // of the batch
  bool operator==(const EmbedRequest&) const = default;
};
struct EmbedReply {
  PartialSum partial;
  std::optional<LayerRows> dense = std::nullopt;  // as EmbedRequest.dense says
  bool operator==(const EmbedReply&) const = default;
};
struct ActiveQuery {
  BatchId batch;
  Matrix hidden;
  SparseRows labels;
  std::vector<uint32_t> label_totals;  // [B]
  uint32_t probe_samples = 0;
  bool finish = false;              // the receiver has all neurons and forms the normaliser itself
  bool alone = false;               // no EmbedRequest came before, and no EmbedPush follows
  std::vector<float> weights = {};  // [B] of the samples' losses; empty: all 1
  Bytes ticket = {};                // of the batch, with `alone`
  bool operator==(const ActiveQuery&) const = default;
};
// The exact best neurons of one sample, best first, and whether the active set holds them.
struct Probe {
  std::vector<uint32_t> ids;
  std::vector<float> logits;
  std::vector<uint8_t> in_set;
  std::vector<uint8_t> in_hash;
  bool operator==(const Probe&) const = default;
};
struct ActiveReply {
  std::vector<float> max;           // [B]
  std::vector<float> sum_exp;       // [B]
  std::vector<float> target_logit;  // [B]
  std::vector<uint32_t> active;     // [B]
  std::vector<float> loss;          // [B] or empty
  uint32_t active_rows = 0;
  std::vector<Probe> probes;
  std::vector<float> tail_variance = {};  // [probe_samples] or empty
  std::vector<ExpSum> exp_sums = {};      // [B] or empty
  bool operator==(const ActiveReply&) const = default;
};
struct GradientPush {
  BatchId batch;
  std::vector<float> log_normaliser;  // [B]; finite: 0 for a sample without scored neurons
  bool operator==(const GradientPush&) const = default;
};
struct GradientReply {
  PartialSum partial;
  std::optional<ActiveReply> active = std::nullopt;  // where ActiveQuery said `finish`
  bool operator==(const GradientReply&) const = default;
};
struct EmbedPush {
  BatchId batch;
  Matrix gradient;
  std::optional<EmbedRequest> next =
      std::nullopt;  // another batch's first request; the reply is its EmbedReply
  std::optional<LayerRows> dense = std::nullopt;  // gradients of the receiver's dense rows
  bool operator==(const EmbedPush&) const = default;
};
struct Ack {
  bool operator==(const Ack&) const = default;
};
struct DropBatches {
  Incarnation incarnation;
  bool operator==(const DropBatches&) const = default;
};
struct TopKRequest {
  Matrix hidden;
  uint32_t k = 0;
  Search search = Search::kExact;
  SparseRows excluded;  // no rows, or [B]
  float recall = 0;     // of the best k that kExact has to find; 0: all
  BatchId batch = {};   // of an evaluation
  Bytes ticket = {};    // of the batch
  bool operator==(const TopKRequest&) const = default;
};

struct CheckpointRequest {
  std::string name;
  std::string directory;
  uint64_t committed = 0;              // synchronous training: the steps that it has to hold
  std::vector<std::string> keep = {};  // earlier checkpoints that stay, by name
  bool operator==(const CheckpointRequest&) const = default;
};
struct CheckpointDone {
  std::string name;
  std::string error;
  std::string shard;
  uint64_t rows = 0;
  uint64_t bytes = 0;  // of all files
  std::vector<ShardFile> files = {};
  uint64_t written_bytes = 0;  // of the files that earlier checkpoints do not have
  uint32_t stall_us = 0;       // the longest that an executor stood still for it
  bool retry = false;          // with `error`: nothing is wrong, another one may succeed
  bool operator==(const CheckpointDone&) const = default;
};
struct CheckpointNow {
  bool operator==(const CheckpointNow&) const = default;
};
struct Shutdown {
  std::string reason;
  uint32_t exit_code = 0;
  bool operator==(const Shutdown&) const = default;
};
struct ErrorReply {
  ErrorCode code = ErrorCode::kMalformed;
  std::string text;
  bool operator==(const ErrorReply&) const = default;
};

// A member's last message: what it had leased is given to others.
struct Leave {
  bool operator==(const Leave&) const = default;
};

// Synchronous training: the first `committed` steps of the run count.
struct CommitSteps {
  uint64_t committed = 0;
  bool operator==(const CommitSteps&) const = default;
};
struct StepsCommitted {
  uint64_t committed = 0;
  bool operator==(const StepsCommitted&) const = default;
};

// To a server: copy these slots in the background; the next plan gives them to it.
struct MoveSlots {
  uint64_t move = 0;
  std::vector<uint32_t> slots;    // none: nothing is to come
  std::vector<uint16_t> from;     // [slots] index into the plan's servers
  uint64_t bytes_per_second = 0;  // at most; 0: no limit
  bool operator==(const MoveSlots&) const = default;
};
// The copies lack only what changes all the time.
struct MoveReady {
  uint64_t move = 0;
  uint64_t bytes = 0;
  uint64_t left_bytes = 0;
  bool operator==(const MoveReady&) const = default;
};
// Server to server: the rows of a slot that the sender's copy lacks.
struct SlotPull {
  uint32_t slot = 0;
  // 0 begins a copy; with cold_only it is answered without rows. A repeated part gets the same
  // answer.
  uint32_t part = 0;
  bool cold_only = false;  // only rows that did not change of late
  uint32_t max_bytes = 0;
  bool release = false;  // the receiver may forget the slot
  bool operator==(const SlotPull&) const = default;
};
struct SlotRows {
  uint32_t slot = 0;
  uint32_t part = 0;
  uint32_t input_rows = 0;               // the first so many; the others are output rows
  std::vector<uint32_t> rows;            // within the slot
  std::vector<uint32_t> ends;            // [rows] of their bytes
  std::vector<uint8_t> bytes;            // Layer::StoreRow, and of an output row AppendHashState
  uint32_t left = 0;                     // rows that the copy still lacks
  uint64_t hash = 0;                     // identity of the functions that the codes are of
  bool last = false;                     // nothing is left or will change; with it the following
  std::vector<uint64_t> applied_output;  // BatchSet::words
  std::vector<uint64_t> applied_input;
  std::optional<uint64_t> committed = {};
  bool operator==(const SlotRows&) const = default;
};
// The server's slots shall go to others, then it leaves.
struct DrainServer {
  std::string name;
  bool operator==(const DrainServer&) const = default;
};
struct StatusRequest {
  static constexpr size_t kMaxPadding = size_t{1} << 20;
  Bytes padding = {};  // to a server: what a longer message takes; never read
  bool operator==(const StatusRequest&) const = default;
};
struct StatusReply {
  std::string json;
  bool operator==(const StatusReply&) const = default;
};
// The hash functions are drawn anew, in the background.
struct RebuildTables {
  uint32_t round = 0;  // of their seed
  uint32_t k = 0;
  bool operator==(const RebuildTables&) const = default;
};

// A key that counts in this run.
struct AccessKey {
  std::string key;  // TextOf(PublicKey)
  KeyRole role = KeyRole::kObserver;
  bool operator==(const AccessKey&) const = default;
};
// All of them that the receiver needs; replaces an earlier one.
struct AccessList {
  std::vector<AccessKey> keys;
  bool operator==(const AccessList&) const = default;
};

// What workers have sent to a server for the same batch, and what of it is in the server's sums.
struct AuditReport {
  BatchId batch;
  std::vector<uint64_t> workers;        // incarnations
  std::vector<uint64_t> digests;        // [workers] up to GradientPush; equal: the same. 0: nothing
  std::vector<uint64_t> input_digests;  // [workers] of features and EmbedPush; 0: nothing
  uint64_t output_counts = 0;           // whose GradientPush is in the sums; 0: nobody's
  uint64_t input_counts = 0;            // whose EmbedPush is
  bool operator==(const AuditReport&) const = default;
};

// To the scheduler: a worker has done what no honest one does.
struct Offence {
  uint64_t worker = 0;  // incarnation
  BatchId batch;
  std::string reason;  // for people
  Bytes ticket = {};   // that was refused, if a ticket was
  bool operator==(const Offence&) const = default;
};

using AnyBody =
    std::variant<Join, JoinReply, Plan, Ready, Heartbeat, HeartbeatReply, LeaseRequest, LeaseGrant,
                 LeaseWait, BatchDone, EmbedRequest, EmbedReply, ActiveQuery, ActiveReply,
                 GradientPush, GradientReply, EmbedPush, Ack, DropBatches, TopKRequest, TopKReply,
                 CheckpointRequest, CheckpointDone, CheckpointNow, Shutdown, ErrorReply, Leave,
                 CommitSteps, StepsCommitted, MoveSlots, MoveReady, SlotPull, SlotRows, DrainServer,
                 StatusRequest, StatusReply, RebuildTables, AccessList, AuditReport, Offence>;

constexpr size_t kBodyKinds = std::variant_size_v<AnyBody>;

template <typename T, typename Variant>
constexpr bool kIsAlternative = false;
template <typename T, typename... Types>
constexpr bool kIsAlternative<T, std::variant<Types...>> = (std::is_same_v<T, Types> || ...);

// What a message says: one of the structs above. The code that copies, moves, compares and destroys
// 40 kinds is large, so it is compiled once, in messages.cc.
class Body : public AnyBody {
 public:
  Body();
  template <typename T>
  requires kIsAlternative<std::remove_cvref_t<T>, AnyBody> Body(
      T&& kind)  // NOLINT: a message's struct is a body
      : AnyBody(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(kind)) {}
  Body(const Body& other);
  Body(Body&& other) noexcept;
  Body& operator=(const Body& other);
  Body& operator=(Body&& other) noexcept;
  ~Body();

  bool operator==(const Body& other) const;
};

struct Envelope {
  RunId run;
  Incarnation incarnation;
  uint64_t sequence = 0;
  uint64_t reply_to = 0;
  uint32_t plan_version = 0;
  WirePrecision reply_precision = WirePrecision::kBf16;  // requests to servers
  uint32_t service_us = 0;                               // a server's replies: queues included
  uint64_t receipt = 0;  // a server's reply to the last request of a batch
  double loss_part = 0;  // with the receipt of a trained batch (common/run/lease_proofs.h)
  bool operator==(const Envelope&) const = default;
};

struct Message {
  Envelope envelope;
  Body body;
  bool operator==(const Message&) const = default;
};

// Floats of matrices and sparse values travel in `precision`. REQUIRES consistent shapes (checked)
// and finite numbers: what the receiver's Decode() would refuse is the sender's mistake. Equal
// messages have equal bytes. In int8 gradients (GradientReply, EmbedPush) are rounded with error
// feedback over their rows, those of dense layers at random without bias (by batch and row: no
// state), everything else to nearest, where what is not 0 does not become 0: the receiver of
// `hidden` sees the relu's mask that the sender has. Rows of dense layers are in bf16 then.
Bytes Encode(const Message& message, WirePrecision precision);

// Errors say what is wrong; the message's sender and sequence are then unknown.
Result<Message> Decode(std::span<const uint8_t> bytes);

// "ActiveQuery" and so on, for logs and counters.
std::string_view BodyName(size_t kind);  // kind: Body::index(), below kBodyKinds
inline std::string_view BodyName(const Body& body) { return BodyName(body.index()); }

}  // namespace dslide
