#include "common/wire/rounding.h"

#include "common/wire/wire_arrays.h"

namespace dslide {
namespace {

bool RoundToInt8(SparseRows* rows) {
  Bytes bytes(rows->values.size());
  bool good = true;
  for (size_t i = 0; i < rows->rows() && !rows->values.empty(); ++i) {
    const size_t begin = rows->offsets[i];
    const float scale = PackInt8(rows->Values(i), bytes.data() + begin);
    good &= AreInt8Scales({&scale, 1});
    UnpackInt8(bytes.data() + begin, scale, {rows->values.data() + begin, rows->Ids(i).size()});
  }
  return good;
}

}  // namespace

bool RoundAsOnWire(WirePrecision precision, SparseRows* rows) {
  if (precision == WirePrecision::kInt8) return RoundToInt8(rows);
  Bytes bytes(rows->values.size() * WireFloatBytes(precision));
  PackFloats(rows->values, precision, bytes.data());
  UnpackFloats(bytes.data(), precision, rows->values);
  return AllFinite(rows->values);
}

}  // namespace dslide
