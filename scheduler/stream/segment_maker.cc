#include "scheduler/stream/segment_maker.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/data/text_stream.h"
#include "common/text/records/record_file.h"

namespace dslide {
namespace {

// A stream whose first segment has at least this many records and no label is refused.
constexpr size_t kEnoughToJudge = 100;

// The next line without its line end; nullopt: no line is complete. `place`: the offset of `bytes`
// in the stream.
std::optional<std::string_view> NextLine(std::string_view bytes, uint64_t place, bool ended,
                                         size_t* size) {
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos && (!ended || bytes.empty())) return std::nullopt;
  std::string_view line = bytes.substr(0, end);
  *size = std::min(bytes.size(), line.size() + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (place == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return line;
}

// Cannot fail: FindFormat() has parsed the names of fields before.
RecordRules RulesOf(RecordFormat format, const TextConfig& config) {
  RecordRules rules(format);
  if (Result<FieldNames> fields = FieldNames::Parse(config.fields); fields.ok()) {
    rules.fields = *std::move(fields);
  }
  return rules;
}

std::string LeftOut(uint64_t lines, const std::string& first) {
  return fmt::format("{} left out, the first is {}", Plural(lines, "line"), first);
}

Error NothingToLearn(const FirstLook& look) {
  const std::string key = look.KeyInPlaceOfLabels();
  return BadInput(fmt::format("train.data, which is a stream: none of the first {} has a label{}",
                              Plural(look.without_labels(), "sample"),
                              key.empty() ? "" : " (" + key + ")"));
}

// Notes on the first samples of a stream, and warnings.
std::vector<std::string> NotesOf(const FirstLook& look, const std::vector<Record>& records) {
  std::set<std::string> names;
  for (const Record& record : records) names.insert(record.labels.begin(), record.labels.end());
  std::vector<std::string> notes = look.SampleLines();
  for (const std::string& warning : look.Warnings(std::vector(names.begin(), names.end()))) {
    notes.push_back("warning: train.data: " + warning);
  }
  return notes;
}

}  // namespace

SegmentMaker::SegmentMaker(const TrainConfig& train, const TextConfig& text, StoredSegment last,
                           const OpenVocabulary::Limit& limit)
    : train_(train),
      limit_(limit),
      last_(std::move(last)),
      vocabulary_(text, std::exchange(last_.vocabulary, {}).value_or(OpenVocabulary::State())),
      has_format_(last_.number > 0) {
  DSLIDE_CHECK(vocabulary_.segment() == last_.number);
}

void SegmentMaker::Add(std::string_view bytes) {
  lines_ += static_cast<uint64_t>(std::ranges::count(bytes, '\n'));
  const size_t end = bytes.rfind('\n');
  if (end != std::string_view::npos) whole_ = bytes_.size() + end + 1;
  bytes_ += bytes;
}

Status SegmentMaker::FindFormat(bool ended) {
  constexpr const char* kStream = "train.data, which is a stream";
  std::string_view text = std::string_view(bytes_).substr(0, ended ? bytes_.size() : whole_);
  if (last_.end == 0 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const HeadLines head(text.substr(0, HeadLines::kBytes));
  if (head.lines.empty()) return {};
  const Result<FieldNames> fields = FieldNames::Parse(config().fields);
  DSLIDE_RETURN_IF_ERROR(fields);
  const bool looks = config().format == TextFormat::kRecords;
  const TextFormat named = looks ? FormatOf(head, *fields) : config().format;
  const std::optional<RecordFormat> format = RecordFormatOf(named);
  if (!format || format == RecordFormat::kPlainText) {
    return UnknownFormat(kStream, head.lines.front(), *fields);
  }
  if (format == RecordFormat::kCsv) {
    return BadInput(
        fmt::format("{}: is CSV, whose header a resumed run would lack; write JSON lines to "
                    "it (dslide data "
                    "convert)",
                    kStream));
  }
  const auto found = looks ? std::nullopt : ContradictionOf(*format, head);
  if (found) {
    return BadInput(fmt::format("{}: line {}: {} is not {}, which text.format names", kStream,
                                head.numbers[found->first], Quoted(head.lines[found->first]),
                                NameOf(*format)));
  }
  last_.format = *format;
  has_format_ = true;
  return {};
}

SegmentMaker::Cut SegmentMaker::Parse(const RecordRules& rules, const Place& place,
                                      std::string_view bytes, size_t most, bool ended) {
  Cut cut;
  size_t size = 0;
  while (cut.records.size() < most) {
    const auto line = NextLine(bytes.substr(cut.bytes), place.bytes + cut.bytes, ended, &size);
    if (!line) break;
    cut.bytes += size;
    ++cut.lines;
    if (IsBlank(*line)) continue;
    Result<Record> record = ParseRecord(rules, *line);
    if (record.ok()) {
      cut.look.Add(*record);
      cut.records.push_back(*std::move(record));
    } else if (++cut.bad == 1) {
      cut.first_bad = fmt::format("line {}: {}", place.lines + cut.lines, record.error().message);
    }
  }
  return cut;
}

Result<std::optional<SegmentMaker::Made>> SegmentMaker::MakeNext(bool ended) {
  if (!has_format_) DSLIDE_RETURN_IF_ERROR(FindFormat(ended));
  const Cut cut = Parse(RulesOf(last_.format, config()), {last_.end, last_.lines}, bytes_,
                        train_.segment_samples, ended);
  last_.begin = std::exchange(last_.end, last_.end + cut.bytes);
  last_.lines += cut.lines;
  bytes_.erase(0, cut.bytes);
  whole_ -= std::min(whole_, cut.bytes);
  lines_ -= std::min(lines_, cut.lines);
  if (cut.records.empty()) {
    if (cut.bad > 0) left_out_ = LeftOut(cut.bad, cut.first_bad);
    return std::optional<Made>();
  }
  const bool enough = ended || cut.records.size() >= kEnoughToJudge;
  if (last_.number == 0 && enough && cut.look.without_labels() == cut.records.size()) {
    return NothingToLearn(cut.look);
  }
  last_.rules = {train_.admit_count, train_.expire_segments, limit_};
  const OpenVocabulary::Change change = vocabulary_.Take(cut.records, last_.rules);
  kept_out_ = change.labels.kept_out + change.features.kept_out;
  Made made =
      Encode(cut.records, std::make_shared<const Preprocessor>(vocabulary_.MakePreprocessor()));
  last_.number++;
  last_.samples = static_cast<uint32_t>(cut.records.size());
  last_.shape = ShapeAfter(change, vocabulary_, cut.records.size());
  last_.checksum = ChecksumOf(made.preprocessor.get());
  made.segment.shape = last_.shape;
  made.segment.preprocessor = last_.checksum;
  made.segment.line = LineOf(cut, change);
  if (last_.number == 1) made.notes = NotesOf(cut.look, cut.records);
  return std::optional(std::move(made));
}

ModelShape SegmentMaker::ShapeAfter(const OpenVocabulary::Change& change,
                                    const OpenVocabulary& vocabulary, size_t samples) {
  return {vocabulary.segment(),           vocabulary.features().size(), vocabulary.labels().size(),
          static_cast<uint32_t>(samples), change.features.recycled,     change.labels.recycled,
          change.labels.removed};
}

bool SegmentMaker::TakeAgain(const StoredSegment& stored, std::string_view bytes,
                             OpenVocabulary* vocabulary) {
  const Cut cut = Parse(RulesOf(stored.format, vocabulary->config()), {stored.begin, 0}, bytes,
                        stored.samples, true);
  const OpenVocabulary::Change change = vocabulary->Take(cut.records, stored.rules);
  return ShapeAfter(change, *vocabulary, cut.records.size()) == stored.shape;
}

SegmentMaker::Made SegmentMaker::MakeAgain(const StoredSegment& stored,
                                           const OpenVocabulary& vocabulary,
                                           std::string_view bytes) {
  const Cut cut = Parse(RulesOf(stored.format, vocabulary.config()), {stored.begin, 0}, bytes,
                        stored.samples, true);
  Made made =
      Encode(cut.records, std::make_shared<const Preprocessor>(vocabulary.MakePreprocessor()));
  made.segment.shape = stored.shape;
  made.segment.preprocessor = stored.checksum;
  made.segment.line =
      fmt::format("segment {} as before: {}", stored.number, Plural(cut.records.size(), "sample"));
  return made;
}

SegmentMaker::Made SegmentMaker::Encode(const std::vector<Record>& records,
                                        std::shared_ptr<const Preprocessor> preprocessor) {
  Preprocessor::Encoder encoder(*preprocessor);
  Dataset data, unseen;
  for (size_t i = 0; i < records.size(); ++i) {
    SampleView sample = encoder.Encode(records[i]);
    sample.weight = records[i].weight;
    data.Add(sample);
    if (i % kUnseenShare == kUnseenShare - 1) unseen.Add(sample);
  }
  const uint32_t features = preprocessor->num_features(), labels = preprocessor->num_labels();
  data.KeepLabels([&](uint32_t label) { return label < labels; });
  data.SetSizes(features, labels);
  unseen.SetSizes(features, labels);
  Made made;
  made.segment.data = std::make_shared<const Dataset>(std::move(data));
  made.segment.unseen = std::make_shared<const Dataset>(std::move(unseen));
  made.preprocessor = std::move(preprocessor);
  return made;
}

std::string SegmentMaker::LineOf(const Cut& cut, const OpenVocabulary::Change& change) const {
  std::string line = fmt::format("segment {}: {}; labels {} (+{} -{}), features {} (+{} -{})",
                                 last_.number, Plural(cut.records.size(), "sample"),
                                 vocabulary_.labels().in_use(), change.labels.taken_up,
                                 change.labels.removed.size(), vocabulary_.features().in_use(),
                                 change.features.taken_up, change.features.removed.size());
  if (kept_out_ > 0) {
    line += fmt::format("; no room for {} (train.vocabulary_mb)", Plural(kept_out_, "more name"));
  }
  if (const std::string without = cut.look.WithoutLabels(); !without.empty()) {
    line += "; " + without;
  }
  if (cut.bad > 0) {
    line += "; " + LeftOut(cut.bad, cut.first_bad);
  }
  return line;
}

}  // namespace dslide
