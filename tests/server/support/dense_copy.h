// The weights of a LocalCluster as a dense reference network.
#pragma once

#include "tests/server/support/dense_network.h"
#include "tests/server/support/local_cluster.h"

namespace dslide {

DenseNetwork CopyOf(LocalCluster* cluster);

}  // namespace dslide
