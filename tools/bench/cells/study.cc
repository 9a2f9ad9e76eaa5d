#include "tools/bench/cells/study.h"
#include "common/config/schedule.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "common/base/process.h"
#include "common/data/data_order.h"
#include "tools/bench/cells/bench_cluster.h"

namespace dslide::cells {
namespace {

std::span<const uint32_t> BatchAt(const std::vector<uint32_t>& samples, uint64_t number,
                                  uint32_t size) {
  const uint64_t begin = std::min<uint64_t>(number * size, samples.size());
  return std::span(samples).subspan(begin, std::min<uint64_t>(size, samples.size() - begin));
}

RankingMetrics Evaluate(const Config& config, const StudyData& data, BenchCluster* cluster) {
  RankingEvaluator evaluator{InversePropensities(data.train)};
  const DataOrder order =
      DataOrder::Evaluation(data.test, config.common.seed, 0, config.train.batch);
  std::vector<uint32_t> numbers(order.samples());
  for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = order.Number(i);
  for (uint64_t b = 0; b < order.batches(); ++b) {
    const auto batch = BatchAt(numbers, b, config.train.batch);
    const TopKReply best = cluster->Rank(BatchOf(data.test, batch), kMaxMetricK);
    for (size_t i = 0; i < batch.size(); ++i) {
      evaluator.Add(best.Ids(i), data.test[batch[i]].labels);
    }
  }
  return evaluator.Result();
}

// The groups and what joins them.
class Cells {
 public:
  Cells(const Config& config, const StudyData& data, const CellsOptions& options)
      : config_(config), data_(data), options_(options) {
    const uint64_t most = (data.train.size() + options.groups - 1) / options.groups;
    rounds_ = (most + config.train.batch - 1) / config.train.batch;
    std::vector<Layer*> input, output;
    for (uint32_t g = 0; g < options.groups; ++g) {
      groups_.push_back(
          std::make_unique<BenchCluster>(config, rounds_ * options.groups, 1, options.lag));
      input.push_back(&groups_.back()->executor(0).input().layer());
      output.push_back(&groups_.back()->executor(0).output().layer());
    }
    if (options.groups == 1) return;
    input_ = std::make_unique<LayerExchange>(std::move(input), options.rules);
    output_ = std::make_unique<LayerExchange>(std::move(output), options.rules);
  }

  StudyResult Run() {
    const double begin = ThreadCpuSeconds();
    for (uint32_t epoch = 0; epoch < config_.train.epochs; ++epoch) Epoch(epoch);
    Exchange(true);
    result_.train_cpu_seconds = ThreadCpuSeconds() - begin;
    if (input_) {
      input_->TakeBase(0);
      output_->TakeBase(0);
    }
    for (const auto& group : groups_) result_.loss += group->loss_sum();
    result_.loss /= static_cast<double>(result_.samples);
    result_.metrics = Evaluate(config_, data_, groups_[0].get());
    return result_;
  }

 private:
  void Epoch(uint32_t epoch) {
    const auto samples =
        DivideOverGroups(data_.train, config_.common.seed, epoch, options_.groups, options_.blocks);
    for (uint64_t round = 0; round < rounds_; ++round) {
      for (uint32_t g = 0; g < options_.groups; ++g) {
        const auto batch = BatchAt(samples[g], round, config_.train.batch);
        if (batch.empty()) continue;
        const uint64_t number = (epoch * rounds_ + round) * options_.groups + g;
        groups_[g]->Train(number, BatchOf(data_.train, batch));
        result_.samples += batch.size();
        since_exchange_ += batch.size();
        since_all_ += batch.size();
      }
      const bool all = options_.all_samples > 0 && since_all_ >= options_.all_samples;
      if (all || static_cast<double>(since_exchange_) >= ExchangeAfter()) Exchange(all);
    }
    // Executors give batches up when the next epoch's begin.
    for (const auto& group : groups_) group->Finish();
  }

  double ExchangeAfter() const {
    const double all = static_cast<double>(data_.train.size()) * config_.train.epochs;
    const double done = static_cast<double>(result_.samples) / all;
    return options_.exchange_first *
           std::pow(options_.exchange_last / options_.exchange_first, done);
  }

  void Exchange(bool all) {
    since_exchange_ = 0;
    if (all) since_all_ = 0;
    if (!input_) return;
    const double begin = ThreadCpuSeconds();
    result_.input += input_->Exchange(all);
    result_.output += output_->Exchange(all);
    result_.exchange_cpu_seconds += ThreadCpuSeconds() - begin;
  }

  const Config& config_;
  const StudyData& data_;
  const CellsOptions& options_;
  uint64_t rounds_ = 0;  // batches of a group in an epoch
  std::vector<std::unique_ptr<BenchCluster>> groups_;
  std::unique_ptr<LayerExchange> input_, output_;  // null: one group
  uint64_t since_exchange_ = 0, since_all_ = 0;    // samples
  StudyResult result_;
};

}  // namespace

std::vector<std::vector<uint32_t>> DivideOverGroups(const Dataset& data, uint64_t seed,
                                                    uint32_t epoch, uint32_t groups, bool blocks) {
  const DataOrder order = DataOrder::Epoch(data, seed, epoch, 1);
  std::vector<std::vector<uint32_t>> samples(groups);
  for (uint64_t i = 0; i < order.samples(); ++i) {
    const uint32_t number = order.Number(i);
    const uint64_t group = blocks ? uint64_t{number} * groups / order.samples() : number % groups;
    samples[group].push_back(number);
  }
  return samples;
}

StudyResult RunCells(const Config& config, const StudyData& data, const CellsOptions& options) {
  return Cells(config, data, options).Run();
}

StudyResult RunVisits(const Config& config, const StudyData& data, uint32_t servers,
                      const VisitRules& rules) {
  const uint64_t batches = BatchesPerEpoch(config.train, data.train.size());
  BenchCluster cluster(config, batches, servers);
  Visits visits(config, cluster.plan(), rules);
  StudyResult result;
  const double begin = ThreadCpuSeconds();
  for (uint32_t epoch = 0; epoch < config.train.epochs; ++epoch) {
    const auto samples = DivideOverGroups(data.train, config.common.seed, epoch, 1, false);
    for (uint64_t b = 0; b < batches; ++b) {
      const auto batch = BatchAt(samples[0], b, config.train.batch);
      cluster.Train(epoch * batches + b, BatchOf(data.train, batch), &visits);
      result.samples += batch.size();
    }
  }
  result.train_cpu_seconds = ThreadCpuSeconds() - begin;
  result.loss = cluster.loss_sum() / static_cast<double>(result.samples);
  result.visits = visits.visits_per_sample();
  result.bytes_per_sample = visits.bytes_per_sample();
  result.metrics = Evaluate(config, data, &cluster);
  return result;
}

}  // namespace dslide::cells
