// What the shell has to do after a call of SchedulerCore.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
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

// A held-out or test sample with the labels that the model ranks first.
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
  // After the last epoch: the samples, in their order, at most Evaluation::kMostKept; of test
  // samples if RunContext::keeps_rankings.
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

// The kinds of SchedulerAction.
namespace action {

struct Send {
  PeerId to;
  SharedBody body;
  uint64_t reply_to = 0;  // the sequence of the request, or 0
};

// Sends a StatusReply with the status at that time.
struct SendStatus {
  PeerId to;
  uint64_t reply_to = 0;
};

// For the log and the terminal.
struct Log {
  Event event;
};

// For a log of level debug.
struct LogDebug {
  Event event;
};

// Counts the loss of a server with slots.
struct CountLostServer {
  std::string name;
};

struct ShowEpoch {
  uint32_t epochs = 0;  // trained so far
};

struct ShowEvaluation {
  EvaluationResult result;
  std::vector<EvaluatedSample> examples;
};

// Writes the adjustment beside the checkpoints.
struct StoreRanking {
  LogitAdjustment adjustment;
  std::string newest_checkpoint;          // its directory
  std::vector<RankedSample> ranked = {};  // held-out samples, if RunContext::keeps_rankings
};

// Its outcome goes to SchedulerCore::OnManifest().
struct WriteManifest {
  Manifest manifest;
};

// Asks for a segment of the stream. It goes to SchedulerCore::OnSegment(), or the end of the stream
// to OnStreamEnd().
struct FetchSegment {
  uint32_t number = 0;
};

// The key of a member that lies is not let in any more.
struct QuarantineKey {
  Incarnation member;
  std::vector<uint32_t> accusers;  // servers, by their keys' fingerprints; see offences.h
};

// Sends a request to the address. SchedulerCore::OnProbe() gets the answer.
using Probe = Admission::Probe;

}  // namespace action

using SchedulerAction =
    std::variant<action::Send, action::SendStatus, action::Log, action::LogDebug,
                 action::CountLostServer, action::ShowEpoch, action::ShowEvaluation,
                 action::StoreRanking, action::WriteManifest, action::FetchSegment,
                 action::QuarantineKey, action::Probe>;

struct SchedulerEffects {
  // Append all or none before any action; if that fails call SchedulerCore::OnLedgerFailure(), and
  // drop the actions.
  std::vector<LedgerEntry> ledger;
  // All entries have to be on the disk before any action.
  bool sync_ledger = false;
  // Execute them front to back.
  std::vector<SchedulerAction> actions;

  bool empty() const { return ledger.empty() && !sync_ledger && actions.empty(); }
};

}  // namespace dslide
