#include "tools/bench/cells/visits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/random.h"

namespace dslide::cells {
namespace {

constexpr uint64_t kVisitStream = 0xce11;

SparseRows Selected(const SparseRows& rows, const std::vector<uint32_t>& samples) {
  SparseRows out;
  for (const uint32_t i : samples) {
    const auto ids = rows.Ids(i);
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    if (!rows.values.empty()) {
      const auto values = rows.Values(i);
      out.values.insert(out.values.end(), values.begin(), values.end());
    }
    out.EndRow();
  }
  return out;
}

Matrix Selected(const Matrix& rows, const std::vector<uint32_t>& samples) {
  Matrix out(static_cast<uint32_t>(samples.size()), rows.cols);
  for (size_t i = 0; i < samples.size(); ++i) {
    std::copy_n(rows.row(samples[i]), rows.cols, out.row(i));
  }
  return out;
}

template <typename T>
std::vector<T> Selected(const std::vector<T>& values, const std::vector<uint32_t>& samples) {
  std::vector<T> out;
  for (const uint32_t i : samples) out.push_back(values[i]);
  return out;
}

// The message with these samples only, at least one.
Body OfSamples(const Body& body, const std::vector<uint32_t>& samples) {
  if (const auto* query = std::get_if<ActiveQuery>(&body)) {
    ActiveQuery part;
    part.hidden = Selected(query->hidden, samples);
    part.labels = Selected(query->labels, samples);
    part.label_totals = Selected(query->label_totals, samples);
    if (!query->weights.empty()) part.weights = Selected(query->weights, samples);
    return part;
  }
  if (const auto* active = std::get_if<ActiveReply>(&body)) {
    ActiveReply part;
    part.max = Selected(active->max, samples);
    part.sum_exp = Selected(active->sum_exp, samples);
    part.target_logit = Selected(active->target_logit, samples);
    part.active = Selected(active->active, samples);
    return part;
  }
  if (const auto* push = std::get_if<GradientPush>(&body)) {
    return GradientPush{push->batch, Selected(push->log_normaliser, samples)};
  }
  if (const auto* gradient = std::get_if<GradientReply>(&body)) {
    return GradientReply{Selected(std::get<Matrix>(gradient->partial), samples)};
  }
  if (const auto* embed = std::get_if<EmbedRequest>(&body)) {
    EmbedRequest part;
    part.features = Selected(embed->features, samples);
    return part;
  }
  if (const auto* embed = std::get_if<EmbedReply>(&body)) {
    return EmbedReply{Selected(std::get<Matrix>(embed->partial), samples)};
  }
  if (const auto* push = std::get_if<EmbedPush>(&body)) {
    return EmbedPush{push->batch, Selected(push->gradient, samples)};
  }
  return body;
}

bool IsOfInput(const Body& body) {
  return std::holds_alternative<EmbedRequest>(body) || std::holds_alternative<EmbedReply>(body) ||
         std::holds_alternative<EmbedPush>(body);
}

}  // namespace

Visits::Visits(const Config& config, const Plan& plan, const VisitRules& rules)
    : config_(config), plan_(plan), rules_(rules), neurons_(OutputSlots(config.cluster)) {}

void Visits::Begin(uint64_t number, const SparseRows& labels) {
  const auto servers = static_cast<uint32_t>(plan_.servers.size());
  Random random(SubSeed(SubSeed(config_.common.seed, kVisitStream), number));
  weights_.assign(servers, std::vector<float>(labels.rows(), 0.0f));
  std::vector<uint32_t> others;
  for (uint32_t i = 0; i < labels.rows(); ++i) {
    for (const uint32_t label : labels.Ids(i)) {
      weights_[plan_.slot_owner[neurons_.SlotOf(label).value]][i] = 1;
    }
    others.clear();
    for (uint32_t s = 0; s < servers; ++s) {
      if (weights_[s][i] == 0) others.push_back(s);
    }
    const size_t drawn = std::min<size_t>(rules_.random, others.size());
    for (size_t d = 0; d < drawn; ++d) {
      std::swap(others[d], others[d + random.Below(others.size() - d)]);
      weights_[others[d]][i] = static_cast<float>(others.size()) / static_cast<float>(drawn);
    }
    visits_ += servers - others.size() + drawn;
  }
  samples_ += labels.rows();
  counting_ = number % rules_.count_every == 0;
  if (counting_) counted_samples_ += labels.rows();
}

void Visits::Weigh(uint32_t server, Matrix* rows) const {
  for (uint32_t i = 0; i < rows->rows; ++i) {
    const float weight = weights_[server][i];
    for (uint32_t j = 0; j < rows->cols && weight != 1; ++j) rows->row(i)[j] *= weight;
  }
}

void Visits::Sent(uint32_t server, Body* request) {
  if (counting_) Count(server, *request);
  // A loss of weight 0 changes nothing, whatever the server computes for the sample.
  if (auto* query = std::get_if<ActiveQuery>(request)) query->weights = weights_[server];
  auto* push = std::get_if<EmbedPush>(request);
  if (push != nullptr && rules_.embed_visited) Weigh(server, &push->gradient);
}

void Visits::Received(uint32_t server, Body* reply) {
  if (auto* active = std::get_if<ActiveReply>(reply)) {
    for (size_t i = 0; i < active->max.size(); ++i) {
      const float weight = weights_[server][i];
      if (weight == 0) active->sum_exp[i] = 0;
      active->max[i] += std::log(weight);  // -inf: nothing was scored
    }
  }
  auto* embed = std::get_if<EmbedReply>(reply);
  if (embed != nullptr && rules_.embed_visited) Weigh(server, &std::get<Matrix>(embed->partial));
  if (counting_) Count(server, *reply);
}

void Visits::Count(uint32_t server, const Body& body) {
  std::vector<uint32_t> samples;
  const bool all = IsOfInput(body) && !rules_.embed_visited;
  for (uint32_t i = 0; i < weights_[server].size(); ++i) {
    if (all || weights_[server][i] != 0) samples.push_back(i);
  }
  if (samples.empty()) return;
  bytes_ += Encode(Message{{}, OfSamples(body, samples)}, WirePrecision::kBf16).size();
}

double Visits::bytes_per_sample() const {
  return static_cast<double>(bytes_) / static_cast<double>(counted_samples_);
}

double Visits::visits_per_sample() const {
  return static_cast<double>(visits_) / static_cast<double>(samples_);
}

}  // namespace dslide::cells
