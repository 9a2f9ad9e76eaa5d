// The link from this machine to a server: the delay of a round trip, and how fast messages go
// there. Measured by messages that any server answers with a short refusal, about 1 MiB at most in
// all. What comes back is not measured: a server sends nobody more than it got.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/security/member_key.h"
#include "tools/dslide/doctor/finding.h"

namespace dslide {

struct LinkFacts {
  double delay_ms = 0;         // the shortest of a few round trips
  double bits_per_second = 0;  // to the server
};

// `key`: the server's, where `access` has keys. Takes a few seconds where nothing answers, or the
// link is slow. Errors: kTryLater: no answer.
Result<LinkFacts> MeasureLink(const SchedulerAccess& access, const std::string& address,
                              const std::optional<PublicKey>& key);

// Round trips of a short message and of a longer one, in microseconds: what a link does.
LinkFacts LinkOf(int64_t short_us, uint64_t short_bytes, int64_t long_us, uint64_t long_bytes);

void JudgeLink(const std::string& name, const LinkFacts& link, Findings* findings);

}  // namespace dslide
