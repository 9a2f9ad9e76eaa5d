// What has to hold after a run of a KeptCluster, whatever happened in it. Errors say what does not,
// in several lines: the last ones of all logs are among them.
#pragma once

#include <string>

#include "common/base/error.h"
#include "tests/cluster/kept_cluster.h"

namespace dslide {

// What an undisturbed run of the same settings comes to.
struct Undisturbed {
  double p_at_1 = 0;
  std::string checksum;  // of the last checkpoint's content; synchronous training only
};
// The error says why there is none.
Result<Undisturbed> RunUndisturbed(const std::string& directory, bool synchronous);

// Training has ended, every sample counts once, and the model is about as good as `expected`.
Status CheckRun(KeptCluster* cluster, const Undisturbed& expected);
// The weights are those of `expected`, bit for bit. REQUIRES synchronous training.
Status CheckWeights(KeptCluster* cluster, const Undisturbed& expected);

Error Wrong(const KeptCluster& cluster, const std::string& what);

// How often `part` occurs.
size_t Count(const std::string& text, const std::string& part);

}  // namespace dslide
