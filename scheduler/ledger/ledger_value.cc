#include "scheduler/ledger/ledger_value.h"

#include <fmt/core.h>
#include <zlib.h>

#include <vector>

#include "ledger_generated.h"

namespace dslide {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Event = Offset<void>;

constexpr size_t kChecksumBytes = 4;
constexpr size_t kHeaderBytes = kChecksumBytes + 1;

void PutLittleEndian(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint32_t GetLittleEndian32(std::span<const char> in) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(in[i]);
  return value;
}

// `checked`: the value without its checksum.
uint32_t Checksum(uint64_t number, std::span<const char> checked) {
  std::string prefix;
  PutLittleEndian(number, 8, &prefix);
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(prefix.data()), prefix.size());
  return static_cast<uint32_t>(
      crc32_z(sum, reinterpret_cast<const Bytef*>(checked.data()), checked.size()));
}

// Absent where it is empty.
Offset<flatbuffers::String> StringOrNone(FlatBufferBuilder& to, const std::string& text) {
  return text.empty() ? Offset<flatbuffers::String>() : to.CreateString(text);
}

Offset<flatbuffers::Vector<uint32_t>> NumbersOrNone(FlatBufferBuilder& to,
                                                    const std::vector<uint32_t>& numbers) {
  return numbers.empty() ? Offset<flatbuffers::Vector<uint32_t>>() : to.CreateVector(numbers);
}

Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> StringsOrNone(
    FlatBufferBuilder& to, const std::vector<std::string>& strings) {
  if (strings.empty()) return {};
  return to.CreateVectorOfStrings(strings);
}

Event Build(FlatBufferBuilder& to, const LedgerOpened& e) {
  const auto config = StringOrNone(to, e.config);
  const auto open_keys = StringsOrNone(to, e.open_keys);
  return ledger::CreateOpened(to, e.run.value, config, e.train_samples, e.train_checksum, open_keys)
      .Union();
}

Event Build(FlatBufferBuilder& to, const LedgerPlanned& e) {
  std::vector<Offset<ledger::Server>> servers;
  for (const PlanServer& s : e.plan.servers) {
    const auto name = StringOrNone(to, s.name);
    const auto address = StringOrNone(to, s.address);
    servers.push_back(ledger::CreateServer(to, name, address, s.incarnation.value));
  }
  const auto list = to.CreateVector(servers);
  const auto owners = to.CreateVector(e.plan.slot_owner);
  const auto restore = StringOrNone(to, e.plan.restore);
  const ModelShape& shape = e.plan.shape;
  const auto recycled_features = NumbersOrNone(to, shape.recycled_features);
  const auto recycled_labels = NumbersOrNone(to, shape.recycled_labels);
  const auto removed_labels = NumbersOrNone(to, shape.removed_labels);
  const auto settings = StringsOrNone(to, e.plan.settings);
  return ledger::CreatePlanned(to, e.plan.version, list, owners, restore, e.plan.generation,
                               shape.epoch, shape.features, shape.labels, shape.samples,
                               recycled_features, recycled_labels, removed_labels, settings)
      .Union();
}

Event Build(FlatBufferBuilder& to, const LedgerRestored& e) {
  std::vector<ledger::DoneBatch> done;
  done.reserve(e.done.size());
  for (const DoneBatch& b : e.done) done.emplace_back(b.unit, b.index);
  const auto checkpoint = StringOrNone(to, e.checkpoint);
  const auto list = to.CreateVectorOfStructs(done);
  return ledger::CreateRestored(to, checkpoint, e.epoch, e.batches, e.samples, list).Union();
}

Event Build(FlatBufferBuilder& to, const LedgerCounted& e) {
  const ledger::BatchId batch(e.batch.epoch, e.batch.unit, e.batch.index);
  const auto worker = StringOrNone(to, e.worker);
  const auto key = StringOrNone(to, e.key);
  return ledger::CreateCounted(to, &batch, e.samples, worker, key, e.day).Union();
}

Event Build(FlatBufferBuilder& to, const LedgerEpochDone& e) {
  return ledger::CreateEpochDone(to, e.epochs).Union();
}

Event Build(FlatBufferBuilder& to, const LedgerCheckpointed& e) {
  const auto checkpoint = StringOrNone(to, e.checkpoint);
  return ledger::CreateCheckpointed(to, checkpoint, e.batches).Union();
}

Event Build(FlatBufferBuilder& to, const LedgerStopped& e) {
  return ledger::CreateStopped(to, e.finished).Union();
}

Event Build(FlatBufferBuilder& to, const LedgerHeldOut& e) {
  return ledger::CreateHeldOut(to, e.epochs, to.CreateVector(e.ndcg)).Union();
}

std::string Text(const flatbuffers::String* s) { return s == nullptr ? "" : s->str(); }

std::vector<std::string> Texts(const flatbuffers::Vector<Offset<flatbuffers::String>>* strings) {
  std::vector<std::string> texts;
  if (strings == nullptr) return texts;
  for (const flatbuffers::String* s : *strings) texts.push_back(s->str());
  return texts;
}

std::vector<uint32_t> Numbers(const flatbuffers::Vector<uint32_t>* v) {
  return v == nullptr ? std::vector<uint32_t>() : std::vector<uint32_t>(v->begin(), v->end());
}

LedgerEntry Read(const ledger::Opened& e) {
  return LedgerOpened{
      {e.run_id()}, Text(e.config()), e.train_samples(), e.train_checksum(), Texts(e.open_keys())};
}

LedgerEntry Read(const ledger::Planned& e) {
  Plan plan;
  plan.version = e.version();
  plan.restore = Text(e.restore());
  plan.generation = e.generation();
  plan.shape = {e.shape_epoch(),
                e.features(),
                e.labels(),
                e.shape_samples(),
                Numbers(e.recycled_features()),
                Numbers(e.recycled_labels()),
                Numbers(e.removed_labels())};
  plan.settings = Texts(e.settings());
  if (e.servers() != nullptr) {
    for (const ledger::Server* s : *e.servers()) {
      plan.servers.push_back({Text(s->name()), Text(s->address()), {s->incarnation()}});
    }
  }
  if (e.slot_owner() != nullptr) {
    plan.slot_owner.assign(e.slot_owner()->begin(), e.slot_owner()->end());
  }
  return LedgerPlanned{std::move(plan)};
}

LedgerEntry Read(const ledger::Restored& e) {
  LedgerRestored restored{Text(e.checkpoint()), e.epoch(), e.batches(), e.samples(), {}};
  if (e.done() != nullptr) {
    restored.done.reserve(e.done()->size());
    for (const ledger::DoneBatch* b : *e.done()) restored.done.push_back({b->unit(), b->index()});
  }
  return restored;
}

LedgerEntry Read(const ledger::Counted& e) {
  LedgerCounted counted;
  if (const ledger::BatchId* b = e.batch()) counted.batch = {b->epoch(), b->unit(), b->index()};
  counted.samples = e.samples();
  counted.worker = Text(e.worker());
  counted.key = Text(e.key());
  counted.day = e.day();
  return counted;
}

LedgerEntry Read(const ledger::HeldOut& e) {
  LedgerHeldOut held_out{e.epochs(), {}};
  if (e.ndcg_at_5() != nullptr) {
    held_out.ndcg.assign(e.ndcg_at_5()->begin(), e.ndcg_at_5()->end());
  }
  return held_out;
}

Result<LedgerEntry> ReadEvent(const ledger::Entry& entry) {
  switch (entry.event_type()) {
    case ledger::Event::Opened:
      return Read(*entry.event_as_Opened());
    case ledger::Event::Planned:
      return Read(*entry.event_as_Planned());
    case ledger::Event::Restored:
      return Read(*entry.event_as_Restored());
    case ledger::Event::Counted:
      return Read(*entry.event_as_Counted());
    case ledger::Event::EpochDone:
      return LedgerEntry(LedgerEpochDone{entry.event_as_EpochDone()->epochs()});
    case ledger::Event::Checkpointed: {
      const ledger::Checkpointed& e = *entry.event_as_Checkpointed();
      return LedgerEntry(LedgerCheckpointed{Text(e.checkpoint()), e.batches()});
    }
    case ledger::Event::Stopped:
      return LedgerEntry(LedgerStopped{entry.event_as_Stopped()->finished()});
    case ledger::Event::HeldOut:
      return Read(*entry.event_as_HeldOut());
    default:
      return BadInput(
          fmt::format("an event of unknown kind {}", static_cast<unsigned>(entry.event_type())));
  }
}

}  // namespace

std::string EncodeLedgerEntry(uint64_t number, const LedgerEntry& entry) {
  FlatBufferBuilder builder(256);
  const Event event = std::visit([&](const auto& e) { return Build(builder, e); }, entry);
  // The union's members have the order of LedgerEntry; 0 is none.
  const auto type = static_cast<ledger::Event>(entry.index() + 1);
  ledger::FinishEntryBuffer(builder, ledger::CreateEntry(builder, type, event));

  std::string checked(1, static_cast<char>(kLedgerFormat));
  checked.append(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  std::string value;
  value.reserve(kChecksumBytes + checked.size());
  PutLittleEndian(Checksum(number, checked), kChecksumBytes, &value);
  return value += checked;
}

Result<LedgerEntry> DecodeLedgerEntry(uint64_t number, std::span<const char> value) {
  if (value.size() < kHeaderBytes) {
    return BadInput(fmt::format("{} bytes are not an entry", value.size()));
  }
  if (Checksum(number, value.subspan(kChecksumBytes)) != GetLittleEndian32(value)) {
    return BadInput("its checksum does not match");
  }
  const auto format = static_cast<uint8_t>(value[kChecksumBytes]);
  if (format != kLedgerFormat) {
    return BadInput(fmt::format("format {}, this program reads format {}", format, kLedgerFormat));
  }
  // A copy, because FlatBuffers are read in place and want alignment.
  const auto stored = value.subspan(kHeaderBytes);
  const std::vector<uint8_t> bytes(stored.begin(), stored.end());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (!ledger::VerifyEntryBuffer(verifier)) return BadInput("it is not an entry of a ledger");
  return ReadEvent(*ledger::GetEntry(bytes.data()));
}

}  // namespace dslide
