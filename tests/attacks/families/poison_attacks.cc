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
void HiddenMost(Strike& strike) { HiddenIs(strike, 3e38f); }
void HiddenHuge(Strike& strike) { HiddenIs(strike, 1e17f); }
void HiddenNegative(Strike& strike) { HiddenIs(strike, -50.0f); }
void GradientNan(Strike& strike) { GradientIs(strike, kNan); }
void GradientMost(Strike& strike) { GradientIs(strike, 3e38f); }
void GradientHuge(Strike& strike) { GradientIs(strike, 1e17f); }
void NormaliserNan(Strike& strike) { NormaliserIs(strike, kNan); }
void NormaliserHuge(Strike& strike) { NormaliserIs(strike, 1e30f); }
void NormaliserLow(Strike& strike) { NormaliserIs(strike, -80.0f); }
void NormaliserLowest(Strike& strike) { NormaliserIs(strike, -3e38f); }

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
void WeightsMost(Strike& strike) {
  Poison(strike, Change<ActiveQuery>(
                     [](ActiveQuery* query) { query->weights.assign(query->hidden.rows, 3e38f); }));
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"poison.h-nan", As::kWorker, "h is NaN", HiddenNan, {.alone = true}},
      {"poison.h-3e38", As::kWorker, "h is 3e38", HiddenMost, {.alone = true}},
      {"poison.h-1e17", As::kWorker, "h is 1e17", HiddenHuge, {.alone = true}},
      {"poison.h-negative", As::kWorker, "h is negative", HiddenNegative, {.alone = true}},
      {"poison.gradient-nan", As::kWorker, "gradients of NaN", GradientNan, {.alone = true}},
      {"poison.gradient-3e38", As::kWorker, "gradients of 3e38", GradientMost, {.alone = true}},
      {"poison.gradient-1e17", As::kWorker, "gradients of 1e17", GradientHuge, {.alone = true}},
      {"poison.gradient-tenfold",
       As::kWorker,
       "gradients times -10",
       ScaledTenfold,
       {.alone = true}},
      {"poison.log-z-nan", As::kWorker, "log Z is NaN", NormaliserNan, {.alone = true}},
      {"poison.log-z-1e30", As::kWorker, "log Z is 1e30", NormaliserHuge, {.alone = true}},
      {"poison.log-z-low", As::kWorker, "log Z is -80", NormaliserLow, {.alone = true}},
      {"poison.log-z-lowest", As::kWorker, "log Z is -3e38", NormaliserLowest, {.alone = true}},
      {"poison.features-1e30",
       As::kWorker,
       "feature values of 1e30",
       FeatureValues,
       {.alone = true}},
      {"poison.rank-2e60",
       As::kWorker,
       "h of test samples is 2^60, five times",
       RankHuge,
       {.alone = true}},
      {"poison.test-features",
       As::kWorker,
       "features of test samples are 2^40",
       TestFeatures,
       {.alone = true}},
      {"poison.labels-all",
       As::kWorker,
       "a sample has all labels up to the batch's largest",
       LabelsWithoutEnd,
       {.alone = true}},
      {"poison.labels-wrong",
       As::kWorker,
       "another label for each sample",
       WrongLabels,
       {.alone = true}},
      {"poison.labels-foreign",
       As::kWorker,
       "labels that do not exist",
       LabelsForeign,
       {.alone = true}},
      {"poison.label-totals",
       As::kWorker,
       "samples of 4 billion labels",
       LabelTotals,
       {.alone = true}},
      {"poison.weights-1e6", As::kWorker, "sample weights of 1,000,000", Weights, {.alone = true}},
      {"poison.weights-3e38", As::kWorker, "sample weights of 3e38", WeightsMost, {.alone = true}},
  };
}

}  // namespace dslide::poison_attacks

namespace dslide {

Twist ExchangeLabels() {
  return Change<ActiveQuery>([](ActiveQuery* query) {
    std::vector<uint32_t>& ids = query->labels.ids;
    if (!ids.empty()) std::rotate(ids.begin(), ids.begin() + 1, ids.end());
  });
}

}  // namespace dslide
