#include "tools/dslide/data/sample_writer.h"

#include <fmt/format.h>

namespace dslide {
namespace {

constexpr size_t kMostHeld = size_t{64} << 20;  // bytes of lines before one that tells the format

}  // namespace

Result<SampleWriter> SampleWriter::Create(const std::string& path, const DataFile& source) {
  SampleWriter writer;
  if (source.numbers && source.numbers->has_weights()) {
    return BadInput(
        fmt::format("{}: weights cannot be written (name X.npz,Y.npz without W.npy)", path));
  }
  if (source.numbers) {
    Result<std::unique_ptr<NumberWriter>> numbers =
        NumberWriter::Create(path, source.numbers->format());
    DSLIDE_RETURN_IF_ERROR(numbers);
    writer.numbers_ = *std::move(numbers);
  } else {
    Result<TextWriter> text = TextWriter::Create(path);
    DSLIDE_RETURN_IF_ERROR(text);
    writer.text_.emplace(*std::move(text));
    writer.path_ = path;
    const RecordFormat format = source.records->format();
    if (format != RecordFormat::kPlainText) writer.untold_ = format;
  }
  return writer;
}

void SampleWriter::Add(std::string_view line) {
  ++samples_;
  if (text_) return WriteLine(line);
  const Result<SampleView> sample = parser_.Parse(line);
  DSLIDE_CHECK(sample.ok());  // FormatSample() made the line
  numbers_->Add(*sample);
}

void SampleWriter::WriteLine(std::string_view line) {
  if (untold_ && RecordFormatOf(line) != untold_) {
    if (held_.size() < kMostHeld) {
      (held_ += line) += '\n';
      return;
    }
    too_late_ = true;
  }
  text_->Write(line);
  text_->Write("\n");
  if (untold_) WriteHeld();
}

void SampleWriter::WriteHeld() {
  untold_.reset();
  text_->Write(held_);
  held_ = {};
}

Status SampleWriter::Finish(const ModelSize& size) {
  if (!text_) return numbers_->Finish(size);
  WriteHeld();  // no sample has a label
  DSLIDE_RETURN_IF_ERROR(text_->Finish());
  if (!too_late_) return {};
  return BadInput(
      fmt::format("{}: none of its first {} MiB of samples has a label: its first line "
                  "does not tell the format; put a sample with labels first",
                  path_, kMostHeld >> 20));
}

}  // namespace dslide
