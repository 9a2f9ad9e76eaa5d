#include "scheduler/stream/source_mark.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "common/checkpoint/file_checksum.h"
#include "common/data/whole_file.h"

namespace dslide {
namespace {

constexpr char kName[] = "source";

uint64_t ChecksumOfBytes(const std::string& bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

Error WrongKind(const SourceMark& mark, const StreamSource& source) {
  if (!mark.is_file) {
    return BadInput(fmt::format(
        "train.data = {}: the stream of this run is a pipe; pipe it on with train.data=-, or begin "
        "another --run-dir",
        source.path()));
  }
  return BadInput(fmt::format(
      "train.data = -: the stream of this run is {}; name that by train.data, or begin another "
      "--run-dir",
      mark.path.empty() ? "a file" : "the file " + mark.path));
}

Error WrongFile(const std::optional<SourceMark>& mark, const StreamSource& source,
                const char* what) {
  const std::string before =
      mark && !mark->path.empty() && mark->path != source.path() ? " from " + mark->path : "";
  return BadInput(
      fmt::format("train.data = {}: it {} what was read{}; name the file that the stream of this "
                  "run began with, or begin another --run-dir",
                  source.path(), what, before));
}

}  // namespace

Result<SourceMark> MarkOf(const StreamSource& source, const Spool& spool) {
  const uint64_t end =
      spool.begin() > 0 ? spool.begin() : std::min(SourceMark::kMostBytes, spool.end());
  const Result<std::string> bytes = spool.Read(spool.begin(), end);
  DSLIDE_RETURN_IF_ERROR(bytes);
  return SourceMark{source.is_file(), bytes->size(), ChecksumOfBytes(*bytes),
                    source.path() == "-" ? "" : source.path()};
}

Status WriteMark(const std::string& directory, const SourceMark& mark) {
  return WriteWholeFile(directory + "/" + kName,
                        fmt::format("{} {} {:016x} {}\n", mark.is_file ? "file" : "pipe",
                                    mark.bytes, mark.checksum, mark.path));
}

Result<std::optional<SourceMark>> ReadMark(const std::string& directory) {
  const std::string path = directory + "/" + kName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::optional<SourceMark>();
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  SourceMark mark;
  char kind[5] = "";
  unsigned long long bytes = 0, checksum = 0;
  int end = 0;
  const int read = std::sscanf(text->c_str(), "%4s %llu %16llx%n", kind, &bytes, &checksum, &end);
  mark.is_file = std::string(kind) == "file";
  const auto behind = static_cast<size_t>(end);
  if (read != 3 || (!mark.is_file && std::string(kind) != "pipe") || !text->ends_with('\n') ||
      text->size() < behind + 2 || (*text)[behind] != ' ') {
    return BadInput(fmt::format("{}: damaged ({} bytes)", path, text->size()));
  }
  mark.bytes = bytes;
  mark.checksum = checksum;
  mark.path = text->substr(behind + 1, text->size() - behind - 2);
  return std::optional(mark);
}

Status CheckSource(const std::optional<SourceMark>& mark, const StreamSource& source,
                   const Spool& spool) {
  if (source.is_empty()) return {};
  if (mark && mark->is_file != source.is_file()) return WrongKind(*mark, source);
  if (!source.is_file()) return {};
  if (mark) {
    const Result<std::string> first = source.ReadAt(0, mark->bytes);
    DSLIDE_RETURN_IF_ERROR(first);
    if (ChecksumOfBytes(*first) != mark->checksum) {
      return WrongFile(mark, source, "does not begin with");
    }
  }
  const uint64_t begin =
      std::max(spool.begin(), spool.end() - std::min(spool.end(), SourceMark::kMostBytes));
  const Result<std::string> last = source.ReadAt(begin, spool.end());
  DSLIDE_RETURN_IF_ERROR(last);
  const Result<std::string> kept = spool.Read(begin, spool.end());
  DSLIDE_RETURN_IF_ERROR(kept);
  // One that is too short was cut off, which reading it says.
  const bool whole = last->size() == kept->size();
  return whole && *last != *kept ? Status(WrongFile(mark, source, "does not go on after"))
                                 : Status();
}

}  // namespace dslide
