#include "common/checkpoint/stored_label_names.h"

#include <fmt/format.h>

#include <filesystem>

#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"
#include "common/data/xc_reader.h"
#include "common/text/records/words.h"

namespace dslide {

Result<std::vector<std::string>> LoadLabelNames(const std::string& path, uint32_t num_labels) {
  Result<std::vector<std::string>> names = ReadLabelNames(path, num_labels);
  DSLIDE_RETURN_IF_ERROR(names);
  for (uint32_t id = 0; id < num_labels; ++id) {
    std::string& name = (*names)[id];
    if (!IsUtf8(name)) {
      return BadInput(fmt::format(
          "{}: the name of label {} is not UTF-8; convert the file, for instance by iconv", path,
          id));
    }
    for (char& c : name) {
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
    }
    if (name.empty()) name = std::to_string(id);
  }
  return names;
}

Result<std::string> StoreLabelNames(const std::string& directory,
                                    const std::vector<std::string>& names) {
  std::string text;
  for (size_t id = 0; id < names.size(); ++id) text += fmt::format("{}\t{}\n", id, names[id]);
  const std::string path =
      std::filesystem::absolute(std::filesystem::path(directory) / kLabelNamesName).string();
  const Status written = WriteWholeFile(path, text);
  DSLIDE_RETURN_IF_ERROR(written);
  return path;
}

Result<std::vector<std::string>> LoadLabelNamesOf(const std::string& checkpoint,
                                                  const Config& config) {
  if (config.train.label_names.empty()) return std::vector<std::string>();
  const std::string copy = fmt::format("{}/{}", DirectoryOfCheckpoint(checkpoint), kLabelNamesName);
  std::error_code ignored;
  if (std::filesystem::exists(copy, ignored)) return LoadLabelNames(copy, config.model.labels);
  // What a manifest names elsewhere is read only if it looks like such a copy: the model may come
  // from a stranger, who would like to see another file.
  const std::string& path = config.train.label_names;
  if (std::filesystem::path(path).filename() != kLabelNamesName) {
    return BadInput(fmt::format("the names of the labels: put a file of them at {}", copy));
  }
  Result<std::vector<std::string>> names = LoadLabelNames(path, config.model.labels);
  if (names.ok()) return names;
  return BadInput(fmt::format("the names of the labels: {}; put the file there, or at {}",
                              names.error().message, copy));
}

}  // namespace dslide
