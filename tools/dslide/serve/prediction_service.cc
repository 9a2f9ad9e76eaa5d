#include "tools/dslide/serve/prediction_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/log/log.h"
#include "common/math/kernels.h"
#include "common/model/name_ranking.h"
#include "common/text/preprocessor.h"
#include "tools/dslide/serve/events.h"

namespace dslide {
namespace {

constexpr size_t kMostTaken = 32;    // requests that a thread takes at once
constexpr size_t kMostRanked = 256;  // samples that are ranked at once, and answered together
// A request with more is heavy.
constexpr size_t kLightBytes = 64 << 10;
constexpr size_t kLightSamples = 64;
constexpr size_t kLightLabels = 5000;  // in all samples

bool IsHeavy(const HttpRequest& request) { return request.body.size() > kLightBytes; }

bool IsHeavy(const PredictionRequest& request) {
  const size_t samples = request.samples.size();
  return samples > kLightSamples || samples * request.k > kLightLabels;
}

}  // namespace

// One thread's way to answer: what it needs of the model, and scratch.
class PredictionService::Worker {
 public:
  Worker(PredictionService* service, Weight weight) : service_(*service), weight_(weight) {}

  void Run() {
    FlushDenormals();
    while (const auto share = service_.AwaitJobs(weight_, &models_)) {
      Use(service_.model());
      AnswerShare(*share);
    }
  }

 private:
  struct Asked {
    Job job;
    PredictionRequest request;
    LabelFilter filter;  // of all its samples
    Predictions predictions;
  };
  // A sample of a request.
  struct Place {
    Asked* asked;
    size_t sample;
  };

  void Use(std::shared_ptr<const Model> model) {
    if (model == model_) return;
    encoder_.reset();
    finder_.reset();
    damage_is_logged_ = false;
    model_ = std::move(model);
    ranker_.emplace(model_, BestKernels());
    if (model_->preprocessor() != nullptr) encoder_.emplace(*model_->preprocessor());
    const auto& names = model_->info().name_ranking;
    if (names != nullptr) finder_.emplace(names->matcher());
  }

  // Takes one request after the other: those that do not fit beside the others stay for other
  // threads. Only one that has come here already waits for the others, and for no later ones.
  void AnswerShare(size_t share) {
    size_t samples = 0;
    for (; share > 0 && samples < kMostRanked; --share) {
      std::optional<Job> job = service_.TryTake(weight_, models_);
      if (!job) break;
      std::optional<Asked> asked = Understand(*std::move(job));
      if (!asked) continue;
      if (weight_ == Weight::kLight && IsHeavy(asked->request)) {
        service_.Postpone(std::move(asked->job));
        continue;
      }
      const size_t own = asked->request.samples.size();
      if (samples > 0 && samples + own > kMostRanked) {
        AnswerTogether();
        samples = 0;
      }
      samples += own;
      together_.push_back(*std::move(asked));
    }
    AnswerTogether();
  }

  void AnswerTogether() {
    std::erase_if(together_, [this](const Asked& asked) { return RefusedLate(asked.job); });
    for (const ModelSearch search :
         {ModelSearch::kIndex, ModelSearch::kScan, ModelSearch::kExact}) {
      if (const Status predicted = Predict(search); !predicted.ok()) {
        RefuseAll(predicted.error());
        return;
      }
    }
    for (const Asked& asked : together_) {
      service_.Answer(asked.job, asked.job.dialect->Answer(*model_, service_.options_.name,
                                                           asked.request, asked.predictions));
    }
    together_.clear();
  }

  // A model that cannot be read gives no answer rather than a wrong one. Clients are not told where
  // the file lies.
  void RefuseAll(const Error& why) {
    if (!damage_is_logged_) {
      LogWarning({event::kModelDamaged, why.message + "; requests get 500"});
    }
    damage_is_logged_ = true;
    for (const Asked& asked : together_) {
      Refuse(asked.job, {500, "the model's file is damaged; the server's log says where"});
    }
    together_.clear();
  }

  // Nullopt: it was refused.
  std::optional<Asked> Understand(Job job) {
    if (RefusedLate(job)) return std::nullopt;
    auto parsed = job.dialect->Parse(job.request);
    if (const auto* refusal = std::get_if<Refusal>(&parsed)) {
      Refuse(job, *refusal);
      return std::nullopt;
    }
    Asked asked{std::move(job), std::get<PredictionRequest>(std::move(parsed)), {}, {}};
    if (const auto refusal = Prepare(&asked)) {
      Refuse(asked.job, *refusal);
      return std::nullopt;
    }
    return asked;
  }

  bool RefusedLate(const Job& job) {
    if (MonotonicMicros() - job.begun_us <= 1000 * service_.options_.limit_ms) return false;
    Refuse(job, {503, "the server is too busy; try again later"});
    return true;
  }

  void Refuse(const Job& job, const Refusal& refusal) {
    service_.Answer(job, JsonAnswer(refusal.status, job.dialect->Refuse(refusal)));
  }

  // Checks what only the model can tell, and makes the filters.
  std::optional<Refusal> Prepare(Asked* asked) {
    PredictionRequest& request = asked->request;
    if (request.samples.size() * request.k > kMostServedInAll) {
      return Refusal{413, fmt::format("the request asks for {} labels of each of {} samples, at "
                                      "most {} in all are given",
                                      request.k, request.samples.size(), kMostServedInAll)};
    }
    for (const AskedSample& sample : request.samples) {
      if (!sample.features && model_->preprocessor() == nullptr) {
        return Refusal{
            400, "the model was trained on numbers: give \"features\" or a \"vector\", not a text"};
      }
      if (!sample.features) continue;
      if (sample.vector_length && model_->preprocessor() != nullptr) {
        return Refusal{400, "the model was trained on text: give a text, not a \"vector\""};
      }
      if (sample.vector_length && *sample.vector_length != model_->info().features()) {
        return Refusal{
            400, fmt::format("a vector has {}; the model's have {}",
                             Plural(*sample.vector_length, "value"), model_->info().features())};
      }
      const auto too_large = std::ranges::find_if(*sample.features, [](const auto& f) {
        return !(std::abs(f.second) <= kMostFeatureValue);
      });
      if (too_large != sample.features->end()) {
        return Refusal{
            400,
            fmt::format("feature {} has the value {}; values lie between -{:g} and {:g}",
                        too_large->first, too_large->second, kMostFeatureValue, kMostFeatureValue)};
      }
      if (!sample.features->empty() && sample.features->back().first >= model_->info().features()) {
        return Refusal{400, fmt::format("feature {} is not below the model's {}",
                                        sample.features->back().first, model_->info().features())};
      }
    }
    asked->predictions.resize(request.samples.size());
    if (request.allow) asked->filter.allowed = IdsOf(*request.allow, &request.unknown_labels);
    asked->filter.denied = IdsOf(request.deny, &request.unknown_labels);
    std::vector<std::string>& unknown = request.unknown_labels;
    std::ranges::sort(unknown);
    unknown.erase(std::ranges::unique(unknown).begin(), unknown.end());
    if (unknown.size() > kMostUnknownLabels) {
      request.unknown_left_out = unknown.size() - kMostUnknownLabels;
      unknown.resize(kMostUnknownLabels);
    }
    return std::nullopt;
  }

  // Names that the model lacks are left out, since it cannot predict them, and added to `unknown`.
  std::vector<uint32_t> IdsOf(const std::vector<std::string>& names,
                              std::vector<std::string>* unknown) {
    std::vector<uint32_t> ids;
    for (const std::string& name : names) {
      if (const std::optional<uint32_t> id = model_->LabelId(name)) {
        ids.push_back(*id);
      } else {
        unknown->push_back(name);
      }
    }
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    return ids;
  }

  Status Predict(ModelSearch search) {
    places_.clear();
    for (Asked& asked : together_) {
      if (asked.request.search.value_or(service_.options_.search) != search) continue;
      for (size_t s = 0; s < asked.request.samples.size(); ++s) places_.push_back({&asked, s});
    }
    for (size_t begin = 0; begin < places_.size(); begin += kMostRanked) {
      const size_t count = std::min(kMostRanked, places_.size() - begin);
      DSLIDE_RETURN_IF_ERROR(Rank(std::span(places_).subspan(begin, count), search));
    }
    return {};
  }

  Status Rank(std::span<const Place> places, ModelSearch search) {
    SparseRows features;
    std::vector<LabelFilter> filters;
    std::vector<uint32_t> own_k;
    for (const Place& place : places) {
      const PredictionRequest& request = place.asked->request;
      Encode(request.samples[place.sample], &features);
      own_k.push_back(IsRankedByNames(request, request.samples[place.sample])
                          ? std::max(request.k, kModelCandidates)
                          : request.k);
      filters.push_back({{}, {}, &place.asked->filter});  // which may be large
      if (!request.exclude_own) continue;
      std::vector<uint32_t>& own = filters.back().denied;
      own = model_->OwnLabels(features.Ids(features.rows() - 1));
      std::ranges::sort(own);
      own.erase(std::ranges::unique(own).begin(), own.end());
    }
    RankRequest ranked;
    ranked.own_k = own_k;
    ranked.search = search;
    ranked.probabilities = true;
    ranked.filters = filters;
    const Result<Matrix> hidden = ranker_->Embed(features);
    DSLIDE_RETURN_IF_ERROR(hidden);
    const Result<RankedLabels> ranking = ranker_->Rank(*hidden, ranked);
    DSLIDE_RETURN_IF_ERROR(ranking);
    service_.metrics_.Ranked(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      const PredictionRequest& request = places[i].asked->request;
      const AskedSample& sample = request.samples[places[i].sample];
      RankedLabels own;
      if (IsRankedByNames(request, sample)) {
        const std::span<const NameMatch> matches = finder_->Find(sample.record);
        model_->info().name_ranking->AppendRow(*ranking, i, {matches, finder_->words()},
                                               &filters[i], request.k, &own);
      } else {
        ranking->AppendRow(i, &own);
      }
      auto& predictions = places[i].asked->predictions[places[i].sample];
      for (size_t e = 0; e < own.best.ids.size(); ++e) {
        const float probability = own.probabilities[e];
        if (probability < request.threshold) break;
        predictions.push_back({own.best.ids[e], own.best.scores[e], probability});
      }
    }
    return {};
  }

  // The trees know how the model ranks a label among all labels, not among some that are allowed.
  bool IsRankedByNames(const PredictionRequest& request, const AskedSample& sample) const {
    return finder_.has_value() && !sample.features && !request.allow;
  }

  void Encode(const AskedSample& sample, SparseRows* rows) {
    if (sample.features) {
      for (const auto& [id, value] : *sample.features) {
        rows->ids.push_back(id);
        rows->values.push_back(value);
      }
    } else {
      const SampleView view = encoder_->Encode(sample.record);
      rows->ids.insert(rows->ids.end(), view.features.begin(), view.features.end());
      rows->values.insert(rows->values.end(), view.values.begin(), view.values.end());
    }
    rows->EndRow();
  }

  PredictionService& service_;
  const Weight weight_;
  std::shared_ptr<const Model> model_;
  std::optional<Ranker> ranker_;
  std::optional<Preprocessor::Encoder> encoder_;
  std::optional<NameMatcher::Finder> finder_;  // none: the model alone ranks labels
  bool damage_is_logged_ = false;              // of model_
  uint64_t models_ = 0;                        // that were set until it has taken model_
  std::vector<Asked> together_;                // that are to be answered next
  std::vector<Place> places_;                  // in these
};

PredictionService::PredictionService(Options options, std::shared_ptr<const Model> model,
                                     ServeMetrics* metrics)
    : options_(std::move(options)), metrics_(*metrics), model_(std::move(model)) {
  for (uint32_t t = 0; t < options_.threads; ++t) {
    light_threads_.emplace_back([this] { Worker(this, Weight::kLight).Run(); });
    heavy_threads_.emplace_back([this] { Worker(this, Weight::kHeavy).Run(); });
  }
}

PredictionService::~PredictionService() {
  End(Weight::kLight);
  light_threads_.clear();  // which may postpone some
  End(Weight::kHeavy);
}

void PredictionService::End(Weight weight) {
  const MutexLock lock(mutex_);
  Lane& lane = LaneOf(weight);
  lane.ending = true;
  lane.waiting.NotifyAll();
}

void PredictionService::SetModel(std::shared_ptr<const Model> model) {
  {
    const MutexLock lock(model_mutex_);
    model_.swap(model);
  }
  const MutexLock lock(mutex_);
  ++models_;
  light_.waiting.NotifyAll();
  heavy_.waiting.NotifyAll();
}

std::shared_ptr<const Model> PredictionService::model() const {
  const MutexLock lock(model_mutex_);
  return model_;
}

void PredictionService::Submit(HttpRequest request, const Dialect& dialect,
                               HttpServer::Respond respond) {
  Job job{std::move(request), &dialect, std::move(respond), MonotonicMicros()};
  {
    const MutexLock lock(mutex_);
    if (light_.jobs.size() + heavy_.jobs.size() < options_.most_waiting) {
      Lane& lane = LaneOf(IsHeavy(job.request) ? Weight::kHeavy : Weight::kLight);
      lane.jobs.push_back(std::move(job));
      lane.waiting.NotifyOne();
      return;
    }
  }
  Answer(job, JsonAnswer(503, dialect.Refuse({503, "the server is too busy; try again later"})));
}

PredictionService::Lane& PredictionService::LaneOf(Weight weight) {
  return weight == Weight::kHeavy ? heavy_ : light_;
}

void PredictionService::Postpone(Job job) {
  const MutexLock lock(mutex_);
  heavy_.jobs.push_back(std::move(job));
  heavy_.waiting.NotifyOne();
}

std::optional<size_t> PredictionService::AwaitJobs(Weight weight, uint64_t* models) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(weight);
  while (!lane.ending && lane.jobs.empty() && models_ == *models) lane.waiting.Wait(lock);
  *models = models_;
  const size_t waiting = lane.jobs.size();
  if (lane.ending && waiting == 0) return std::nullopt;
  if (weight == Weight::kHeavy) return std::min<size_t>(waiting, 1);
  // The others get their share.
  return std::min((waiting + options_.threads - 1) / options_.threads, kMostTaken);
}

std::optional<PredictionService::Job> PredictionService::TryTake(Weight weight, uint64_t models) {
  const MutexLock lock(mutex_);
  Lane& lane = LaneOf(weight);
  if (lane.jobs.empty() || models_ != models) return std::nullopt;
  std::optional<Job> job = std::move(lane.jobs.front());
  lane.jobs.pop_front();
  return job;
}

void PredictionService::Answer(const Job& job, HttpResponse response) const {
  metrics_.Answered(job.dialect->name(), response.status, MonotonicMicros() - job.begun_us);
  job.respond(std::move(response));
}

}  // namespace dslide
