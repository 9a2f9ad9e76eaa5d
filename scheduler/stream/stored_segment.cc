#include "scheduler/stream/stored_segment.h"

#include <fmt/core.h>

#include "common/data/whole_file.h"
#include "vocabulary_generated.h"

namespace dslide {
namespace {

constexpr uint32_t kFormat = 1;

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

// False: damaged.
bool Read(const wire::Names* stored, StoredNames* names) {
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

std::string SegmentName(uint32_t number) { return fmt::format("segment-{:09}", number); }

Status WriteSegment(const std::string& directory, const StoredSegment& segment) {
  FlatBufferBuilder builder;
  const auto features = Build(builder, segment.vocabulary.features);
  const auto new_features = Build(builder, segment.vocabulary.new_features);
  const auto labels = Build(builder, segment.vocabulary.labels);
  const auto new_labels = Build(builder, segment.vocabulary.new_labels);
  const auto features_again = builder.CreateVector(segment.growth.features_again);
  const auto labels_again = builder.CreateVector(segment.growth.labels_again);
  const auto labels_gone = builder.CreateVector(segment.growth.labels_gone);
  wire::FinishVocabularyBuffer(
      builder,
      wire::CreateVocabulary(builder, kFormat, segment.number, static_cast<uint8_t>(segment.format),
                             segment.begin, segment.end, segment.samples, segment.lines,
                             segment.vocabulary.counted, features, new_features, labels, new_labels,
                             features_again, labels_again, labels_gone, segment.checksum));
  return WriteWholeFile(
      fmt::format("{}/{}", directory, SegmentName(segment.number)),
      {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
}

Result<StoredSegment> ReadSegment(const std::string& directory, uint32_t number) {
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
  if (stored.format() != kFormat) {
    return BadInput(
        fmt::format("{}: format {}, this program reads format {}", path, stored.format(), kFormat));
  }
  StoredSegment segment;
  OpenVocabulary::State& vocabulary = segment.vocabulary;
  if (stored.number() != number || stored.end() < stored.begin() ||
      stored.record_format() > static_cast<uint8_t>(RecordFormat::kPlainText) ||
      !Read(stored.features(), &vocabulary.features) ||
      !Read(stored.new_features(), &vocabulary.new_features) ||
      !Read(stored.labels(), &vocabulary.labels) ||
      !Read(stored.new_labels(), &vocabulary.new_labels)) {
    return damaged();
  }
  segment.number = vocabulary.segment = number;
  segment.format = static_cast<RecordFormat>(stored.record_format());
  segment.begin = stored.begin();
  segment.end = stored.end();
  segment.lines = stored.lines();
  segment.samples = static_cast<uint32_t>(stored.samples());
  segment.checksum = stored.checksum();
  vocabulary.counted = stored.counted();
  segment.growth = {number,
                    static_cast<uint32_t>(vocabulary.features.names.size()),
                    static_cast<uint32_t>(vocabulary.labels.names.size()),
                    segment.samples,
                    Numbers(stored.features_again()),
                    Numbers(stored.labels_again()),
                    Numbers(stored.labels_gone())};
  return segment;
}

}  // namespace dslide
