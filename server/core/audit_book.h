// What workers sent for the batches of open steps, so that a batch that two have trained shows
// whether both did it (audit by re-execution, train.audit; section 15 of PROTOCOL.md).
//
// With train.staleness = 0 every honest execution of a batch sends the same bits, but for the log
// of the normaliser, which depends on the machine's log(): that is compared up to kLogTolerance.
// Digests are SipHash-2-4 under a key of this object, so that no worker can aim at one.
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
  static constexpr size_t kMostExecutions = 4096;  // begun or ended; beyond, the oldest is dropped
  static constexpr float kLogTolerance = 1e-3f;    // of log Z

  // A worker's request was carried out. Returns what is to be reported: all executions of its
  // batch, if it has ended one and is not the only one.
  std::optional<AuditReport> Note(Incarnation worker, const Body& request);
  // The batch does not matter any more once its step is committed.
  template <typename IsCommitted>
  void Forget(IsCommitted is_committed) {
    std::erase_if(executions_, [&](const auto& entry) { return is_committed(entry.first.batch); });
  }

  size_t size() const { return executions_.size(); }

 private:
  struct Key {
    BatchId batch;
    Incarnation worker;
    auto operator<=>(const Key&) const = default;
  };
  struct Execution {
    uint64_t begun = 0;
    uint64_t ended = 0;  // order of the ends; 0: goes on
    uint64_t digest = 0;
    std::vector<float> log_normaliser;
    bool alone = false;  // without input rows
  };

  template <typename T>
  void Add(const std::vector<T>& values, Execution* execution) const;
  std::optional<AuditReport> End(const BatchId& batch, Execution* execution);

  HashKey key_ = DrawHashKey();
  uint64_t clock_ = 0;
  std::map<Key, Execution> executions_;
};

}  // namespace dslide
