// dslide data convert: from one data format to another.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/data/output_file.h"
#include "common/data/text_stream.h"
#include "common/data/text_writer.h"
#include "common/text/samples.h"
#include "tools/dslide/data/data_commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/data/number_writer.h"
#include "tools/dslide/data/progress_line.h"
#include "tools/dslide/data/record_writer.h"
#include "tools/dslide/data/sample_lines.h"
#include "tools/dslide/model/format_options.h"

namespace dslide {
namespace {

struct TargetFormat {
  const char* name;
  std::optional<RecordFormat> records;
  std::optional<NumberFormat> numbers;
};
constexpr TargetFormat kTargets[] = {
    {"jsonl", RecordFormat::kJsonLines, {}}, {"fasttext", RecordFormat::kFastText, {}},
    {"tsv", RecordFormat::kTsv, {}},         {"numbers", {}, NumberFormat::kRepository},
    {"libsvm", {}, NumberFormat::kLibsvm},   {"npz", {}, NumberFormat::kNpz},
};

std::string TargetNames() {
  std::string names;
  for (const TargetFormat& target : kTargets) {
    names += (names.empty() ? "" : "|") + std::string(target.name);
  }
  return names;
}

struct ConvertTask {
  std::string input, output;
  TargetFormat target;
  std::string like;  // a model; empty: a preprocessor is fitted
  TextConfig text;
  NamedFormat format = {};  // of the input
};

Result<ConvertTask> TaskFrom(const ParsedArguments& arguments) {
  ConvertTask task{
      arguments.Positional()[0], arguments.Get("output"), {}, arguments.Get("like"), {}};
  const Result<std::string> input = InputPath(task.input);
  DSLIDE_RETURN_IF_ERROR(input);
  task.input = *input;
  const std::string to = arguments.Get("to");
  const auto* found =
      std::ranges::find_if(kTargets, [&](const TargetFormat& target) { return to == target.name; });
  if (found == std::end(kTargets)) {
    return BadInput(fmt::format("--to {}: must be one of {}", Printable(to), TargetNames()));
  }
  task.target = *found;
  for (const std::string& assignment : arguments.All("set")) {
    if (!assignment.starts_with("text.")) {
      return BadInput(
          fmt::format("--set {}: only keys of [text] count here", Printable(assignment)));
    }
    if (!task.like.empty()) {
      return BadInput(fmt::format("--set {}: the settings are those of the model that --like names",
                                  Printable(assignment)));
    }
  }
  const Result<Config> config = LoadConfig("", arguments.All("set"));
  DSLIDE_RETURN_IF_ERROR(config);
  task.text = config->text;
  const Result<NamedFormat> format = NamedFormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(format);
  task.format = *format;
  if (format->format) task.text.format = *format->format;
  if (format->fields) task.text.fields = *format->fields;
  return task;
}

// A line about samples whose weights a file of numbers does not tell; "" if there are none.
std::string LostWeights(const std::string& output, uint64_t samples) {
  if (samples == 0) return "";
  return fmt::format("{} cannot hold weights: those of {} left out\n", output,
                     Plural(samples, "sample"));
}

void PrintLeftOut(const ConvertTask& task, const UnreadableRecords& unreadable) {
  if (unreadable.count() == 0) return;
  fmt::print(MessagesBeside({task.output}), "{}\n", unreadable.Note(task.input));
}

// Numbers to numbers.
Status ConvertNumbers(const ConvertTask& task, NumberFile* file, ProgressLine* progress) {
  const XcHeader* header = file->header();
  if (header != nullptr && header->num_labels == 0) {
    return BadInput(fmt::format("{}: has no labels (name both matrices, X.npz,Y.npz)", task.input));
  }
  Result<std::unique_ptr<NumberWriter>> writer =
      NumberWriter::Create(task.output, *task.target.numbers);
  DSLIDE_RETURN_IF_ERROR(writer);
  ModelSize size;
  if (header != nullptr) size = {header->num_features, header->num_labels};
  uint64_t samples = 0;
  uint64_t weighted = 0;
  while (true) {
    const Result<std::optional<SampleView>> sample = file->Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) break;
    const SampleView& s = **sample;
    if (!s.features.empty()) size.features = std::max(size.features, s.features.back() + 1);
    if (!s.labels.empty()) size.labels = std::max(size.labels, s.labels.back() + 1);
    weighted += s.weight == 1.0f ? 0 : 1;
    (*writer)->Add(s);
    progress->Show(++samples);
  }
  // A file without any would have no valid header.
  size = {std::max(size.features, 1u), std::max(size.labels, 1u)};
  DSLIDE_RETURN_IF_ERROR((*writer)->Finish(size));
  fmt::print(MessagesBeside({task.output}), "{}: {}, {}, {}\n", task.output,
             Plural(samples, "sample"), Plural(size.features, "feature"),
             Plural(size.labels, "label"));
  fmt::print(MessagesBeside({task.output}), "{}", LostWeights(task.output, weighted));
  return {};
}

// Text to text.
Status ConvertRecords(const ConvertTask& task, RecordFile* file, ProgressLine* progress) {
  Result<RecordWriter> writer = RecordWriter::Create(task.output, *task.target.records);
  DSLIDE_RETURN_IF_ERROR(writer);
  uint64_t samples = 0, cleaned = 0;
  UnreadableRecords unreadable;
  while (true) {
    const auto line = file->stream()->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    if (IsBlank(**line)) continue;
    unreadable.CountRecord();
    const Result<Record> record = ParseRecord(file->rules(), **line);
    if (!record.ok()) {
      unreadable.LeaveOut(file->BadLine(file->line(), record.error()));
      continue;
    }
    writer->Add(*record);
    cleaned += record->labels_cleaned ? 1 : 0;
    progress->Show(++samples);
  }
  DSLIDE_RETURN_IF_ERROR(unreadable.Check());
  DSLIDE_RETURN_IF_ERROR(writer->Finish());
  fmt::print(MessagesBeside({task.output}), "{}: {}\n", task.output, Plural(samples, "sample"));
  PrintLeftOut(task, unreadable);
  if (cleaned > 0) {
    fmt::print(MessagesBeside({task.output}),
               "{} with tabs, line ends or other control characters in labels, now spaces\n",
               Plural(cleaned, "sample"));
  }
  const std::string not_held = writer->not_held().Text(*task.target.records);
  if (!not_held.empty()) fmt::print(MessagesBeside({task.output}), "{}\n", not_held);
  return {};
}

Result<std::shared_ptr<const Preprocessor>> PreprocessorFor(const ConvertTask& task) {
  if (task.like.empty()) {
    Result<Preprocessor> fitted = Preprocessor::Fit(task.input, task.text, CoresOfThisMachine());
    DSLIDE_RETURN_IF_ERROR(fitted);
    return std::make_shared<const Preprocessor>(*std::move(fitted));
  }
  const Result<std::string> checkpoint = FindCheckpoint(task.like);
  DSLIDE_RETURN_IF_ERROR(checkpoint);
  const Result<Manifest> manifest = ReadManifest(*checkpoint);
  DSLIDE_RETURN_IF_ERROR(manifest);
  auto stored = LoadPreprocessorOf(*checkpoint, manifest->preprocessor);
  DSLIDE_RETURN_IF_ERROR(stored);
  if (*stored == nullptr) {
    return BadInput(fmt::format("--like {}: the model was trained on numbers", task.like));
  }
  return stored;
}

// Numbers the labels that a model lacks as they come, N, N + 1 ...: a preprocessor's own numbers of
// them depend on its threads.
class UnknownLabels {
 public:
  explicit UnknownLabels(const Preprocessor& preprocessor) : preprocessor_(preprocessor) {}

  // Of a sample's labels that the model lacks. Ascending; valid until the next call.
  std::span<const uint32_t> NumbersOf(std::span<const uint32_t> unknown) {
    std::vector<std::string> names;
    for (const uint32_t id : unknown) names.push_back(preprocessor_.LabelName(id));
    std::ranges::sort(names);
    numbers_.clear();
    for (const std::string& name : names) {
      const auto next = preprocessor_.num_labels() + static_cast<uint32_t>(names_.size());
      const auto [entry, is_new] = ids_.emplace(name, next);
      if (is_new) names_.push_back(name);
      numbers_.push_back(entry->second);
    }
    std::ranges::sort(numbers_);
    return numbers_;
  }
  // By number - N.
  const std::vector<std::string>& names() const { return names_; }

 private:
  const Preprocessor& preprocessor_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<uint32_t> numbers_;
};

// The tables of names beside a data file: "id TAB name", by id.
std::string LabelsPath(const std::string& output) { return FilesOf(output).back() + ".labels.tsv"; }
std::string FeaturesPath(const std::string& output) {
  return FilesOf(output).front() + ".features.tsv";
}

Result<TextWriter> NameTable(const std::string& path, uint32_t count,
                             const std::function<std::string(uint32_t)>& name_of) {
  Result<TextWriter> table = TextWriter::Create(path);
  DSLIDE_RETURN_IF_ERROR(table);
  for (uint32_t id = 0; id < count; ++id) table->Write(fmt::format("{}\t{}\n", id, name_of(id)));
  return table;
}

// Text to numbers. LIBSVM holds labels that the model lacks, with ids from N on; the other formats
// say how many labels there are.
Status EncodeRecords(const ConvertTask& task, ProgressLine* progress) {
  const auto preprocessor = PreprocessorFor(task);
  DSLIDE_RETURN_IF_ERROR(preprocessor);
  const Preprocessor& p = **preprocessor;
  ModelInput input{&p, {}};
  ApplyFormat(task.format, &input);
  Result<SampleReader> reader = SampleReader::Open(task.input, input, /*skip_blank=*/true);
  DSLIDE_RETURN_IF_ERROR(reader);
  Result<std::unique_ptr<NumberWriter>> writer =
      NumberWriter::Create(task.output, *task.target.numbers);
  DSLIDE_RETURN_IF_ERROR(writer);
  const bool holds_unknown = task.target.numbers == NumberFormat::kLibsvm;
  uint64_t samples = 0;
  uint64_t unknown = 0;
  UnknownLabels unknown_labels(p);
  std::vector<uint32_t> labels;  // of a sample
  uint64_t weighted = 0;
  while (true) {
    const Result<std::optional<SampleView>> next = reader->Next();
    DSLIDE_RETURN_IF_ERROR(next);
    if (!*next) break;
    SampleView sample = **next;
    const auto known = static_cast<size_t>(std::ranges::lower_bound(sample.labels, p.num_labels()) -
                                           sample.labels.begin());
    unknown += sample.labels.size() - known;
    labels.assign(sample.labels.begin(), sample.labels.begin() + static_cast<ptrdiff_t>(known));
    if (holds_unknown) {
      std::ranges::copy(unknown_labels.NumbersOf(sample.labels.subspan(known)),
                        std::back_inserter(labels));
    }
    sample.labels = labels;
    weighted += sample.weight == 1.0f ? 0 : 1;
    (*writer)->Add(sample);
    progress->Show(++samples);
  }
  Result<TextWriter> label_names = NameTable(
      LabelsPath(task.output),
      p.num_labels() + static_cast<uint32_t>(unknown_labels.names().size()), [&](uint32_t id) {
        return id < p.num_labels() ? p.LabelName(id) : unknown_labels.names()[id - p.num_labels()];
      });
  DSLIDE_RETURN_IF_ERROR(label_names);
  std::optional<TextWriter> feature_names;  // hashed features have none
  if (!p.vectorizer().is_hashed()) {
    Result<TextWriter> table =
        NameTable(FeaturesPath(task.output), p.num_features(),
                  [&](uint32_t id) { return p.vectorizer().vocabulary().names[id]; });
    DSLIDE_RETURN_IF_ERROR(table);
    feature_names.emplace(*std::move(table));
  }
  DSLIDE_RETURN_IF_ERROR((*writer)->Finish({p.num_features(), p.num_labels()}));
  DSLIDE_RETURN_IF_ERROR(label_names->Finish());
  std::string names = LabelsPath(task.output);
  if (feature_names) {
    DSLIDE_RETURN_IF_ERROR(feature_names->Finish());
    names += " and " + FeaturesPath(task.output);
  }
  fmt::print(MessagesBeside({task.output}), "{}: {}, {}, {}; names in {}\n", task.output,
             Plural(samples, "sample"), Plural(p.num_features(), "feature"),
             Plural(p.num_labels(), "label"), names);
  if (unknown > 0) {
    fmt::print(MessagesBeside({task.output}), "{} that the model lacks {}\n",
               Plural(unknown, "label entry", "label entries"),
               holds_unknown ? fmt::format("have ids from {} on", p.num_labels()) : "left out");
  }
  fmt::print(MessagesBeside({task.output}), "{}", LostWeights(task.output, weighted));
  PrintLeftOut(task, reader->unreadable());
  return {};
}

Status Convert(const ParsedArguments& arguments) {
  const Result<ConvertTask> task = TaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  DSLIDE_RETURN_IF_ERROR(CheckOutputs({task->input}, {{"output", task->output}}));
  if (!task->like.empty() && IsReadOnce(task->input)) {
    return BadInput(
        fmt::format("{}: text is read twice; write it to a file and name that", task->input));
  }
  Result<DataFile> file = DataFile::Open(task->input, DataFormatOf(task->text));
  DSLIDE_RETURN_IF_ERROR(file);
  ProgressLine progress(task->input);
  if (file->numbers) {
    if (task->target.records) {
      return BadInput(fmt::format("{}: has numbers, from which no text can be made (--to {})",
                                  task->input, task->target.name));
    }
    if (!task->like.empty() || arguments.Has("set")) {
      return BadInput(fmt::format("{}: has numbers, which {} does not change", task->input,
                                  task->like.empty() ? "--set" : "--like"));
    }
    return ConvertNumbers(*task, &*file->numbers, &progress);
  }
  if (task->target.numbers) {
    if (IsStandardOutput(task->output)) {
      return BadInput(
          fmt::format("--output {}: files of names come beside it; name a file", task->output));
    }
    DSLIDE_RETURN_IF_ERROR(CheckOutputs({task->input}, {{"output", task->output},
                                                        {"output", LabelsPath(task->output)},
                                                        {"output", FeaturesPath(task->output)}}));
    return EncodeRecords(*task, &progress);
  }
  if (!task->like.empty() || arguments.Has("set")) {
    return BadInput(fmt::format("--{}: counts only where text becomes numbers (--to {})",
                                task->like.empty() ? "set" : "like", task->target.name));
  }
  return ConvertRecords(*task, &*file->records, &progress);
}

}  // namespace

int DataConvertCommand(int argc, char** argv) {
  CommandLine line(
      "dslide data convert FILE --to FORMAT --output FILE [options]",
      "Writes a data file in another format. Text becomes numbers as in training; the names of "
      "labels\nand features come beside them (OUTPUT.labels.tsv, OUTPUT.features.tsv).");
  line.Positional("FILE", "a data file of any format, or X.npz,Y.npz; -: standard input", 1, 1);
  line.Required("to", "FORMAT", TargetNames());
  line.Required("output", "FILE",
                "where to write, X.npz,Y.npz for npz; .gz and .zst compress; -: standard output");
  line.Option("like", "MODEL", "a run or checkpoint whose features and labels text becomes");
  line.Repeated("set", "TEXT.KEY=VALUE", "how text becomes features: keys of [text]");
  DeclareFormatOptions(&line);
  return RunExecutable("dslide data convert", line, argc, argv, Convert);
}

}  // namespace dslide
