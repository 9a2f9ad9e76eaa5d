// One shard of a server: the rows, optimiser state and hash tables of some slots, and the batches
// in flight.
//
// An executor answers each request with the partial reply of its own rows (common/run/combine.h
// adds the parts up), takes slots in and hands them on while it trains, and writes snapshots
// between its other work. It is a dispatcher: each part below owns its fields, and the executor
// passes values between them.
//
//   InputLayer, OutputLayer   the rows, with optimiser state and hash tables
//   AppliedBatches            which batches the rows have taken
//   SlotLoad, WorkCounter     what each slot costs
//   BatchTrainer              batches in flight, and in synchronous training the steps they are of
//   SlotExchange              slots that come and go
//   ExecutorState             snapshots, and loading from a checkpoint
//
// Invariants: those of the parts; an executor for inference keeps nothing between two requests; no
// batch, step or snapshot outlives a change of the slots that are here.
// Driven by one thread, with which it shares nothing else; debug builds check that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/error.h"
#include "common/base/thread_owner.h"
#include "common/config/config.h"
#include "common/wire/messages.h"
#include "server/executor/batch_trainer.h"
#include "server/executor/batches/applied_batches.h"
#include "server/executor/job.h"
#include "server/executor/slots/slot_exchange.h"
#include "server/executor/slots/slot_load.h"
#include "server/executor/slots/work_counter.h"
#include "server/executor/state/executor_state.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

constexpr uint32_t kMaxInferenceBatch = 512;  // samples, where train.batch is smaller
constexpr uint32_t kMaxTopK = 10000;

class Executor {
 public:
  static constexpr uint32_t kMostWaitMs = 50;  // of a job for the store

  // `config` is resolved; `train_samples` fixes the learning-rate schedule.
  // `purpose`: an executor for inference keeps no optimiser state and refuses to train.
  Executor(const Config& config, uint64_t train_samples, std::span<const SlotId> slots,
           Purpose purpose, const Kernels& kernels);

  // Its index among the executors of its server.
  uint32_t local_index() const { return local_index_; }
  void set_local_index(uint32_t index) { local_index_ = index; }
  // What the batches in flight may take; beyond, some are given up (BatchTable).
  void set_most_batch_bytes(uint64_t bytes) { trainer_.set_most_batch_bytes(bytes); }

  InputLayer& input() { return input_; }
  OutputLayer& output() { return output_; }

  // Initial weights by the seed, and hash tables over them.
  void Initialise();
  // Instead of Initialise(): the rows of a checkpoint, then the records of the executors that wrote
  // them; see ExecutorState. How many rows came is the caller's to count.
  Status LoadRow(const StoredRowKey& key, std::span<const uint8_t> value);
  Status FinishLoad(std::span<const std::string> records);
  // After FinishLoad(): the store of the snapshots to come has just what was loaded, so that the
  // next one writes changed rows only.
  void AssumeStored();
  // The store is lost: the next snapshot writes all rows. Ends one in progress.
  void ForgetStored();

  // The mark of a snapshot: what the executor holds now goes to *sink, under its local_index(),
  // while work goes on. REQUIRES training. Takes about 0.5 ms a hash table and 300,000 rows.
  void BeginSnapshot(SnapshotSink* sink);
  // Works on the snapshot for some 2 ms at most. False: there is nothing to do now, because none is
  // in progress or the sink has no room.
  bool AdvanceSnapshot(uint32_t rows = Snapshot::kSliceRows);
  bool snapshot_in_progress() const { return state_.snapshot_in_progress(); }
  // Gives the last snapshot up: its rows count as changed again. Nothing more goes to the sink.
  void AbortSnapshot();
  // Writes a slice of the snapshot in progress. The pool calls it after every job, and while there
  // is no job. False: there is nothing to do now.
  bool Background();
  // Writes the snapshot in progress until it lags no more (Snapshot::lags()), for kMostWaitMs at
  // most. The pool calls it before every job: batches that change rows faster than the store takes
  // them would need ever more memory.
  void AwaitStore();

  // Answers EmbedRequest, ActiveQuery, GradientPush, EmbedPush, TopKRequest, DropBatches and
  // CommitSteps with the matching reply, or ErrorReply. Checks ids and shapes against the model;
  // anything may come in. SlotPull, of a slot that is here or has left and is not released yet:
  // with SlotRows; of others: with Ack. RebuildTables: with Ack; tables by other hash functions are
  // built while training goes on and take the place of the present ones after a batch, when every
  // row is in them and no snapshot is in progress.
  Body Handle(Incarnation sender, const Body& request);
  // Does a slot job; a job for another executor changes nothing. Returns the slots that kAttach has
  // made part of the model. After an error nothing has changed; the error names the slot and the
  // row, if there is one.
  Result<Attached> Do(const SlotJob& job);

  bool synchronous() const { return IsSynchronous(config_.train); }
  size_t batches_in_flight() const { return trainer_.batches_in_flight(); }
  const AppliedBatches& applied() const { return applied_; }
  // Steps of synchronous training; none before the first CommitSteps or FinishLoad().
  std::optional<uint64_t> committed() const { return trainer_.committed(); }

  bool has_rows_on_disk() const {
    return input_.layer().has_rows_on_disk() || output_.layer().has_rows_on_disk();
  }
  // Has rows read that a request which waits will need, if they are in a file.
  void ReadAhead(const Body& request);

  // What its slots cost since the last call, and what it holds; its hash tables only if asked for,
  // because reading them takes longer.
  Measured Measure(bool tables);
  // How its hash tables are filled; none without tables.
  std::optional<TableFigures> MeasureTables() const;
  // Of its rows, their optimiser state and hash tables.
  uint64_t MemoryBytes() const;
  // What its slots cost since the last call (SlotLoad::Take), with the bytes that they take now.
  ExecutorLoad TakeLoad();
  const SlotLoad& load() const { return load_; }

 private:
  bool trains() const { return purpose_ == Purpose::kTraining; }

  Body Answer(Incarnation sender, const Body& request);
  Body Embed(Incarnation sender, const EmbedRequest& request);
  Body Query(Incarnation sender, const ActiveQuery& request);
  Body PushEmbedding(Incarnation sender, const EmbedPush& request);
  Body TopK(const TopKRequest& request);
  Body Rebuild(const RebuildTables& request);
  bool BatchFits(uint32_t samples) const;
  bool FeaturesFit(const SparseRows& features) const;
  // After the updates of a batch.
  void FollowUpdates();

  Result<Attached> DoSlotJob(const SlotJob& job);
  void SwitchPlan(std::span<const SlotId> slots);
  void Resize(const ModelShape& shape);
  Result<Attached> Attach(std::span<const SlotId> slots);
  void DropWork();

  // At the end of every call that changes something. Also checks that one thread makes them.
  void CheckInvariants();

  ThreadOwner thread_;
  Config config_;  // with the present sizes of the model
  const uint64_t train_samples_;
  const Purpose purpose_;
  uint32_t local_index_ = 0;
  InputLayer input_;
  OutputLayer output_;
  AppliedBatches applied_;
  SlotLoad load_;
  WorkCounter counter_;
  BatchTrainer trainer_;
  SlotExchange exchange_;
  ExecutorState state_;
};

}  // namespace dslide
