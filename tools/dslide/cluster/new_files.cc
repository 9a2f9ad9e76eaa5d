#include "tools/dslide/cluster/new_files.h"

#include <system_error>

namespace dslide {

namespace fs = std::filesystem;

NewFiles::NewFiles(const std::vector<std::string>& directories) {
  std::error_code error;
  for (const std::string& directory : directories) {
    Noted noted;
    noted.path = (fs::absolute(directory) / "").lexically_normal().parent_path();
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
      if (!noted.entries.contains(entry.path())) made.push_back(entry.path());
    }
    for (const fs::path& path : made) fs::remove_all(path, error);
    for (const fs::path& path : noted.missing) fs::remove(path, error);  // fails if it is not empty
  }
}

}  // namespace dslide
