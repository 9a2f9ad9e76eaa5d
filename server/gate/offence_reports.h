// Tells the scheduler which workers have done what no honest one does: once a second each, so that
// a worker that goes on does not fill the link to the scheduler.
//
// Pure; owned by the network thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/outbox.h"

namespace dslide {

class OffenceReports {
 public:
  static constexpr int64_t kGapUs = 1'000'000;    // between reports of one worker
  static constexpr size_t kMostRemembered = 256;  // workers whose last report is remembered

  // Where more workers offend than are remembered, some go without a report for a while.
  void Send(std::vector<Offence> offences, int64_t now_us, ServerOutbox* out);

 private:
  std::map<uint64_t, int64_t> sent_us_;  // by incarnation
};

}  // namespace dslide
