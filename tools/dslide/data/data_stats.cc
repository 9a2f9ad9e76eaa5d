// dslide data stats: what a data file holds.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/config/value_scale.h"
#include "common/data/text_stream.h"
#include "common/stem/stemmer.h"
#include "common/text/records/first_look.h"
#include "common/text/records/line_blocks.h"
#include "common/text/records/words.h"
#include "tools/dslide/data/data_commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/data/name_statistics.h"
#include "tools/dslide/data/progress_line.h"
#include "tools/dslide/data/sample_lines.h"
#include "tools/dslide/data/statistics.h"
#include "tools/dslide/model/format_options.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The facts about a record that are counted.
struct RecordFacts {
  uint64_t hash = 0;
  uint64_t words = 0;
  float weight = 1.0f;
  std::vector<std::string> labels;
};
struct BlockFacts {
  std::vector<RecordFacts> records;
  NameCounts names;
  UnreadableRecords unreadable;
  FirstLook look;
};
// Facts about a file that are not in its Statistics.
struct Looks {
  UnreadableRecords unreadable;
  FirstLook look;                    // of text
  NameCounts names;                  // with a vocabulary
  std::vector<std::string> samples;  // the first ones of numbers
};

// A thread's way to look at records. `names`: without a vocabulary nullopt.
struct Reader {
  WordBreaker breaker;
  std::optional<NameStatistics::Counter> names;
};

BlockFacts FactsOf(const RecordFile& file, const LineBlock& block, Reader* reader) {
  BlockFacts facts;
  ForEachRecord(file, block, &facts.unreadable, [&](Record& record) {
    facts.look.Add(record);
    if (reader->names) facts.names.Add(reader->names->Count(record));
    RecordFacts of_record{HashOf(record), 0, record.weight, std::move(record.labels)};
    for (const std::string& field : record.fields) {
      reader->breaker.ForEachWord(field, [&](std::string_view) { ++of_record.words; });
    }
    facts.records.push_back(std::move(of_record));
  });
  return facts;
}

Status CountRecords(RecordFile* file, const NameStatistics* names, ProgressLine* progress,
                    Statistics* statistics, Looks* looks) {
  std::vector<Reader> readers;
  for (uint32_t t = 0; t < CoresOfThisMachine(); ++t) {
    readers.push_back({WordBreaker(false), std::nullopt});
    if (names != nullptr) readers.back().names.emplace(*names);
  }
  DSLIDE_RETURN_IF_ERROR(MapBlocks<BlockFacts>(
      file->stream(), readers.size(),
      [&](size_t thread, const LineBlock& block) {
        return FactsOf(*file, block, &readers[thread]);
      },
      [&](const std::vector<BlockFacts>& blocks) {
        for (const BlockFacts& block : blocks) {
          for (const RecordFacts& r : block.records) {
            statistics->Add(r.hash, r.words, r.labels);
            statistics->AddWeight(r.weight);
          }
          looks->names.Add(block.names);
          looks->unreadable.Append(block.unreadable);
          looks->look.Append(block.look);
        }
        progress->Show(statistics->samples());
      }));
  return looks->unreadable.Check();
}

Status CountNumbers(NumberFile* file, ProgressLine* progress, Statistics* statistics,
                    Looks* looks) {
  while (true) {
    const Result<std::optional<SampleView>> sample = file->Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) return {};
    if (const size_t seen = looks->samples.size(); seen < FirstLook::kSamples) {
      looks->samples.push_back(SampleLine(seen, **sample));
    }
    statistics->Add(HashOf(**sample), (*sample)->features.size(), (*sample)->labels);
    statistics->AddWeight((*sample)->weight);
    statistics->AddValues((*sample)->values);
    if (statistics->samples() % 1000 == 0) progress->Show(statistics->samples());
  }
}

std::string BandName(const TailBand& band) {
  if (band.to == 0) return fmt::format("{}+", band.from);
  return band.from == band.to ? std::to_string(band.from)
                              : fmt::format("{}-{}", band.from, band.to);
}

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string SortedWarning(const Neighbours& neighbours, const std::string& path) {
  return fmt::format(
      "the file is sorted by label, at least in part: {:.1f} % of neighbours share a label, of "
      "other pairs {:.1f} %. "
      "dslide train\ndraws an order of its own, but cut no test set off such a file, and give it "
      "to "
      "other tools shuffled:\ndslide data shuffle {} --output FILE",
      100 * neighbours.next_to_each_other, 100 * neighbours.anywhere, path);
}

std::string LengthText(const SampleLengths& lengths) {
  const LengthSpread spread = lengths.Spread();
  return fmt::format("median {:.4g}, least {:.4g}, greatest {:.4g}{}", spread.median, spread.least,
                     spread.most,
                     IsUsualLength(spread.median)
                         ? ""
                         : "; training divides all values by the median (train.normalize)");
}

struct Report {
  std::string path;
  const DataFile& file;
  const Statistics& statistics;
  const Looks& looks;
  const NameStatistics* names;  // null: without a vocabulary

  std::vector<std::string> Samples() const {
    return file.records ? looks.look.SampleLines() : looks.samples;
  }
  std::vector<std::string> Warnings() const { return looks.look.Warnings(statistics.LabelNames()); }
};

void PrintReport(const Report& report) {
  const Statistics& s = report.statistics;
  const bool text = report.file.records.has_value();
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<19}{}\n", name, value);
  };
  const auto spread = [](const Histogram& h) {
    return fmt::format("mean {:.1f}, median {:g}, most {}", h.mean(), h.median(), h.most());
  };
  line("file", report.path);
  line("format", report.file.format_name());
  line("samples", fmt::format("{}, of them {} without labels, {} without {}, {} duplicates",
                              s.samples(), s.without_labels(), s.without_features(),
                              text ? "text" : "features", s.Duplicates()));
  const XcHeader* header = text ? nullptr : report.file.numbers->header();
  line("labels", fmt::format("{}{}, with {}", s.labels(),
                             header == nullptr ? "" : fmt::format(" of {}", header->num_labels),
                             Plural(s.label_entries(), "entry", "entries")));
  if (header != nullptr) line("features", std::to_string(header->num_features));
  line(text ? "words a sample" : "features a sample", spread(s.lengths()));
  if (!s.value_lengths().empty()) line("length of a sample", LengthText(s.value_lengths()));
  line("labels a sample", spread(s.labels_a_sample()));
  line("samples a label", spread(s.SamplesALabel()));
  if (const WeightSums& w = s.weights(); w.others > 0) {
    line("weights", fmt::format("mean {:.4g}, least {:g}, most {:g}, {} with 0",
                                w.sum / static_cast<double>(s.samples()), w.least, w.most,
                                Plural(w.zeros, "sample")));
  }
  if (report.names != nullptr) {
    const Vocabulary& vocabulary = report.names->vocabulary();
    const NameCounts& n = report.looks.names;
    line("vocabulary",
         fmt::format("{}, of them {} with names; {}, of them {} of several concepts",
                     Plural(vocabulary.size(), "concept"), report.names->named(),
                     Plural(vocabulary.names().size(), "name"), vocabulary.CountAmbiguous()));
    for (const std::string& note : report.names->notes()) line("", note);
    line("names in texts",
         fmt::format("labels mentioned in a sample: {:.1f}, of them {:.1f} % its labels; of a "
                     "sample's labels {:.1f} % mentioned, {:.1f} % unknown",
                     s.samples() == 0
                         ? 0.0
                         : static_cast<double>(n.mentions) / static_cast<double>(s.samples()),
                     Percent(n.mentioned, n.mentions), Percent(n.mentioned, n.labels),
                     Percent(n.unknown, n.labels)));
  }
  for (const std::string& sample : report.Samples()) fmt::print("{}\n", sample);
  fmt::print("\n{:<19}{:>12}{:>12}{:>12}{:>12}\n", "samples a label", "labels", "share", "entries",
             "share");
  for (const TailBand& band : s.Tail()) {
    fmt::print("{:<19}{:>12}{:>10.1f} %{:>12}{:>10.1f} %\n", BandName(band), band.labels,
               Percent(band.labels, s.labels()), band.entries,
               Percent(band.entries, s.label_entries()));
  }
  fmt::print("\n{:>12}{:>12}  {}\n", "samples", "share", "most frequent labels");
  for (const FrequentLabel& label : s.MostFrequent(10)) {
    fmt::print("{:>12}{:>10.1f} %  {}\n", label.samples, Percent(label.samples, s.samples()),
               label.name);
  }
  if (const UnreadableRecords& bad = report.looks.unreadable; bad.count() > 0) {
    fmt::print("\nwarning: {} of {} cannot be read; the first is {}\n", bad.count(),
               Plural(bad.records(), "record"), bad.first());
  }
  for (const std::string& warning : report.Warnings()) fmt::print("\nwarning: {}\n", warning);
  const Neighbours neighbours = s.NeighboursOf();
  if (neighbours.sorted()) fmt::print("\nwarning: {}\n", SortedWarning(neighbours, report.path));
}

OrderedJson JsonOf(const Histogram& h) {
  return {{"mean", h.mean()}, {"median", h.median()}, {"most", h.most()}};
}

void PrintJson(const Report& report) {
  const Statistics& s = report.statistics;
  const bool text = report.file.records.has_value();
  OrderedJson json = {{"file", report.path},
                      {"format", report.file.format_name()},
                      {"samples", s.samples()},
                      {"without_labels", s.without_labels()},
                      {text ? "without_text" : "without_features", s.without_features()},
                      {"duplicates", s.Duplicates()},
                      {"labels", s.labels()},
                      {"label_entries", s.label_entries()}};
  if (const XcHeader* header = text ? nullptr : report.file.numbers->header()) {
    json["header"] = {{"features", header->num_features}, {"labels", header->num_labels}};
  }
  json[text ? "words_a_sample" : "features_a_sample"] = JsonOf(s.lengths());
  if (!s.value_lengths().empty()) {
    const LengthSpread spread = s.value_lengths().Spread();
    json["length_of_a_sample"] = {
        {"median", spread.median}, {"least", spread.least}, {"greatest", spread.most}};
  }
  json["labels_a_sample"] = JsonOf(s.labels_a_sample());
  json["samples_a_label"] = JsonOf(s.SamplesALabel());
  if (const WeightSums& w = s.weights(); w.others > 0) {
    json["weights"] = {{"mean", w.sum / static_cast<double>(s.samples())},
                       {"least", w.least},
                       {"most", w.most},
                       {"zeros", w.zeros}};
  }
  if (report.names != nullptr) {
    const Vocabulary& vocabulary = report.names->vocabulary();
    const NameCounts& n = report.looks.names;
    json["vocabulary"] = {
        {"concepts", vocabulary.size()},      {"with_names", report.names->named()},
        {"names", vocabulary.names().size()}, {"ambiguous_names", vocabulary.CountAmbiguous()},
        {"notes", report.names->notes()},     {"label_entries_mentioned", n.mentioned},
        {"label_entries_unknown", n.unknown}, {"labels_mentioned", n.mentions}};
  }
  if (const UnreadableRecords& bad = report.looks.unreadable; bad.count() > 0) {
    json["unreadable"] = {{"records", bad.count()}, {"first", bad.first()}};
  }
  json["tail"] = OrderedJson::array();
  for (const TailBand& band : s.Tail()) {
    json["tail"].push_back({{"samples_a_label", BandName(band)},
                            {"labels", band.labels},
                            {"label_entries", band.entries}});
  }
  json["most_frequent"] = OrderedJson::array();
  for (const FrequentLabel& label : s.MostFrequent(10)) {
    json["most_frequent"].push_back({{"label", label.name}, {"samples", label.samples}});
  }
  json["first_samples"] = report.Samples();
  json["warnings"] = report.Warnings();
  const Neighbours neighbours = s.NeighboursOf();
  json["neighbours_share_label"] = neighbours.next_to_each_other;
  json["random_pairs_share_label"] = neighbours.anywhere;
  json["sorted_by_label"] = neighbours.sorted();
  // A path may not be UTF-8.
  fmt::print("{}\n", json.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
}

// nullopt: no vocabulary is named.
Result<std::optional<NameStatistics>> NamesFrom(const ParsedArguments& arguments) {
  const std::string path = arguments.Get("vocabulary"), stem = arguments.Get("stem");
  for (const char* option : {"language", "stem"}) {
    if (path.empty() && arguments.Has(option)) {
      return BadInput(fmt::format("--{}: is of a vocabulary; name one by --vocabulary", option));
    }
  }
  if (stem != kNoStems && std::ranges::count(StemLanguages(), stem) == 0) {
    return BadInput(fmt::format("--stem {}: must be {} or one of {}", Quoted(stem), kNoStems,
                                fmt::join(StemLanguages(), ", ")));
  }
  if (path.empty()) return std::optional<NameStatistics>();
  Result<NameStatistics> names = NameStatistics::Read(path, arguments.Get("language"), stem);
  DSLIDE_RETURN_IF_ERROR(names);
  return std::optional(*std::move(names));
}

Status Stats(const ParsedArguments& arguments) {
  const Result<std::string> input = InputPath(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(input);
  const std::string& path = *input;
  const Result<DataFormat> format = FormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(format);
  Result<DataFile> file = DataFile::Open(path, *format);
  DSLIDE_RETURN_IF_ERROR(file);
  const Result<std::optional<NameStatistics>> names = NamesFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(names);
  if (*names && !file->records) {
    return BadInput(fmt::format("--vocabulary: {} has numbers; leave it out", path));
  }
  const NameStatistics* of_names = *names ? &**names : nullptr;
  Statistics statistics;
  Looks looks;
  {
    ProgressLine progress(path);
    const Status counted =
        file->records ? CountRecords(&*file->records, of_names, &progress, &statistics, &looks)
                      : CountNumbers(&*file->numbers, &progress, &statistics, &looks);
    DSLIDE_RETURN_IF_ERROR(counted);
  }
  const Report report{path, *file, statistics, looks, of_names};
  if (arguments.Has("json")) {
    PrintJson(report);
  } else {
    PrintReport(report);
  }
  return {};
}

}  // namespace

int DataStatsCommand(int argc, char** argv) {
  CommandLine line("dslide data stats FILE [options]",
                   "Prints what a data file holds: samples, labels, their tail, and what is odd.");
  line.Positional("FILE", "a data file of any format, or X.npz,Y.npz; -: standard input", 1, 1);
  line.Option("vocabulary", "FILE",
              "identifiers and names of labels, as labels.vocabulary; how texts mention them");
  line.Option("language", "TAG", "of the vocabulary's names, as labels.language");
  line.Option("stem", "LANGUAGE", "inflected forms match by stems, as text.stem", "off");
  line.Flag("json", "print JSON");
  DeclareFormatOptions(&line);
  return RunExecutable("dslide data stats", line, argc, argv, Stats);
}

}  // namespace dslide
