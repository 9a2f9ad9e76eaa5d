// What a command has made, so that one that is refused leaves nothing.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace dslide {

class NewFiles {
 public:
  // Notes what each directory holds now. It need not exist.
  explicit NewFiles(const std::vector<std::string>& directories);

  // Removes what has come into the directories since, and those that were made since, with the
  // directories above them if nothing else is in these. Names in a directory that was there count,
  // not what is below them.
  void Remove() const;

 private:
  struct Noted {
    std::filesystem::path path;                  // absolute
    std::vector<std::filesystem::path> missing;  // it and the ones above, the lowest first
    std::set<std::filesystem::path> entries;     // if it was there
  };

  std::vector<Noted> noted_;
};

}  // namespace dslide
