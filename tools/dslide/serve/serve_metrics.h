// What Prometheus sees of `dslide serve`. Any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/model/model.h"

namespace dslide {

class ServeMetrics {
 public:
  ServeMetrics();
  ~ServeMetrics();

  // A prediction request was answered, so long after it had come.
  void Answered(std::string_view endpoint, unsigned status, int64_t micros);
  // So many samples were ranked together.
  void Ranked(size_t samples);
  // A model was loaded, the first one or a newer one, or could not be.
  void Loaded(const Model& model);
  void LoadFailed();

  std::string Text() const;  // in Prometheus' text format

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
