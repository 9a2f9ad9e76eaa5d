// One shard of a server: the rows, optimiser state and hash tables of some slots, and the batches
// in flight.
//
// A batch counts once: an executor knows which batches its rows have taken, and computes and
// answers one that comes again without applying it.
//
// Its slots may come and go while it trains (Do): a slot is copied from another executor, and
// leaves the one model and joins the other between two batches.
//
// An executor is driven by one thread, shares nothing with others, and answers each request with
// the partial reply of its own rows; common/run/combine.h adds the parts up.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/thread_owner.h"
#include "common/config/config.h"
#include "common/config/limits.h"
#include "common/run/step.h"
#include "common/wire/messages.h"
#include "server/executor/batches/applied_batches.h"
#include "server/executor/job.h"
#include "server/executor/slots/incoming_slot.h"
#include "server/executor/slots/slot_load.h"
#include "server/executor/slots/slot_sender.h"
#include "server/executor/state/executor_record.h"
#include "server/executor/state/snapshot.h"
#include "server/executor/state/stored_rows.h"
#include "server/model/input_layer.h"
#include "server/model/lsh/hash_state.h"
#include "server/model/output_layer.h"

namespace dslide {

// A batch in flight belongs to the worker life that sent it.
struct BatchKey {
  Incarnation worker;
  BatchId batch;
  auto operator<=>(const BatchKey&) const = default;
};

// Memory guard: of more batches in flight than this the oldest one is given up.
constexpr size_t kMaxBatchesInFlight = 1024;

// When a worker has so many batches here its oldest one is given up: the worker has given it up
// too.
constexpr size_t kMaxBatchesOfWorker = 128;
static_assert(kMaxBatchesOfWorker >= kMostOpenRequests);
static_assert(kMaxBatchesOfWorker <= kMaxBatchesInFlight);

constexpr uint32_t kMaxInferenceBatch = 512;  // samples, where train.batch is smaller
constexpr uint32_t kMaxTopK = 10000;

// The seed of an executor's negatives, of which each batch has its own.
uint64_t NegativeSeed(uint64_t seed, uint32_t executor);

class Executor {
 public:
  // `config` is resolved; `train_samples` fixes the learning-rate schedule. `index` numbers the
  // executors of the cluster, so that each draws its own negatives.
  // `purpose`: an executor for inference keeps no optimiser state and refuses to train.
  Executor(const Config& config, uint64_t train_samples, std::span<const SlotId> slots,
           uint32_t index, Purpose purpose, const Kernels& kernels);

  // Initial weights by the seed, and hash tables over them.
  void Initialise();

  // Instead of Initialise(): the rows of a checkpoint in any order, each once (how many came is the
  // caller's to count), then the records of the executors that wrote them; more records do no harm.
  // If an executor of the same slots, in the same order, wrote a record, this one goes on bit for
  // bit as that one did. Otherwise the upkeep of hash tables and popular neurons begins anew. For
  // inference records are ignored. Errors (kBadInput) name the slot and the row, not the
  // checkpoint; the executor is then of no use.
  Status LoadRow(const StoredRowKey& key, std::span<const uint8_t> value);
  Status FinishLoad(std::span<const std::string> records);
  // After FinishLoad(): the store of the snapshots to come has just what was loaded, so that the
  // next one writes changed rows only.
  void AssumeStored();
  // The sink's store is lost: the next snapshot writes all rows. Ends one in progress.
  void ForgetStored();

  // The mark of a snapshot: what the executor holds now goes to *sink, under its local_index(),
  // while work goes on. The first snapshot writes all rows, a later one those that changed since
  // the one before. One in progress is aborted. `sink` must outlive the snapshot. REQUIRES
  // training. Takes about 0.5 ms a hash table and 300,000 rows.
  void BeginSnapshot(SnapshotSink* sink);
  // Works on the snapshot for some 2 ms at most. False: there is nothing to do now, because none is
  // in progress or the sink has no room.
  bool AdvanceSnapshot(uint32_t rows = Snapshot::kSliceRows);
  bool snapshot_in_progress() const { return snapshot_ && !snapshot_->finished(); }
  // Gives the snapshot up. Also for a finished one that could not be stored, before the next one
  // begins: its rows count as changed again. Nothing more goes to the sink.
  void AbortSnapshot();

  // A slice of the work that is done when there is no request. False: there is none now.
  bool Background();

  InputLayer& input() { return input_; }
  OutputLayer& output() { return output_; }

  // Answers EmbedRequest, ActiveQuery, GradientPush, EmbedPush, TopKRequest, DropBatches and
  // CommitSteps with the matching reply, or ErrorReply. Checks ids and shapes against the model;
  // anything may come in. SlotPull, of a slot that is here or has left and is not released yet:
  // with SlotRows; of others: with Ack. RebuildTables: with Ack; tables by other hash functions are
  // built while training goes on and take the place of the present ones after a batch, when every
  // row is in them and no snapshot is in progress.
  Body Handle(Incarnation sender, const Body& request);

  // Its index among the executors of its server.
  uint32_t local_index() const { return local_index_; }
  void set_local_index(uint32_t number) { local_index_ = number; }
  // Slots come and go; a job that is for another executor changes nothing. The slots that kAttach
  // has made part of the model, or an error, and nothing has changed: it names the slot, and the
  // row if there is one.
  Result<Attached> Do(const SlotJob& job);

  bool synchronous() const { return IsSynchronous(config_.train); }
  size_t batches_in_flight() const { return batches_.size(); }
  const AppliedBatches& applied() const { return applied_; }
  // Steps of synchronous training; none before the first CommitSteps or FinishLoad().
  std::optional<uint64_t> committed() const { return committed_; }

  // What its slots cost since the last call, and what it holds; its hash tables only if asked for,
  // because reading them takes longer.
  Measured Measure(bool tables);
  // How its hash tables are filled; none without tables.
  std::optional<TableFigures> MeasureTables() const;
  // Of its rows, their optimiser state and hash tables.
  uint64_t MemoryBytes() const;
  // What its slots cost since the last call (SlotLoad::Take); the bytes are those in memory now.
  ExecutorLoad TakeLoad();
  const SlotLoad& load() const { return load_; }

 private:
  // A batch goes through these stages, one request each.
  enum class Stage { kEmbedded, kQueried, kPushed };
  struct Batch {
    Stage stage = Stage::kEmbedded;
    uint64_t arrival = 0;
    uint32_t samples = 0;
    InputBatch input;
    OutputBatch output;
  };

  // At the end of every call that changes something. Also checks that one thread makes them.
  void CheckInvariants();
  Body Answer(Incarnation sender, const Body& request);
  uint64_t SlotBytes() const;
  void CountQuery(const OutputBatch& batch);
  void CountScan(uint32_t samples);
  void CountInput(uint32_t row, bool updated) {
    SlotCounts& counts = load_.Of(input_.layer().map().SlotOf(row));
    ++counts.input_rows;
    counts.updated += updated;
  }
  void CountUpdate(const Layer& layer, uint32_t row) {
    ++load_.Of(layer.map().SlotOf(row)).updated;
  }
  Body Embed(Incarnation sender, const EmbedRequest& request);
  std::string WhyNotOpen(const EmbedRequest& request) const;
  void MakeRoom(Incarnation sender, const BatchId& next);
  void DropUnits(uint64_t batch_number, Matrix* partial) const;
  Body Query(Incarnation sender, const ActiveQuery& request);
  Body Push(Incarnation sender, const GradientPush& request);
  Body PushEmbedding(Incarnation sender, const EmbedPush& request);
  void ApplyInput(uint64_t number, const InputBatch& batch, const Matrix& gradient) noexcept;
  Body TopK(const TopKRequest& request);
  Body Drop(const DropBatches& request);
  Body Rebuild(const RebuildTables& request);
  void FollowUpdates();
  Body Commit(const CommitSteps& request);

  Result<Attached> DoSlotJob(const SlotJob& job);
  Body Pull(const SlotPull& pull);
  Status Reserve(std::span<const SlotId> slots);
  Status Put(const SlotRows& rows);
  void Discard(std::span<const SlotId> slots);
  void SwitchPlan(std::span<const SlotId> slots);
  Result<Attached> Attach(std::span<const SlotId> slots);
  void Release(std::span<const SlotId> slots);
  void ReleaseRegion(SlotId slot);
  void DropWork();
  void FollowMap();

  // Synchronous training: what a step's batches contribute is held until the step is committed. A
  // batch counts once for each layer, whoever brings it: trained again it gives the same.
  struct HeldBatch {
    bool output = false;
    bool input = false;
    std::vector<float> mean_hidden;  // [H]
  };
  struct HeldStep {
    GradientSums output;
    GradientSums input;
    std::map<BatchId, HeldBatch> batches;
  };
  HeldStep& StepOfBatch(const BatchId& batch);
  Matrix HoldOutput(const GradientPush& request, OutputBatch* batch);  // dL/dh
  void HoldInput(const EmbedPush& request, const InputBatch& batch);
  std::string Missing(const HeldStep& held, const StepExtent& extent) const;
  void Apply(uint64_t step, const HeldStep& held);
  // What a batch's mean gradient counts in the mean over its step.
  float ShareOfStep(const BatchId& batch, uint32_t samples) const;

  Batch* Find(const BatchKey& key, Stage stage);
  size_t OfWorker(Incarnation worker) const;
  // Rows of a layer that have not taken a part of a batch yet.
  class NotYetApplied {
   public:
    NotYetApplied(const AppliedBatches& applied, Part part, uint64_t batch, const SlotMap& map)
        : applied_(applied),
          part_(part),
          batch_(batch),
          map_(map),
          share_(applied.Has(part, batch)) {}
    bool any() const { return share_ != AppliedBatches::Share::kAll; }
    bool Has(uint32_t row) const {
      return share_ == AppliedBatches::Share::kNone ||
             (any() && !applied_.Has(part_, batch_, map_.SlotOf(row)));
    }

   private:
    const AppliedBatches& applied_;
    Part part_;
    uint64_t batch_;
    const SlotMap& map_;
    AppliedBatches::Share share_;
  };
  uint64_t NumberOf(const BatchId& batch) const {
    return BatchNumber(batch, config_.train, train_samples_);
  }
  ExecutorRecord Record();
  Status TakeApplied(std::span<const ExecutorRecord> records);
  HashStateLoader& Loader();
  Status FinishTables(std::span<const ExecutorRecord> records, const ExecutorRecord* own);
  Status GoOnFrom(const ExecutorRecord& record, std::span<const ExecutorRecord> records);
  bool BatchFits(uint32_t samples) const;
  float LearningRate(uint64_t batch_number) const;

  ThreadOwner thread_;
  Config config_;
  uint64_t train_samples_;
  uint32_t cluster_index_;
  uint32_t local_index_ = 0;
  uint64_t negative_seed_;
  Purpose purpose_;
  const Kernels& kernels_;
  InputLayer input_;
  OutputLayer output_;
  AppliedBatches applied_;
  SlotLoad load_;
  std::map<BatchKey, std::unique_ptr<Batch>> batches_;
  uint64_t arrivals_ = 0;
  uint32_t epoch_ = 0;                         // the latest that a batch was of
  std::vector<std::unique_ptr<Batch>> spare_;  // finished ones, their buffers are used again
  std::optional<uint64_t> committed_;          // steps; none before the first CommitSteps
  std::map<uint64_t, std::unique_ptr<HeldStep>> held_;  // by step
  std::vector<std::unique_ptr<HeldStep>> spare_steps_;
  std::unique_ptr<HashStateLoader> loader_;  // while rows are loaded, and until AssumeStored()
  std::optional<Snapshot> snapshot_;         // in progress, or the last one
  SlotSender source_;
  std::map<SlotId, IncomingSlot> incoming_;  // reserved slots
};

}  // namespace dslide
