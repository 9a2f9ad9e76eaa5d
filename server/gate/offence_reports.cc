#include "server/gate/offence_reports.h"

#include <utility>

namespace dslide {

void OffenceReports::Send(std::vector<Offence> offences, int64_t now_us, ServerOutbox* out) {
  if (offences.empty()) return;
  std::erase_if(sent_us_, [&](const auto& entry) { return now_us - entry.second >= kGapUs; });
  for (Offence& offence : offences) {
    if (sent_us_.size() >= kMostRemembered) return;
    if (sent_us_.emplace(offence.worker, now_us).second) out->ToScheduler(std::move(offence));
  }
}

}  // namespace dslide
