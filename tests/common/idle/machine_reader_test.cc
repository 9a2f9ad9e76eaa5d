#include "common/idle/machine_reader.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace dslide::machine_reader_test {
namespace {

constexpr int64_t kSecond = 1'000'000;

struct FakeMachine {
  TempDirectory directory;
  MachineReader reader{directory.path()};
  int64_t now_us = kSecond;

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = directory.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // Ticks of a hundredth of a second, of two CPUs.
  void Stat(int user, int nice, int system, int idle, int steal = 0) {
    Write("/proc/stat", "cpu  " + std::to_string(user) + " " + std::to_string(nice) + " " +
                            std::to_string(system) + " " + std::to_string(idle) + " 0 0 0 " +
                            std::to_string(steal) + " 0 0\ncpu0 1\ncpu1 1\nintr 5\n");
  }
  MachineSample Read(double own_cpu_s = 0) { return reader.Read(own_cpu_s, now_us += kSecond); }
};

TEST_CASE_FIXTURE(FakeMachine, "what others use is all use less one's own") {
  Stat(1000, 0, 100, 5000);
  CHECK_FALSE(Read(3.0).others_cpu.has_value());
  Stat(1080, 20, 120, 5080);  // 1.2 s of 2 s
  CHECK(*Read(3.5).others_cpu == doctest::Approx(0.35));
  CHECK(*Read(9.0).others_cpu == doctest::Approx(0.35));  // the same ticks: nothing new
  Stat(1180, 20, 120, 5180, 900);                         // a hypervisor's time counts for nobody
  CHECK(*Read(3.5).others_cpu == doctest::Approx(0.5));
  Stat(1280, 20, 120, 5280);
  CHECK(*Read(9.5).others_cpu == 0);  // never negative
}

TEST_CASE_FIXTURE(FakeMachine, "pressure is the share of the time in which some process waited") {
  const auto pressure = [&](int total_us) {
    Write("/proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=0.00 total=" +
                                    std::to_string(total_us) + "\nfull avg10=0.00 total=0\n");
  };
  pressure(5'000'000);
  CHECK_FALSE(Read().waiting.has_value());
  pressure(5'250'000);
  CHECK(*Read().waiting == doctest::Approx(0.25));
  pressure(9'000'000);
  CHECK(*Read().waiting == 1);
}

TEST_CASE_FIXTURE(FakeMachine, "without pressure the load average counts beyond the CPUs") {
  Stat(1, 0, 0, 1);
  Write("/proc/loadavg", "1.50 1.00 0.50 1/100 4711\n");
  CHECK(*Read().waiting == 0);
  Write("/proc/loadavg", "8.00 1.00 0.50 1/100 4711\n");
  CHECK(*Read().waiting == doctest::Approx(0.75));
}

TEST_CASE_FIXTURE(FakeMachine,
                  "a machine is on battery if its own discharges and no mains are on") {
  CHECK_FALSE(Read().on_battery);
  const auto supply = [&](const std::string& name, const std::string& file,
                          const std::string& text) {
    Write("/sys/class/power_supply/" + name + "/" + file, text + "\n");
  };
  supply("hidpp_battery_0", "type", "Battery");  // a mouse
  supply("hidpp_battery_0", "scope", "Device");
  supply("hidpp_battery_0", "status", "Discharging");
  CHECK_FALSE(Read().on_battery);
  supply("BAT0", "type", "Battery");
  supply("BAT0", "status", "Discharging");
  CHECK(Read().on_battery);
  supply("AC", "type", "Mains");
  supply("AC", "online", "1");
  CHECK_FALSE(Read().on_battery);
  supply("AC", "online", "0");
  CHECK(Read().on_battery);
  supply("BAT0", "status", "Full");
  CHECK_FALSE(Read().on_battery);
}

TEST_CASE_FIXTURE(FakeMachine, "what is not there or makes no sense is not known") {
  CHECK_FALSE(Read().waiting.has_value());
  Write("/proc/stat", "nonsense\n");
  Write("/proc/pressure/cpu", "some\n");
  Write("/proc/loadavg", "-1");
  const MachineSample sample = Read();
  CHECK_FALSE(sample.others_cpu.has_value());
  CHECK_FALSE(sample.waiting.has_value());
  CHECK(sample.resident_bytes == 0);
}

TEST_CASE("the real machine can be read") {
  MachineReader reader("");
  (void)reader.Read(0, kSecond);
  const MachineSample sample = reader.Read(0, 2 * kSecond);
  CHECK(reader.KnowsCpu());
  CHECK(sample.resident_bytes > 0);
}

}  // namespace
}  // namespace dslide::machine_reader_test
