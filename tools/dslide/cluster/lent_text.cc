#include "tools/dslide/cluster/lent_text.h"

#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/base/nearest.h"
#include "common/idle/local_time.h"
#include "common/idle/user_files.h"

namespace dslide {
namespace {

constexpr double kMegabyte = 1 << 20;

std::string DeedsText(const Deeds& deeds) {
  return fmt::format("{} samples, {:.1f} CPU s, {:.1f} MB sent, {:.1f} MB received", deeds.samples,
                     deeds.cpu_s, static_cast<double>(deeds.bytes_sent) / kMegabyte,
                     static_cast<double>(deeds.bytes_received) / kMegabyte);
}

std::string CapsText(const PublishedWorker& worker) {
  const auto cap = [](const char* what, uint32_t value, const char* unit) {
    return value == 0 ? fmt::format("{} any", what) : fmt::format("{} {} {}", what, value, unit);
  };
  return fmt::format("{}, {}, {}", cap("up", worker.upload_kbit, "kbit/s"),
                     cap("down", worker.download_kbit, "kbit/s"),
                     cap("a day", worker.daily_transfer_mb, "MB"));
}

std::string WorkerText(const PublishedWorker& worker, int64_t now) {
  const std::string name = worker.name.empty() ? "worker" : Printable(worker.name);
  std::string text = fmt::format("{} (process {}): {} since {}", name, worker.pid,
                                 Printable(worker.state), ClockText(worker.since_unix_s, now));
  if (worker.until_unix_s > 0) text += " until " + ClockText(worker.until_unix_s, now);
  if (!worker.why.empty()) text += ": " + Printable(worker.why);
  text += fmt::format("\n  scheduler  {}\n  policy     {}\n  network    {}\n  done       {}\n",
                      Printable(worker.scheduler), worker.policy, CapsText(worker),
                      DeedsText(worker.done));
  return text;
}

Totals ReadTotals(int64_t now) {
  const Result<std::string> directory = StateDirectory();
  std::ifstream file(directory.ok() ? *directory + "/" + Account::kFileName : "");
  Totals totals = ParseTotals({std::istreambuf_iterator<char>(file), {}});
  totals.Add({}, LocalTimeAt(now).date);  // of an earlier day it is not today any more
  return totals;
}

}  // namespace

Result<LentWorkers> ReadLentWorkers(int64_t now) {
  const Result<std::string> directory = RuntimeDirectory();
  DSLIDE_RETURN_IF_ERROR(directory);
  return LentWorkers{ReadPublished(*directory), ReadTotals(now)};
}

std::string LentText(const LentWorkers& lent, int64_t now) {
  std::string text;
  if (lent.workers.empty()) text = "no lent worker of this user runs on this machine\n";
  for (const PublishedWorker& worker : lent.workers) text += WorkerText(worker, now);
  return text + fmt::format("today        {}\nin all       {}\n", DeedsText(lent.totals.today),
                            DeedsText(lent.totals.ever));
}

std::string LentJson(const LentWorkers& lent) {
  nlohmann::json json = nlohmann::json::parse(FormatTotals(lent.totals));
  json["workers"] = nlohmann::json::array();
  for (const PublishedWorker& worker : lent.workers) {
    json["workers"].push_back(nlohmann::json::parse(FormatPublished(worker)));
  }
  return json.dump(2);
}

}  // namespace dslide
