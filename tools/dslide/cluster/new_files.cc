#include "tools/dslide/cluster/new_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "common/checkpoint/layout.h"
#include "common/security/run_place.h"

namespace dslide {

namespace fs = std::filesystem;

bool IsNameOfRun(const std::string& name) {
  static constexpr std::string_view kNames[] = {
      kCheckpointsName, kLedgerName,    "config.ini",  "examples.jsonl", "hook.done",
      "keys",           "loads.jsonl",  "logs",        "metrics.jsonl",  kAddressName,
      "stream",         "summary.json", "totals.json", "train.data.zst", "train.lock"};
  return std::ranges::count(kNames, name) > 0;
}

bool IsNameOfCheckpoints(const std::string& name) {
  static constexpr std::string_view kPrefixes[] = {"orphan-", "preprocessor-", "step-", "store-"};
  return name == kLabelNamesName || name == kLabelCountsName || name == kRankingName ||
         name == kRerankerName ||
         std::ranges::any_of(kPrefixes, [&](std::string_view p) { return name.starts_with(p); });
}

NewFiles::NewFiles(const std::vector<Directory>& directories) {
  std::error_code error;
  for (const Directory& directory : directories) {
    Noted noted;
    noted.path = (fs::absolute(directory.path) / "").lexically_normal().parent_path();
    noted.makes = directory.makes;
    for (fs::path path = noted.path; !fs::exists(path, error); path = path.parent_path()) {
      noted.missing.push_back(path);
    }
    for (const auto& entry : fs::directory_iterator(noted.path, error)) {
      noted.entries.insert(entry.path());
    }
    noted_.push_back(std::move(noted));
  }
}

void NewFiles::Remove() const {
  std::error_code error;
  for (const Noted& noted : noted_) {
    std::vector<fs::path> made;
    for (const auto& entry : fs::directory_iterator(noted.path, error)) {
      if (noted.makes(entry.path().filename()) && !noted.entries.contains(entry.path())) {
        made.push_back(entry.path());
      }
    }
    for (const fs::path& path : made) fs::remove_all(path, error);
    for (const fs::path& path : noted.missing) fs::remove(path, error);  // fails if it is not empty
  }
}

}  // namespace dslide
