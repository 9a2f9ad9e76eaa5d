#include "tests/server/model/lsh/table_layer.h"

#include <algorithm>
#include <vector>

namespace dslide {

Layer MakeLayer(uint32_t ids, Precision precision, uint32_t owned) {
  Config config;
  config.model.hidden = kDim;
  config.model.precision = precision;
  config.train.optimizer = OptimizerKind::kSgd;
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < owned; ++s) slots.push_back({s});
  Layer layer(LayerKind::kOutput, config, SlotMap(ids, kSlots, slots), Purpose::kTraining,
              BestKernels());
  layer.Initialise(1, 1.0f, ids);
  return layer;
}

HashConfig Hashes(uint32_t tables) {
  HashConfig config;
  config.k = 2;
  config.tables = tables;
  config.bin = 8;
  return config;
}

LiveTables Tables(const Layer& layer, const HashConfig& config) {
  return LiveTables(config, 99, layer, BestKernels());
}

bool IsNeuron(const Layer& layer, uint32_t row) {
  return layer.map().Global(row) != SlotMap::kNone;
}

bool SameBuckets(const LiveTables& a, const LiveTables& b) {
  for (uint32_t t = 0; t < a.tables().size(); ++t) {
    for (uint32_t code = 0; code < a.functions().buckets(); ++code) {
      const auto x = a.tables().Bucket(t, static_cast<BucketCode>(code));
      const auto y = b.tables().Bucket(t, static_cast<BucketCode>(code));
      if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    }
  }
  return true;
}

bool SameCodes(const LiveTables& a, const LiveTables& b) {
  for (uint32_t row = 0; row < a.tables().rows(); ++row) {
    if (a.tables().Codes(row) != b.tables().Codes(row)) return false;
  }
  return true;
}

LiveTables Fresh(const Layer& layer, const HashConfig& config) {
  LiveTables fresh = Tables(layer, config);
  fresh.CatchUp();
  return fresh;
}

void Change(Layer* layer, uint32_t row, Random* random) {
  std::vector<float> g(layer->dim());
  for (float& x : g) x = static_cast<float>(random->Normal());
  layer->Update(row, 1.0f, g.data(), 0.0f, false);
}

void ChangeSome(Layer* layer, LiveTables* tables, uint64_t one_in, Random* random) {
  for (uint32_t row = 0; row < layer->map().rows(); ++row) {
    if (!IsNeuron(*layer, row) || random->Below(one_in) != 0) continue;
    Change(layer, row, random);
    tables->Touch(row);
  }
}

}  // namespace dslide
