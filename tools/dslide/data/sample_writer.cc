#include "tools/dslide/data/sample_writer.h"

#include <fmt/format.h>

namespace dslide {

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
    if (!source.records->header().empty()) writer.WriteLine(source.records->header());
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
  text_->Write(line);
  text_->Write("\n");
}

Status SampleWriter::Finish(const ModelSize& size) {
  return text_ ? text_->Finish() : numbers_->Finish(size);
}

}  // namespace dslide
