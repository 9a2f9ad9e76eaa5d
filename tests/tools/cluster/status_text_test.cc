#include "tools/dslide/cluster/status_text.h"

#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace dslide::status_text_test {
namespace {

using Json = nlohmann::json;

constexpr char kWhole[] = R"({
  "phase": "training", "progress": 0.4321, "eta_s": 725, "plan_version": 4, "epoch": 4,
  "epochs": 8, "loss": 3.21456, "p_at_1": 0.5209, "imbalance": 1.083,
  "figures": {"samples per second": 5120.4},
  "moves": {"plans": 1, "slots_moved": 41, "bytes_moved": 12345678, "slot_bytes_moved": 11900000,
            "in_progress": 2, "longest_stall_ms": 40.2},
  "audits": {"done": 12, "skipped": 1, "undecided": 0, "liars": 2, "taken_back": 1},
  "decisions": [{"at_s": 62, "text": "server-2 has 2.02 times the mean: 41 slots to server-1"}],
  "contributions": [{"name": "alice", "samples": 1234567, "today": 9000},
                    {"name": "bob", "samples": 20, "today": 0}],
  "members": [
    {"name": "server-1", "role": "server", "state": "serving", "slots": 105, "load": 1.02,
     "capacity": 1234567, "busy": 0.934, "memory_used_mb": 1234.5, "memory_limit_mb": 19284,
     "bucket_empty_share": 0.12, "bucket_mean": 10.23, "bucket_p99": 48, "bucket_largest": 1911,
     "bucket_skew": 4.69},
    {"name": "server-2", "role": "server", "state": "serving", "slots": 64, "load": 0.9},
    {"name": "w1", "role": "worker", "state": "working", "samples_per_second": 2560.7,
     "batches_in_flight": 3, "in_flight_limit": 16, "in_flight_cap": 8, "lease_batches": 4,
     "round_trip_ms": 80.25, "link_mbit_per_second": 9.6, "straggler": true},
    {"name": "w2", "role": "worker", "state": "working", "batches_in_flight": 2,
     "in_flight_limit": 4, "in_flight_cap": 0}
  ]})";

TEST_CASE("status: the tables of a cluster") {
  CHECK(
      StatusText(Json::parse(kWhole)) ==
      R"(training, epoch 4/8, 43.2 % done, 5120 samples/s, ETA 12:05, loss 3.215, P@1 52.09, plan 4
busiest server 1.02 times the mean
41 slots moved by 1 plan (12.3 MB sent for 11.9 MB), 2 moving, longest stall 40 ms
audits: 12 done, 1 skipped, 0 undecided, 2 liars

server    state    slots  load  work/s  busy   memory MB  empty  mean  p99  largest  skew
server-1  serving    105  1.02    1.2M  93 %  1234/19284   12 %  10.2   48     1.9k   4.7
server-2  serving     64  0.90       -     -           -      -     -    -        -     -

worker  state      samples/s  in flight  batches per lease  round trip ms  link Mbit/s
w1      straggler       2561        3/8                  4           80.2           10
w2      working            -        2/4                  -              -            -

thanks to  samples  today
alice         1.2M   9.0k
bob             20      0

last decisions
    1:02  server-2 has 2.02 times the mean: 41 slots to server-1
)");
}

TEST_CASE("status: while the run waits it shows for what, and no speed of before") {
  const std::string text = StatusText(Json::parse(
      R"({"phase": "waiting for servers", "progress": 0.5, "epoch": 2, "epochs": 4, "waits": true,
          "line": "waiting for server-2 or a replacement", "eta_s": 12, "loss": 3.2,
          "figures": {"samples per second": 1000},
          "decisions": [{"at_s": 1, "text": "w1: 3 batches per lease", "tuning": true}],
          "events": [{"at_s": 62.4, "text": "w1 joined"}]})"));
  CHECK(
      text.starts_with("waiting for servers, epoch 2/4, 50.0 % done: waiting for server-2 or a "
                       "replacement\n"));
  CHECK(text.ends_with("last events\n    1:02  w1 joined\n"));
  CHECK(text.find("ETA") == std::string::npos);
}

TEST_CASE("status: a stream has segments and no end") {
  const auto line = [](const char* awaits) {
    const std::string text = StatusText(Json::parse(
        std::string(R"({"phase": "training", "progress": 1e-9, "epoch": 6, "epochs": 2147483647,
                        "eta_s": -1, "figures": {"samples per second": 120}, "stream": {)") +
        R"("awaits_segment": )" + awaits + "}}"));
    return text.substr(0, text.find('\n'));
  };
  CHECK(line("true") == "training, segment 6, waiting for more");
  CHECK(line("false") == "training, segment 6, 120 samples/s");
}

TEST_CASE("status: what an older scheduler leaves out") {
  CHECK(StatusText(Json::parse(R"({"phase": "waiting for servers", "progress": 0})")) ==
        "waiting for servers, 0.0 % done\n\nno servers\n\nno workers\n");
}

TEST_CASE("status: values of another kind are as if they were missing") {
  for (const char* text :
       {"null", "3", "[]", "{}", R"({"members": 3, "moves": [], "decisions": {}, "figures": 1})",
        R"({"phase": 7, "progress": "x", "members": [], "decisions": [], "eta_s": null})"}) {
    CAPTURE(text);
    CHECK(StatusText(Json::parse(text)).starts_with("-"));
  }
  const std::string odd =
      StatusText(Json::parse(R"({"members": [1, {"role": "server", "name": 7, "slots": "many"}],
                                 "decisions": [3, {"text": "a\nb"}]})"));
  CHECK(odd.find("many") == std::string::npos);
  CHECK(odd.find("a?b") != std::string::npos);
}

TEST_CASE("status: decisions are whole, and wrapped where there is a width") {
  const std::string text(150, 'a');
  const auto decided = [](const std::string& what) {
    Json status;
    status["decisions"].push_back({{"at_s", 62}, {"text", what}});
    return status;
  };
  CHECK(StatusText(decided(text)).ends_with("last decisions\n    1:02  " + text + "\n"));
  const Json line = decided("slots rest: the busiest server has 1.52 times the mean load");
  CHECK(StatusText(line, 40).ends_with(R"(
    1:02  slots rest: the busiest server
          has 1.52 times the mean load
)"));
  CHECK(StatusText(line, 30).ends_with(R"(
    1:02  slots rest: the
          busiest server has
          1.52 times the mean
          load
)"));
  // Narrower than a word, or than the times.
  CHECK(StatusText(decided("ab cd"), 1).ends_with("    1:02  ab\n          cd\n"));
  CHECK(StatusText(decided(text + " b"), 60).ends_with(text + "\n          b\n"));
}

TEST_CASE("status: tables fit 100 columns, with names of 12") {
  Json status = Json::parse(kWhole);
  Json& server = status["members"][0];
  server["name"] = "server-1-abc";
  server["memory_used_mb"] = 15000;
  server["capacity"] = 999.0e6;
  server["bucket_empty_share"] = 1.0;
  server["bucket_mean"] = 1234.5;
  std::istringstream lines(StatusText(status));
  std::string line;
  while (std::getline(lines, line)) CHECK_MESSAGE(line.size() <= 100, line);
}

}  // namespace
}  // namespace dslide::status_text_test
