// The status that a scheduler sends an observer, as the observer shows it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text/records/json_depth.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/dslide/cluster/status_text.h"

namespace dslide::status_fuzz {
namespace {

using fuzz::Inputs;

bool Run(std::string_view input) {
  if (IsNestedTooDeep(input)) return false;
  const nlohmann::json status = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (status.is_discarded()) return false;
  for (const size_t columns : {0u, 60u}) {
    const std::string text = StatusText(status, columns);
    DSLIDE_CHECK(text.ends_with('\n'));
    // Nothing of a peer's reaches the terminal as a command.
    DSLIDE_CHECK(std::ranges::none_of(
        text, [](char c) { return (c >= 0 && c < 0x20 && c != '\n') || c == 0x7f; }));
  }
  return true;
}

Inputs Seeds() {
  return {R"({"phase": "training", "progress": 0.4321, "eta_s": 725, "plan_version": 4, "epoch": 4,
  "epochs": 8, "loss": 3.21456, "p_at_1": 0.5209, "imbalance": 1.083,
  "figures": {"samples per second": 5120.4},
  "moves": {"plans": 1, "slots_moved": 41, "bytes_moved": 12345678, "slot_bytes_moved": 11900000,
            "in_progress": 2, "longest_stall_ms": 40.2},
  "decisions": [{"at_s": 62, "text": "server-2 has 2.02 times the mean: 41 slots to server-1"}],
  "members": [
    {"name": "server-1", "role": "server", "state": "serving", "slots": 105, "load": 1.02,
     "capacity": 1234567, "busy": 0.934, "memory_used_mb": 1234.5, "memory_limit_mb": 19284,
     "bucket_empty_share": 0.12, "bucket_mean": 10.23, "bucket_p99": 48, "bucket_largest": 1911,
     "bucket_skew": 4.69},
    {"name": "w1", "role": "worker", "state": "working", "samples_per_second": 2560.7,
     "batches_in_flight": 3, "in_flight_limit": 16, "in_flight_cap": 8, "lease_batches": 4,
     "round_trip_ms": 80.25, "link_mbit_per_second": 9.6, "straggler": true}]})",
          R"({"phase": "waiting for servers", "progress": 0})",
          R"({"members": 3, "moves": [], "decisions": {}, "figures": 1})", "{"};
}

const fuzz::Entered kEntered({"status", Run, Seeds});

}  // namespace
}  // namespace dslide::status_fuzz
