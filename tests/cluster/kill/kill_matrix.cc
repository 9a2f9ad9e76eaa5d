// The kill matrix: {SIGKILL, SIGTERM, SIGSTOP} x {scheduler, server, worker} x 11 places of a run,
// and SIGKILL to the participants of a slot move, at 9 places of the move. In every cell training
// ends, every sample counts once, and the model is as good as that of an undisturbed run.
//
//   tests_kill_matrix                                      all cells
//   tests_kill_matrix before-reply.kill.worker.sync        one of them
//   tests_kill_matrix --seed 7 --repeat 100 --jobs 4 ...
//
// Every cell runs in a process of its own, forked from this one when the undisturbed runs are done.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "common/app/executable.h"
#include "common/base/process.h"
#include "tests/cluster/kill/kill_cell.h"
#include "tests/cluster/kill/move_cell.h"
#include "tests/support/temp_directory.h"

namespace dslide {
namespace {

// A cell of either kind.
struct Case {
  std::string name;
  bool synchronous = false;
  std::function<Status(uint64_t seed, const Undisturbed& expected, const std::string& directory)>
      run;
};

struct Job {
  Case cell;
  uint64_t seed;
  int64_t started_ms;
  std::string directory;
};

class KillMatrix {
 public:
  // Files go into `directory`; they stay there if `keep`.
  KillMatrix(std::vector<Case> cells, std::string directory, bool keep)
      : cells_(std::move(cells)), root_(std::move(directory)), keep_(keep) {}

  Status RunUndisturbedOnes() {
    for (const Case& cell : cells_) {
      const auto [found, is_new] = undisturbed_.try_emplace(cell.synchronous);
      if (!is_new) continue;
      const std::string mode = cell.synchronous ? "synchronous" : "asynchronous";
      Result<Undisturbed> result = RunUndisturbed(NewDirectory(mode), cell.synchronous);
      DSLIDE_RETURN_IF_ERROR(result);
      found->second = std::move(*result);
      fmt::print("undisturbed, {}: P@1 {:.4f} {}\n", mode, found->second.p_at_1,
                 found->second.checksum);
    }
    return {};
  }

  // Runs every cell, `jobs` at once; returns how many failed.
  size_t RunCells(uint64_t seed, size_t jobs) {
    failed_ = 0;
    for (const Case& cell : cells_) {
      while (running_.size() >= jobs) Collect();
      Fork(cell, seed);
    }
    while (!running_.empty()) Collect();
    return failed_;
  }

 private:
  std::string NewDirectory(const std::string& name) {
    const std::string directory = fmt::format("{}/{}.{}", root_, ++directories_, name);
    std::filesystem::create_directory(directory);
    return directory;
  }

  void Fork(const Case& cell, uint64_t seed) {
    Job job{cell, seed, MonotonicMillis(), NewDirectory(cell.name)};
    std::fflush(stdout);
    const pid_t pid = fork();
    DSLIDE_CHECK(pid >= 0);
    if (pid == 0) {
      DieWithParent();
      DSLIDE_CHECK(std::freopen((job.directory + "/verdict").c_str(), "w", stdout) != nullptr);
      const Status status = cell.run(seed, undisturbed_[cell.synchronous], job.directory);
      if (!status.ok()) fmt::print("{}\n", status.error().message);
      std::fflush(stdout);
      _exit(status.ok() ? 0 : 1);
    }
    running_.emplace(pid, std::move(job));
  }

  // Waits for the end of one running cell.
  void Collect() {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    DSLIDE_CHECK(pid > 0);
    const auto found = running_.find(pid);
    DSLIDE_CHECK(found != running_.end());
    const Job job = std::move(found->second);
    running_.erase(found);
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    fmt::print("{} {} seed {}, {:.1f} s\n", good ? "ok    " : "FAILED", job.cell.name, job.seed,
               static_cast<double>(MonotonicMillis() - job.started_ms) / 1000);
    if (!good) {
      failed_++;
      fmt::print("{}alone: tests_kill_matrix --seed {} {}\n", ReadFile(job.directory + "/verdict"),
                 job.seed, job.cell.name);
    }
    std::fflush(stdout);
    if (!keep_) std::filesystem::remove_all(job.directory);
    if (!good && keep_) fmt::print("files: {}\n", job.directory);
  }

  std::vector<Case> cells_;
  std::string root_;
  bool keep_;
  int directories_ = 0;
  std::map<bool, Undisturbed> undisturbed_;  // by synchronous
  std::map<pid_t, Job> running_;
  size_t failed_ = 0;
};

std::vector<Case> AllCases(bool flip) {
  std::vector<Case> all;
  for (const Cell& cell : AllCells(flip)) {
    all.push_back({cell.Name(), cell.synchronous, std::bind_front(RunCell, cell)});
  }
  for (const MoveCell& cell : AllMoveCells(flip)) {
    all.push_back({cell.Name(), cell.synchronous, std::bind_front(RunMoveCell, cell)});
  }
  return all;
}

Result<std::vector<Case>> ChooseCells(const ParsedArguments& arguments) {
  const std::vector<std::string>& names = arguments.Positional();
  std::vector<Case> all = AllCases(arguments.Has("flip"));
  if (names.empty() && !arguments.Has("both")) return all;
  for (Case& cell : AllCases(!arguments.Has("flip"))) {
    // Cells without a kill come in both kinds of training at once.
    const auto same = [&](const Case& other) { return other.name == cell.name; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(cell));
  }
  if (names.empty()) return all;
  std::vector<Case> cells;
  for (const std::string& name : names) {
    const size_t before = cells.size();
    // A part of a name stands for all cells that begin with it.
    std::copy_if(all.begin(), all.end(), std::back_inserter(cells),
                 [&](const Case& cell) { return cell.name.starts_with(name); });
    if (cells.size() == before) return BadInput(fmt::format("{}: no cell begins like that", name));
  }
  return cells;
}

Status Work(const ParsedArguments& arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Result<uint32_t> seed = arguments.Number("seed", 0, 4'000'000'000);
  DSLIDE_RETURN_IF_ERROR(seed);
  const Result<uint32_t> jobs = arguments.Number("jobs", 1, 1000);
  DSLIDE_RETURN_IF_ERROR(jobs);
  const Result<uint32_t> repeat = arguments.Number("repeat", 1, 1'000'000);
  DSLIDE_RETURN_IF_ERROR(repeat);
  Result<std::vector<Case>> cells = ChooseCells(arguments);
  DSLIDE_RETURN_IF_ERROR(cells);
  const size_t runs = cells->size() * *repeat;
  std::optional<TempDirectory> temporary;
  std::string directory = arguments.Get("keep");
  if (directory.empty()) directory = temporary.emplace().path();
  std::filesystem::create_directories(directory);
  KillMatrix matrix(std::move(*cells), directory, !temporary.has_value());
  DSLIDE_RETURN_IF_ERROR(matrix.RunUndisturbedOnes());
  size_t failed = 0;
  for (uint32_t i = 0; i < *repeat; ++i) failed += matrix.RunCells(*seed + i, *jobs);
  fmt::print("{} of {} runs failed\n", failed, runs);
  return failed == 0 ? Status() : Failed(fmt::format("{} of {} runs failed", failed, runs));
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line("tests_kill_matrix [options] [CELL...]",
                           "Kills and stops processes of clusters at named places.");
  line.Positional("CELL", "a cell, or the beginning of several; all if none is given", 0, 10000);
  line.Option("seed", "N", "when within a place, and which process", "1");
  line.Option("repeat", "N", "so many times, with seeds from --seed on", "1");
  line.Option("jobs", "N", "cells at once", std::to_string(3 * dslide::CoresOfThisMachine()));
  line.Flag("flip", "synchronous training where it is asynchronous else");
  line.Flag("both", "every cell in asynchronous and in synchronous training");
  line.Option("keep", "DIRECTORY", "where all files stay; default: they are removed");
  return dslide::RunExecutable("tests_kill_matrix", line, argc, argv, dslide::Work);
}
