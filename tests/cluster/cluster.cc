#include "tests/cluster/cluster.h"

#include <fmt/core.h>
#include <fmt/os.h>
#include <httplib.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "common/base/random.h"

namespace dslide {
namespace {

constexpr size_t kShownBytes = 3000;  // of each process's output, when a test has failed

}  // namespace

void WriteSamples(const std::string& path, int samples, uint64_t seed) {
  Random random(seed);
  auto file = fmt::output_file(path);
  file.print("{} {} {}\n", samples, kFeatures, kLabels);
  for (int i = 0; i < samples; ++i) {
    const uint64_t label = random.Below(kLabels);
    const uint64_t noise = kLabels + random.Below(kFeatures - kLabels - 1);
    file.print("{} {}:1 {}:0.5 {}:0.3\n", label, label, noise, noise + 1);
  }
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TestRun::TestRun() : config_(Path("cluster.ini")), status_port_(FreePort()) {
  WriteSamples(Path("train.txt"), kSamples, 1);
  WriteSamples(Path("test.txt"), kTestSamples, 2);
  auto file = fmt::output_file(config_);
  file.print("[model]\nhidden = 32\n");
  file.print("[train]\ndata = {}\ntest = {}\nheldout = 0\n", Path("train.txt"), Path("test.txt"));
  file.print(
      "epochs = 3\nbatch = 32\noptimizer = adam\nlearning_rate = 0.01\nwarmup_batches = 20\n");
  file.print("[cluster]\nexecutors = 1\nwire = fp32\nstatus_bind = {}\n", Loopback(status_port_));
}

TestRun::~TestRun() {
  if (std::uncaught_exceptions() == 0) return;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory_.path(), error)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".out" && extension != ".err" && extension != ".log") continue;
    const std::string text = ReadFile(entry.path().string());
    if (text.empty()) continue;
    fmt::print(stderr, "--- the end of {}\n{}\n", entry.path().filename().string(),
               text.substr(text.size() - std::min(text.size(), kShownBytes)));
  }
}

std::unique_ptr<Process> TestRun::Start(const std::string& program, const Arguments& arguments,
                                        const std::string& failpoints) {
  return std::make_unique<Process>(program, arguments, Path(fmt::format("{}-{}", program, ++logs_)),
                                   failpoints);
}

std::unique_ptr<Process> TestRun::Train(const Arguments& more, const std::string& failpoints) {
  Arguments arguments = {"train", "--config", config_, "--run-dir", run_directory()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Start("dslide", arguments, failpoints);
}

int TestRun::Run(const std::string& program, const Arguments& arguments) {
  const auto process = Start(program, arguments);
  const int code = process->Wait().value_or(-1000);
  last_output_ = process->Output();
  last_errors_ = process->Errors();
  return code;
}

nlohmann::json TestRun::Summary() const {
  return nlohmann::json::parse(ReadFile(run_directory() + "/summary.json"), nullptr, false);
}

nlohmann::json TestRun::Status() const {
  httplib::Client client("127.0.0.1", status_port_);
  client.set_connection_timeout(1);
  client.set_read_timeout(5);
  const auto answer = client.Get("/api/status");
  if (!answer || answer->status != 200) return nullptr;
  return nlohmann::json::parse(answer->body, nullptr, false);
}

double TestRun::TrainedSamples() const {
  const nlohmann::json status = Status();
  return status.contains("figures") ? status["figures"]["samples"].get<double>() : 0.0;
}

double TestRun::TrainedSamples(const std::string& worker) const {
  const nlohmann::json status = Status();
  if (!status.contains("members")) return 0;
  for (const auto& member : status["members"]) {
    if (member["name"] == worker) return member["samples"];
  }
  return 0;
}

std::string TestRun::SchedulerAddress() const {
  const std::string text = ReadFile(run_directory() + "/scheduler.address");
  return text.substr(0, text.find('\n'));
}

std::string TestRun::ServerLog(int number) const {
  return ReadFile(fmt::format("{}/logs/server-{}.log", run_directory(), number));
}

std::string TestRun::WorkerLog(int number) const {
  return ReadFile(fmt::format("{}/logs/worker-{}.log", run_directory(), number));
}

}  // namespace dslide
