// One of ten workers lies all the time: in asynchronous training, and in synchronous training with
// audits.
#include <cmath>

#include "tests/attacks/families/poison_attacks.h"
#include "tests/attacks/lying_worker.h"

namespace dslide::liar_attacks {
namespace {

constexpr int kHonest = 9;

void Lie(Strike& strike, Twist twist) {
  LyingOptions options;
  options.twist = std::move(twist);
  options.delay_ms = 5 * kHonest;
  RunLyingWorker(strike, options);
}

void ScaleBy(Strike& strike, float factor) {
  Lie(strike, Change<EmbedPush>([factor](EmbedPush* push) {
        for (float& x : push->gradient.data) x *= factor;
      }));
}
void Sign(Strike& strike) { ScaleBy(strike, -1); }
void Tenfold(Strike& strike) { ScaleBy(strike, -10); }
void Zero(Strike& strike) { ScaleBy(strike, 0); }
void RandomGradients(Strike& strike) {
  Lie(strike, Change<EmbedPush>([&strike](EmbedPush* push) {
        for (float& x : push->gradient.data) x = static_cast<float>(strike.random().Normal());
      }));
}
void Labels(Strike& strike) { Lie(strike, ExchangeLabels()); }
void Hidden(Strike& strike) {
  Lie(strike, Change<ActiveQuery>([&strike](ActiveQuery* query) {
        for (float& x : query->hidden.data) {
          x = 10 * static_cast<float>(std::abs(strike.random().Normal()));
        }
      }));
}
void Normaliser(Strike& strike) {
  Lie(strike, Change<GradientPush>([](GradientPush* push) {
        for (float& x : push->log_normaliser) x -= 3;
      }));
}

// Lies inside all bounds: labels shifted, activations and gradients scaled.
template <int kActivations, int kGradients>
void Bounded(Strike& strike) {
  LyingOptions options;
  options.delay_ms = 15;
  const Twist labels = ExchangeLabels();
  options.twist = [labels](uint32_t to, Message* message) {
    if (auto* query = std::get_if<ActiveQuery>(&message->body)) {
      for (float& x : query->hidden.data) x *= kActivations;
    }
    if (auto* push = std::get_if<EmbedPush>(&message->body)) {
      for (float& x : push->gradient.data) x *= -kGradients;
    }
    return labels(to, message);
  };
  RunLyingWorker(strike, options);
}

}  // namespace

std::vector<Attack> All() {
  std::vector<Attack> all = {
      {"liar.sign", As::kWorker, "1 of 10: gradients with the wrong sign", Sign},
      {"liar.tenfold", As::kWorker, "1 of 10: gradients times -10", Tenfold},
      {"liar.zero", As::kWorker, "1 of 10: no gradients", Zero},
      {"liar.random", As::kWorker, "1 of 10: random gradients", RandomGradients},
      {"liar.labels", As::kWorker, "1 of 10: wrong labels", Labels},
      {"liar.hidden", As::kWorker, "1 of 10: random activations", Hidden},
      {"liar.normaliser", As::kWorker, "1 of 10: log Z less 3", Normaliser},
      {"liar.sync-sign", As::kWorker, "1 of 10, audited: the wrong sign", Sign, on::kSynchronous},
      {"liar.sync-random", As::kWorker, "1 of 10, audited: random gradients", RandomGradients,
       on::kSynchronous},
      {"liar.sync-labels", As::kWorker, "1 of 10, audited: wrong labels", Labels, on::kSynchronous},
  };
  for (Attack& attack : all) {
    attack.on.alone = true;
    attack.on.times = 3;
    attack.on.workers = kHonest;
  }
  const std::vector<Attack> of_three = {
      {"liar.bounded-1-1", As::kWorker, "1 of 3: wrong labels, wrong sign", Bounded<1, 1>},
      {"liar.bounded-1-4", As::kWorker, "1 of 3: the same, gradients x 4", Bounded<1, 4>},
      {"liar.bounded-3-5", As::kWorker, "1 of 3: h x 3, gradients x 5", Bounded<3, 5>},
      {"liar.bounded-3-20", As::kWorker, "1 of 3: h x 3, gradients x 20", Bounded<3, 20>},
      {"liar.bounded-3-3", As::kWorker, "1 of 3: h x 3, gradients x 3", Bounded<3, 3>},
  };
  for (Attack attack : of_three) {
    attack.on.alone = true;
    attack.on.times = 4;
    all.push_back(attack);
  }
  return all;
}

}  // namespace dslide::liar_attacks
