#include "common/text/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/data/measures/label_counts.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/text/records/line_blocks.h"
#include "common/text/tokens.h"

namespace dslide {
namespace {

std::string Described(const std::string& path, std::string_view format, const Dataset& data,
                      int64_t start_ms) {
  return fmt::format("{}: {}, {}, {}, {} ({:.1f} s)", path, format, Plural(data.size(), "sample"),
                     Plural(data.num_features(), "feature"), Plural(data.num_labels(), "label"),
                     static_cast<double>(MonotonicMillis() - start_ms) / 1000.0);
}

// The samples of some lines, and of a file.
struct Encoded {
  Dataset samples;
  std::vector<std::string> ids;     // of records
  std::vector<std::string> errors;  // of records that cannot be read and have a sample; or empty
  UnreadableRecords unreadable;
  FirstLook look = {};        // of records
  NamesOfSamples names = {};  // if they were looked for
};

void AddNames(const Record& record, NameMatcher::Finder* finder, Encoded* encoded) {
  if (finder == nullptr) return;
  const std::span<const NameMatch> matches = finder->Find(record);
  encoded->names.Add({matches, finder->words()});
}

// The parts of each record that become a sample.
enum class Wanted { kAll, kLabels };

// `finder`: null, if names are not wanted.
Encoded EncodeBlock(const RecordFile& file, const LineBlock& block, Preprocessor::Encoder* encoder,
                    Wanted wanted = Wanted::kAll, NameMatcher::Finder* finder = nullptr) {
  Encoded encoded;
  ForEachRecord(file, block, &encoded.unreadable, [&](Record& record) {
    if (wanted == Wanted::kLabels) record.fields.clear();
    encoded.look.Add(record);
    SampleView sample = encoder->Encode(record);
    sample.weight = record.weight;
    encoded.samples.Add(sample);
    encoded.ids.push_back(record.id);
    AddNames(record, finder, &encoded);
  });
  return encoded;
}

// A sample for each line: one without words if it is blank or cannot be read.
Encoded EncodeLines(const RecordFile& file, const LineBlock& block, Preprocessor::Encoder* encoder,
                    NameMatcher::Finder* finder) {
  Encoded encoded;
  for (size_t i = 0; i < block.size(); ++i) {
    encoded.unreadable.CountRecord();
    Result<Record> record = Record{};
    if (!IsBlank(block[i])) record = ParseRecord(file.rules(), block[i]);
    std::string error;
    if (!record.ok()) {
      const Error why = file.BadLine(block.NumberOf(i), record.error());
      error = why.message;
      encoded.unreadable.LeaveOut(why);
      record = Record{};
    }
    encoded.samples.Add(encoder->Encode(*record));
    encoded.ids.push_back(record->id);
    AddNames(*record, finder, &encoded);
    encoded.errors.push_back(std::move(error));
  }
  return encoded;
}

// The samples of lines of tokens, with whole windows.
Encoded ExpandBlock(const RecordFile& file, const LineBlock& block,
                    const Preprocessor& preprocessor) {
  const TokenRules rules = TokenRulesOf(preprocessor.config());
  TokenBreaker breaker(preprocessor.config());
  TokenSamples::Scratch scratch;
  std::vector<uint32_t> tokens;
  Encoded encoded;
  for (size_t i = 0; i < block.size(); ++i) {
    tokens.clear();
    encoded.unreadable.CountRecord();
    const Status read = breaker.ForEachToken(block[i], [&](std::string_view token) {
      if (const auto id = preprocessor.TokenId(token)) tokens.push_back(*id);
    });
    if (!read.ok()) {
      encoded.unreadable.LeaveOut(file.BadLine(block.NumberOf(i), read.error()));
      continue;
    }
    tokens.push_back(TokenSamples::kLineEnd);
    for (uint32_t p = 0; p < tokens.size(); ++p) {
      if (!TokenSamples::IsSample(rules, tokens, p)) continue;
      encoded.samples.Add(TokenSamples::WholeSample(rules, tokens, p, &scratch));
    }
  }
  return encoded;
}

void AddAll(const std::vector<Encoded>& parts, Encoded* all) {
  for (const Encoded& part : parts) {
    for (size_t i = 0; i < part.samples.size(); ++i) all->samples.Add(part.samples[i]);
    all->unreadable.Append(part.unreadable);
    all->look.Append(part.look);
  }
}

std::vector<Preprocessor::Encoder> Encoders(const Preprocessor& preprocessor) {
  std::vector<Preprocessor::Encoder> encoders;
  for (uint32_t t = 0; t < CoresOfThisMachine(); ++t) encoders.emplace_back(preprocessor);
  return encoders;
}

// The format of a file for a model of text, words or sessions.
DataFormat FormatOfInput(const ModelInput& model) {
  if (model.named) return *model.named;
  const TextConfig& text = model.preprocessor->config();
  return {text.format, text.fields, /*is_model=*/true};
}

// A file for a model of words or sessions; JSON lines only where a line is a sample.
Result<RecordFile> OpenLines(const std::string& path, const ModelInput& model,
                             SampleReader::Lines lines) {
  if (lines == SampleReader::Lines::kExpanded) {
    Result<TextStream> stream = OpenTokenFile(path);
    DSLIDE_RETURN_IF_ERROR(stream);
    return RecordFile::PlainText(path, *std::move(stream));
  }
  return RecordFile::OpenLines(path, FormatOfInput(model));
}

// All samples of a file, by encode(thread, block).
template <typename Encode>
Result<Encoded> EncodeAll(RecordFile* file, const Preprocessor& preprocessor, size_t threads,
                          const Encode& encode) {
  Encoded all{
      Dataset(preprocessor.num_features(), preprocessor.num_labels()), {}, {}, UnreadableRecords()};
  DSLIDE_RETURN_IF_ERROR(
      MapBlocks<Encoded>(file->stream(), threads, encode,
                         [&](const std::vector<Encoded>& parts) { AddAll(parts, &all); }));
  DSLIDE_RETURN_IF_ERROR(all.unreadable.Check());
  return all;
}

Result<Encoded> ExpandFile(const std::string& path, const ModelInput& model) {
  const Preprocessor& preprocessor = *model.preprocessor;
  Result<RecordFile> file = OpenLines(path, model, SampleReader::Lines::kExpanded);
  DSLIDE_RETURN_IF_ERROR(file);
  return EncodeAll(&*file, preprocessor, CoresOfThisMachine(), [&](size_t, const LineBlock& block) {
    return ExpandBlock(*file, block, preprocessor);
  });
}

struct DrawnSamples {
  Dataset data;
  uint64_t left_out = 0;  // tokens
  UnreadableRecords unreadable;
};

// The tokens of a file, of which samples are drawn.
Result<DrawnSamples> DrawFile(const std::string& path, const Preprocessor& preprocessor) {
  const TextConfig& config = preprocessor.config();
  Result<ReadTokens> read = NumberTokens(
      path, config, [&](std::string_view token) { return preprocessor.TokenId(token); },
      CoresOfThisMachine());
  DSLIDE_RETURN_IF_ERROR(read);
  const uint32_t size = preprocessor.num_labels();
  auto tokens =
      std::make_shared<const TokenSamples>(TokenRulesOf(config), size, std::move(read->ids));
  return DrawnSamples{Dataset(size, size, std::move(tokens)), read->left_out,
                      std::move(read->unreadable)};
}

void AddNote(std::string note, std::vector<std::string>* notes) {
  if (!note.empty()) notes->push_back(std::move(note));
}

Result<TrainingSamples> LoadTrainingTokens(const std::string& path, const TrainingInput& input,
                                           int64_t start_ms) {
  if (input.min_label_samples > 1) {
    return BadInput(
        fmt::format("train.min_label_samples = {}: of words and sessions text.min_count "
                    "is what leaves rare ones out",
                    input.min_label_samples));
  }
  TrainingSamples loaded;
  loaded.preprocessor = input.known;
  if (loaded.preprocessor == nullptr) {
    Result<Preprocessor> fitted = Preprocessor::Fit(path, input.text, CoresOfThisMachine());
    DSLIDE_RETURN_IF_ERROR(fitted);
    loaded.preprocessor = std::make_shared<const Preprocessor>(*std::move(fitted));
  }
  Result<DrawnSamples> drawn = DrawFile(path, *loaded.preprocessor);
  DSLIDE_RETURN_IF_ERROR(drawn);
  AddNote(drawn->unreadable.Note(path), &loaded.notes);
  loaded.data = std::move(drawn->data);
  loaded.inverse_propensities = InversePropensities(loaded.data);
  uint64_t tokens = 0;
  for (const uint64_t count : loaded.data.drawn()->counts()) tokens += count;
  const bool words = !loaded.data.drawn()->rules().sessions;
  loaded.description = fmt::format("{}: {} {}, {} different ones, {} an epoch ({:.1f} s)", path,
                                   tokens, words ? "words" : "items", loaded.data.num_labels(),
                                   Plural(loaded.data.size(), "sample"),
                                   static_cast<double>(MonotonicMillis() - start_ms) / 1000.0);
  if (drawn->left_out > 0) {
    loaded.notes.push_back(
        fmt::format("{}: {} of {} {} left out, which are rare (text.min_count, "
                    "text.max_features)",
                    path, drawn->left_out, drawn->left_out + tokens, words ? "words" : "items"));
  }
  return loaded;
}

Result<Encoded> EncodeFile(const std::string& path, const ModelInput& model,
                           Wanted wanted = Wanted::kAll) {
  Result<RecordFile> file = RecordFile::Open(path, FormatOfInput(model), RecordFile::Use::kLabels);
  DSLIDE_RETURN_IF_ERROR(file);
  std::vector<Preprocessor::Encoder> encoders = Encoders(*model.preprocessor);
  return EncodeAll(&*file, *model.preprocessor, encoders.size(),
                   [&](size_t thread, const LineBlock& block) {
                     return EncodeBlock(*file, block, &encoders[thread], wanted);
                   });
}

// Notes on the samples of a training file, and warnings.
void AddLook(const std::string& path, const Encoded& encoded, const Preprocessor& preprocessor,
             std::vector<std::string>* notes) {
  std::ranges::copy(encoded.look.SampleLines(), std::back_inserter(*notes));
  std::vector<std::string> names;
  for (const LabelCount& c : CountLabels(encoded.samples)) {
    names.push_back(preprocessor.LabelName(c.label));
  }
  for (const std::string& warning : encoded.look.Warnings(names)) {
    notes->push_back(fmt::format("warning: {}: {}", path, warning));
  }
}

// Notes on a file with numbers.
void AddLook(const std::string& path, const Dataset& data, std::vector<std::string>* notes) {
  for (size_t i = 0; i < std::min(data.size(), FirstLook::kSamples); ++i) {
    notes->push_back(SampleLine(i, data[i]));
  }
  if (const uint64_t without = CountWithoutLabels(data); without > 0) {
    notes->push_back(fmt::format("warning: {}: {}", path, WithoutLabels(without, data.size())));
  }
}

// Leaves out the labels of which keep(label) is false, and notes how many.
template <typename Keep>
void LeaveOutLabels(const std::string& path, uint32_t min_label_samples, const Keep& keep,
                    TrainingSamples* loaded) {
  const std::vector<LabelCount> before = CountLabels(loaded->data);
  const auto left_out =
      std::ranges::count_if(before, [&](const LabelCount& c) { return !keep(c.label); });
  if (left_out == 0) return;
  const uint64_t entries = loaded->data.num_label_entries();
  loaded->data.KeepLabels(keep);
  loaded->notes.push_back(
      fmt::format("{}: {} of fewer than {} samples left out, with {} of {} label entries "
                  "(train.min_label_samples)",
                  path, Plural(static_cast<uint64_t>(left_out), "label"), min_label_samples,
                  entries - loaded->data.num_label_entries(), entries));
}

// Leaves out the labels that the vocabulary lacks, and notes how many. An error if it lacks all.
Status LeaveOutUnknown(const std::string& path, TrainingSamples* loaded) {
  const uint32_t known = loaded->preprocessor->num_labels();
  std::string example;
  uint64_t labels = 0;
  for (const LabelCount& c : CountLabels(loaded->data)) {
    if (c.label < known) continue;
    if (++labels == 1) example = loaded->preprocessor->LabelName(c.label);
  }
  if (labels == 0) return {};
  const uint64_t entries = loaded->data.num_label_entries();
  loaded->data.KeepLabels([&](uint32_t id) { return id < known; });
  if (loaded->data.num_label_entries() == 0) {
    return BadInput(fmt::format("{}: the vocabulary of the model lacks all labels, as {}", path,
                                Quoted(example)));
  }
  loaded->notes.push_back(fmt::format(
      "warning: {}: {} that the vocabulary lacks left out, as {}, with {} of {} label entries",
      path, Plural(labels, "label"), Quoted(example), entries - loaded->data.num_label_entries(),
      entries));
  return {};
}

// Adds a sample for each name of a label.
void AddNames(float weight, TrainingSamples* loaded) {
  if (weight == 0) return;
  const Vocabulary& vocabulary = loaded->preprocessor->vocabulary();
  Preprocessor::Encoder encoder(*loaded->preprocessor);
  size_t count = 0;
  for (size_t n = 0; n < vocabulary.names().size(); ++n) {
    const std::string& name = vocabulary.names()[n];
    SampleView sample = encoder.Encode(NameRecord(name));
    if (sample.features.empty()) continue;
    sample.labels = {&vocabulary.owners()[n], 1};
    sample.weight = weight;
    loaded->data.Add(sample);
    ++count;
  }
  loaded->data.SetNames(count);
  loaded->notes.push_back(fmt::format("{} of {} are training samples, too (labels.name_weight)",
                                      Plural(count, "name"), Plural(vocabulary.size(), "label")));
}

Result<TrainingSamples> LoadTrainingNumbers(const std::string& path, NumberFile file,
                                            uint32_t min_label_samples, int64_t start_ms) {
  Result<Dataset> data = ReadNumbers(&file, std::nullopt);
  DSLIDE_RETURN_IF_ERROR(data);
  if (data->num_labels() == 0 && file.format() == NumberFormat::kNpz) {
    return BadInput(fmt::format("{}: has no labels (name both matrices, X.npz,Y.npz)", path));
  }
  if (data->num_labels() == 0) return BadInput(fmt::format("{}: no sample has a label", path));
  if (data->num_features() == 0) return BadInput(fmt::format("{}: no sample has a feature", path));
  TrainingSamples loaded;
  AddLook(path, *data, &loaded.notes);
  loaded.data = *std::move(data);
  loaded.inverse_propensities = InversePropensities(loaded.data);
  loaded.description = Described(path, file.description(), loaded.data, start_ms);
  if (min_label_samples > 1) {
    std::vector<bool> keeps(loaded.data.num_labels());
    for (const LabelCount& c : CountLabels(loaded.data)) {
      keeps[c.label] = c.count >= min_label_samples;
    }
    LeaveOutLabels(
        path, min_label_samples, [&](uint32_t id) { return keeps[id]; }, &loaded);
    if (loaded.data.num_label_entries() == 0) return NoLabelLeft(path, min_label_samples);
  }
  return loaded;
}

// Whether the preprocessor lacks the format of its training data, as older ones do.
bool IsLookedAt(const Preprocessor& preprocessor) {
  return preprocessor.config().format == TextFormat::kRecords;
}

Result<TrainingSamples> LoadTrainingRecords(const std::string& path, RecordFormat format,
                                            const TrainingInput& input, int64_t start_ms) {
  TrainingSamples loaded;
  loaded.preprocessor = input.known;
  if (loaded.preprocessor == nullptr) {
    Result<Preprocessor> fitted = Preprocessor::Fit(path, input.text, CoresOfThisMachine(),
                                                    input.min_label_samples, input.vocabulary);
    DSLIDE_RETURN_IF_ERROR(fitted);
    loaded.preprocessor = std::make_shared<const Preprocessor>(*std::move(fitted));
  }
  ModelInput model{loaded.preprocessor.get(), {}};
  if (IsLookedAt(*loaded.preprocessor)) model.named = DataFormatOf(input.text);
  Result<Encoded> encoded = EncodeFile(path, model);
  DSLIDE_RETURN_IF_ERROR(encoded);
  AddLook(path, *encoded, *loaded.preprocessor, &loaded.notes);
  AddNote(encoded->unreadable.Note(path), &loaded.notes);
  loaded.data = std::move(encoded->samples);
  loaded.inverse_propensities = InversePropensities(loaded.data);
  loaded.description = Described(path, NameOf(format), loaded.data, start_ms);
  if (!loaded.preprocessor->vocabulary().empty()) {
    DSLIDE_RETURN_IF_ERROR(LeaveOutUnknown(path, &loaded));
    AddNames(input.name_weight, &loaded);
  } else if (input.min_label_samples <= 1) {
    // A run that goes on compares the samples with those that it began with.
    if (input.known == nullptr) DSLIDE_RETURN_IF_ERROR(CheckLabelsKnown(path, loaded.data));
  } else {  // the preprocessor knows the labels that stay
    LeaveOutLabels(
        path, input.min_label_samples,
        [known = loaded.preprocessor->num_labels()](uint32_t id) { return id < known; }, &loaded);
  }
  return loaded;
}

// `number`: which sample of the file, from 1.
Status CheckSample(const std::string& path, uint64_t number, const SampleView& sample,
                   float divisor = 1.0f) {
  for (size_t v = 0; v < sample.values.size(); ++v) {
    if (std::abs(sample.values[v] / divisor) <= kMostFeatureValue) continue;
    return BadInput(fmt::format(
        "{}: sample {}: the value of feature {} is {:g}{} (expected at most {:g}; scale the data)",
        path, number, sample.features[v], sample.values[v],
        divisor == 1.0f ? "" : fmt::format(", divided by {:g} (train.normalize)", divisor),
        kMostFeatureValue));
  }
  return {};
}

// Of any format; nothing is logged.
Result<TrainingSamples> ReadTrainingSamples(const std::string& path, const TrainingInput& input) {
  const int64_t start_ms = MonotonicMillis();
  if (IsOfTokens(input.known ? input.known->config() : input.text)) {
    return LoadTrainingTokens(path, input, start_ms);
  }
  if (const auto matrices = MatrixPathsOf(path)) {
    Result<NumberFile> file = NumberFile::OpenMatrices(*matrices);
    DSLIDE_RETURN_IF_ERROR(file);
    return LoadTrainingNumbers(path, *std::move(file), input.min_label_samples, start_ms);
  }
  const bool known_format = input.known != nullptr && !IsLookedAt(*input.known);
  Result<RecordFile::Opened> opened = RecordFile::TryOpen(
      path, known_format ? FormatOfInput({input.known.get(), {}}) : DataFormatOf(input.text));
  DSLIDE_RETURN_IF_ERROR(opened);
  if (opened->records) {
    return LoadTrainingRecords(path, opened->records->format(), input, start_ms);
  }
  if (opened->format == TextFormat::kPlain) {
    return UnknownFormat(path, opened->first_line, opened->names);
  }
  Result<NumberFile> numbers = opened->Numbers();
  DSLIDE_RETURN_IF_ERROR(numbers);
  return LoadTrainingNumbers(path, *std::move(numbers), input.min_label_samples, start_ms);
}

// A file for a model of numbers.
Result<NumberFile> OpenNumbers(const std::string& path, const ModelInput& model) {
  const TextFormat named = model.named ? model.named->format : TextFormat::kRecords;
  if (named == TextFormat::kRecords) return NumberFile::Open(path);
  if (named != TextFormat::kNumbers && named != TextFormat::kLibsvm) {
    return BadInput(fmt::format(
        "{}: --format names text, but the model was trained on numbers (numbers or libsvm)", path));
  }
  if (MatrixPathsOf(path)) return NumberFile::Open(path);
  Result<RecordFile::Opened> opened = RecordFile::TryOpen(path, *model.named);
  DSLIDE_RETURN_IF_ERROR(opened);
  return opened->Numbers();
}

}  // namespace

Status CheckValues(const std::string& path, const Dataset& data, float divisor) {
  if (data.drawn() != nullptr) return {};
  for (size_t i = 0; i < data.size(); ++i) {
    DSLIDE_RETURN_IF_ERROR(CheckSample(path, i + 1, data[i], divisor));
  }
  return {};
}

Status CheckLabelsKnown(const std::string& path, const Dataset& data) {
  for (size_t i = 0; i < data.size(); ++i) {
    const auto is_new = [&](uint32_t id) { return id >= data.num_labels(); };
    if (std::ranges::none_of(data[i].labels, is_new)) continue;
    return BadInput(fmt::format(
        "{}: sample {} has a label that the file lacked when it was read before; name a file that "
        "nobody writes to",
        path, i + 1));
  }
  return {};
}

Result<TrainingSamples> LoadTrainingSamples(const std::string& path, const TrainingInput& input) {
  Result<TrainingSamples> loaded = ReadTrainingSamples(path, input);
  DSLIDE_RETURN_IF_ERROR(loaded);
  DSLIDE_RETURN_IF_ERROR(CheckValues(path, loaded->data, 1.0f));
  LogInfo({event::kDataLoaded, loaded->description});
  for (const std::string& note : loaded->notes) LogInfo({event::kDataNote, note});
  return loaded;
}

uint64_t CountWithoutLabels(const Dataset& data) {
  if (data.drawn() != nullptr) return 0;
  uint64_t count = 0;
  for (size_t i = 0; i < data.size(); ++i) count += data[i].labels.empty() ? 1 : 0;
  return count;
}

Error NothingToMeasure(const std::string& path, uint64_t samples, const std::string& why) {
  if (samples == 0) return BadInput(fmt::format("{}: no sample to measure", path));
  return BadInput(fmt::format("{}: nothing to measure: none of {} has a label{}", path,
                              Plural(samples, "sample"), why.empty() ? "" : " (" + why + ")"));
}

Status CheckLabelled(const std::string& path, const Dataset& data, const std::string& why) {
  if (data.drawn() != nullptr || CountWithoutLabels(data) < data.size()) return {};
  return NothingToMeasure(path, data.size(), why);
}

std::string LeftOutLine(const std::string& path, uint64_t count, uint32_t model_features) {
  return fmt::format("{}: {} left out, with ids above those of the model's {}", path,
                     Plural(count, "feature value"), Plural(model_features, "feature"));
}

Result<Dataset> ReadLabels(const std::string& path, const ModelInput& model) {
  if (model.preprocessor != nullptr && IsOfTokens(model.preprocessor->config())) {
    Result<DrawnSamples> drawn = DrawFile(path, *model.preprocessor);
    DSLIDE_RETURN_IF_ERROR(drawn);
    return std::move(drawn->data);
  }
  if (model.preprocessor != nullptr) {
    Result<Encoded> encoded = EncodeFile(path, model, Wanted::kLabels);
    DSLIDE_RETURN_IF_ERROR(encoded);
    return std::move(encoded->samples);
  }
  Result<NumberFile> file = OpenNumbers(path, model);
  DSLIDE_RETURN_IF_ERROR(file);
  return ReadNumbers(&*file, model.size);
}

Result<LoadedSamples> LoadSamples(const std::string& path, const ModelInput& model) {
  const int64_t start_ms = MonotonicMillis();
  LoadedSamples loaded;
  std::string format = "text";
  FirstLook look;  // of text
  if (model.preprocessor != nullptr) {
    Result<Encoded> encoded = IsOfTokens(model.preprocessor->config()) ? ExpandFile(path, model)
                                                                       : EncodeFile(path, model);
    DSLIDE_RETURN_IF_ERROR(encoded);
    loaded.data = std::move(encoded->samples);
    look = std::move(encoded->look);
    AddNote(encoded->unreadable.Note(path), &loaded.notes);
  } else {
    Result<NumberFile> file = OpenNumbers(path, model);
    DSLIDE_RETURN_IF_ERROR(file);
    Result<Dataset> data = ReadNumbers(&*file, model.size);
    DSLIDE_RETURN_IF_ERROR(data);
    DSLIDE_RETURN_IF_ERROR(CheckValues(path, *data, 1.0f));
    loaded.data = *std::move(data);
    format = file->description();
    if (file->left_out() > 0) {
      loaded.notes.push_back(LeftOutLine(path, file->left_out(), model.size.features));
    }
  }
  DSLIDE_RETURN_IF_ERROR(CheckLabelled(path, loaded.data, look.KeyInPlaceOfLabels()));
  if (const uint64_t without = CountWithoutLabels(loaded.data); without > 0) {
    const std::string text = look.without_labels() > 0 ? look.WithoutLabels()
                                                       : WithoutLabels(without, loaded.data.size());
    loaded.notes.push_back(fmt::format("warning: {}: {}, and score 0", path, text));
  }
  LogInfo({event::kDataLoaded, Described(path, format, loaded.data, start_ms)});
  for (const std::string& note : loaded.notes) LogInfo({event::kDataNote, note});
  return loaded;
}

Result<LoadedSamples> LoadTestSamples(const std::string& path, const TrainingSamples& training,
                                      const TextConfig& text) {
  ModelInput model{training.preprocessor.get(),
                   {training.data.num_features(), training.data.num_labels()}};
  if (!IsOfTokens(text)) model.named = DataFormatOf(text);
  return LoadSamples(path, model);
}

Result<SampleReader> SampleReader::Open(const std::string& path, const ModelInput& model,
                                        bool skip_blank, Lines lines) {
  if (model.preprocessor == nullptr) {
    Result<NumberFile> file = OpenNumbers(path, model);
    DSLIDE_RETURN_IF_ERROR(file);
    file->FitTo(model.size);
    return SampleReader(path, *std::move(file));
  }
  const bool of_tokens = IsOfTokens(model.preprocessor->config());
  const RecordFile::Use use = lines == Lines::kExpanded ? RecordFile::Use::kLabels
                              : skip_blank              ? RecordFile::Use::kSamples
                                                        : RecordFile::Use::kPredict;
  Result<RecordFile> file =
      of_tokens ? OpenLines(path, model, lines) : RecordFile::Open(path, FormatOfInput(model), use);
  DSLIDE_RETURN_IF_ERROR(file);
  return SampleReader(*std::move(file), model, skip_blank, of_tokens ? lines : Lines::kWhole);
}

SampleReader::SampleReader(RecordFile file, const ModelInput& model, bool skip_blank, Lines lines)
    : file_(std::move(file)),
      skip_blank_(skip_blank),
      expanded_(lines == Lines::kExpanded),
      preprocessor_(model.preprocessor),
      encoders_(Encoders(*model.preprocessor)) {
  const std::optional<RecordFormat> trained = RecordFormatOf(preprocessor_->config().format);
  if (trained && !model.named && file_->format() != *trained) {
    note_ = fmt::format(
        "read as {}: no line is {}, on which the model was trained (--format names another format)",
        NameOf(file_->format()), NameOf(*trained));
  }
}

void SampleReader::FindNames(const NameMatcher& matcher) {
  while (finders_.size() < encoders_.size()) finders_.emplace_back(matcher);
}

Status SampleReader::Refill() {
  part_ = next_ = 0;
  Result<std::vector<Part>> parts = MapNextBlocks<Part>(
      file_->stream(), !skip_blank_, encoders_.size(),
      [&](size_t thread, const LineBlock& block) -> Result<Part> {
        Preprocessor::Encoder* encoder = &encoders_[thread];
        NameMatcher::Finder* finder = finders_.empty() ? nullptr : &finders_[thread];
        Encoded encoded = expanded_     ? ExpandBlock(*file_, block, *preprocessor_)
                          : skip_blank_ ? EncodeBlock(*file_, block, encoder, Wanted::kAll, finder)
                                        : EncodeLines(*file_, block, encoder, finder);
        encoded.ids.resize(encoded.samples.size());
        encoded.errors.resize(encoded.samples.size());
        return Part{std::move(encoded.samples), std::move(encoded.ids),
                    std::move(encoded.errors),  std::move(encoded.unreadable),
                    std::move(encoded.look),    std::move(encoded.names)};
      });
  DSLIDE_RETURN_IF_ERROR(parts);
  parts_ = *std::move(parts);
  for (const Part& part : parts_) {
    unreadable_.Append(part.unreadable);
    look_.Append(part.look);
  }
  return {};
}

Result<std::optional<SampleView>> SampleReader::Next() {
  if (numbers_) {
    const Result<std::optional<SampleView>> sample = numbers_->Next();
    if (sample.ok() && *sample) DSLIDE_RETURN_IF_ERROR(CheckSample(path_, ++read_, **sample));
    return sample;
  }
  // Lines of tokens may have no sample.
  while (part_ == parts_.size() || next_ == parts_[part_].samples.size()) {
    if (part_ < parts_.size()) ++part_;
    next_ = 0;
    if (part_ < parts_.size()) continue;
    DSLIDE_RETURN_IF_ERROR(Refill());
    if (!parts_.empty()) continue;
    if (skip_blank_) DSLIDE_RETURN_IF_ERROR(unreadable_.Check());
    return std::optional<SampleView>();
  }
  id_ = parts_[part_].ids[next_];
  error_ = parts_[part_].errors[next_];
  return std::optional(parts_[part_].samples[next_++]);
}

}  // namespace dslide
