#include "server/model/lsh/hash_family.h"

#include "common/base/check.h"
#include "server/model/lsh/dwta.h"
#include "server/model/lsh/simhash.h"

namespace dslide {

std::unique_ptr<HashFunctions> HashFunctions::Make(const HashConfig& config, uint32_t dim,
                                                   uint64_t seed, const Kernels& kernels) {
  DSLIDE_CHECK(config.k > 0 && config.tables > 0 && dim > 0);
  switch (config.family) {
    case HashFamily::kDwta:
      return MakeDwta(config, dim, seed, kernels);
    case HashFamily::kSimHash:
      return MakeSimHash(config, dim, seed, kernels);
  }
  DSLIDE_CHECK(false);
}

}  // namespace dslide
