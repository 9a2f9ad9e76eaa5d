#include "common/idle/machine_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace dslide {
namespace {

double Share(double value) { return std::clamp(value, 0.0, 1.0); }

std::string FirstWord(const std::string& text) {
  std::string word;
  std::istringstream(text) >> word;
  return word;
}

}  // namespace

std::string MachineReader::DefaultRoot() {
  const char* root = std::getenv("DSLIDE_MACHINE_ROOT");
  return root == nullptr ? "" : root;
}

MachineReader::MachineReader(std::string root) : root_(std::move(root)) {}

std::string MachineReader::Text(const std::string& path) const {
  std::ifstream file(root_ + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

MachineSample MachineReader::Read(double own_cpu_s, int64_t now_us) {
  MachineSample sample;
  sample.others_cpu = OthersCpu(own_cpu_s);
  sample.waiting = Waiting(now_us);
  if (!sample.waiting) sample.waiting = WaitingByLoad();
  sample.on_battery = OnBattery();
  sample.resident_bytes = ResidentBytes();
  return sample;
}

// "cpu user nice system idle iowait irq softirq steal guest guest_nice", then a line for each CPU.
// Time of guests is in user and nice already.
std::optional<double> MachineReader::OthersCpu(double own_cpu_s) {
  const std::string text = Text("/proc/stat");
  std::istringstream line(text);
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft_irq = 0;
  if (!(line >> name >> user >> nice >> system >> idle) || name != "cpu") return std::nullopt;
  line >> wait >> irq >> soft_irq;
  uint32_t cpus = 0;
  for (size_t at = text.find("\ncpu"); at != std::string::npos; at = text.find("\ncpu", at + 1)) {
    ++cpus;
  }
  cpus_ = std::max(1u, cpus);
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double busy = (user + nice + system + irq + soft_irq) / tick;
  const CpuTimes now{busy, busy + (idle + wait) / tick, own_cpu_s};
  const std::optional<CpuTimes> before = cpu_;
  if (before && now.total == before->total) return others_cpu_;
  cpu_ = now;
  if (!before) return std::nullopt;
  const double others = (now.busy - before->busy) - (now.own - before->own);
  others_cpu_ = Share(others / (now.total - before->total));
  return others_cpu_;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345", in microseconds.
std::optional<double> MachineReader::Waiting(int64_t now_us) {
  const std::string text = Text("/proc/pressure/cpu");
  const size_t total = text.find("total=");
  if (!text.starts_with("some") || total == std::string::npos) return std::nullopt;
  const Stall now{1e-6 * std::strtod(text.c_str() + total + 6, nullptr), now_us};
  const std::optional<Stall> before = stall_;
  if (before && now_us <= before->at_us) return waiting_;
  stall_ = now;
  if (!before) return std::nullopt;
  const double elapsed_s = 1e-6 * static_cast<double>(now_us - before->at_us);
  waiting_ = Share((now.seconds - before->seconds) / elapsed_s);
  return waiting_;
}

// How many more processes want a CPU than there are, of those that want one: a mean over a minute.
std::optional<double> MachineReader::WaitingByLoad() const {
  double load = 0;
  if (!(std::istringstream(Text("/proc/loadavg")) >> load) || load <= 0) return std::nullopt;
  return Share((load - cpus_) / load);
}

// A machine without mains that works on a battery of its own, not that of a mouse.
bool MachineReader::OnBattery() const {
  bool discharging = false;
  std::error_code error;
  const std::filesystem::path folder = root_ + "/sys/class/power_supply";
  for (const auto& supply : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = "/sys/class/power_supply/" + supply.path().filename().string();
    const std::string type = FirstWord(Text(path + "/type"));
    if (FirstWord(Text(path + "/scope")) == "Device") continue;
    if (type != "Battery" && type != "UPS" && FirstWord(Text(path + "/online")) == "1") {
      return false;
    }
    discharging |= FirstWord(Text(path + "/status")) == "Discharging";
  }
  return discharging;
}

uint64_t MachineReader::ResidentBytes() const {
  uint64_t pages = 0, resident = 0;
  std::istringstream(Text("/proc/self/statm")) >> pages >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace dslide
