#include "tools/python/module/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/process.h"
#include "common/math/kernels.h"
#include "common/model/name_ranking.h"
#include "common/text/preprocessor.h"
#include "common/text/records/record.h"
#include "tools/python/module/number_file.h"

namespace dslide {
namespace {

constexpr size_t kMostRanked = 256;  // samples that are ranked at once

size_t CountOf(const Samples& samples) {
  if (const auto* rows = std::get_if<NumberRows>(&samples)) return rows->offsets.size() - 1;
  return std::get<JsonLines>(samples).size();
}

// The errors that ended threads of a call.
struct Failures {
  Mutex mutex;
  std::optional<std::pair<size_t, Error>> first_error DSLIDE_GUARDED_BY(mutex);
  std::exception_ptr thrown DSLIDE_GUARDED_BY(mutex);
};

}  // namespace

// One thread's way to rank: what it needs of the model, and scratch.
class Predictor::Thread {
 public:
  Thread(const std::shared_ptr<const Model>& model, bool by_names) : ranker_(model, BestKernels()) {
    if (model->preprocessor() != nullptr) encoder_.emplace(*model->preprocessor());
    const auto& names = model->info().name_ranking;
    if (by_names && names != nullptr) finder_.emplace(names->matcher());
  }

  Result<RankedLabels> Rank(const Samples& samples, size_t begin, size_t end, RankRequest request) {
    const uint32_t wanted = request.k;
    if (finder_) {
      request.k = std::min(std::max(wanted, kModelCandidates), ranker_.model().live_labels());
    }
    names_ = {};
    SparseRows features;
    for (size_t i = begin; i < end; ++i) {
      const Status read = Read(samples, i, &features);
      if (!read.ok()) return BadInput(fmt::format("sample {}: {}", i, read.error().message));
    }
    const Result<Matrix> hidden = ranker_.Embed(features);
    DSLIDE_RETURN_IF_ERROR(hidden);
    for (size_t i = begin; i < end; ++i) {
      const float* h = hidden->row(i - begin);
      if (!std::all_of(h, h + hidden->cols, [](float x) { return std::isfinite(x); })) {
        return BadInput(fmt::format("sample {}: its values are too large", i));
      }
    }
    Result<RankedLabels> ranking = ranker_.Rank(*hidden, request);
    DSLIDE_RETURN_IF_ERROR(ranking);
    const size_t k = std::min(request.k, ranker_.model().live_labels());
    if (ranking->best.ids.size() != (end - begin) * k) {
      return BadInput(fmt::format("samples {} to {}: logits that are no numbers", begin, end - 1));
    }
    if (names_.size() == 0) return ranking;
    RankedLabels by_names;
    for (size_t i = begin; i < end; ++i) {
      ranker_.model().info().name_ranking->AppendRow(*ranking, i - begin, names_[i - begin],
                                                     /*filter=*/nullptr, wanted, &by_names);
    }
    return by_names;
  }

 private:
  Status Read(const Samples& samples, size_t i, SparseRows* features) {
    if (const auto* rows = std::get_if<NumberRows>(&samples)) {
      const auto first = static_cast<size_t>(rows->offsets[i]);
      const auto last = static_cast<size_t>(rows->offsets[i + 1]);
      for (size_t e = first; e < last; ++e) {
        const int32_t id = rows->ids[e];
        if (id < 0 || static_cast<uint32_t>(id) >= ranker_.model().info().features()) {
          return BadInput(fmt::format("feature {} is not below the model's {}", id,
                                      ranker_.model().info().features()));
        }
        features->ids.push_back(static_cast<uint32_t>(id));
        features->values.push_back(rows->values[e]);
      }
    } else {
      const Result<Record> record =
          ParseRecord(RecordFormat::kJsonLines, std::get<JsonLines>(samples)[i]);
      DSLIDE_RETURN_IF_ERROR(record);
      if (finder_) {
        const std::span<const NameMatch> matches = finder_->Find(*record);
        names_.Add({matches, finder_->words()});
      }
      const SampleView view = encoder_->Encode(*record);
      features->ids.insert(features->ids.end(), view.features.begin(), view.features.end());
      features->values.insert(features->values.end(), view.values.begin(), view.values.end());
    }
    features->EndRow();
    return {};
  }

  Ranker ranker_;
  std::optional<Preprocessor::Encoder> encoder_;
  std::optional<NameMatcher::Finder> finder_;  // none: the model alone ranks labels
  NamesOfSamples names_;                       // of the samples in progress
};

template <typename Take>
Status Predictor::RankBlocks(const Samples& samples, const RankRequest& request, bool by_names,
                             size_t threads, const Take& take) const {
  if (const auto* rows = std::get_if<NumberRows>(&samples)) {
    DSLIDE_RETURN_IF_ERROR(CheckRows(rows->offsets, rows->ids.size()));
    if (rows->values.size() != rows->ids.size()) return BadInput("not as many values as ids");
  } else if (model_->preprocessor() == nullptr) {
    return BadInput("the model was trained on numbers, not on texts");
  }
  const size_t count = CountOf(samples);
  threads = std::clamp<size_t>(threads, 1, std::max<size_t>(1, count));
  const size_t block = std::min(kMostRanked, (count + threads - 1) / threads);
  std::atomic<size_t> next = 0;
  Failures failures;
  const auto work = [&] {
    try {
      FlushDenormals();
      Thread thread(model_, by_names && std::holds_alternative<JsonLines>(samples));
      while (true) {
        const size_t begin = next.fetch_add(block);
        if (begin >= count) return;
        const size_t end = std::min(count, begin + block);
        const Result<RankedLabels> ranking = thread.Rank(samples, begin, end, request);
        if (ranking.ok()) {
          take(begin, *ranking);
          continue;
        }
        const MutexLock lock(failures.mutex);
        std::optional<std::pair<size_t, Error>>& first = failures.first_error;
        if (!first || begin < first->first) first = {begin, ranking.error()};
        next = count;
      }
    } catch (...) {  // no memory
      const MutexLock lock(failures.mutex);
      failures.thrown = std::current_exception();
    }
  };
  {
    // Not the caller's thread: its floating-point mode stays as it is.
    std::vector<std::jthread> pool;
    for (size_t t = 0; t < threads && count > 0; ++t) pool.emplace_back(work);
  }
  const MutexLock lock(failures.mutex);
  if (failures.thrown) std::rethrow_exception(failures.thrown);
  if (failures.first_error) return failures.first_error->second;
  return {};
}

Status Predictor::Rank(const Samples& samples, uint32_t k, ModelSearch search, size_t threads,
                       const Best& best) const {
  RankRequest request;
  request.k = k;
  request.search = search;
  request.probabilities = true;
  const bool by_names = true;
  return RankBlocks(samples, request, by_names, threads,
                    [&](size_t begin, const RankedLabels& ranking) {
                      std::ranges::copy(ranking.best.ids, best.labels + begin * k);
                      std::ranges::copy(ranking.best.scores, best.logits + begin * k);
                      std::ranges::copy(ranking.probabilities, best.probabilities + begin * k);
                    });
}

Status Predictor::ScoreAll(const Samples& samples, bool probabilities, size_t threads,
                           float* scores) const {
  const size_t labels = model_->info().labels();
  const float forgotten = probabilities ? 0 : -std::numeric_limits<float>::infinity();
  RankRequest request;
  request.k = std::max(1u, model_->live_labels());
  request.search = ModelSearch::kExact;
  request.probabilities = probabilities;
  const bool by_names = false;
  return RankBlocks(
      samples, request, by_names, threads, [&](size_t begin, const RankedLabels& ranking) {
        const std::vector<float>& from =
            probabilities ? ranking.probabilities : ranking.best.scores;
        const size_t rows = ranking.best.offsets.size() - 1;
        std::fill_n(scores + begin * labels, rows * labels, forgotten);
        for (size_t i = 0; i < rows; ++i) {
          for (uint32_t e = ranking.best.offsets[i]; e < ranking.best.offsets[i + 1]; ++e) {
            scores[(begin + i) * labels + ranking.best.ids[e]] = from[e];
          }
        }
      });
}

}  // namespace dslide
