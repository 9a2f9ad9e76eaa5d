#include "server/hash_state.h"

#include <cstring>

namespace dslide {
namespace {

void Append(BucketCode code, std::vector<uint8_t>* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&code);
  out->insert(out->end(), bytes, bytes + sizeof code);
}

}  // namespace

void AppendHashState(const LiveTables& tables, uint32_t row, std::vector<uint8_t>* out) {
  const HashTables& of = tables.tables();
  for (uint32_t t = 0; t < of.tables(); ++t) Append(of.Code(t, row), out);
  Append(tables.IsChanged(row), out);
}

bool CompleteHashState(const BuiltCodes& built, uint32_t tables, uint32_t row,
                       std::vector<uint8_t>* out) {
  const size_t rows = built.counted.size();
  const size_t begin = out->size() - sizeof(BucketCode) * (size_t{tables} + 1);
  const auto stored = [&](size_t n) {
    BucketCode code;
    std::memcpy(&code, out->data() + begin + n * sizeof code, sizeof code);
    return code;
  };
  const bool is_counted = built.position.placing || row < built.position.row;
  const BucketCode counted = is_counted ? built.counted[row] : kNoCode;
  bool settled = stored(tables) == 0 && (!is_counted || counted == stored(built.position.table));
  for (uint32_t t = 0; t < tables && settled; ++t)
    settled = built.codes[t * rows + row] == stored(t);
  if (settled) {
    out->resize(out->size() - sizeof(BucketCode));
    return true;
  }
  Append(counted, out);
  for (uint32_t t = 0; t < tables; ++t) Append(built.codes[t * rows + row], out);
  return false;
}

HashStateLoader::HashStateLoader(LiveTables* tables)
    : tables_(*tables), built_(tables->tables().tables(), tables->tables().rows()) {}

bool HashStateLoader::Load(uint32_t row, std::span<const uint8_t> state) {
  const HashTables& tables = tables_.tables();
  const size_t count = tables.tables();
  const bool settled = state.size() == count * sizeof(BucketCode);
  if (!settled && state.size() != (2 * count + 2) * sizeof(BucketCode)) return false;
  codes_.resize(state.size() / sizeof(BucketCode));
  std::memcpy(codes_.data(), state.data(), state.size());
  const std::span<const BucketCode> all = codes_, codes = all.first(count);
  const std::span<const BucketCode> built = settled ? codes : all.last(count);
  if (!tables.ValidCodes(codes) || !tables.ValidCodes(built)) return false;
  if (!settled) {
    const BucketCode changed = all[count], counted = all[count + 1];
    if (changed > 1 || !tables.ValidCode(counted)) return false;
    unsettled_.push_back(row);
    counted_.push_back(counted);
  }
  tables_.RestoreRow(row, codes, !settled && all[count] != 0);
  for (size_t t = 0; t < count; ++t) built_.codes[t * tables.rows() + row] = built[t];
  return true;
}

void HashStateLoader::Finish(const HashPosition* position) {
  if (position != nullptr) {
    built_.position = position->build;
    for (uint32_t row = 0; row < built_.counted.size(); ++row) {
      built_.counted[row] = tables_.tables().Code(position->build.table, row);
    }
    for (size_t i = 0; i < unsettled_.size(); ++i) built_.counted[unsettled_[i]] = counted_[i];
  }
  tables_.Restore(position != nullptr ? position->slice : 0, std::move(built_));
}

}  // namespace dslide
