// The microbenchmarks, registered with Google Benchmark by the part of the program they measure.
//
// All of them run in the thread that calls RunSpecifiedBenchmarks(), which has called
// FlushDenormals(). Rates are per second of that thread's CPU time.
#pragma once

namespace dslide {

void RegisterProductBenches();  // the B x U block, in every kernel family
void RegisterLoadBenches();     // an executor's work over mixes of batches

}  // namespace dslide
