#include "common/security/small_file.h"

#include <fmt/format.h>

#include <string_view>

#include "common/config/small_text.h"
#include "common/data/whole_file.h"

namespace dslide {

Result<std::string> ReadPlainText(const std::string& path) {
  const Result<std::string> bytes = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(bytes);
  const Result<std::string_view> text = PlainText(*bytes, path);
  DSLIDE_RETURN_IF_ERROR(text);
  return std::string(*text);
}

Result<std::string> ReadFirstLine(const std::string& path) {
  const Result<std::string> bytes = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(bytes);
  Result<std::string> line = FirstLine(*bytes, path);
  if (!line.ok() || !line->empty()) return line;
  return BadInput(fmt::format("{}: is empty", path));
}

}  // namespace dslide
