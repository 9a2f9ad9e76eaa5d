// A small training task in a directory of its own, and the commands that work on it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cluster/process.h"
#include "tests/support/temp_directory.h"

namespace dslide {

using Arguments = std::vector<std::string>;

inline Arguments With(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

constexpr int kSamples = 6000;
constexpr int kTestSamples = 500;
constexpr int kFeatures = 300;
constexpr int kLabels = 200;

// Failpoints of a run that has to last: each worker waits after every batch. An epoch of kSamples
// in batches of 32 takes a worker two seconds, and leaves the CPU to others.
constexpr const char* kSlowly = "worker.before-report=delay:10";

// Writes samples of a rule that can be learned: feature i < kLabels means label i, and two features
// of every sample are noise.
void WriteSamples(const std::string& path, int samples, uint64_t seed);

// Whether `part` is somewhere in `text`.
bool Contains(const std::string& text, const std::string& part);

class TestRun {
 public:
  TestRun();   // with data and configuration, nothing started
  ~TestRun();  // prints what the processes wrote if a REQUIRE has failed
  TestRun(const TestRun&) = delete;
  TestRun& operator=(const TestRun&) = delete;

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string run_directory() const { return Path("run"); }

  // dslide train on this run's configuration.
  std::unique_ptr<Process> Train(const Arguments& more = {}, const std::string& failpoints = "");
  // Starts any of the executables; its log's name is a number.
  std::unique_ptr<Process> Start(const std::string& program, const Arguments& arguments,
                                 const std::string& failpoints = "");
  // Runs an executable to its end; returns its exit code.
  int Run(const std::string& program, const Arguments& arguments);
  const std::string& last_errors() const { return last_errors_; }
  const std::string& last_output() const { return last_output_; }

  nlohmann::json Summary() const;  // REQUIRES that the run has ended
  // The scheduler's answer to GET /api/status; null if there is none.
  nlohmann::json Status() const;
  double TrainedSamples() const;                           // by the status page
  double TrainedSamples(const std::string& worker) const;  // of one member
  std::string SchedulerAddress() const;                    // "" until it listens
  std::string ServerLog(int number) const;                 // of a launched server
  std::string WorkerLog(int number) const;
  const std::string& config() const { return config_; }
  int status_port() const { return status_port_; }

 private:
  TempDirectory directory_;
  std::string config_;
  int status_port_;
  int logs_ = 0;
  std::string last_errors_;
  std::string last_output_;
};

}  // namespace dslide
