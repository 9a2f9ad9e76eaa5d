#include "worker/batch_flight.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/overloaded.h"
#include "common/config/limits.h"
#include "common/config/schedule.h"
#include "common/config/value_scale.h"
#include "common/math/kernels.h"
#include "common/run/batch_number.h"
#include "common/run/combine.h"
#include "common/run/slot_plan.h"
#include "common/wire/wire_arrays.h"

namespace dslide {
namespace {

constexpr float kEvaluationRecall = 0.99f;  // see TopKRequest

// All replies, typed, in server order. REQUIRES that they hold a T each.
template <typename T>
std::vector<T> Collect(std::vector<std::optional<Body>>* replies) {
  std::vector<T> parts;
  for (auto& reply : *replies) {
    if (reply) parts.push_back(std::get<T>(std::move(*reply)));
  }
  return parts;
}

ActiveReply CollectStatistics(std::vector<std::optional<Body>>* replies) {
  return MergeActive(Collect<ActiveReply>(replies));
}

// Null: it has none.
PartialSum* PartialOf(Body* reply) {
  if (auto* embed = std::get_if<EmbedReply>(reply)) return &embed->partial;
  auto* gradient = std::get_if<GradientReply>(reply);
  return gradient == nullptr ? nullptr : &gradient->partial;
}

// Null: it has no floats that come from replies.
const std::vector<float>* FloatsOf(BatchFlight::Stage stage, const Matrix& hidden,
                                   const GradientPush& push, const Matrix& gradient) {
  switch (stage) {
    case BatchFlight::Stage::kQuery:
    case BatchFlight::Stage::kTopK:
      return &hidden.data;
    case BatchFlight::Stage::kPush:
      return &push.log_normaliser;
    case BatchFlight::Stage::kEmbedPush:
      return &gradient.data;
    default:
      return nullptr;
  }
}

// Whether a sum of products can be in a message: servers refuse what is larger.
bool AreInRange(const std::vector<float>& numbers) {
  return BestKernels().max_abs(numbers.size(), numbers.data()) <= kMostReplied;
}

bool HasShape(const PartialSum& sum, uint32_t rows, uint32_t cols) {
  return std::visit([&](const auto& m) { return m.rows == rows && m.cols == cols; }, sum);
}

}  // namespace

BatchFlight::BatchFlight(const Config& config, const Plan& plan, const LeaseGrant& lease,
                         LeaseBatch batch, uint64_t number, std::vector<bool> greeted,
                         std::shared_ptr<const DenseWeights> dense)
    : config_(config),
      plan_(plan),
      kind_(lease.kind),
      samples_(batch.features.rows()),
      top_k_(lease.top_k),
      number_(number),
      ticket_(batch.ticket),
      with_input_(ServersWith(plan, InputSlots(config.cluster))),
      with_neurons_(ServersWith(plan, OutputSlots(config.cluster))),
      only_server_(std::ranges::count(with_neurons_, true) == 1),
      greeted_(std::move(greeted)),
      replies_(plan.servers.size()),
      proofs_(plan.servers.size()),
      wants_dense_(dense == nullptr && !config.model.dense.empty()),
      dense_(std::move(dense)) {
  greeted_.resize(plan.servers.size());
  missing_ = CountAsked();
  done_.lease = lease.lease;
  done_.batch = {lease.epoch, lease.unit, batch.index};
  done_.samples = samples_;
  weights_ = std::move(batch.weights);
  done_.bytes_by_kind.assign(kBodyKinds, 0);
  SplitOverServers(batch);
  if (config.train.exclude_own_features && kind_ == LeaseKind::kEvaluate) {
    all_features_ = std::move(batch.features);
  }
}

void BatchFlight::SplitOverServers(const LeaseBatch& batch) {
  const size_t servers = plan_.servers.size();
  const auto owner = [&](const SlotRange& range, uint32_t id) {
    return plan_.slot_owner[range.SlotOf(id).value];
  };
  const SlotRange input = InputSlots(config_.cluster), neurons = OutputSlots(config_.cluster);
  const float divisor = ValueDivisor(config_.train);
  features_.resize(servers);
  labels_.resize(servers);
  for (uint32_t i = 0; i < samples_; ++i) {
    if (WeightOf(i) == 0) {
      AddEmptySample();
      continue;
    }
    const auto ids = batch.features.Ids(i);
    const auto values = batch.features.Values(i);
    for (size_t j = 0; j < ids.size(); ++j) {
      SparseRows& part = features_[owner(input, ids[j])];
      part.ids.push_back(ids[j]);
      // A value near the greatest float would become infinite.
      const float scaled = values[j] / divisor;
      part.values.push_back(std::isfinite(scaled) ? scaled : values[j]);
    }
    // The hidden bias is the row of feature D, present in every sample; none where D changes.
    if (HasFixedSizes(config_.train)) {
      SparseRows& bias_part = features_[owner(input, config_.model.features)];
      bias_part.ids.push_back(config_.model.features);
      bias_part.values.push_back(1.0f);
    }
    for (const uint32_t label : batch.labels.Ids(i)) {
      labels_[owner(neurons, label)].ids.push_back(label);
    }
    label_totals_.push_back(static_cast<uint32_t>(batch.labels.Ids(i).size()));
    for (size_t s = 0; s < servers; ++s) {
      features_[s].EndRow();
      labels_[s].EndRow();
    }
  }
}

// What a sample of weight 0 becomes: it changes no row, and costs nothing.
void BatchFlight::AddEmptySample() {
  label_totals_.push_back(0);
  for (SparseRows& part : features_) part.EndRow();
  for (SparseRows& part : labels_) part.EndRow();
}

bool BatchFlight::Asks(uint32_t server) const {
  if (stage_ == Stage::kEmbed && greeted_[server]) return true;
  const bool of_input = stage_ == Stage::kEmbed || stage_ == Stage::kEmbedPush;
  return of_input ? with_input_[server] : with_neurons_[server];
}

bool BatchFlight::AllHaveBothLayers() const {
  return std::ranges::count(with_input_, false) + std::ranges::count(with_neurons_, false) == 0;
}

EmbedRequest BatchFlight::Greeting() const {
  EmbedRequest greeting{id(), false, {}, false, false, ticket_};
  greeting.features.EndRow();  // of one sample
  return greeting;
}

uint32_t BatchFlight::CountAsked() const {
  uint32_t asked = 0;
  for (uint32_t server = 0; server < replies_.size(); ++server) asked += Asks(server);
  return asked;
}

Body BatchFlight::RequestFor(uint32_t server) const {
  switch (stage_) {
    case Stage::kEmbed:
      if (!with_input_[server]) return Greeting();
      return EmbedRequest{id(),
                          kind_ == LeaseKind::kTrain,
                          features_[server],
                          kind_ == LeaseKind::kTrain && !with_neurons_[server],
                          wants_dense_,
                          ticket_};
    case Stage::kQuery: {
      // With active = mass there is no scan to be spared.
      const bool mass = config_.model.active == ActiveSet::kMass;
      const bool probe = mass || number_ % kProbedBatches == 0;
      return ActiveQuery{id(),
                         hidden_,
                         labels_[server],
                         label_totals_,
                         probe ? kProbedSamples : 0,
                         only_server_,
                         !with_input_[server],
                         weights_,
                         with_input_[server] ? Bytes() : ticket_};
    }
    case Stage::kPush:
      return push_;
    case Stage::kEmbedPush:
      return EmbedPush{id(), gradient_, {}, DenseGradientsFor(server)};
    case Stage::kTopK:
      return TopKRequest{hidden_,           top_k_, Search::kExact, all_features_,
                         kEvaluationRecall, id(),   ticket_};
    case Stage::kDone:
      break;
  }
  DSLIDE_CHECK(false);
  return Ack{};
}

Result<bool> BatchFlight::Take(uint32_t server, Body reply, const BatchProof& proof) {
  DSLIDE_RETURN_IF_ERROR(CheckShape(server, reply));
  if (proof.receipt != 0) proofs_[server] = proof;
  if (Asks(server) && !replies_[server]) --missing_;
  replies_[server] = std::move(reply);
  AddPartials();
  if (missing_ > 0) return false;
  if (stage_ == Stage::kEmbed && wants_dense_) DSLIDE_RETURN_IF_ERROR(TakeDense());
  Advance();
  replies_.assign(replies_.size(), std::nullopt);
  missing_ = done() ? 0 : CountAsked();
  added_ = 0;
  sum_.reset();
  DSLIDE_RETURN_IF_ERROR(CheckFinite());
  return true;
}

// Replies are finite, but their sums may not be: a message with them would be dropped as malformed
// wherever it goes, and be sent again for ever. What dense layers make of replies has a bound, too:
// servers refuse what is larger as no honest worker's.
Status BatchFlight::CheckFinite() {
  const std::vector<float>* next = FloatsOf(stage_, hidden_, push_, gradient_);
  const double figures = done_.loss_sum + done_.recall_set + done_.recall_hash +
                         done_.recall_uniform + done_.tail_error;
  if (dense_ != nullptr && stage_ != Stage::kPush && next != nullptr) {
    diverged_ =
        !AreInRange(*next) || (stage_ == Stage::kEmbedPush && !AreInRange(dense_gradient_.data));
  }
  if (!diverged_ && (next == nullptr || AllFinite(*next)) && std::isfinite(figures)) return {};
  return Failed(fmt::format("{}: {}", NameOf(id()),
                            diverged_ ? "the dense layers give numbers that are out of range"
                                      : "the servers' replies add up to numbers that are not "
                                        "finite"));
}

// Adds up the partial sums that have come, as far as none of an earlier server lacks: those of the
// last reply are still in the cache.
void BatchFlight::AddPartials() {
  for (; added_ < replies_.size() && (replies_[added_] || !Asks(added_)); ++added_) {
    if (!replies_[added_] || IsGreeted(added_)) continue;
    PartialSum* partial = PartialOf(&*replies_[added_]);
    if (partial == nullptr) return;
    if (sum_) {
      AddPartial(std::move(*partial), &*sum_);
    } else {
      sum_ = std::move(*partial);
    }
  }
}

bool BatchFlight::Awaits(uint32_t server, const Body& reply) const {
  const uint32_t hidden = config_.model.hidden, width = OutputWidth(config_.model);
  const auto are_statistics = [&](const ActiveReply& active) {
    return stage_ == Stage::kQuery && active.max.size() == samples_ &&
           active.loss.empty() == (config_.model.loss == Loss::kSoftmax);
  };
  return std::visit(
      Overloaded{
          [&](const EmbedReply& embed) {
            return stage_ == Stage::kEmbed &&
                   HasShape(embed.partial, IsGreeted(server) ? 1 : samples_, hidden) &&
                   IsDenseOf(server, embed.dense);
          },
          [&](const ActiveReply& active) { return !only_server_ && are_statistics(active); },
          [&](const GradientReply& gradient) {
            if (!HasShape(gradient.partial, samples_, width)) return false;
            if (stage_ == Stage::kPush) return true;
            return only_server_ && gradient.active && are_statistics(*gradient.active);
          },
          [&](const Ack&) { return stage_ == Stage::kEmbedPush; },
          [&](const TopKReply& top) {
            return stage_ == Stage::kTopK && top.offsets.size() == size_t{samples_} + 1;
          },
          [](const auto&) { return false; },
      },
      reply);
}

Status BatchFlight::CheckShape(uint32_t server, const Body& reply) const {
  if (!Awaits(server, reply)) {
    return Failed(fmt::format("unexpected {} for {}", BodyName(reply), NameOf(id())));
  }
  if (IsInRange(reply)) return {};
  return Failed(
      fmt::format("{}: {} has numbers that no model gives", NameOf(id()), BodyName(reply)));
}

void BatchFlight::Advance() {
  switch (stage_) {
    case Stage::kEmbed:
      Activate();
      stage_ = kind_ == LeaseKind::kTrain ? Stage::kQuery : Stage::kTopK;
      break;
    case Stage::kQuery:
      if (only_server_) {
        auto replies = Collect<GradientReply>(&replies_);
        MergeStatistics(std::move(*replies[0].active));
        MaskGradient(InFloats(*std::move(sum_)));
        stage_ = Stage::kEmbedPush;
      } else {
        MergeStatistics(CollectStatistics(&replies_));
        stage_ = Stage::kPush;
      }
      break;
    case Stage::kPush:
      MaskGradient(InFloats(*std::move(sum_)));
      stage_ = Stage::kEmbedPush;
      break;
    case Stage::kTopK:
      MergePredictions();
      [[fallthrough]];
    case Stage::kEmbedPush:
    case Stage::kDone:
      ReportProofs(proofs_, plan_, config_.cluster, kind_, &done_);
      stage_ = Stage::kDone;
      break;
  }
}

// h = relu(pre-activation), or with model.activation = linear h = pre-activation; in training the
// servers leave out the units that dropout drops with probability p (their sum is 0), and the other
// units are scaled by 1 / (1 - p). A dropped or inactive unit has h = 0, which later masks its
// gradient.
void BatchFlight::Activate() {
  hidden_ = InFloats(*std::move(sum_));
  const float scale =
      kind_ == LeaseKind::kTrain ? 1.0f / (1.0f - DropoutIn(config_.train, id().epoch)) : 1.0f;
  if (IsLinear(config_.model)) {
    for (float& h : hidden_.data) h *= scale;
    return;
  }
  // Products with a factor that is chosen: the compiler makes vectors of that. NaN stays.
  for (float& h : hidden_.data) h *= h <= 0 ? 0.0f : scale;
  if (dense_ == nullptr) return;
  first_ = std::move(hidden_);
  dense_hidden_ = dense_->Forward(first_);
  // A sample of weight 0 is without features, and has to stay without activations.
  CutOffEmptySamples(&dense_hidden_.back());
  hidden_ = dense_hidden_.back();
}

void BatchFlight::CutOffEmptySamples(Matrix* matrix) const {
  for (uint32_t i = 0; i < samples_; ++i) {
    if (WeightOf(i) == 0) std::fill_n(matrix->row(i), matrix->cols, 0.0f);
  }
}

// Whether a reply has rows of dense layers that were asked for, all from the server that owns them.
bool BatchFlight::IsDenseOf(uint32_t server, const std::optional<LayerRows>& rows) const {
  if (rows.has_value() != (wants_dense_ && !IsGreeted(server))) return false;
  if (!rows || rows->ids.empty()) return true;
  const ModelConfig& model = config_.model;
  const SlotRange input = InputSlots(config_.cluster);
  return rows->values.cols == model.hidden && std::ranges::all_of(rows->ids, [&](uint32_t id) {
           return id >= FirstDenseId(model) && id < InputRowCount(model) &&
                  plan_.slot_owner[input.SlotOf(id).value] == server;
         });
}

// All rows, which the servers have sent in parts.
Status BatchFlight::TakeDense() {
  const ModelConfig& model = config_.model;
  std::vector<LayerRows> parts;
  for (auto& reply : replies_) {
    if (!reply) continue;
    auto& rows = std::get<EmbedReply>(*reply).dense;
    if (rows) parts.push_back(*std::move(rows));
  }
  LayerRows all = MergeRows(std::move(parts));
  if (all.ids.size() != DenseRowCount(model)) {
    return Failed(fmt::format("{}: the servers have sent {} of {} rows of dense layers",
                              NameOf(id()), all.ids.size(), DenseRowCount(model)));
  }
  dense_ = std::make_shared<const DenseWeights>(model, std::move(all.values));
  return {};
}

// Those of the rows that the server owns.
std::optional<LayerRows> BatchFlight::DenseGradientsFor(uint32_t server) const {
  if (dense_ == nullptr) return std::nullopt;
  const SlotRange input = InputSlots(config_.cluster);
  const uint32_t first = FirstDenseId(config_.model);
  LayerRows rows;
  for (uint32_t d = 0; d < dense_gradient_.rows; ++d) {
    if (plan_.slot_owner[input.SlotOf(first + d).value] == server) rows.ids.push_back(first + d);
  }
  rows.values = Matrix(static_cast<uint32_t>(rows.ids.size()), dense_gradient_.cols);
  for (uint32_t i = 0; i < rows.ids.size(); ++i) {
    std::copy_n(dense_gradient_.row(rows.ids[i] - first), dense_gradient_.cols, rows.values.row(i));
  }
  return rows;
}

void BatchFlight::MergeStatistics(ActiveReply merged) {
  push_ = PushAfter(id(), merged);
  for (uint32_t i = 0; i < samples_; ++i) {
    done_.active_neurons_sum += merged.active[i];
    if (!merged.loss.empty()) {
      done_.loss_sum += double{WeightOf(i)} * merged.loss[i];
    } else if (label_totals_[i] > 0) {
      done_.loss_sum +=
          double{WeightOf(i)} * (double{push_.log_normaliser[i]} - merged.target_logit[i]);
    }
  }
  done_.active_rows = merged.active_rows;
  done_.probed = static_cast<uint32_t>(merged.tail_variance.size());
  for (const float variance : merged.tail_variance) done_.tail_error += std::sqrt(double{variance});
  uint32_t recalls = 0;
  for (const Probe& probe : merged.probes) {
    const size_t top = std::min<size_t>(kProbeNeurons, probe.ids.size());
    if (top == 0) continue;
    double in_set = 0, in_hash = 0;
    for (size_t j = 0; j < top; ++j) {
      in_set += probe.in_set[j];
      in_hash += probe.in_hash[j];
    }
    recalls++;
    done_.recall_set += in_set / static_cast<double>(top);
    done_.recall_hash += in_hash / static_cast<double>(top);
    done_.recall_uniform += static_cast<double>(merged.active_rows) / config_.model.labels;
  }
  done_.probed = std::max(done_.probed, recalls);
}

void BatchFlight::MaskGradient(Matrix gradient) {
  gradient_ = std::move(gradient);
  if (dense_ != nullptr) {
    DenseWeights::Gradients back = dense_->Backward(first_, dense_hidden_, std::move(gradient_));
    dense_gradient_ = std::move(back.rows);
    gradient_ = std::move(back.first);
    dense_hidden_.clear();
  }
  const float scale = 1.0f / (1.0f - DropoutIn(config_.train, id().epoch));
  const float* h = (dense_ == nullptr ? hidden_ : first_).data.data();
  float* g = gradient_.data.data();
  for (size_t i = 0; i < gradient_.data.size(); ++i) g[i] *= h[i] != 0 ? scale : 0.0f;
}

void BatchFlight::CountSent(size_t kind, size_t bytes) {
  done_.bytes_sent += bytes;
  done_.bytes_by_kind[kind] += static_cast<uint32_t>(bytes);
}

void BatchFlight::CountReceived(size_t kind, size_t bytes) {
  done_.bytes_received += bytes;
  done_.bytes_by_kind[kind] += static_cast<uint32_t>(bytes);
}

void BatchFlight::MergePredictions() {
  const auto parts = Collect<TopKReply>(&replies_);
  done_.predictions = MergeTopK(parts, top_k_);
}

}  // namespace dslide
