#include "tests/cluster/kill/verdict.h"

#include <fmt/core.h>

#include <cmath>

namespace dslide {
namespace {

constexpr double kPrecisionTolerance = 0.005;

// The content checksum of the newest checkpoint; "" if there is none.
std::string ContentChecksum(KeptCluster* cluster) {
  const nlohmann::json verified =
      cluster->Ask({"checkpoint", "verify", cluster->run_directory(), "--json"});
  return verified.is_discarded() ? "" : verified.value("content_checksum", "");
}

Status CheckLedger(KeptCluster* cluster) {
  const nlohmann::json counts =
      cluster->Ask({"ledger", "verify", cluster->run_directory(), "--json"});
  if (counts.is_discarded()) return Wrong(*cluster, cluster->failure());
  if (counts["duplicated"] == 0 && counts["missing"] == 0 && counts["seen"] == cluster->samples())
    return {};
  return Wrong(*cluster, "dslide ledger verify: " + counts.dump());
}

}  // namespace

Result<Undisturbed> RunUndisturbed(const std::string& directory, bool synchronous) {
  KeptCluster cluster(directory, {.synchronous = synchronous});
  cluster.StartRest();
  if (!cluster.AwaitEnd()) return Wrong(cluster, "undisturbed: " + cluster.failure());
  Undisturbed result;
  result.p_at_1 = cluster.Summary().value("p_at_1", 0.0);
  if (synchronous) result.checksum = ContentChecksum(&cluster);
  return result;
}

Status CheckRun(KeptCluster* cluster, const Undisturbed& expected) {
  if (!cluster->AwaitEnd()) return Wrong(*cluster, cluster->failure());
  DSLIDE_RETURN_IF_ERROR(CheckLedger(cluster));
  const nlohmann::json summary = cluster->Summary();
  if (!summary.contains("p_at_1")) return Wrong(*cluster, "summary.json has no p_at_1");
  const double p_at_1 = summary["p_at_1"];
  if (std::abs(p_at_1 - expected.p_at_1) <= kPrecisionTolerance) return {};
  return Wrong(*cluster, fmt::format("P@1 is {}, but {} undisturbed", p_at_1, expected.p_at_1));
}

Status CheckWeights(KeptCluster* cluster, const Undisturbed& expected) {
  const std::string checksum = ContentChecksum(cluster);
  if (checksum == expected.checksum) return {};
  return Wrong(*cluster, fmt::format("the last checkpoint's content is {}, but {} undisturbed",
                                     checksum, expected.checksum));
}

Error Wrong(const KeptCluster& cluster, const std::string& what) {
  return Failed(fmt::format("{}\n{}", what, cluster.LastLines()));
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace dslide
