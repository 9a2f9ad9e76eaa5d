// What a command has made, so that one that is refused leaves nothing.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace dslide {

// Which names in a directory a command makes.
using MakesName = std::function<bool(const std::string& name)>;

// Those of a run: in its run directory, and in its directory of checkpoints.
bool IsNameOfRun(const std::string& name);
bool IsNameOfCheckpoints(const std::string& name);

class NewFiles {
 public:
  struct Directory {
    std::string path;
    MakesName makes;
  };

  // Notes what each directory holds now. It need not exist.
  explicit NewFiles(const std::vector<Directory>& directories);

  // Removes what has come into the directories since under a name that the command makes, and those
  // that were made since, with the directories above them if nothing else is in these. What others
  // have put there stays. Names in a directory that was there count, not what is below them.
  void Remove() const;

 private:
  struct Noted {
    std::filesystem::path path;  // absolute
    MakesName makes;
    std::vector<std::filesystem::path> missing;  // it and the ones above, the lowest first
    std::set<std::filesystem::path> entries;     // if it was there
  };

  std::vector<Noted> noted_;
};

}  // namespace dslide
