#include "common/data/xc_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/base/plural.h"
#include "common/data/text_stream.h"
#include "common/data/xc_line.h"

namespace dslide {
namespace {

constexpr uint64_t kMaxCount = std::numeric_limits<uint32_t>::max();  // features, labels

// Removes the next number of the header from *text, with the spaces after it.
Result<uint64_t> TakeCount(std::string_view* text, const char* what, uint64_t min, uint64_t max) {
  const char* end = text->data() + text->size();
  const ScannedNumber number = ScanNumber(text->data(), end);
  const std::string_view digits(text->data(), number.next);
  if (digits.empty() || (number.next != end && *number.next != ' ')) {
    return BadInput("expected three non-negative integers 'samples features labels'");
  }
  if (number.overflow || number.value > max) {
    return BadInput(fmt::format("{} {} are too many, at most {}", Quoted(digits), what, max));
  }
  if (number.value < min) {
    return BadInput(fmt::format("{} {}, expected at least {}", number.value, what, min));
  }
  text->remove_prefix(digits.size());
  text->remove_prefix(std::min(text->find_first_not_of(' '), text->size()));
  return number.value;
}

Result<XcHeader> ParseHeader(std::string_view line) {
  auto samples = TakeCount(&line, "samples", 0, std::numeric_limits<uint64_t>::max());
  if (!samples.ok()) return samples.error();
  auto features = TakeCount(&line, "features", 1, kMaxCount);
  if (!features.ok()) return features.error();
  auto labels = TakeCount(&line, "labels", 1, kMaxCount);
  if (!labels.ok()) return labels.error();
  if (!line.empty()) return BadInput("expected three numbers 'samples features labels', no more");
  return XcHeader{*samples, static_cast<uint32_t>(*features), static_cast<uint32_t>(*labels)};
}

Result<XcHeader> ReadHeader(TextStream* stream) {
  auto line = stream->Next();
  if (!line.ok()) return line.error();
  if (!line->has_value()) {
    return stream->BadLine("the file is empty (expected a header 'samples features labels')");
  }
  auto header = ParseHeader(**line);
  if (!header.ok()) {
    return stream->BadLine(
        fmt::format("bad header {} ({})", Quoted(**line), header.error().message));
  }
  // Each sample is a line.
  if (header->num_samples > stream->most_bytes()) {
    return stream->BadLine(
        fmt::format("the header says {}, but the file has at most {} of text (is it cut?)",
                    Plural(header->num_samples, "sample"), Plural(stream->most_bytes(), "byte")));
  }
  return header;
}

struct LabelName {
  uint32_t id = 0;
  std::string_view name;
};

// The fourth of the tab-separated columns, or the second if there are fewer. REQUIRES a tab.
std::string_view NameColumn(std::string_view line) {
  constexpr int kColumnsBeforeName = 3;
  const std::string_view from_key = line.substr(line.find('\t') + 1);
  std::string_view rest = line;
  for (int i = 0; i < kColumnsBeforeName; ++i) {
    const size_t tab = rest.find('\t');
    if (tab == std::string_view::npos) return from_key.substr(0, from_key.find('\t'));
    rest.remove_prefix(tab + 1);
  }
  return rest.substr(0, rest.find('\t'));
}

Result<LabelName> ParseLabelName(std::string_view line, uint32_t num_labels) {
  const char* end = line.data() + line.size();
  const ScannedNumber id = ScanNumber(line.data(), end);
  if (id.next == line.data() || id.next == end || *id.next != '\t') {
    return BadInput(fmt::format("bad label line {} (expected id, tab, name)", Quoted(line)));
  }
  if (id.overflow || id.value >= num_labels) {
    return BadInput(fmt::format("label id {} is out of range (the data has {})",
                                Quoted({line.data(), id.next}), Plural(num_labels, "label")));
  }
  return LabelName{static_cast<uint32_t>(id.value), NameColumn(line)};
}

}  // namespace

class XcReader::Impl {
 public:
  Impl(TextStream stream, const XcHeader& header)
      : stream_(std::move(stream)),
        header_(header),
        parser_(header.num_features, header.num_labels) {}

  const XcHeader& header() const { return header_; }

  Result<std::optional<SampleView>> Next() {
    if (samples_read_ == header_.num_samples) return ExpectEnd();
    auto line = stream_.Next();
    if (!line.ok()) return line.error();
    if (!line->has_value()) {
      return stream_.BadLine(fmt::format("the file ends after {} (the header says {})",
                                         Plural(samples_read_, "sample"), header_.num_samples));
    }
    auto sample = parser_.Parse(**line);
    if (!sample.ok()) return stream_.BadLine(sample.error().message);
    ++samples_read_;
    return std::optional<SampleView>(*sample);
  }

 private:
  // Nothing but blank lines may follow. Reading on also verifies a compressed file's checksum.
  Result<std::optional<SampleView>> ExpectEnd() {
    while (true) {
      auto line = stream_.Next();
      if (!line.ok()) return line.error();
      if (!line->has_value()) return std::optional<SampleView>();
      if (!IsBlank(**line)) {
        return stream_.BadLine(fmt::format(
            "there are more samples than the header says ({}; expected the end of the file)",
            header_.num_samples));
      }
    }
  }

  TextStream stream_;
  XcHeader header_;
  XcLineParser parser_;
  uint64_t samples_read_ = 0;
};

XcReader::XcReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
XcReader::XcReader(XcReader&&) noexcept = default;
XcReader& XcReader::operator=(XcReader&&) noexcept = default;
XcReader::~XcReader() = default;

Result<XcReader> XcReader::Open(const std::string& path) {
  auto stream = TextStream::Open(path);
  if (!stream.ok()) return stream.error();
  return FromStream(*std::move(stream));
}

Result<XcReader> XcReader::FromStream(TextStream stream) {
  auto header = ReadHeader(&stream);
  if (!header.ok()) return header.error();
  return XcReader(std::make_unique<Impl>(std::move(stream), *header));
}

const XcHeader& XcReader::header() const { return impl_->header(); }

Result<std::optional<SampleView>> XcReader::Next() { return impl_->Next(); }

Result<Dataset> ReadXcFile(const std::string& path) {
  auto stream = TextStream::Open(path);
  if (!stream.ok()) return stream.error();
  return ReadXcStream(*std::move(stream));
}

Result<Dataset> ReadXcStream(TextStream stream) {
  auto reader = XcReader::FromStream(std::move(stream));
  if (!reader.ok()) return reader.error();
  Dataset dataset(reader->header().num_features, reader->header().num_labels);
  while (true) {
    auto sample = reader->Next();
    if (!sample.ok()) return sample.error();
    if (!sample->has_value()) return dataset;
    dataset.Add(**sample);
  }
}

Result<std::vector<std::string>> ReadLabelNames(const std::string& path, uint32_t num_labels) {
  auto stream = TextStream::Open(path);
  if (!stream.ok()) return stream.error();
  std::vector<std::string> names(num_labels);
  std::vector<bool> seen(num_labels);
  bool any = false;
  while (true) {
    auto line = stream->Next();
    if (!line.ok()) return line.error();
    if (!line->has_value()) break;
    if (IsBlank(**line)) continue;
    auto label = ParseLabelName(**line, num_labels);
    if (!label.ok()) return stream->BadLine(label.error().message);
    if (seen[label->id]) {
      return stream->BadLine(fmt::format("label id {} is there twice (expected once)", label->id));
    }
    any = seen[label->id] = true;
    names[label->id] = label->name;
  }
  if (!any) return stream->BadLine("the file is empty (expected id, tab, name)");
  return names;
}

}  // namespace dslide
