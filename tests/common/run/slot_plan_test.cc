// The configuration that members work by under a plan.
#include "common/run/slot_plan.h"

#include <doctest/doctest.h>

#include "tests/support/results.h"

namespace dslide {

TEST_CASE("slot plan: what was chosen since the run began") {
  Config config;
  config.train.epochs = 8;
  config.train.learning_rate = 0.5f;
  Plan plan;
  REQUIRE(ConfigUnder(plan, config).ok());
  CHECK(*ConfigUnder(plan, config) == config);
  plan.settings = {"train.epochs=5", "train.schedule_epochs=8", "train.cooldown_epochs=2"};
  const Config chosen = Ok(ConfigUnder(plan, config));
  CHECK(chosen.train.epochs == 5);
  CHECK(chosen.train.schedule_epochs == 8);
  CHECK(chosen.train.cooldown_epochs == 2);
  CHECK(chosen.train.learning_rate == 0.5f);
  config.train.learning_rate = 0.25f;
  CHECK(ConfigUnder(plan, config)->train.learning_rate == 0.25f);
}

TEST_CASE("slot plan: no scheduler chooses what cannot change, or is no value") {
  const Config config;
  const auto why = [&](const char* setting) {
    Plan plan;
    plan.settings = {setting};
    const Result<Config> chosen = ConfigUnder(plan, config);
    return chosen.ok() ? "" : chosen.error().message;
  };
  CHECK(why("model.hidden=64") == "model.hidden cannot change");
  CHECK(why("train.epochs=-1").find("train.epochs = -1") != std::string::npos);
  CHECK(why("train.rate=1").find("train.rate") != std::string::npos);
  CHECK(why("nothing").find("nothing") != std::string::npos);
}

TEST_CASE("slot plan: sizes fit the run") {
  Config config;
  Plan plan;
  plan.shape.epoch = 1;
  CHECK(ConfigUnder(plan, config).error().message == "it does not fit the run");
  config.train.open_vocabulary = true;
  CHECK(ConfigUnder(plan, config).error().message == "it has 0 features and 0 labels");
  plan.shape = {1, 20, 10, 5, {}, {}, {10}};
  CHECK(ConfigUnder(plan, config).error().message == "it has ids that the model lacks");
  plan.shape.removed_labels = {9};
  const Config grown = Ok(ConfigUnder(plan, config));
  CHECK(grown.model.features == 20);
  CHECK(grown.model.labels == 10);
  CHECK(grown.train.epoch_samples == 5);
}

}  // namespace dslide
