// What a run of the scheduler is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/dataset.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/data/measures/metrics.h"
#include "common/run/lease_proofs.h"
#include "common/wire/messages.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

// What stays as it is for a life of the scheduler. The data sets must outlive it.
struct RunContext {
  Config config;  // resolved; with `settings`
  RunId run;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;     // null: no evaluation
  std::string checkpoint_directory;  // where checkpoints are put
  uint64_t train_checksum = 0;       // Checksum(*train)
  uint64_t trust_secret = 0;         // decides which batches are audited; nobody may know it
  bool keyed = false;             // members have keys, whose fingerprints incarnations begin with
  uint64_t preprocessor = 0;      // checksum of its file; 0: samples are numbers
  SchedulerKeys lease_keys = {};  // of this incarnation of the scheduler
  // Of a stream (train.open_vocabulary), whose segments are epochs: the number of the one that
  // `train` is, from 1. `config` and `preprocessor` are those with which it is trained.
  uint32_t segment = 0;
  // The held-out samples are those of the file train.dev; without such a file, the samples of
  // `train` with these numbers, which ascend.
  const Dataset* dev = nullptr;
  std::vector<uint32_t> held_out = {};
  // Counts labels of the samples that are trained. Null where rankings are not adjusted.
  std::shared_ptr<const LabelLogs> label_logs = {};
  // Whether the shell wants the predictions of the last evaluations, to rank labels by names, too.
  bool keeps_rankings = false;
  std::vector<std::string> open_keys = {};  // whose values the run may choose
  Overrides settings = {};  // what was chosen since the run began, "section.key=value"
  Config base = {};         // `config` without them: members know the run by it

  bool is_stream() const { return config.train.open_vocabulary; }
  // Samples that an epoch trains; of a stream: the segment that `train` is.
  uint64_t PassSamples() const { return train->size() - held_out.size(); }
  // As PassSamples(); of a stream the samples of a full segment.
  uint64_t EpochSamples() const {
    return is_stream() ? config.train.segment_samples : PassSamples();
  }
  // The number of held-out samples.
  uint64_t HeldOutSamples() const { return dev == nullptr ? held_out.size() : dev->size(); }
};

// A part of a stream, and the model's sizes while it is trained.
struct StreamSegment {
  ModelShape shape;
  std::shared_ptr<const Dataset> data;
  // Some of the samples, with all of their labels: the model is asked for them before it is trained
  // on the segment.
  std::shared_ptr<const Dataset> unseen;
  uint64_t preprocessor = 0;  // checksum of its file
  std::string line;           // for people: what has come and gone; empty: nothing
};

// There is no segment `number` of a stream, nor will there be.
struct StreamEnd {
  uint32_t number = 0;
  Status why;                           // not ok: what is wrong with it
  std::shared_ptr<const Dataset> test;  // for the last evaluation; null: there is none
};

// The same, with what earlier lives have left.
struct RunInputs : RunContext {
  // Of the training file's labels, also those that are left out; unknown: of those of `train`.
  InversePropensities inverse_propensities = {};
  LedgerState ledger = {};                    // of the run so far; not opened: a new one
  std::optional<Manifest> checkpoint = {};    // the newest complete one, to go back to
  std::string checkpoint_path = {};           // its own directory
  std::vector<std::string> checkpoints = {};  // names of all complete ones, oldest first
  // Of a stream: what `train` is of, and the first segment of the run, if that is known still.
  std::optional<StreamSegment> stream = {};
  std::optional<StreamSegment> first_segment = {};  // without data
};

}  // namespace dslide
