#include "server/model/lsh/neuron_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/config/limits.h"

namespace dslide {
namespace {

HashConfig With(HashConfig hash, const HashChoice& choice) {
  hash.k = choice.k;
  return hash;
}

void Append(BucketCode code, std::vector<uint8_t>* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&code);
  out->insert(out->end(), bytes, bytes + sizeof code);
}

std::vector<BucketCode> CodesIn(std::span<const uint8_t> state) {
  std::vector<BucketCode> codes(state.size() / sizeof(BucketCode));
  std::memcpy(codes.data(), state.data(), codes.size() * sizeof(BucketCode));
  return codes;
}

}  // namespace

// The states that were loaded for local rows. The records, which come last, say which functions
// made the codes.
struct NeuronIndex::Loaded {
  // The rest of the state of a row that was not settled.
  struct Upkeep {
    BucketCode counted;
    bool changed;
  };

  Loaded(uint32_t tables, uint32_t count)
      : codes(size_t{tables} * count), rows(count), built(tables, count) {}

  HugeBuffer<BucketCode> codes;  // [rows x tables] current codes
  std::vector<uint8_t> rows;     // [rows] 1: loaded
  BuiltCodes built;
  std::vector<uint32_t> unsettled;
  std::vector<Upkeep> upkeep;  // of the rows loaded into `unsettled`, in the same order
};

Error RecordDoesNotFit() {
  return BadInput(
      "an executor's record does not fit the model; the checkpoint is damaged or of another model");
}

NeuronIndex::NeuronIndex(const Config& config, Layer* layer, Purpose purpose,
                         const Kernels& kernels)
    : hash_(config.hash),
      seed_(SubSeed(config.common.seed, 0x4a5)),
      purpose_(purpose),
      layer_(*layer),
      kernels_(kernels) {
  Install(MakeTables({0, hash_.k}), {0, hash_.k});
}

NeuronIndex::~NeuronIndex() = default;

bool NeuronIndex::Allows(const HashChoice& choice) const {
  return choice.k > 0 && choice.k <= kMaxCodeBits &&
         choice.k * BitsPerHash(With(hash_, choice)) <= kMaxCodeBits;
}

std::unique_ptr<LiveTables> NeuronIndex::MakeTables(const HashChoice& choice) const {
  DSLIDE_CHECK(Allows(choice));
  const uint64_t seed = choice.round == 0 ? seed_ : SubSeed(seed_, choice.round);
  return std::make_unique<LiveTables>(With(hash_, choice), seed, layer_, kernels_);
}

void NeuronIndex::Install(std::unique_ptr<LiveTables> tables, const HashChoice& choice) {
  tables_ = std::move(tables);
  choice_ = choice;
  if (purpose_ != Purpose::kTraining) return;
  tables_->BeforeRehash([this](uint32_t row) { layer_.changed().BeforeUpkeep(row); });
}

void NeuronIndex::FollowMap() {
  tables_->FollowMap();
  if (next_) next_->FollowMap();
}

void NeuronIndex::Advance() {
  tables_->Advance();
  if (next_ == nullptr) return;
  next_->Advance();
  ++next_batches_;
}

void NeuronIndex::BeginRebuild(const HashChoice& choice) {
  const uint32_t newest = next_ ? std::max(choice_.round, next_choice_.round) : choice_.round;
  if (choice == choice_) {
    next_.reset();
  } else if (choice.round > newest) {
    next_.reset();  // frees their memory before the new tables are made
    next_ = MakeTables(choice);
    next_choice_ = choice;
    next_batches_ = 0;
  }
}

void NeuronIndex::FinishRebuild() {
  if (next_ == nullptr || next_batches_ < next_->lag_batches()) return;
  Install(std::move(next_), next_choice_);
  layer_.changed().MarkAll();
}

void NeuronIndex::AppendState(uint32_t row, std::vector<uint8_t>* out) const {
  for (uint32_t t = 0; t < tables_->tables().size(); ++t) {
    Append(tables_->tables().Code(t, row), out);
  }
  Append(tables_->IsChanged(row), out);
}

bool NeuronIndex::CompleteState(const BuiltCodes& mark, uint32_t row,
                                std::vector<uint8_t>* out) const {
  const size_t rows = mark.counted.size(), tables = tables_->tables().size();
  const size_t begin = out->size() - StateBytes();
  const auto stored = [&](size_t n) {
    BucketCode code;
    std::memcpy(&code, out->data() + begin + n * sizeof code, sizeof code);
    return code;
  };
  const bool is_counted = mark.position.placing || row < mark.position.row;
  const BucketCode counted = is_counted ? mark.counted[row] : kNoCode;
  bool settled = stored(tables) == 0 && (!is_counted || counted == stored(mark.position.table));
  for (size_t t = 0; t < tables && settled; ++t) {
    settled = mark.codes[t * rows + row] == stored(t);
  }
  if (settled) {
    out->resize(out->size() - sizeof(BucketCode));
    return true;
  }
  Append(counted, out);
  for (size_t t = 0; t < tables; ++t) Append(mark.codes[t * rows + row], out);
  return false;
}

bool NeuronIndex::IsState(std::span<const uint8_t> state) const {
  const std::vector<BucketCode> all = CodesIn(state);
  return tables_->tables().ValidCodes(std::span(all).first(all.size() - 1)) && all.back() <= 1;
}

void NeuronIndex::TakeState(uint32_t row, std::span<const uint8_t> state, bool same) {
  const std::vector<BucketCode> all = CodesIn(state);
  // Codes by other functions say nothing here.
  tables_->TakeRow(row, std::span(all).first(same ? all.size() - 1 : 0), all.back() != 0);
}

bool NeuronIndex::LoadState(uint32_t row, std::span<const uint8_t> state) {
  const size_t tables = hash_.tables;
  const bool settled = state.size() == StoredBytes(hash_, true);
  if (!settled && state.size() != StoredBytes(hash_, false)) return false;
  if (loaded_ == nullptr) loaded_ = std::make_unique<Loaded>(hash_.tables, layer_.map().rows());
  const std::vector<BucketCode> all = CodesIn(state);
  const std::span<const BucketCode> codes = std::span(all).first(tables);
  const std::span<const BucketCode> built = settled ? codes : std::span(all).last(tables);
  if (!settled) {
    if (all[tables] > 1) return false;
    loaded_->unsettled.push_back(row);
    loaded_->upkeep.push_back({all[tables + 1], all[tables] != 0});
  }
  loaded_->rows[row] = 1;
  std::ranges::copy(codes, loaded_->codes.data() + row * tables);
  for (size_t t = 0; t < tables; ++t) {
    loaded_->built.codes[t * loaded_->rows.size() + row] = built[t];
  }
  return true;
}

// The hash functions to use: those of `own`, or else of the latest round that hashed any of the
// layer's slots. Fills in what each slot's codes were made with. None: the model cannot use some.
std::optional<HashChoice> NeuronIndex::Choose(std::span<const Stored> records, const Stored* own,
                                              std::vector<HashChoice>* of_slot) const {
  const SlotMap& map = layer_.map();
  HashChoice chosen{0, hash_.k};
  of_slot->assign(map.slots(), chosen);
  for (const Stored& record : records) {
    const HashChoice theirs = record.functions.k == 0 ? HashChoice{0, hash_.k} : record.functions;
    if (!Allows(theirs)) return std::nullopt;
    for (const SlotId slot : record.slots) {
      if (!map.Owns(slot)) continue;
      (*of_slot)[slot.value] = theirs;
      if (own == nullptr && theirs.round > chosen.round) chosen = theirs;
    }
    if (&record == own) chosen = theirs;
  }
  return chosen;
}

// Puts the loaded codes into the tables. Returns a row whose codes their functions cannot give.
std::optional<uint32_t> NeuronIndex::Restore(const HashPosition* position,
                                             const std::vector<HashChoice>& of_slot) {
  const HashTables& of = tables_->tables();
  const size_t tables = of.size();
  const auto rows = static_cast<uint32_t>(loaded_->rows.size());
  const auto fits = [&](uint32_t row) {
    return of_slot[layer_.map().SlotOf(row).value] == choice_;
  };
  BuiltCodes& built = loaded_->built;
  std::vector<BucketCode> of_row(tables);
  std::vector<uint32_t> others;
  for (uint32_t row = 0; row < rows; ++row) {
    if (loaded_->rows[row] == 0) continue;
    if (!fits(row)) {  // CatchUp() hashes the row
      others.push_back(row);
      for (size_t t = 0; t < tables; ++t) built.codes[t * rows + row] = kNoCode;
      continue;
    }
    for (size_t t = 0; t < tables; ++t) of_row[t] = built.codes[t * rows + row];
    const std::span<const BucketCode> codes{loaded_->codes.data() + row * tables, tables};
    if (!of.ValidCodes(codes) || !of.ValidCodes(of_row)) return row;
    tables_->RestoreRow(row, codes, false);
  }
  if (position != nullptr) {
    built.position = position->build;
    for (uint32_t row = 0; row < rows; ++row) {
      built.counted[row] = of.Code(position->build.table, row);
    }
  }
  for (size_t i = 0; i < loaded_->unsettled.size(); ++i) {
    const uint32_t row = loaded_->unsettled[i];
    const auto [counted, changed] = loaded_->upkeep[i];
    if (!fits(row)) continue;
    if (!of.ValidCode(counted)) return row;
    if (changed) tables_->Touch(row);
    if (position != nullptr) built.counted[row] = counted;
  }
  tables_->Restore(position != nullptr ? position->slice : 0, std::move(built));
  if (!others.empty()) tables_->CatchUp();
  loaded_->unsettled.insert(loaded_->unsettled.end(), others.begin(), others.end());
  loaded_->codes = {};
  return std::nullopt;
}

Status NeuronIndex::FinishLoad(std::span<const Stored> records, const Stored* own) {
  std::vector<HashChoice> of_slot;
  const std::optional<HashChoice> chosen = Choose(records, own, &of_slot);
  if (!chosen) return RecordDoesNotFit();
  if (*chosen != choice_) Install(MakeTables(*chosen), *chosen);
  if (own != nullptr && !(own->position && tables_->Fits(*own->position))) {
    return RecordDoesNotFit();
  }
  const SlotMap& map = layer_.map();
  if (loaded_ == nullptr) loaded_ = std::make_unique<Loaded>(hash_.tables, map.rows());
  const auto wrong = Restore(own != nullptr ? &*own->position : nullptr, of_slot);
  if (!wrong) return {};
  return BadInput(
      fmt::format("output row {} of slot {} does not fit the model: these are not its hash codes",
                  map.RowInSlot(*wrong), map.SlotOf(*wrong).value));
}

std::vector<uint32_t> NeuronIndex::EndLoad() {
  const std::unique_ptr<Loaded> loaded = std::move(loaded_);
  return loaded == nullptr ? std::vector<uint32_t>() : std::move(loaded->unsettled);
}

uint64_t NeuronIndex::MemoryBytes() const {
  return tables_->MemoryBytes() + (next_ ? next_->MemoryBytes() : 0);
}

}  // namespace dslide
