// The microbenchmarks, registered with Google Benchmark by the part of the program they measure.
//
// All of them run in the thread that calls RunSpecifiedBenchmarks(), which has called
// FlushDenormals(). Rates are per second of that thread's CPU time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dslide {

void RegisterHashBenches();      // codes of vectors
void RegisterTableBenches();     // queries, building
void RegisterProductBenches();   // the B x U block
void RegisterRowBenches();       // random rows of a layer: read and updated
void RegisterMessageBenches();   // encoded and decoded
void RegisterLoadBenches();      // an executor's work over mixes of batches
void RegisterSnapshotBenches();  // the mark and the slices of a checkpoint

// Uniform in [-0.5, 0.5). A winner-take-all hash depends only on their order, so they can replace
// normal ones.
std::vector<float> RandomFloats(size_t size, uint64_t seed);

}  // namespace dslide
