// What a user's lent workers have done together, today and in all: a small file that outlives them,
// so that idle.daily_transfer_mb holds over restarts.
//
// Several workers add to it, each under the file's lock. A file that is damaged counts as empty.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"

namespace dslide {

struct Deeds {
  uint64_t samples = 0;
  double cpu_s = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;

  uint64_t transferred() const { return bytes_sent + bytes_received; }
  Deeds& operator+=(const Deeds& other);
  bool operator==(const Deeds&) const = default;
};

struct Totals {
  int32_t date = 0;  // of `today`, 20261231 by the local clock
  Deeds today;
  Deeds ever;

  // Adds what was done on a day; another day begins anew.
  void Add(const Deeds& done, int32_t on_date);
};

std::string FormatTotals(const Totals& totals);
Totals ParseTotals(const std::string& text);

class Account {
 public:
  static constexpr const char* kFileName = "lent.json";  // in StateDirectory()

  // "" : nothing is kept; Add() and Read() then work on numbers in memory.
  explicit Account(std::string path) : path_(std::move(path)) {}

  // Adds to the file and returns what it then holds. Errors (kFailed) name the file; what could not
  // be written is added to what the next call writes.
  Result<Totals> Add(const Deeds& done, int32_t date);
  Result<Totals> Read(int32_t date) { return Add({}, date); }

 private:
  std::string path_;
  Totals kept_;  // if there is no path
  Deeds unwritten_;
};

}  // namespace dslide
