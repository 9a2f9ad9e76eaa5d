// What dslide doctor has found out: what was looked at, what it is, and what to do about it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dslide {

struct Finding {
  enum class Level {
    kFine,
    kNote,     // it works, slower or less safely than it could
    kProblem,  // it does not work
  };
  Level level = Level::kFine;
  std::string check;  // "memory", "address of the scheduler"
  std::string what;   // as it is
  std::string mend;   // "" if it is fine
};

class Findings {
 public:
  void Fine(std::string check, std::string what) {
    all_.push_back({Finding::Level::kFine, std::move(check), std::move(what), ""});
  }
  void Note(std::string check, std::string what, std::string mend) {
    all_.push_back({Finding::Level::kNote, std::move(check), std::move(what), std::move(mend)});
  }
  void Problem(std::string check, std::string what, std::string mend) {
    all_.push_back({Finding::Level::kProblem, std::move(check), std::move(what), std::move(mend)});
  }

  const std::vector<Finding>& all() const { return all_; }
  size_t Count(Finding::Level level) const;

  // A line for each that is fine, two for the others.
  std::string Text() const;
  std::string Json() const;

 private:
  std::vector<Finding> all_;
};

}  // namespace dslide
