#include "scheduler/stream/stored_segment.h"

#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <vector>

#include "common/data/whole_file.h"
#include "vocabulary_generated.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFormat = 2;
constexpr const char* kPrefix = "segment-";

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

Offset<wire::Names> Build(FlatBufferBuilder& to, const StoredNames& names) {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> ends;
  for (const std::string& name : names.names) {
    bytes.insert(bytes.end(), name.begin(), name.end());
    ends.push_back(bytes.size());
  }
  return wire::CreateNamesDirect(to, &names.hashes, &names.blocks, &names.counts, &names.seen,
                                 &bytes, &ends);
}

// False: damaged. Takes the names over if they are `wanted`.
bool Read(const wire::Names* stored, bool wanted, StoredNames* names) {
  if (stored == nullptr || stored->hashes() == nullptr || stored->blocks() == nullptr ||
      stored->counts() == nullptr || stored->seen() == nullptr || stored->names() == nullptr ||
      stored->name_ends() == nullptr) {
    return false;
  }
  const size_t size = stored->hashes()->size();
  if (stored->blocks()->size() != size || stored->counts()->size() != size ||
      stored->seen()->size() != size || stored->name_ends()->size() != size) {
    return false;
  }
  if (!wanted) return true;
  names->hashes.assign(stored->hashes()->begin(), stored->hashes()->end());
  names->blocks.assign(stored->blocks()->begin(), stored->blocks()->end());
  names->counts.assign(stored->counts()->begin(), stored->counts()->end());
  names->seen.assign(stored->seen()->begin(), stored->seen()->end());
  const auto* bytes = reinterpret_cast<const char*>(stored->names()->data());
  uint64_t begin = 0;
  for (const uint64_t end : *stored->name_ends()) {
    if (end < begin || end > stored->names()->size()) return false;
    names->names.emplace_back(bytes + begin, end - begin);
    begin = end;
  }
  for (const uint8_t block : names->blocks) {
    if (block >= kTermBlocks) return false;
  }
  return true;
}

std::vector<uint32_t> Numbers(const flatbuffers::Vector<uint32_t>* v) {
  return v == nullptr ? std::vector<uint32_t>() : std::vector<uint32_t>(v->begin(), v->end());
}

}  // namespace

std::string SegmentName(uint32_t number) { return fmt::format("{}{:09}", kPrefix, number); }

uint32_t SegmentNumberOf(const std::string& name) {
  const std::string_view prefix = kPrefix;
  uint32_t number = 0;
  if (!name.starts_with(prefix)) return 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : 0;
}

void RemoveSegments(const std::string& directory, uint32_t number) {
  std::error_code error;
  std::vector<fs::path> removed;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const uint32_t found = SegmentNumberOf(entry.path().filename());
    if (found > 0 && found < number) removed.push_back(entry.path());
  }
  for (const fs::path& path : removed) fs::remove(path, error);
}

Result<uint64_t> WriteSegment(const std::string& directory, const StoredSegment& segment) {
  FlatBufferBuilder builder;
  Offset<wire::Names> features, new_features, labels, new_labels;  // null: none
  if (segment.vocabulary) {
    features = Build(builder, segment.vocabulary->features);
    new_features = Build(builder, segment.vocabulary->new_features);
    labels = Build(builder, segment.vocabulary->labels);
    new_labels = Build(builder, segment.vocabulary->new_labels);
  }
  const auto recycled_features = builder.CreateVector(segment.shape.recycled_features);
  const auto recycled_labels = builder.CreateVector(segment.shape.recycled_labels);
  const auto removed_labels = builder.CreateVector(segment.shape.removed_labels);
  wire::FinishVocabularyBuffer(
      builder, wire::CreateVocabulary(
                   builder, kFormat, segment.number, static_cast<uint8_t>(segment.format),
                   segment.begin, segment.end, segment.samples, segment.lines,
                   segment.vocabulary ? segment.vocabulary->counted : 0, features, new_features,
                   labels, new_labels, recycled_features, recycled_labels, removed_labels,
                   segment.checksum, segment.shape.features, segment.shape.labels,
                   segment.rules.admit_count, segment.rules.expire_segments,
                   segment.rules.limit.bytes, segment.rules.limit.feature_bytes,
                   segment.rules.limit.label_bytes, segment.rules.fades_candidates));
  DSLIDE_RETURN_IF_ERROR(WriteWholeFile(
      fmt::format("{}/{}", directory, SegmentName(segment.number)),
      {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()}));
  return uint64_t{builder.GetSize()};
}

Result<StoredSegment> ReadSegment(const std::string& directory, uint32_t number,
                                  bool with_vocabulary) {
  const std::string path = fmt::format("{}/{}", directory, SegmentName(number));
  const Result<std::string> bytes = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(bytes);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes->data());
  flatbuffers::Verifier verifier(data, bytes->size());
  const auto damaged = [&] {
    return BadInput(fmt::format("{}: damaged ({} bytes)", path, bytes->size()));
  };
  if (bytes->size() < 8 || !wire::VerifyVocabularyBuffer(verifier)) return damaged();
  const wire::Vocabulary& stored = *wire::GetVocabulary(data);
  if (stored.format() == 0 || stored.format() > kFormat) {
    return BadInput(fmt::format("{}: format {}, this program reads formats 1 to {}", path,
                                stored.format(), kFormat));
  }
  StoredSegment segment;
  segment.has_vocabulary = stored.format() == 1 || stored.features() != nullptr;
  if (stored.number() != number || stored.end() < stored.begin() ||
      stored.record_format() > static_cast<uint8_t>(RecordFormat::kPlainText)) {
    return damaged();
  }
  if (segment.has_vocabulary) {
    OpenVocabulary::State& vocabulary = segment.vocabulary.emplace();
    if (!Read(stored.features(), with_vocabulary, &vocabulary.features) ||
        !Read(stored.new_features(), with_vocabulary, &vocabulary.new_features) ||
        !Read(stored.labels(), with_vocabulary, &vocabulary.labels) ||
        !Read(stored.new_labels(), with_vocabulary, &vocabulary.new_labels)) {
      return damaged();
    }
    vocabulary.segment = number;
    vocabulary.counted = stored.counted();
    if (!with_vocabulary) segment.vocabulary.reset();
  } else if (stored.feature_bytes() == 0 || stored.label_bytes() == 0) {
    return damaged();
  }
  segment.number = number;
  segment.format = static_cast<RecordFormat>(stored.record_format());
  segment.begin = stored.begin();
  segment.end = stored.end();
  segment.lines = stored.lines();
  segment.samples = static_cast<uint32_t>(stored.samples());
  segment.checksum = stored.checksum();
  segment.rules = {stored.admit_count(),
                   stored.expire_segments(),
                   {stored.limit_bytes(), stored.feature_bytes(), stored.label_bytes()},
                   stored.fades_candidates()};
  const bool first_format = stored.format() == 1;
  segment.shape = {number,
                   first_format ? stored.features()->hashes()->size() : stored.num_features(),
                   first_format ? stored.labels()->hashes()->size() : stored.num_labels(),
                   segment.samples,
                   Numbers(stored.recycled_features()),
                   Numbers(stored.recycled_labels()),
                   Numbers(stored.removed_labels())};
  return segment;
}

}  // namespace dslide
