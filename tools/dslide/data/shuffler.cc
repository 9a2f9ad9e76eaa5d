#include "tools/dslide/data/shuffler.h"

#include <algorithm>
#include <cstring>

namespace dslide {
namespace {

constexpr size_t kPrefixBytes = 16;  // key and size of a line in a bucket

void AppendNumber(uint64_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint64_t NumberAt(const std::string& bytes, size_t at) {
  uint64_t number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

}  // namespace

void Shuffler::AddLine(uint64_t key, std::string_view line) {
  lines_.push_back({key, text_.size(), line.size()});
  text_.append(line);
}

Status Shuffler::Add(std::string_view line) {
  AddLine(random_.Next(), line);
  if (text_.size() + lines_.size() * sizeof(Line) > memory_bytes_) return Spill();
  return {};
}

// Moves the lines in memory to the buckets, in the order in which they came.
Status Shuffler::Spill() {
  while (buckets_.size() < kBuckets) {
    Result<ScratchFile> bucket = ScratchFile::Beside(output_);
    DSLIDE_RETURN_IF_ERROR(bucket);
    buckets_.push_back(*std::move(bucket));
  }
  std::string prefix;
  for (const Line& line : lines_) {
    ScratchFile& bucket = buckets_[line.key / (~uint64_t{0} / kBuckets + 1)];
    prefix.clear();
    AppendNumber(line.key, &prefix);
    AppendNumber(line.size, &prefix);
    bucket.Write(prefix);
    bucket.Write(std::string_view(text_).substr(line.begin, line.size));
  }
  lines_.clear();
  text_.clear();
  return {};
}

void Shuffler::TakeSorted(const std::function<void(std::string_view)>& take) {
  std::ranges::stable_sort(lines_, {}, &Line::key);
  for (const Line& line : lines_) take(std::string_view(text_).substr(line.begin, line.size));
  lines_.clear();
  text_.clear();
}

Status Shuffler::TakeAll(const std::function<void(std::string_view)>& take) {
  if (buckets_.empty()) {
    TakeSorted(take);
    return {};
  }
  DSLIDE_RETURN_IF_ERROR(Spill());
  text_.shrink_to_fit();
  for (ScratchFile& bucket : buckets_) {
    text_.reserve(bucket.size());
    DSLIDE_RETURN_IF_ERROR(bucket.ReadAll([&](std::string_view bytes) { text_.append(bytes); }));
    for (size_t at = 0; at < text_.size();) {
      const uint64_t key = NumberAt(text_, at);
      const size_t size = NumberAt(text_, at + sizeof key);
      at += kPrefixBytes;
      lines_.push_back({key, at, size});
      at += size;
    }
    TakeSorted(take);
  }
  return {};
}

}  // namespace dslide
