// What the shell has to do after a call of SchedulerCore.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/data/measures/metrics.h"
#include "common/log/event.h"
#include "common/wire/messages.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/members/admission.h"

namespace dslide {

// The samples that an evaluation measures the model on.
enum class EvaluationSet {
  kHeldOut,   // the samples that are held out of training
  kTestPart,  // some of the test samples, after an epoch
  kTest,      // all test samples, at the end
};

// A held-out sample with the labels that the model ranks first.
struct RankedSample {
  std::vector<uint32_t> labels;  // the true ones, ascending
  std::vector<uint32_t> ranked;  // the best first, at most kAdjustedLabels
  std::vector<float> scores;     // their logits
};

// The outcome of an evaluation. The shell writes it to metrics.jsonl and shows it.
struct EvaluationResult {
  uint32_t epoch = 0;  // epochs trained so far
  EvaluationSet set = EvaluationSet::kTestPart;
  RankingMetrics metrics;
  std::vector<float> ndcg = {};  // [samples] nDCG@kMaxMetricK of each held-out sample
  // After the last epoch: held-out samples, in their order, at most Evaluation::kMostKept.
  std::vector<RankedSample> ranked = {};
};

// A sample that an evaluation has ranked labels for.
struct EvaluatedSample {
  uint64_t number = 0;              // in its file, from 0
  std::vector<uint32_t> labels;     // the true ones, ascending
  std::vector<uint32_t> predicted;  // the best first, at most kMaxMetricK
};

// The body of a message; that of a message to many is there once.
class SharedBody {
 public:
  SharedBody(Body body) : body_(std::make_shared<Body>(std::move(body))) {}  // NOLINT: converts

  const Body& operator*() const { return *body_; }
  // The body. Only its last user gets it without a copy.
  Body Take() && {
    Body taken = body_.use_count() == 1 ? std::move(*body_) : *body_;
    body_.reset();
    return taken;
  }

 private:
  std::shared_ptr<Body> body_;
};

// The shell executes them in this order.
struct SchedulerEffects {
  struct Outgoing {
    PeerId to;
    SharedBody body;
    uint64_t reply_to = 0;
  };

  // Append all or none; if that fails call SchedulerCore::OnLedgerFailure() and send nothing.
  std::vector<LedgerEntry> ledger;
  // The messages say what counts: all entries have to be on the disk before they are sent.
  bool sync_ledger = false;
  std::vector<Outgoing> send;
  std::vector<Outgoing> status_wanted;    // to be sent with the status at that time
  std::vector<Event> notices;             // for the log and the terminal
  std::vector<std::string> lost_servers;  // names of servers that were lost
  std::vector<Event> tunings;             // for the debug log
  std::vector<EvaluationResult> evaluations;
  std::vector<EvaluatedSample> examples;  // the last samples of the last of them
  // Write it beside the checkpoints, of which `directory` is the newest.
  struct Ranking {
    LogitAdjustment adjustment;
    std::string directory;
  };
  std::optional<Ranking> ranking;
  std::optional<Manifest> manifest;    // write it; then call OnManifest()
  std::optional<uint32_t> epoch_done;  // epochs trained so far
  // The segment of the stream that training goes on with: then call OnSegment(), or OnStreamEnd().
  std::optional<uint32_t> segment_wanted;
  // Members that lie: their keys are not to be let in any more.
  struct Quarantine {
    Incarnation member;
    std::string why;
    std::vector<uint32_t> accusers;  // servers, by their keys' fingerprints; see offences.h
  };
  std::vector<Quarantine> quarantine;
  // Send a request to each of these addresses, and tell OnProbe() who answers.
  std::vector<Admission::Probe> probes;
};

}  // namespace dslide
