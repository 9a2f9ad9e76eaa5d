// Checks of what must hold after every run of a KeptCluster. Errors say what does not hold, in
// several lines, which include the last lines of all logs.
#pragma once

#include <string>

#include "common/base/error.h"
#include "tests/cluster/kill/kept_cluster.h"

namespace dslide {

// The result of an undisturbed run of the same settings.
struct Undisturbed {
  double p_at_1 = 0;
  std::string checksum;  // of the last checkpoint's content; synchronous training only
};
// The error says why the run failed.
Result<Undisturbed> RunUndisturbed(const std::string& directory, bool synchronous);

// Checks that training has ended, that every sample counts once, and that the model is about as
// good as `expected`.
Status CheckRun(KeptCluster* cluster, const Undisturbed& expected);
// Checks that the weights are those of `expected`, bit for bit. REQUIRES synchronous training.
Status CheckWeights(KeptCluster* cluster, const Undisturbed& expected);

Error Wrong(const KeptCluster& cluster, const std::string& what);

// How often `part` occurs.
size_t Count(const std::string& text, const std::string& part);

}  // namespace dslide
