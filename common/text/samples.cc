#include "common/text/samples.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/text/line_blocks.h"

namespace dslide {
namespace {

std::string Described(const std::string& path, std::string_view format, const Dataset& data,
                      int64_t start_ms) {
  return fmt::format("{}: {}, {}, {}, {} ({:.1f} s)", path, format, Plural(data.size(), "sample"),
                     Plural(data.num_features(), "feature"), Plural(data.num_labels(), "label"),
                     static_cast<double>(MonotonicMillis() - start_ms) / 1000.0);
}

Result<Dataset> EncodeBlock(const RecordFile& file, const LineBlock& block,
                            Preprocessor::Encoder* encoder) {
  Dataset samples;
  for (size_t i = 0; i < block.size(); ++i) {
    const Result<Record> record = ParseRecord(file.format(), block[i]);
    if (!record.ok()) return file.BadLine(block.NumberOf(i), record.error());
    samples.Add(encoder->Encode(*record));
  }
  return samples;
}

void AddAll(const std::vector<Dataset>& parts, Dataset* samples) {
  for (const Dataset& part : parts) {
    for (size_t i = 0; i < part.size(); ++i) samples->Add(part[i]);
  }
}

std::vector<Preprocessor::Encoder> Encoders(const Preprocessor& preprocessor) {
  std::vector<Preprocessor::Encoder> encoders;
  for (uint32_t t = 0; t < CoresOfThisMachine(); ++t) encoders.emplace_back(preprocessor);
  return encoders;
}

Result<Dataset> EncodeFile(const std::string& path, const Preprocessor& preprocessor) {
  Result<RecordFile> file = RecordFile::Open(path);
  DSLIDE_RETURN_IF_ERROR(file);
  std::vector<Preprocessor::Encoder> encoders = Encoders(preprocessor);
  Dataset samples(preprocessor.num_features(), preprocessor.num_labels());
  DSLIDE_RETURN_IF_ERROR(MapBlocks<Dataset>(
      file->stream(), encoders.size(),
      [&](size_t thread, const LineBlock& block) {
        return EncodeBlock(*file, block, &encoders[thread]);
      },
      [&](const std::vector<Dataset>& parts) { AddAll(parts, &samples); }));
  return samples;
}

}  // namespace

Result<TrainingSamples> LoadTrainingSamples(const std::string& path, const TextConfig& config,
                                            std::shared_ptr<const Preprocessor> known) {
  const int64_t start_ms = MonotonicMillis();
  Result<RecordFile::Opened> opened = RecordFile::TryOpen(path);
  DSLIDE_RETURN_IF_ERROR(opened);
  TrainingSamples loaded;
  if (!opened->records) {
    if (!IsNumbersHeader(opened->first_line)) return UnknownFormat(path, opened->first_line);
    Result<Dataset> data = ReadXcStream(*std::move(opened->other));
    DSLIDE_RETURN_IF_ERROR(data);
    loaded.data = *std::move(data);
    loaded.description = Described(path, "numbers", loaded.data, start_ms);
    LogInfo(loaded.description);
    return loaded;
  }
  const RecordFormat format = opened->records->format();
  if (known == nullptr) {
    Result<Preprocessor> fitted = Preprocessor::Fit(path, config, CoresOfThisMachine());
    DSLIDE_RETURN_IF_ERROR(fitted);
    known = std::make_shared<const Preprocessor>(*std::move(fitted));
  }
  loaded.preprocessor = std::move(known);
  Result<Dataset> data = EncodeFile(path, *loaded.preprocessor);
  DSLIDE_RETURN_IF_ERROR(data);
  loaded.data = *std::move(data);
  loaded.description = Described(path, NameOf(format), loaded.data, start_ms);
  LogInfo(loaded.description);
  return loaded;
}

Result<Dataset> ReadSamples(const std::string& path, const Preprocessor* preprocessor) {
  return preprocessor == nullptr ? ReadXcFile(path) : EncodeFile(path, *preprocessor);
}

Result<Dataset> LoadSamples(const std::string& path, const Preprocessor* preprocessor) {
  const int64_t start_ms = MonotonicMillis();
  Result<Dataset> data = ReadSamples(path, preprocessor);
  if (data.ok()) {
    LogInfo(Described(path, preprocessor == nullptr ? "numbers" : "text", *data, start_ms));
  }
  return data;
}

Result<SampleReader> SampleReader::Open(const std::string& path, const Preprocessor* preprocessor) {
  if (preprocessor == nullptr) {
    Result<XcReader> reader = XcReader::Open(path);
    DSLIDE_RETURN_IF_ERROR(reader);
    return SampleReader(*std::move(reader));
  }
  Result<RecordFile> file = RecordFile::Open(path);
  DSLIDE_RETURN_IF_ERROR(file);
  return SampleReader(*std::move(file), preprocessor);
}

SampleReader::SampleReader(RecordFile file, const Preprocessor* preprocessor)
    : file_(std::move(file)), preprocessor_(preprocessor), encoders_(Encoders(*preprocessor)) {}

Status SampleReader::Refill() {
  samples_ = Dataset(preprocessor_->num_features(), preprocessor_->num_labels());
  next_ = 0;
  // A blank line is a sample, so that results stand beside the lines; JSON lines may have any.
  const bool keep_blank = file_->format() != RecordFormat::kJsonLines;
  const Result<std::vector<Dataset>> parts = MapNextBlocks<Dataset>(
      file_->stream(), keep_blank, encoders_.size(), [&](size_t thread, const LineBlock& block) {
        return EncodeBlock(*file_, block, &encoders_[thread]);
      });
  DSLIDE_RETURN_IF_ERROR(parts);
  AddAll(*parts, &samples_);
  return {};
}

Result<std::optional<SampleView>> SampleReader::Next() {
  if (xc_) return xc_->Next();
  if (next_ == samples_.size()) DSLIDE_RETURN_IF_ERROR(Refill());
  if (samples_.size() == 0) return std::optional<SampleView>();
  return std::optional(samples_[next_++]);
}

}  // namespace dslide
