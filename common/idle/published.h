// The state of a lent worker, in a file that the other processes of its user read: `dslide status
// --workers`, and other lent workers, which do not take each other for somebody that uses the
// machine.
//
// A file worker-PID.json in RuntimeDirectory(), mode 0600, replaced as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/idle/account.h"

namespace dslide {

struct PublishedWorker {
  int pid = 0;
  uint64_t started = 0;  // ticks after the machine's start; a later process may have the same id
  std::string name;      // in the roster, or as asked for
  std::string scheduler;
  std::string state;         // "starting", "joining", "running", "waiting" or "paused"
  std::string why;           // of a pause
  int64_t since_unix_s = 0;  // of the state
  int64_t until_unix_s = 0;  // of a pause, by the clock; 0: not known
  std::string policy;        // RulesText()
  uint32_t upload_kbit = 0, download_kbit = 0, daily_transfer_mb = 0;  // 0: any
  Deeds done;                                                          // by this process

  bool operator==(const PublishedWorker&) const = default;
};

// Writes and removes the file of this process.
class Publisher {
 public:
  explicit Publisher(std::string directory);  // "": does nothing
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // Fills in pid and started. Errors (kFailed) name the file.
  Status Publish(PublishedWorker worker);

 private:
  std::string path_;
  uint64_t started_ = 0;
};

// The workers that run, by process id. Files of processes that have ended are removed.
std::vector<PublishedWorker> ReadPublished(const std::string& directory);

std::string FormatPublished(const PublishedWorker& worker);
// nullopt: not a text of FormatPublished().
std::optional<PublishedWorker> ParsePublished(const std::string& text);

}  // namespace dslide
