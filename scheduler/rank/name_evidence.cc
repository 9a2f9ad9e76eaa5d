#include "scheduler/rank/name_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/process.h"
#include "common/text/records/line_blocks.h"
#include "common/text/records/record_file.h"
#include "common/text/records/record_format.h"
#include "common/text/records/unreadable.h"
#include "scheduler/pass/evaluation.h"

namespace dslide {
namespace {

// Reads the records of a file, which must be `records`, in their order: on_sample(number, names)
// gets each.
template <typename OnSample>
Status MatchFile(const std::string& path, const DataFormat& format, const NameMatcher& matcher,
                 uint64_t records, const OnSample& on_sample) {
  Result<RecordFile> file = RecordFile::Open(path, format, RecordFile::Use::kLabels);
  DSLIDE_RETURN_IF_ERROR(file);
  std::vector<NameMatcher::Finder> finders;
  for (uint32_t t = 0; t < CoresOfThisMachine(); ++t) finders.emplace_back(matcher);
  uint64_t number = 0;
  DSLIDE_RETURN_IF_ERROR(MapBlocks<NamesOfSamples>(
      file->stream(), finders.size(),
      [&](size_t thread, const LineBlock& block) -> Result<NamesOfSamples> {
        NamesOfSamples names;
        UnreadableRecords unreadable;
        NameMatcher::Finder& finder = finders[thread];
        ForEachRecord(*file, block, &unreadable, [&](const Record& record) {
          const std::span<const NameMatch> matches = finder.Find(record);
          names.Add({matches, finder.words()});
        });
        return names;
      },
      [&](const std::vector<NamesOfSamples>& parts) {
        for (const NamesOfSamples& part : parts) {
          for (size_t i = 0; i < part.size(); ++i) on_sample(number++, part[i]);
        }
      }));
  if (number == records) return {};
  return BadInput(fmt::format("{}: has changed while it was read: {} records before, {} now", path,
                              records, number));
}

// Adds the names of one more sample that is trained.
void Tally(SampleNames names, std::span<const uint32_t> labels, std::vector<NameTally>* tallies) {
  for (const NameMatch& match : names.matches) {
    NameTally& tally = (*tallies)[match.label];
    ++tally.hits;
    tally.right += std::ranges::binary_search(labels, match.label);
  }
}

// The format of the training file, which the preprocessor has recorded.
DataFormat TrainingFormat(const Preprocessor& preprocessor) {
  return {preprocessor.config().format, preprocessor.config().fields, /*is_model=*/true};
}

// F1 of name matches as predictions of the records' labels.
double AgreementOf(const std::vector<Record>& records,
                   const std::vector<std::vector<uint32_t>>& labels, const NameMatcher& matcher) {
  NameMatcher::Finder finder(matcher);
  uint64_t found = 0, right = 0, wanted = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    for (const NameMatch& match : finder.Find(records[i])) {
      ++found;
      right += std::ranges::binary_search(labels[i], match.label);
    }
    wanted += labels[i].size();
  }
  return 2 * static_cast<double>(right) /
         static_cast<double>(std::max<uint64_t>(1, found + wanted));
}

}  // namespace

Result<std::string> ChooseNameStem(const std::string& path, const TextConfig& text,
                                   const Preprocessor& preprocessor) {
  constexpr size_t kRecords = 1000;
  if (text.stem != kNoStems) return text.stem;
  Result<RecordFile> file =
      RecordFile::Open(path, TrainingFormat(preprocessor), RecordFile::Use::kLabels);
  DSLIDE_RETURN_IF_ERROR(file);
  std::vector<Record> records;
  std::vector<std::vector<uint32_t>> labels;
  std::vector<uint32_t> order;  // of the labels of these records: concepts
  while (records.size() < kRecords) {
    const Result<LineBlock> block = LineBlock::Read(file->stream());
    DSLIDE_RETURN_IF_ERROR(block);
    if (block->size() == 0) break;
    UnreadableRecords unreadable;
    ForEachRecord(*file, *block, &unreadable, [&](Record& record) {
      if (records.size() == kRecords) return;
      labels.emplace_back();
      for (const std::string& label : record.labels) {
        const std::optional<uint32_t> id = preprocessor.LabelId(label);
        if (id) labels.back().push_back(*id);
      }
      order.insert(order.end(), labels.back().begin(), labels.back().end());
      records.push_back(std::move(record));
    });
  }
  std::ranges::sort(order);
  order.erase(std::ranges::unique(order).begin(), order.end());
  for (std::vector<uint32_t>& own : labels) {
    for (uint32_t& id : own) {
      id = static_cast<uint32_t>(std::ranges::lower_bound(order, id) - order.begin());
    }
    std::ranges::sort(own);
  }
  const Vocabulary some = preprocessor.vocabulary().Reordered(order);
  std::string best(kNoStems);
  double best_agreement = AgreementOf(records, labels, NameMatcher(some, best));
  for (const std::string& language : StemLanguages()) {
    const double agreement = AgreementOf(records, labels, NameMatcher(some, language));
    if (agreement <= best_agreement) continue;
    best_agreement = agreement;
    best = language;
  }
  return best;
}

Result<NameEvidence> ReadNameEvidence(const RunContext& run, const Preprocessor& preprocessor) {
  const TrainConfig& files = run.config.train;
  NameEvidence evidence;
  Result<std::string> stem = ChooseNameStem(files.data, run.config.text, preprocessor);
  DSLIDE_RETURN_IF_ERROR(stem);
  evidence.stem = *std::move(stem);
  const NameMatcher matcher(preprocessor.vocabulary(), evidence.stem);
  evidence.tallies.resize(preprocessor.num_labels());
  auto held_out = run.held_out.begin();
  const uint64_t records = run.train->records();
  const auto on_training = [&](uint64_t number, SampleNames names) {
    if (held_out != run.held_out.end() && *held_out == number) {
      evidence.held_out.Add(names);
      ++held_out;
    } else if (number < records) {  // else the file has changed
      Tally(names, (*run.train)[number].labels, &evidence.tallies);
    }
  };
  DSLIDE_RETURN_IF_ERROR(
      MatchFile(files.data, TrainingFormat(preprocessor), matcher, records, on_training));
  const auto add_to = [](NamesOfSamples* all) {
    return [all](uint64_t number, SampleNames names) {
      if (number < Evaluation::kMostKept) all->Add(names);
    };
  };
  const DataFormat named = DataFormatOf(run.config.text);
  if (run.dev != nullptr) {
    evidence.held_out = {};
    DSLIDE_RETURN_IF_ERROR(
        MatchFile(files.dev, named, matcher, run.dev->size(), add_to(&evidence.held_out)));
  }
  if (run.test != nullptr) {
    DSLIDE_RETURN_IF_ERROR(
        MatchFile(files.test, named, matcher, run.test->size(), add_to(&evidence.test)));
  }
  return evidence;
}

}  // namespace dslide
