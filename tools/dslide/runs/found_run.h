// Runs in a directory of run directories: the state of each, and what can go.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Who has a run's ledger open: the process of its scheduler.
struct RunHolder {
  bool held = false;
  pid_t pid = 0;  // 0: on another machine, or of another container
};
RunHolder HolderOf(const std::string& run_directory);

struct FoundRun {
  enum class Kind {
    kEmpty,  // it was refused, or stopped, before anything counted
    kRunning,
    kStopped,   // it can be resumed
    kEnded,     // its scheduler was killed; it can be resumed
    kFinished,  // training and evaluation are done
  };
  std::string name;  // of the directory
  std::string directory;
  Kind kind = Kind::kEmpty;
  RunHolder holder;
  std::optional<double> progress;  // share of all epochs, of the last record
  std::optional<double> p_at_1;    // of the last evaluation on test samples
  double p_at_1_samples = 0;       // that were evaluated for it
  std::optional<double> held_out;  // P@1 of the last one on held-out samples
  std::string outcome;             // why it ended early; "": it did not, or runs
  std::string checkpoints;         // the directory of its checkpoints
  uint64_t bytes = 0;              // of the run directory and the checkpoints
};
const char* NameOf(FoundRun::Kind kind);

// How the last start of a run ended, by its ledger. File times are not used: a copy has other ones.
enum class RunEnd {
  kUnknown,   // no ledger, or an empty one
  kNone,      // the run continues, or its scheduler was killed
  kStopped,   // it can be resumed
  kFinished,  // training and evaluation are done
};
RunEnd EndOf(const std::string& run_directory);
// Whether a summary.json with this outcome describes that end. A start removes the summary of the
// start before it, but a scheduler may have been killed between the ledger's last entry and its
// summary. A run that was stopped while its ledger had no room has a summary and kNone.
bool SummaryIsOf(RunEnd end, const std::string& outcome);

// nullopt: the directory holds no run.
std::optional<FoundRun> FindRun(const std::string& directory);
// The runs directly in a directory by name, or the one that it is itself; each once, however many
// links lead to it. Errors (kBadInput) name it.
Result<std::vector<FoundRun>> RunsIn(const std::string& directory);

// What nobody needs of a finished run: checkpoints before the newest complete one, and what servers
// and interrupted checkpoints have left. Of other runs nothing, and only what lies in the run
// directory itself: no links, and no names that no scheduler or server gives. `others`: runs that
// may keep their checkpoints there too. Errors (kFailed) say why nothing of it can go.
Result<std::vector<std::string>> RemovableOf(const FoundRun& run,
                                             const std::vector<FoundRun>& others = {});

// Keeps a finished run from being gone on with: has its ledger's lock until its end.
class HeldRun {
 public:
  // Errors (kTryLater) say that the run is no longer finished, or that somebody has its ledger.
  static Result<HeldRun> Hold(const FoundRun& run);
  HeldRun(HeldRun&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HeldRun& operator=(HeldRun&&) = delete;
  ~HeldRun();

 private:
  explicit HeldRun(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace dslide
