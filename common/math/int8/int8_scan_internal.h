// Declarations shared by the variants of Int8Scan and the dispatch in int8_scan.cc.
#pragma once

#include "common/math/int8/int8_scan.h"

namespace dslide {

extern const Int8Scan kScalarInt8Scan;
#if defined(__x86_64__)
extern const Int8Scan kAvx2Int8Scan;
extern const Int8Scan kAvx512VnniInt8Scan;
#endif

}  // namespace dslide
