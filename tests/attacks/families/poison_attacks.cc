// Numbers that poison the model, by a worker beside two honest ones: a third of all work.
#include "tests/attacks/families/poison_attacks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/attacks/lying_worker.h"

namespace dslide::poison_attacks {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void Poison(Strike& strike, Twist twist) {
  LyingOptions options;
  options.twist = std::move(twist);
  RunLyingWorker(strike, options);
}

// All of h where relu lets it pass; the others stay 0.
void HiddenIs(Strike& strike, float value) {
  Poison(strike, Change<ActiveQuery>([value](ActiveQuery* query) {
           for (float& x : query->hidden.data) x = value;
         }));
}
void GradientIs(Strike& strike, float value) {
  Poison(strike, Change<EmbedPush>([value](EmbedPush* push) {
           for (float& x : push->gradient.data) x = value;
         }));
}
void NormaliserIs(Strike& strike, float value) {
  Poison(strike, Change<GradientPush>([value](GradientPush* push) {
           for (float& x : push->log_normaliser) x = value;
         }));
}

void HiddenNan(Strike& strike) { HiddenIs(strike, kNan); }
void HiddenHuge(Strike& strike) { HiddenIs(strike, 1e17f); }
void GradientNan(Strike& strike) { GradientIs(strike, kNan); }
void GradientHuge(Strike& strike) { GradientIs(strike, 1e17f); }
void NormaliserNan(Strike& strike) { NormaliserIs(strike, kNan); }
void NormaliserHuge(Strike& strike) { NormaliserIs(strike, 1e30f); }
void NormaliserLow(Strike& strike) { NormaliserIs(strike, -80.0f); }

void ScaledTenfold(Strike& strike) {
  Poison(strike, Change<EmbedPush>([](EmbedPush* push) {
           for (float& x : push->gradient.data) x *= -10;
         }));
}
void FeatureValues(Strike& strike) {
  Poison(strike, [](uint32_t, Message* message) {
    const auto spoil = [](EmbedRequest* request) {
      for (float& x : request->features.values) x = 1e30f;
    };
    if (auto* embed = std::get_if<EmbedRequest>(&message->body)) spoil(embed);
    auto* push = std::get_if<EmbedPush>(&message->body);
    if (push != nullptr && push->next) spoil(&*push->next);
    return true;
  });
}
// Within what a sum of replies can be; the scores are not.
void RankHuge(Strike& strike) {
  LyingOptions options;
  options.copies = 5;
  options.twist = Change<TopKRequest>([](TopKRequest* top) {
    for (float& x : top->hidden.data) x = 0x1p60f;
  });
  RunLyingWorker(strike, options);
}
void TestFeatures(Strike& strike) {
  Poison(strike, Change<EmbedRequest>([](EmbedRequest* embed) {
           for (float& x : embed->features.values) x = embed->training ? x : 0x1p40f;
         }));
}
// One sample has as many labels as a message holds.
void LabelsWithoutEnd(Strike& strike) {
  Poison(strike, Change<ActiveQuery>([](ActiveQuery* query) {
           SparseRows& labels = query->labels;
           if (labels.ids.empty()) return;
           const uint32_t most = 1 + *std::ranges::max_element(labels.ids);
           labels.ids.resize(most);
           std::iota(labels.ids.begin(), labels.ids.end(), 0u);
           std::fill(labels.offsets.begin() + 1, labels.offsets.end(), most);
           query->label_totals[0] = most;
         }));
}
void WrongLabels(Strike& strike) { Poison(strike, ExchangeLabels()); }
void LabelsForeign(Strike& strike) {
  Poison(strike, Change<ActiveQuery>([](ActiveQuery* query) {
           for (uint32_t& id : query->labels.ids) id = 4'000'000'000u;
         }));
}
void LabelTotals(Strike& strike) {
  Poison(strike, Change<ActiveQuery>([](ActiveQuery* query) {
           for (uint32_t& total : query->label_totals) total = total == 0 ? 0 : 0xffffffff;
         }));
}
void Weights(Strike& strike) {
  Poison(strike, Change<ActiveQuery>(
                     [](ActiveQuery* query) { query->weights.assign(query->hidden.rows, 1e6f); }));
}

}  // namespace

std::vector<Attack> All() {
  std::vector<Attack> all = {
      {"poison.h-nan", As::kWorker, "h is NaN", HiddenNan},
      {"poison.h-1e17", As::kWorker, "h is 1e17", HiddenHuge},
      {"poison.gradient-nan", As::kWorker, "gradients of NaN", GradientNan},
      {"poison.gradient-1e17", As::kWorker, "gradients of 1e17", GradientHuge},
      {"poison.gradient-tenfold", As::kWorker, "gradients times -10", ScaledTenfold},
      {"poison.log-z-nan", As::kWorker, "log Z is NaN", NormaliserNan},
      {"poison.log-z-1e30", As::kWorker, "log Z is 1e30", NormaliserHuge},
      {"poison.log-z-low", As::kWorker, "log Z is -80", NormaliserLow},
      {"poison.features-1e30", As::kWorker, "feature values of 1e30", FeatureValues},
      {"poison.rank-2e60", As::kWorker, "h of test samples is 2^60, five times", RankHuge},
      {"poison.test-features", As::kWorker, "features of test samples are 2^40", TestFeatures},
      {"poison.labels-all", As::kWorker, "a sample has all labels up to the batch's largest",
       LabelsWithoutEnd},
      {"poison.labels-wrong", As::kWorker, "another label for each sample", WrongLabels},
      {"poison.labels-foreign", As::kWorker, "labels that do not exist", LabelsForeign},
      {"poison.label-totals", As::kWorker, "samples of 4 billion labels", LabelTotals},
      {"poison.weights-1e6", As::kWorker, "sample weights of 1,000,000", Weights},
  };
  for (Attack& attack : all) attack.on.alone = true;
  return all;
}

}  // namespace dslide::poison_attacks

namespace dslide {

Twist ExchangeLabels() {
  return Change<ActiveQuery>([](ActiveQuery* query) {
    std::vector<uint32_t>& ids = query->labels.ids;
    if (!ids.empty()) std::rotate(ids.begin(), ids.begin() + 1, ids.end());
  });
}

LoadReport AbsurdLoad() {
  LoadReport load;
  load.interval_ms = 1;
  load.batches = 1;
  for (uint32_t slot = 0; slot < 256; ++slot) load.slots.push_back(slot);
  load.executor.assign(256, 0);
  load.retrieved = load.used = load.updated = std::vector<uint32_t>(256, 0xffffffff);
  load.work = load.service_us = std::vector<float>(256, 3e38f);
  load.bytes.assign(256, uint64_t{1} << 62);
  load.busy.assign(64, 3e38f);
  return load;
}

}  // namespace dslide
