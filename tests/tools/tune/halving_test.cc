#include "tools/dslide/tune/halving.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

namespace dslide::halving_test {
namespace {

// A machine on which a run takes a fixed time and a time for each epoch; the tuning's clock.
struct Machine {
  double run_s = 2;
  double epoch_s = 1;
  double spent_s = 0;

  TuneOutcome Train(uint32_t epochs, double weight, double measure, double cpu_seconds = 1) {
    const double train_s = epoch_s * weight * epochs;
    spent_s += run_s + train_s;
    return {true, measure, cpu_seconds, run_s + train_s, train_s};
  }
};

std::vector<CandidateShape> Shapes(size_t count, uint32_t epochs = 9) {
  return std::vector<CandidateShape>(count, {epochs, 1});
}

// Runs a tuning to its end; candidate c has outcome(run). Returns the runs in their order.
std::vector<TuneRun> Tune(std::vector<CandidateShape> shapes, double budget_s, Machine* machine,
                          const std::function<TuneOutcome(const TuneRun&)>& outcome,
                          uint32_t least_epochs = 1) {
  RunTimes times;
  times.Add(1, 1, machine->Train(1, 1, 0));
  Halving halving(std::move(shapes), least_epochs, times, budget_s, machine->spent_s);
  std::vector<TuneRun> runs;
  while (const auto run = halving.Next(machine->spent_s)) {
    runs.push_back(*run);
    halving.Finish(*run, outcome(*run));
  }
  return runs;
}

std::vector<size_t> CandidatesIn(const std::vector<TuneRun>& runs, size_t rung) {
  std::vector<size_t> candidates;
  for (const TuneRun& run : runs) {
    if (run.rung == rung) candidates.push_back(run.candidate);
  }
  return candidates;
}

TEST_CASE("halving: a third of the candidates goes on for three times the epochs") {
  Machine machine;
  const auto runs = Tune(Shapes(27), 10000, &machine, [&](const TuneRun& run) {
    return machine.Train(run.epochs, 1, 0.01 * static_cast<double>(run.candidate));
  });
  CHECK(CandidatesIn(runs, 0).size() == 27);
  CHECK(CandidatesIn(runs, 1) == std::vector<size_t>{26, 25, 24, 23, 22, 21, 20, 19, 18});
  CHECK(CandidatesIn(runs, 2) == std::vector<size_t>{26, 25, 24, 0});  // and the default
  for (const TuneRun& run : runs) {
    CHECK(run.epochs == (run.rung == 0 ? 1 : run.rung == 1 ? 3 : 9));
  }
}

TEST_CASE("halving: the default is not run twice in the last rung") {
  Machine machine;
  const auto runs = Tune(Shapes(9), 10000, &machine, [&](const TuneRun& run) {
    return machine.Train(run.epochs, 1, run.candidate == 0 ? 1 : 0.5);
  });
  CHECK(CandidatesIn(runs, 2) == std::vector<size_t>{0});
}

TEST_CASE("halving: of equal measures the one of less CPU time goes on, then the earlier one") {
  Machine machine;
  const std::map<size_t, double> cpu_seconds = {{4, 1}, {5, 2}, {6, 2}};
  const auto runs = Tune(Shapes(9), 10000, &machine, [&](const TuneRun& run) {
    const auto cpu = cpu_seconds.find(run.candidate);
    return machine.Train(run.epochs, 1, 0.5, cpu == cpu_seconds.end() ? 3 : cpu->second);
  });
  CHECK(CandidatesIn(runs, 1) == std::vector<size_t>{4, 5, 6});
  CHECK(CandidatesIn(runs, 2) == std::vector<size_t>{4, 0});
}

TEST_CASE("halving: a candidate whose run fails is out") {
  Machine machine;
  const auto runs = Tune(Shapes(9), 10000, &machine, [&](const TuneRun& run) {
    if (run.candidate % 2 == 0) return TuneOutcome{};
    return machine.Train(run.epochs, 1, 0.01 * static_cast<double>(run.candidate));
  });
  CHECK(CandidatesIn(runs, 1) == std::vector<size_t>{7, 5, 3});
  CHECK(CandidatesIn(runs, 2) == std::vector<size_t>{7});  // the default has failed
}

TEST_CASE("halving: it ends when all runs fail") {
  Machine machine;
  const auto runs = Tune(Shapes(9), 10000, &machine, [](const TuneRun&) { return TuneOutcome{}; });
  CHECK(runs.size() == 9);
}

TEST_CASE("halving: the budget is kept on fast and slow machines") {
  for (const double epoch_s : {0.01, 0.3, 1.0, 4.0, 11.0, 60.0, 300.0}) {
    for (const double run_s : {0.1, 5.0, 50.0}) {
      for (const double budget_s : {60.0, 480.0, 1800.0}) {
        CAPTURE(epoch_s);
        CAPTURE(run_s);
        CAPTURE(budget_s);
        Machine machine{run_s, epoch_s, 0};
        // Every third candidate is slow, and better than the others.
        std::vector<CandidateShape> shapes = Shapes(81, 8);
        for (size_t c = 2; c < shapes.size(); c += 3) shapes[c] = {16, 2};
        const double first_s = run_s + epoch_s;
        const auto runs = Tune(shapes, budget_s, &machine, [&](const TuneRun& run) {
          const double weight = shapes[run.candidate].weight;
          return machine.Train(run.epochs, weight, weight);
        });
        CHECK(machine.spent_s <= std::max(budget_s, first_s));
        // Where the default's whole run fits twice, something is compared.
        if (budget_s > 1.2 * (first_s + 2 * (run_s + 8 * epoch_s))) CHECK(runs.size() > 1);
      }
    }
  }
}

TEST_CASE("halving: runs that turn out slower than estimated are not started late") {
  Machine machine;
  RunTimes times;
  times.Add(1, 1, machine.Train(1, 1, 0));
  Halving halving(Shapes(27), 1, times, 300, machine.spent_s);
  machine.epoch_s = 5;  // another program takes the processor
  while (const auto run = halving.Next(machine.spent_s)) {
    halving.Finish(*run, machine.Train(run->epochs, 1, 0.5));
  }
  CHECK(machine.spent_s <= 330);  // the estimate lags behind by a part of a run
  CHECK(halving.left_out() > 0);
}

TEST_CASE("halving: a run whose outcome is known is taken after the budget too") {
  RunTimes times;
  times.Add(1, 1, {true, 0, 1, 3, 1});
  Halving halving(Shapes(9), 1, times, 1000, 3);
  CHECK(halving.Next(2000, [](const TuneRun& run) { return run.candidate == 5; }) ==
        TuneRun{5, 1, 0});
  CHECK(halving.left_out() == 5);
  CHECK_FALSE(halving.Next(2000, [](const TuneRun&) { return false; }));
}

TEST_CASE("plan: the longest last runs come first, then rungs, then candidates") {
  RunTimes times;
  times.Add(1, 1, {true, 0, 1, 3, 1});  // 2 s a run, 1 s an epoch
  const auto rungs = [&](size_t candidates, uint32_t epochs, double seconds, uint32_t least = 1) {
    return PlanHalving(Shapes(candidates, epochs), least, times, seconds).rungs;
  };
  using Rungs = std::vector<Rung>;
  CHECK(rungs(81, 9, 1e6) == Rungs{{81, 9}, {27, 3}, {9, 1}});
  CHECK(rungs(81, 1, 1e6) == Rungs{{81, 1}});
  CHECK(rungs(8, 9, 1e6) == Rungs{{8, 3}, {2, 1}});  // too few candidates for three rungs
  CHECK(rungs(2, 9, 1e6) == Rungs{{2, 1}});
  CHECK(rungs(1, 9, 1e6).empty());
  // Nine candidates: 9 * 3 + 3 * 5 + 11 and the default's 11 are 64 s.
  CHECK(rungs(81, 9, 64 / 0.9 + 0.01) == Rungs{{9, 9}, {3, 3}, {1, 1}});
  CHECK(rungs(81, 9, 64 / 0.9 - 0.01) == Rungs{{6, 3}, {2, 1}});  // 6 * 5 + 3 * 11 are 63
  // Two whole runs are 22 s; below them runs are shorter.
  CHECK(rungs(81, 9, 22 / 0.9 + 0.01) == Rungs{{2, 1}});
  CHECK(rungs(81, 9, 22 / 0.9 - 0.01) == Rungs{{3, 9}, {1, 3}});
  CHECK(rungs(81, 9, 6).empty());
  // No run is shorter than three epochs.
  CHECK(rungs(81, 9, 1e6, 3) == Rungs{{81, 3}, {27, 1}});
  CHECK(PlanHalving(Shapes(9), 1, times, 1e6).seconds == doctest::Approx(64));
}

TEST_CASE("plan: epochs are rounded, and least epochs hold for longer runs only") {
  CHECK(EpochsIn({1, 3}, {8, 1}, 1) == 3);
  CHECK(EpochsIn({1, 9}, {8, 1}, 1) == 1);
  CHECK(EpochsIn({1, 9}, {2, 1}, 1) == 1);
  CHECK(EpochsIn({1, 9}, {12, 1}, 3) == 3);
  CHECK(EpochsIn({1, 9}, {2, 1}, 3) == 2);
}

TEST_CASE("run times: a part for each run and a part for each epoch, by the candidate's weight") {
  RunTimes times;
  times.Add(2, 1, {true, 0, 1, 7, 4});
  times.Add(1, 2, {true, 0, 1, 9, 4});
  CHECK(times.other_seconds() == doctest::Approx(4));
  CHECK(times.epoch_seconds() == doctest::Approx(2));
  CHECK(times.Estimate(3, 2) == doctest::Approx(16));
}

}  // namespace
}  // namespace dslide::halving_test
