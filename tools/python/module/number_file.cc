#include "tools/python/module/number_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

namespace dslide {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

Status CheckRows(std::span<const int64_t> offsets, size_t ids) {
  int64_t begin = 0;
  for (const int64_t end : offsets) {
    if (end < begin) return BadInput("the offsets of the rows do not ascend");
    begin = end;
  }
  if (offsets.empty() || offsets.front() != 0 || begin != static_cast<int64_t>(ids)) {
    return BadInput("the arrays of the rows do not fit each other");
  }
  return {};
}

Status WriteNumberFile(const std::string& path, const NumberRows& rows,
                       std::span<const int64_t> label_offsets, std::span<const int32_t> labels,
                       uint32_t num_features, uint32_t num_labels) {
  DSLIDE_RETURN_IF_ERROR(CheckRows(rows.offsets, rows.ids.size()));
  DSLIDE_RETURN_IF_ERROR(CheckRows(label_offsets, labels.size()));
  if (label_offsets.size() != rows.offsets.size() || rows.values.size() != rows.ids.size()) {
    return BadInput("the arrays of the rows do not fit each other");
  }
  const auto failed = [&] {
    return Failed(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             std::fclose);
  if (file == nullptr) return failed();
  fmt::memory_buffer text;
  const auto write = [&] {
    const bool whole = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
    text.clear();
    return whole;
  };
  const size_t samples = rows.offsets.size() - 1;
  fmt::format_to(std::back_inserter(text), "{} {} {}\n", samples, num_features, num_labels);
  for (size_t i = 0; i < samples; ++i) {
    for (auto e = static_cast<size_t>(label_offsets[i]);
         e < static_cast<size_t>(label_offsets[i + 1]); ++e) {
      if (e > static_cast<size_t>(label_offsets[i])) text.push_back(',');
      fmt::format_to(std::back_inserter(text), "{}", labels[e]);
    }
    for (auto e = static_cast<size_t>(rows.offsets[i]);
         e < static_cast<size_t>(rows.offsets[i + 1]); ++e) {
      fmt::format_to(std::back_inserter(text), " {}:{}", rows.ids[e], rows.values[e]);
    }
    text.push_back('\n');
    if (text.size() >= kBufferBytes && !write()) return failed();
  }
  if (!write() || std::fflush(file.get()) != 0) return failed();
  return {};
}

}  // namespace dslide
