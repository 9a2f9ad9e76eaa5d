// What a plan foretells, against figures worked out by hand.
#include "tools/dslide/plan/cost_model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "scheduler/balance/model_size.h"
#include "tools/dslide/plan/calibration.h"
#include "tools/dslide/plan/fitting_nodes.h"
#include "tools/dslide/plan/wire_bytes.h"

namespace dslide::cost_model_test {
namespace {

constexpr double kMb = 1024.0 * 1024.0;
constexpr uint32_t kBatch = 100, kHidden = 64;

// 100,000 samples of 50,000 features and 20,000 labels; an executor takes 10 ms for a batch, the
// worker 1 ms, and everything else is free.
PlanInput Planned(std::vector<PlannedNode> nodes) {
  PlanInput input;
  input.config.model.hidden = kHidden;
  input.config.train.batch = kBatch;
  input.config.train.epochs = 2;
  input.config.cluster.executors = 1;
  ResolveConfig(50000, 20000, &input.config);
  input.shape.samples = 100000;
  input.shape.features.per_sample = 50;
  input.shape.features.gap_bytes.fill(2);
  input.shape.labels.per_sample = 3;
  input.shape.labels.gap_bytes.fill(2);
  Rates rates;
  rates.machine = "a machine";
  rates.task = TaskOf(input.config);
  rates.neurons.shared = 0.008;
  rates.input.shared = 0.002;
  rates.worker_seconds = 0.001;
  rates.rows_per_batch = 3000;
  rates.epochs_trained = 2;
  rates.activity = {{1, 1}, {0.5, 0.5}, {0.5, 0.4}, {0.5, 0.4}};
  input.epochs = {{2, rates}};
  input.nodes = std::move(nodes);
  return input;
}

PlannedNode Node(double cores, double megabits, double gigabytes = 8) {
  return {cores, static_cast<uint64_t>(gigabytes * 1024 * kMb), megabits * 1e6, 1, 1};
}

TEST_CASE("plan: parameters, model and checkpoints") {
  const PlanEstimate e = EstimateRun(Planned({Node(4, 1000)}));
  CHECK(e.parameters == 64u * 50001 + 20000u * 65);
  // bf16 with AdaGrad: 2 bytes a weight and 16 a row; a neuron has 13 more for its mass.
  CHECK(e.model_bytes == 50001u * (64 * 2 + 16) + 20000u * (64 * 2 + 16 + 13));
  CHECK(e.checkpoint_bytes == e.model_bytes);
  CHECK(e.disk_bytes == 3 * e.model_bytes);
  CHECK(e.servers == 1);
  CHECK(e.workers == 1);
}

TEST_CASE("plan: two batches in flight at one server wait for its executor") {
  PlanInput input = Planned({Node(16, 0)});
  const PlanEstimate e = EstimateRun(input);
  // Of a batch's 11 ms, 10 are the executor's: with one batch in flight 1 / 0.011, and never more
  // than 1 / 0.010 batches a second.
  CHECK(e.samples_per_second > kBatch / 0.011);
  CHECK(e.samples_per_second < kBatch / 0.010);
  CHECK(e.in_flight == 2);
  CHECK(e.bottleneck == "server CPU");
  CHECK(e.server_cpu_us == doctest::Approx(100));
  CHECK(e.worker_cpu_us == doctest::Approx(10));
  CHECK(e.seconds == doctest::Approx(200000 / e.samples_per_second));
  // Cores of half the speed.
  input.core_speed = 0.5;
  CHECK(EstimateRun(input).samples_per_second ==
        doctest::Approx(e.samples_per_second / 2).epsilon(0.01));
}

TEST_CASE("plan: executors share the work but for what each costs") {
  PlanInput input = Planned({Node(16, 0)});
  input.config.cluster.executors = 4;
  input.epochs[0].rates.neurons = {0.001, 0.008};
  // A batch takes each executor 1 + 8 / 4 + 2 / 4 = 3.5 ms, all together 14.
  const PlanEstimate e = EstimateRun(input);
  CHECK(e.executors == 4);
  CHECK(e.server_cpu_us == doctest::Approx(140));
  CHECK(e.samples_per_second > kBatch / 0.0045);
  CHECK(e.samples_per_second < kBatch / 0.0035);
}

TEST_CASE("plan: the balancer moves work, and none is lost") {
  // 20 ms of executors' work in equal halves: 10 ms of one executor, 1.25 ms of each of eight. All
  // nine are equally busy then, for 20/9 ms.
  PlanInput input = Planned({Node(1, 0), Node(8, 0)});
  input.nodes[0].workers = 0;
  input.config.cluster.executors = 0;
  input.epochs[0].rates.neurons.shared = 0.02;
  input.epochs[0].rates.input.shared = 0;
  const PlanEstimate e = EstimateRun(input);
  CHECK(e.executors == 9);
  CHECK(e.server_cpu_us == doctest::Approx(1e6 * 0.02 / kBatch));
  CHECK(e.samples_per_second < kBatch / (0.02 / 9));
  CHECK(e.samples_per_second > kBatch / 0.005);
  input.config.cluster.balance = Balance::kOff;
  CHECK(EstimateRun(input).server_cpu_us == doctest::Approx(1e6 * 0.02 / kBatch));
  CHECK(EstimateRun(input).samples_per_second < kBatch / 0.01);
}

TEST_CASE("plan: as many executors evaluate as have a core") {
  PlanInput input = Planned({Node(2, 0), Node(16, 0)});
  input.config.cluster.executors = 4;
  const double trained = EstimateRun(input).seconds;
  input.shape.test_samples = 1000;
  input.config.train.epochs = 1;
  const double once = EstimateRun(input).seconds;
  input.epochs[0].rates.evaluate_seconds = 0.06;
  // Two of the first four, and the other four.
  CHECK(EstimateRun(input).seconds - once == doctest::Approx(1000 * 0.06 / 6));
  CHECK(once < trained);
}

TEST_CASE("plan: one core has what server, worker and scheduler take") {
  const PlanEstimate e = EstimateRun(Planned({Node(1, 0)}));
  const double cpu_us = e.server_cpu_us + e.worker_cpu_us + e.scheduler_cpu_us;
  CHECK(e.samples_per_second < 1e6 / cpu_us);
  CHECK(e.samples_per_second > 0.8e6 / cpu_us);
}

TEST_CASE("plan: a full link bounds the speed by its bytes") {
  // The server is on one machine, the worker on another.
  std::vector<PlannedNode> nodes = {Node(16, 10), Node(16, 10)};
  nodes[0].workers = nodes[1].servers = 0;
  PlanInput input = Planned(nodes);
  input.config.cluster.wire = Wire::kBf16;
  const PlanEstimate e = EstimateRun(input);
  const MessageBytes bytes = BytesOfBatch(input.config, input.shape, input.epochs[0].rates.activity,
                                          {1, 1, 1, 1}, WirePrecision::kBf16);
  CHECK(e.bytes_sent == doctest::Approx(bytes.sent() / kBatch));
  CHECK(e.bytes_received == doctest::Approx(bytes.received() / kBatch));
  CHECK(e.bytes_per_link == doctest::Approx(e.bytes_sent + e.bytes_received));
  // The worker's link brings replies and samples; headers make bytes a little more.
  const double most = 1e7 / 8 / (e.bytes_received + e.lease_bytes);
  CHECK(e.samples_per_second < most);
  CHECK(e.samples_per_second > 0.7 * most);
  CHECK(e.bottleneck.find("link") != std::string::npos);
  // By itself it takes 8 bits, which are fewer bytes.
  input.config.cluster.wire = Wire::kAuto;
  const PlanEstimate narrow = EstimateRun(input);
  CHECK(narrow.wire == WirePrecision::kInt8);
  CHECK(narrow.bytes_sent < 0.8 * e.bytes_sent);
  CHECK(narrow.samples_per_second > 1.2 * e.samples_per_second);
}

TEST_CASE("plan: more is active the longer a model learns") {
  PlanInput input = Planned({Node(16, 0)});
  input.config.train.batch = 512;
  input.epochs[0].rates.activity.hidden = {0.25, 0.25};
  input.epochs[0].rates.epochs_trained = 1;
  const double two = EstimateRun(input).bytes_sent;
  input.config.train.epochs = 8;
  const double eight = EstimateRun(input).bytes_sent;
  // 0.25 * 8^0.37 were measured and grown, 0.9 * 0.3 * 8^0.37 are usual: their geometric mean.
  Activity activity = input.epochs[0].rates.activity;
  const double share = std::sqrt(0.25 * 0.9 * 0.3) * std::pow(8, 0.37);
  activity.hidden = {share, share};
  activity.gradient.wide = std::sqrt(0.72 * 0.9 * 0.3 * std::pow(8, 0.37));  // 0.72 is the most
  const MessageBytes bytes =
      BytesOfBatch(input.config, input.shape, activity, {1, 1, 1, 1}, WirePrecision::kBf16);
  CHECK(eight == doctest::Approx(bytes.sent() / 512));
  CHECK(eight > two);
  input.config.train.epochs = 800;
  input.epochs[0].rates.activity.hidden = {0.63, 0.63};  // 0.7 of what dropout leaves
  const double most = EstimateRun(input).bytes_sent;
  input.config.train.epochs = 80000;
  CHECK(EstimateRun(input).bytes_sent == doctest::Approx(most));
}

TEST_CASE("plan: a server's memory is rows, open batches, kept replies and a snapshot") {
  PlanInput input = Planned({Node(16, 0)});
  const PlanEstimate e = EstimateRun(input);
  const double rows = static_cast<double>(ModelMemoryBytes(input.config));
  // Replies of two kinds, 128 of them; three batches, two of them in flight.
  const double matrix = kBatch * kHidden * 4;
  const double values = kBatch * (3000 + 0.5 * 2500) * 4, features = kBatch * 50 * 12;
  const double batch = matrix + values + features + e.bytes_sent * kBatch;
  const double wanted = 36 * kMb + 2 * rows + 128 * e.bytes_received * kBatch / 2 + 3 * batch;
  CHECK(static_cast<double>(e.server_bytes) == doctest::Approx(wanted).epsilon(1e-6));
  // Two servers have about half of the rows each: the one with the input rows has more.
  const PlanEstimate two = EstimateRun(Planned({Node(16, 1000), Node(16, 1000)}));
  CHECK(two.server_bytes < e.server_bytes);
}

TEST_CASE("plan: a server keeps more replies where it may use more memory") {
  const auto server_bytes = [](double gigabytes) {
    PlanInput input = Planned({Node(16, 0, gigabytes)});
    input.config.model.hidden = 512;
    input.nodes[0].workers = 32;
    const PlanEstimate e = EstimateRun(input);
    const double all = 32 * 128 * e.bytes_received * kBatch / 2;
    CHECK(all > 200 * kMb);
    CHECK(all < 0.8 * 64 * 1024 / 16 * kMb);
    return std::pair(static_cast<double>(e.server_bytes), all);
  };
  // Of 1 GB a sixteenth of 80 % is less than the least; 2 GB have 102.4 MB; 64 GB keep all.
  const auto [least, all] = server_bytes(1);
  CHECK(server_bytes(2).first - least == doctest::Approx((102.4 - 64) * kMb).epsilon(1e-6));
  CHECK(server_bytes(64).first - least == doctest::Approx(all - 64 * kMb).epsilon(1e-6));
}

TEST_CASE("plan: what does not fit is refused with nodes that would do") {
  CHECK(WhyItDoesNotFit(Planned({Node(2, 100)})).empty());
  PlanInput large = Planned({Node(2, 100, 1), Node(2, 100, 1)});
  large.config.model.labels = 20'000'000;  // 3 GB
  const std::string why = WhyItDoesNotFit(large);
  CAPTURE(why);
  CHECK(
      why.starts_with("too little memory: the model needs 3002 MB for rows and tables, 2 servers "
                      "may use 1639 MB together"));
  const size_t nodes_at = why.find(" such nodes would do");
  REQUIRE(nodes_at != std::string::npos);
  // What it advises fits, and one node less does not.
  const auto count = static_cast<size_t>(std::stoi(why.substr(why.rfind("; ", nodes_at) + 2)));
  const auto with = [&](size_t nodes, double gigabytes) {
    PlanInput input = large;
    input.nodes.assign(nodes, Node(2, 100, gigabytes));
    return WhyItDoesNotFit(input);
  };
  CHECK(with(count, 1).empty());
  CHECK_FALSE(with(count - 1, 1).empty());
  const size_t memory_at = why.find("or 2 nodes with ");
  REQUIRE(memory_at != std::string::npos);
  const double gigabytes = std::stod(why.substr(memory_at + 16));
  CHECK(with(2, gigabytes).empty());
  CHECK_FALSE(with(2, gigabytes / 2).empty());
  // Where nodes are unlike, more of the last are what is added.
  PlanInput unlike = large;
  unlike.nodes = {Node(2, 100, 1.5), Node(2, 100, 1)};
  const std::string mend = WhyItDoesNotFit(unlike);
  CAPTURE(mend);
  const size_t more_at = mend.find(" more nodes like the last would do");
  REQUIRE(more_at != std::string::npos);
  const auto more = static_cast<size_t>(std::stoi(mend.substr(mend.rfind("; ", more_at) + 2)));
  unlike.nodes.resize(2 + more, unlike.nodes.back());
  CHECK(WhyItDoesNotFit(unlike).empty());
  unlike.nodes.pop_back();
  CHECK_FALSE(WhyItDoesNotFit(unlike).empty());
  // A limit that the user has set is named.
  PlanInput limited = Planned({Node(2, 100)});
  limited.config.cluster.memory_mb = 5;
  CHECK(WhyItDoesNotFit(limited).find("cluster.memory_mb = 0") != std::string::npos);
}

TEST_CASE("plan: nodes are added until one more gains little") {
  const std::vector<NodesRow> rows = EstimateNodes(Planned({Node(1, 20)}), 0.05, 64);
  REQUIRE(rows.size() > 1);
  CHECK(rows[0].nodes == 1);
  CHECK(rows[0].efficiency == 1);
  for (size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i].nodes > rows[i - 1].nodes);
    const double share = rows[i].samples_per_second / rows[0].samples_per_second / rows[i].nodes;
    CHECK(rows[i].efficiency == doctest::Approx(share));
    CHECK((rows[i].gain >= 0.05 || i + 1 == rows.size()));
  }
  CHECK(rows.back().gain < 0.05);
  // Not more processes than are planned for.
  PlanInput many = Planned({Node(64, 0, 64)});
  many.nodes[0].workers = 63;
  for (const NodesRow& row : EstimateNodes(many, -1, 64)) CHECK(row.nodes <= 4);
  // A model that a single node has no room for begins with more.
  PlanInput large = Planned({Node(2, 1000, 1), Node(2, 1000, 1), Node(2, 1000, 1)});
  large.config.model.labels = 8'000'000;
  REQUIRE(WhyItDoesNotFit(large).empty());
  CHECK(EstimateNodes(large, 0.05, 8).front().nodes > 1);
}

TEST_CASE("plan: rates are read as they were written") {
  const PlanInput input = Planned({Node(1, 0)});
  const auto read = RatesFromJson(RatesJson(input.epochs));
  REQUIRE(read.ok());
  REQUIRE((*read).size() == 1);
  CHECK(RatesJson(*read) == RatesJson(input.epochs));
  CHECK((*read)[0].rates.machine == "a machine");
  CHECK((*read)[0].rates.neurons.shared == 0.008);
  CHECK((*read)[0].rates.task == TaskOf(input.config));
  // Also in what --json prints.
  CHECK(RatesFromJson("{\"rates\": " + RatesJson(input.epochs) + "}").ok());
  for (const char* text :
       {"", "{}", "[]", "[1]", "{\"rates\": 1}", "[{\"epochs\": 1}]", "nonsense"}) {
    CAPTURE(text);
    const auto refused = RatesFromJson(text);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
  }
  // Values of another type than they have to be.
  const std::string good = RatesJson(input.epochs);
  for (const auto& [value, wrong] : {std::pair<std::string, std::string>{"\"a machine\"", "7"},
                                     {"\"64\"", "64"},
                                     {"0.008", "\"0.008\""},
                                     {"\"task\":{", "\"task\":7,\"other\":{"}}) {
    CAPTURE(wrong);
    std::string bad = good;
    REQUIRE(bad.find(value) != std::string::npos);
    bad.replace(bad.find(value), value.size(), wrong);
    const auto refused = RatesFromJson(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
  }
}

}  // namespace
}  // namespace dslide::cost_model_test
