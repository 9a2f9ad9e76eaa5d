// Training data that comes by standard input (train.data = -). Text is read twice, and a run that
// goes on reads it again, so it is kept in the run directory.
#pragma once

#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/process.h"

namespace dslide {

class KeptInput {
 public:
  static constexpr const char* kName = "train.data.zst";

  // Reads standard input to its end and writes it to kName in the run directory, which exists. A
  // run that goes on has it there already. Errors (kBadInput) name train.data; a signal ends it.
  static Result<KeptInput> Read(const std::string& run_directory, bool resume,
                                StopSignals* signals);
  KeptInput(KeptInput&& other) noexcept;
  ~KeptInput();  // removes the file unless Keep() was called

  const std::string& path() const { return path_; }
  // The run begins: the file stays.
  void Keep() { is_removed_ = false; }

 private:
  KeptInput(std::string path, bool is_removed) : path_(std::move(path)), is_removed_(is_removed) {}

  std::string path_;
  bool is_removed_;  // at the end
};

}  // namespace dslide
