#include "tools/dslide/model/measured_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/data/text_stream.h"
#include "common/model/index_probes.h"
#include "common/text/records/record_file.h"
#include "common/text/samples.h"

namespace dslide {
namespace {

constexpr uint32_t kMeasured = 256;  // samples that an index is measured on
constexpr uint32_t kSeen = 4096;     // samples that they are spread over

void Add(const SampleView& sample, SparseRows* rows) {
  rows->ids.insert(rows->ids.end(), sample.features.begin(), sample.features.end());
  rows->values.insert(rows->values.end(), sample.values.begin(), sample.values.end());
  rows->EndRow();
}

Result<SparseRows> FirstSamples(const std::string& path, const Model& model,
                                const NamedFormat& format) {
  ModelInput input = {model.preprocessor(), {model.info().features(), model.info().labels()}};
  ApplyFormat(format, &input);
  Result<SampleReader> reader = SampleReader::Open(path, input, /*skip_blank=*/true);
  DSLIDE_RETURN_IF_ERROR(reader);
  const XcHeader* header = reader->header();
  if (header != nullptr && header->num_features != model.info().features()) {
    return BadInput(fmt::format("{}: {} features, the model has {}", path, header->num_features,
                                model.info().features()));
  }
  SparseRows rows;
  for (uint32_t i = 0; i < kSeen; ++i) {
    const Result<std::optional<SampleView>> sample = reader->Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) break;
    Add(**sample, &rows);
  }
  return rows;
}

// The same of a stream's file, to which somebody writes. Lines that are no records are left out, as
// in training.
Result<SparseRows> FirstRecords(const std::string& path, const Preprocessor& preprocessor) {
  Result<RecordFile> file =
      RecordFile::Open(path, DataFormatOf(preprocessor.config()), RecordFile::Use::kSamples);
  DSLIDE_RETURN_IF_ERROR(file);
  Preprocessor::Encoder encoder(preprocessor);
  SparseRows rows;
  while (rows.rows() < kSeen) {
    const auto line = file->stream()->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    if (IsBlank(**line)) continue;
    const Result<Record> record = ParseRecord(file->rules(), **line);
    if (record.ok()) Add(encoder.Encode(*record), &rows);
  }
  return rows;
}

SparseRows Spread(const SparseRows& rows) {
  const uint32_t count = std::min(rows.rows(), kMeasured);
  SparseRows some;
  for (uint32_t i = 0; i < count; ++i) {
    const auto from = static_cast<size_t>(uint64_t{i} * rows.rows() / count);
    some.ids.insert(some.ids.end(), rows.Ids(from).begin(), rows.Ids(from).end());
    some.values.insert(some.values.end(), rows.Values(from).begin(), rows.Values(from).end());
    some.EndRow();
  }
  return some;
}

}  // namespace

Result<std::shared_ptr<const Model>> WithIndex(std::shared_ptr<const Model> model,
                                               const ModelSourceOptions& options) {
  const TrainConfig& train = model->info().config.train;
  Error why = BadInput("the run names no data");
  for (const std::string& path : {options.data, train.test, train.data}) {
    if (path.empty()) continue;
    if (path != options.data && path == "-") {
      why = BadInput("the run's data was standard input");
      continue;
    }
    if (path != options.data && IsReadOnce(path)) {
      why = BadInput(path + ": is read once");
      continue;
    }
    const Preprocessor* of_stream = train.open_vocabulary ? model->preprocessor() : nullptr;
    const Result<SparseRows> samples =
        of_stream != nullptr && path == train.data
            ? FirstRecords(path, *of_stream)
            : FirstSamples(path, *model, path == options.data ? options.format : NamedFormat());
    if (samples.ok() && samples->rows() > 0) {
      const IndexTrial trial = ChooseProbes(std::move(model), Spread(*samples));
      options.say(fmt::format("{} ({})", trial.Text(), path));
      return trial.model;
    }
    why = samples.ok() ? BadInput(path + ": no samples") : samples.error();
    if (path == options.data) return why;
  }
  options.say(fmt::format("index: none, {}{}", why.message,
                          options.has_data ? "; --data names samples to measure it on" : ""));
  return model;
}

}  // namespace dslide
