// The weights of a LocalCluster as a dense reference network.
#pragma once

#include "tests/server/support/dense_network.h"
#include "tests/server/support/local_cluster.h"

namespace dslide {

DenseNetwork CopyOf(LocalCluster* cluster);

// Largest |a - b| / (|b| + floor) over all weights of a cluster and a network; the floor is a
// hundredth of a typical weight. Checks that each row has taken as many steps in both.
double WorstError(LocalCluster* cluster, const DenseNetwork& network);

}  // namespace dslide
