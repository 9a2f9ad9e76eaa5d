#include "common/checkpoint/stored_preprocessor.h"

#include <fmt/format.h>

#include <filesystem>

#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"

namespace dslide {
namespace {

uint64_t ChecksumOfText(std::string_view bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string PathOf(const std::string& directory, uint64_t checksum) {
  return fmt::format("{}/{}", directory, PreprocessorName(checksum));
}

}  // namespace

uint64_t ChecksumOf(const Preprocessor* preprocessor) {
  return preprocessor == nullptr ? 0 : ChecksumOfText(preprocessor->ToBytes());
}

Status StorePreprocessor(const std::string& directory, const Preprocessor* preprocessor) {
  if (preprocessor == nullptr) return {};
  const std::string bytes = preprocessor->ToBytes();
  return WriteWholeFile(PathOf(directory, ChecksumOfText(bytes)), bytes);
}

Result<std::shared_ptr<const Preprocessor>> LoadPreprocessor(const std::string& directory,
                                                             uint64_t checksum) {
  if (checksum == 0) return std::shared_ptr<const Preprocessor>();
  const std::string path = PathOf(directory, checksum);
  Result<std::string> bytes = ReadWholeFile(path);
  if (!bytes.ok()) {
    return BadInput(fmt::format("{}; copy it there from beside the original checkpoints",
                                bytes.error().message));
  }
  if (ChecksumOfText(*bytes) != checksum) {
    return BadInput(fmt::format("{}: damaged ({} bytes); copy it again", path, bytes->size()));
  }
  Result<Preprocessor> preprocessor = Preprocessor::FromBytes(*bytes, path);
  DSLIDE_RETURN_IF_ERROR(preprocessor);
  return std::make_shared<const Preprocessor>(*std::move(preprocessor));
}

Result<std::shared_ptr<const Preprocessor>> LoadPreprocessorOf(const std::string& checkpoint,
                                                               uint64_t checksum) {
  return LoadPreprocessor(DirectoryOfCheckpoint(checkpoint), checksum);
}

}  // namespace dslide
