#include "scheduler/pass/report_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/plural.h"
#include "common/run/lease_proofs.h"
#include "common/run/step.h"

namespace dslide {
namespace {

constexpr double kMostSurprise = 104;  // -log of the smallest fp32 number
constexpr double kSenselessLoss = 0x1p64;
constexpr double kRounding = 1;          // by which the loss of a sample may be below 0
constexpr double kSumRounding = 1.001;   // of sums of shares
constexpr double kLossTolerance = 0.01;  // a worker adds in another order, and in fp32

double MostShownLoss(const ModelConfig& model) {
  const auto labels = static_cast<double>(model.labels);
  return model.loss == Loss::kSoftmax ? std::log(labels) + kMostSurprise : labels * kMostSurprise;
}

// The figures of a trained batch.
std::string WhyImpossible(const BatchDone& done, double weight, const RunContext& run) {
  const uint64_t samples = SamplesOf(done.batch, run.config.train, run.PassSamples());
  if (done.samples != samples) {
    return fmt::format("reports {}, it has {}", Plural(done.samples, "sample"), samples);
  }
  const ModelConfig& model = run.config.model;
  const double most = model.loss == Loss::kSoftmax ? kSenselessLoss : kSenselessLoss * model.labels;
  if (!(done.loss_sum >= -kRounding * weight) || !(done.loss_sum <= most * weight)) {
    return fmt::format("reports a loss of {:.6g}", done.loss_sum);
  }
  if (done.active_rows > model.labels || done.active_neurons_sum > samples * model.labels) {
    return fmt::format("reports {} neurons of {}", done.active_rows, model.labels);
  }
  const double most_probed = done.probed * kSumRounding;
  const auto is_share = [&](double sum) { return sum >= 0 && sum <= most_probed; };
  if (done.probed > samples || !is_share(done.recall_set) || !is_share(done.recall_hash) ||
      !is_share(done.recall_uniform) || !(done.tail_error >= 0)) {
    return "reports a recall that no active set has";
  }
  return "";
}

}  // namespace

std::optional<double> LossSeenByServers(const BatchDone& done) {
  double sum = 0;
  for (const double part : done.loss_parts) {
    if (part == kUnknownLossPart) return std::nullopt;
    sum += part;
  }
  return done.loss_parts.empty() || !std::isfinite(sum) ? std::nullopt : std::optional(sum);
}

ReportFault FaultOf(const BatchDone& done, LeaseKind kind, Incarnation worker, const Plan& plan,
                    double weight, const RunContext& run) {
  const bool trained = kind == LeaseKind::kTrain;
  const std::vector<bool> gives = GivesReceipt(plan, run.config.cluster, kind);
  const auto given = static_cast<size_t>(std::ranges::count(gives, true));
  const std::vector<uint64_t> receipts = ReceiptsOf(
      run.lease_keys.receipts, plan, run.config.cluster, worker, kind, done.batch, done.loss_parts);
  ReportFault fault;
  const bool fits =
      done.receipts.size() == given && done.loss_parts.size() == (trained ? given : 0);
  for (size_t i = 0, at = 0; i < gives.size(); ++i) {
    if (!gives[i]) continue;
    if (!fits || done.receipts[at] != receipts[at]) {
      fault.servers.push_back(plan.servers[i].incarnation);
    }
    at++;
  }
  if (!fault.servers.empty()) {
    fault.why = "has not the receipts of all servers";
    return fault;
  }
  if (!trained) return fault;
  fault.why = WhyImpossible(done, weight, run);
  const std::optional<double> seen = LossSeenByServers(done);
  if (!fault.why.empty() || !seen) return fault;
  if (std::abs(done.loss_sum - *seen) > kLossTolerance * (weight + std::abs(*seen))) {
    fault.why =
        fmt::format("reports a loss of {:.6g}, the servers have told {:.6g}", done.loss_sum, *seen);
    fault.is_loss = true;
  }
  return fault;
}

BatchDone Bounded(const BatchDone& done, double weight, const RunContext& run) {
  BatchDone shown = done;
  shown.loss_sum = std::clamp(LossSeenByServers(done).value_or(done.loss_sum), 0.0,
                              MostShownLoss(run.config.model) * weight);
  shown.tail_error = std::min(done.tail_error, static_cast<double>(done.probed));
  const auto bound = [](auto* bytes) {
    using Number = std::remove_reference_t<decltype(*bytes)>;
    *bytes = std::min(*bytes, static_cast<Number>(kMaxMessageBytes));
  };
  bound(&shown.bytes_sent);
  bound(&shown.bytes_received);
  for (uint32_t& bytes : shown.bytes_by_kind) bound(&bytes);
  return shown;
}

void Believed::Two::Add(Incarnation worker) {
  if (first == Incarnation{}) first = worker;
  if (first != worker) second = worker;
}

void Believed::Note(uint32_t plan_version, Incarnation worker, bool believed) {
  if (plan_version < plan_version_) return;
  if (plan_version > plan_version_) believed_ = doubted_ = {};
  plan_version_ = plan_version;
  (believed ? believed_ : doubted_).Add(worker);
}

bool Believed::ByAnother(uint32_t plan_version, Incarnation worker) const {
  if (plan_version != plan_version_) return false;
  const auto is_another = [&](Incarnation one) { return one != Incarnation{} && one != worker; };
  return is_another(believed_.first) || is_another(believed_.second);
}

bool Believed::Nobodys(uint32_t plan_version, size_t workers) const {
  if (plan_version != plan_version_ || believed_.first != Incarnation{}) return false;
  return (workers == 1 ? doubted_.first : doubted_.second) != Incarnation{};
}

}  // namespace dslide
