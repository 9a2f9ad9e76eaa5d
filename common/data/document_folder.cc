// A folder of documents, as Annif has them: a sample each, by name.
//
//   NAME.txt    the text; its labels in NAME.tsv (lines "<uri> TAB name"), else in NAME.key (a name
//               a line); without either it has no label
//   NAME.json   an object as a line of a JSON file
//
// Other files are ignored. A byte order mark at a file's beginning is skipped.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/small_text.h"
#include "common/data/text_stream.h"
#include "common/data/whole_file.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// The file's text without a byte order mark.
Result<std::string> ReadText(const fs::path& path) {
  Result<std::string> text = ReadWholeFile(path.string());
  if (text.ok() && text->starts_with(kByteOrderMark)) text->erase(0, kByteOrderMark.size());
  return text;
}

// Bytes that are not UTF-8 stay: the parser of the line reports them.
std::string JsonString(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

// The labels of the lines of a file, as JSON. The label of a line "<uri> TAB name" is the URI.
std::string LabelList(std::string_view lines) {
  std::string json = "[";
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    std::string_view label = Stripped(line.substr(0, line.find('\t')));
    if (label.size() > 2 && label.starts_with('<') && label.ends_with('>')) {
      label = label.substr(1, label.size() - 2);
    }
    if (!label.empty()) json += (json.size() > 1 ? "," : "") + JsonString(label);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return json + "]";
}

Result<std::string> LineOfText(const fs::path& path) {
  const Result<std::string> text = ReadText(path);
  DSLIDE_RETURN_IF_ERROR(text);
  std::string line =
      fmt::format("{{\"id\":{},\"text\":{}", JsonString(path.stem().string()), JsonString(*text));
  for (const char* extension : {".tsv", ".key"}) {
    fs::path beside = path;
    beside.replace_extension(extension);
    std::error_code error;
    if (!fs::exists(beside, error)) continue;
    const Result<std::string> labels = ReadText(beside);
    DSLIDE_RETURN_IF_ERROR(labels);
    line += ",\"labels\":" + LabelList(*labels);
    break;
  }
  return line + "}\n";
}

// Line ends stand between a JSON file's words only.
Result<std::string> LineOfJson(const fs::path& path) {
  Result<std::string> text = ReadText(path);
  DSLIDE_RETURN_IF_ERROR(text);
  std::ranges::replace(*text, '\n', ' ');
  std::ranges::replace(*text, '\r', ' ');
  return *text + "\n";
}

// The lines of documents, one after another.
class FolderDecoder : public TextStream::Decoder {
 public:
  explicit FolderDecoder(std::vector<fs::path> documents) : documents_(std::move(documents)) {}

  Result<size_t> Read(char* out, size_t size) override {
    if (given_ == line_.size() && next_ < documents_.size()) {
      const fs::path& path = documents_[next_++];
      Result<std::string> line = path.extension() == ".json" ? LineOfJson(path) : LineOfText(path);
      DSLIDE_RETURN_IF_ERROR(line);
      line_ = *std::move(line);
      given_ = 0;
    }
    const size_t part = std::min(size, line_.size() - given_);
    std::copy_n(line_.data() + given_, part, out);
    given_ += part;
    return part;
  }

 private:
  std::vector<fs::path> documents_;
  size_t next_ = 0;  // of documents_
  std::string line_;
  size_t given_ = 0;  // bytes of line_
};

}  // namespace

std::unique_ptr<TextStream::Decoder> TextStream::DecoderOfFolder(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> documents;
  for (auto file = fs::directory_iterator(path, error); !error && file != fs::end(file);
       file.increment(error)) {
    const fs::path extension = file->path().extension();
    const bool is_one = extension == ".txt" || extension == ".json";
    std::error_code ignored;
    if (is_one && file->is_regular_file(ignored)) documents.push_back(file->path());
  }
  if (error || documents.empty()) return nullptr;
  std::ranges::sort(documents);
  return std::make_unique<FolderDecoder>(std::move(documents));
}

}  // namespace dslide
