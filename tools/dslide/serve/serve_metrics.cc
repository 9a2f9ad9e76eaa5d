#include "tools/dslide/serve/serve_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>

namespace dslide {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kSeconds = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                          0.05,   0.1,    0.2,   0.5,   1,     2,    5};
const Buckets kSamples = {1, 2, 4, 8, 16, 32, 64, 128, 256};

}  // namespace

struct ServeMetrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("dslide_serve_requests_total")
          .Help("Prediction requests that were answered")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& latency =
      prometheus::BuildHistogram()
          .Name("dslide_serve_request_seconds")
          .Help("From a request's arrival to its answer")
          .Register(registry);
  prometheus::Histogram& batches = prometheus::BuildHistogram()
                                       .Name("dslide_serve_batch_samples")
                                       .Help("Samples that were ranked together")
                                       .Register(registry)
                                       .Add({}, kSamples);
  prometheus::Family<prometheus::Counter>& loads =
      prometheus::BuildCounter()
          .Name("dslide_serve_model_loads_total")
          .Help("Models that were loaded, or could not be")
          .Register(registry);
  prometheus::Gauge& trained =
      prometheus::BuildGauge()
          .Name("dslide_serve_model_samples")
          .Help("Samples that the served model was trained on, over all epochs")
          .Register(registry)
          .Add({});
  prometheus::Gauge& loaded = prometheus::BuildGauge()
                                  .Name("dslide_serve_model_loaded_timestamp_seconds")
                                  .Help("When the served model was loaded")
                                  .Register(registry)
                                  .Add({});
};

ServeMetrics::ServeMetrics() : impl_(std::make_unique<Impl>()) {
  impl_->loads.Add({{"result", "failed"}});
}
ServeMetrics::~ServeMetrics() = default;

void ServeMetrics::Answered(std::string_view endpoint, unsigned status, int64_t micros) {
  const std::string name(endpoint);
  impl_->requests.Add({{"endpoint", name}, {"code", std::to_string(status)}}).Increment();
  impl_->latency.Add({{"endpoint", name}}, kSeconds).Observe(static_cast<double>(micros) * 1e-6);
}

void ServeMetrics::Ranked(size_t samples) { impl_->batches.Observe(static_cast<double>(samples)); }

void ServeMetrics::Loaded(const Model& model) {
  impl_->loads.Add({{"result", "loaded"}}).Increment();
  impl_->trained.Set(static_cast<double>(model.info().samples));
  impl_->loaded.Set(
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
}

void ServeMetrics::LoadFailed() { impl_->loads.Add({{"result", "failed"}}).Increment(); }

std::string ServeMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace dslide
