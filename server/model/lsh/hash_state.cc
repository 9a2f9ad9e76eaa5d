#include "server/model/lsh/hash_state.h"

#include <algorithm>
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
  for (uint32_t t = 0; t < of.size(); ++t) Append(of.Code(t, row), out);
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

HashStateLoader::HashStateLoader(uint32_t tables, uint32_t rows)
    : tables_(tables), codes_(size_t{tables} * rows), loaded_(rows), built_(tables, rows) {}

bool HashStateLoader::Load(uint32_t row, std::span<const uint8_t> state) {
  const size_t count = tables_;
  const bool settled = state.size() == count * sizeof(BucketCode);
  if (!settled && state.size() != (2 * count + 2) * sizeof(BucketCode)) return false;
  stored_.resize(state.size() / sizeof(BucketCode));
  std::memcpy(stored_.data(), state.data(), state.size());
  const std::span<const BucketCode> all = stored_, codes = all.first(count);
  const std::span<const BucketCode> built = settled ? codes : all.last(count);
  if (!settled) {
    if (all[count] > 1) return false;
    unsettled_.push_back(row);
    upkeep_.push_back({all[count + 1], all[count] != 0});
  }
  loaded_[row] = 1;
  std::copy(codes.begin(), codes.end(), codes_.data() + row * count);
  for (size_t t = 0; t < count; ++t) built_.codes[t * loaded_.size() + row] = built[t];
  return true;
}

std::optional<uint32_t> HashStateLoader::Finish(const HashPosition* position,
                                                const std::function<bool(uint32_t)>& by_these,
                                                LiveTables* tables) {
  const HashTables& of = tables->tables();
  const auto rows = static_cast<uint32_t>(loaded_.size());
  std::vector<BucketCode> built(tables_);
  std::vector<uint32_t> others;
  for (uint32_t row = 0; row < rows; ++row) {
    if (loaded_[row] == 0) continue;
    const bool fits = by_these(row);
    if (!fits) others.push_back(row);
    for (uint32_t t = 0; t < tables_; ++t) {
      BucketCode& code = built_.codes[size_t{t} * rows + row];
      if (!fits) code = kNoCode;
      built[t] = code;
    }
    if (!fits) continue;  // CatchUp() hashes the row
    const std::span<const BucketCode> codes{codes_.data() + size_t{row} * tables_, tables_};
    if (!of.ValidCodes(codes) || !of.ValidCodes(built)) return row;
    tables->RestoreRow(row, codes, false);
  }
  if (position != nullptr) {
    built_.position = position->build;
    for (uint32_t row = 0; row < rows; ++row) {
      built_.counted[row] = of.Code(position->build.table, row);
    }
  }
  for (size_t i = 0; i < unsettled_.size(); ++i) {
    const uint32_t row = unsettled_[i];
    if (!by_these(row)) continue;
    if (!of.ValidCode(upkeep_[i].counted)) return row;
    if (upkeep_[i].changed) tables->Touch(row);
    if (position != nullptr) built_.counted[row] = upkeep_[i].counted;
  }
  tables->Restore(position != nullptr ? position->slice : 0, std::move(built_));
  if (!others.empty()) tables->CatchUp();
  unsettled_.insert(unsettled_.end(), others.begin(), others.end());
  codes_ = {};
  return std::nullopt;
}

}  // namespace dslide
