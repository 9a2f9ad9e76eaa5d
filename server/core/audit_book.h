// What workers sent for the batches of open steps, so that a batch that two have trained shows
// whether both did it (audit by re-execution, train.audit; section 15 of PROTOCOL.md).
//
// A batch has two parts: what moves neurons (output, with GradientPush), and what moves feature
// rows (input, with EmbedPush). A part's digest is frozen when a worker pushes it first. The first
// worker that pushes a part is the one whose gradients are in the step's sums: that part counts. A
// worker may begin a batch again; this changes nothing of what it has pushed.
//
// With train.staleness = 0 every honest execution of a batch sends the same bits, but for the log
// of the normaliser, which depends on the machine's log(): that is compared up to kLogTolerance.
// Digests are SipHash-2-4 under a key of this object, so that no worker can aim at one.
//
// Memory: executions under way are bounded as those of BatchTable are. What is pushed is kept for
// the batches of open steps only, at most kMostOfBatch workers a batch.
// Owned by the server's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/security/keyed_hash.h"
#include "common/wire/messages.h"

namespace dslide {

class AuditBook {
 public:
  static constexpr size_t kMostOfBatch = 64;     // workers; what counts is never dropped
  static constexpr float kLogTolerance = 1e-3f;  // of log Z

  // How the executors carried a request out.
  struct Outcome {
    bool whole = true;       // all of them did
    bool next_begun = true;  // EmbedPush: the batch that it carries has begun
  };

  // A worker's request was carried out. Returns what is to be reported of its batch: all that
  // workers have pushed, if this request ends an execution and others have pushed some, too.
  std::optional<AuditReport> Note(Incarnation worker, const Body& request, Outcome outcome);
  std::optional<AuditReport> Note(Incarnation worker, const Body& request) {
    return Note(worker, request, Outcome());
  }
  // The batch does not matter any more once its step is committed.
  template <typename IsCommitted>
  void Forget(IsCommitted is_committed) {
    std::erase_if(batches_, [&](const auto& entry) { return is_committed(entry.first); });
    std::erase_if(open_, [&](const auto& entry) { return is_committed(entry.first.batch); });
  }

  size_t under_way() const { return open_.size(); }
  size_t batches() const { return batches_.size(); }  // of which something was pushed

 private:
  struct Key {
    Incarnation worker;
    BatchId batch;
    auto operator<=>(const Key&) const = default;
  };
  // Under way. The digests are of what has come so far.
  struct Execution {
    uint64_t begun = 0;
    uint64_t output = 0;
    uint64_t input = 0;
    bool alone = false;  // without input rows
  };
  // What a worker has pushed. 0: nothing of that part.
  struct Pushed {
    uint64_t order = 0;
    uint64_t output = 0;
    uint64_t input = 0;
    std::vector<float> log_normaliser;
  };
  struct Batch {
    Incarnation output_counts, input_counts;  // whose part is in the sums; 0: nobody's
    std::map<Incarnation, Pushed> pushed;
  };

  template <typename T>
  void Add(const std::vector<T>& values, uint64_t* digest) const;
  void AddRows(const SparseRows& rows, uint64_t* digest) const;
  void Begin(Incarnation worker, const EmbedRequest& request, bool whole);
  Execution* Begin(const Key& key);
  Execution* Find(Incarnation worker, const BatchId& batch);
  void End(const Key& key);
  void Ask(Incarnation worker, const ActiveQuery& query, bool whole);
  std::optional<AuditReport> Push(Incarnation worker, const GradientPush& push, bool whole);
  std::optional<AuditReport> Push(Incarnation worker, const EmbedPush& push, bool whole);
  void FreezeOutput(Incarnation worker, const GradientPush& push, uint64_t digest);
  Pushed& PushedBy(Incarnation worker, Batch* batch);
  std::optional<AuditReport> ReportOf(const BatchId& batch) const;
  void Spoil(uint64_t* digest);

  HashKey key_ = DrawHashKey();
  uint64_t clock_ = 0;
  std::map<BatchId, Batch> batches_;
  std::map<Key, Execution> open_;
};

}  // namespace dslide
