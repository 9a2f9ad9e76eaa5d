#include "common/vocabulary/vocabulary_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/plural.h"
#include "common/data/text_stream.h"
#include "common/text/records/csv.h"
#include "common/text/records/label_taker.h"
#include "common/vocabulary/concepts.h"
#include "common/vocabulary/rdf_reader.h"

namespace dslide {
namespace {

std::string_view WithoutBrackets(std::string_view id) {
  const bool has = id.size() > 2 && id.front() == '<' && id.back() == '>';
  return has ? id.substr(1, id.size() - 2) : id;
}

// Concepts by identifier, as the lines of a table name them.
class Table {
 public:
  void Add(std::string_view id, std::string_view name, NameKind kind, uint32_t language) {
    if (!Trimmed(name).empty()) {
      At(id).names.push_back({std::string(Trimmed(name)), language, kind});
    }
  }
  RawConcept& At(std::string_view id) {
    id = WithoutBrackets(Trimmed(id));
    const auto [entry, is_new] =
        places_.emplace(std::string(NormalIdentifier(id)), concepts.all.size());
    if (is_new) concepts.all.push_back({std::string(id), {}});
    return concepts.all[entry->second];
  }

  Concepts concepts;

 private:
  std::unordered_map<std::string, size_t> places_;
};

// Columns of an Annif vocabulary in CSV.
struct Columns {
  struct Name {
    size_t column;
    uint32_t language;
  };
  char separator = ',';
  size_t uri = 0;
  size_t all = 0;
  std::vector<Name> names;
};

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Returns nullopt for a line that is not a header.
std::optional<Columns> ColumnsOf(std::string_view header, Concepts* concepts) {
  const char separator = header.find(';') == std::string_view::npos ? ',' : ';';
  const Result<std::vector<std::string>> cells = SplitCsv(header, separator);
  if (!cells.ok()) return std::nullopt;
  Columns columns{separator, cells->size(), cells->size(), {}};
  for (size_t c = 0; c < cells->size(); ++c) {
    const std::string cell = Lower(Trimmed((*cells)[c]));
    constexpr std::string_view kLabel = "label_";
    if (cell == "uri") columns.uri = c;
    if (cell == "label") columns.names.push_back({c, Concepts::kUntagged});
    if (cell.starts_with(kLabel)) {
      columns.names.push_back({c, concepts->LanguageOf(cell.substr(kLabel.size()))});
    }
  }
  if (columns.uri == columns.all || columns.names.empty()) return std::nullopt;
  return columns;
}

Status ReadCsv(const Columns& columns, TextStream* stream, Table* table) {
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return {};
    if (IsBlank(**line)) continue;
    const Result<std::vector<std::string>> cells = SplitCsv(**line, columns.separator);
    if (!cells.ok()) return stream->BadLine(cells.error().message);
    if (cells->size() != columns.all) {
      return stream->BadLine(
          fmt::format("has {} cells, but the header has {}", cells->size(), columns.all));
    }
    const std::string& uri = (*cells)[columns.uri];
    if (IsBlank(uri)) return stream->BadLine("has no uri");
    (void)table->At(uri);
    for (const Columns::Name& name : columns.names) {
      table->Add(uri, (*cells)[name.column], NameKind::kPreferred, name.language);
    }
  }
}

Status ReadTable(TextStream* stream, Table* table) {
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return {};
    if (IsBlank(**line)) continue;
    std::string_view rest = **line;
    const size_t tab = rest.find('\t');
    const std::string_view id = Trimmed(rest.substr(0, tab));
    if (id.empty()) return stream->BadLine("has no identifier before the tab");
    if (tab == std::string_view::npos) {
      table->Add(id, id, NameKind::kPreferred, Concepts::kUntagged);
      continue;
    }
    (void)table->At(id);
    NameKind kind = NameKind::kPreferred;
    for (size_t at = tab; at != std::string_view::npos;) {
      rest.remove_prefix(at + 1);
      at = rest.find('\t');
      table->Add(id, rest.substr(0, at), kind, Concepts::kUntagged);
      kind = NameKind::kSynonym;
    }
  }
}

Result<Concepts> ReadConcepts(const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  constexpr size_t kBeginning = 64 << 10;
  if (LooksLikeRdf(stream->Peek(kBeginning))) return ReadSkos(path, *std::move(stream));
  Table table;
  std::string first;
  for (bool found = false; !found;) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return stream->BadLine("the file has no concepts");
    found = !IsBlank(**line);
    first = **line;
  }
  stream->PutBack();
  if (const auto columns = ColumnsOf(first, &table.concepts)) {
    (void)stream->Next();
    stream->JoinQuotedLines(columns->separator);
    DSLIDE_RETURN_IF_ERROR(ReadCsv(*columns, &*stream, &table));
  } else {
    DSLIDE_RETURN_IF_ERROR(ReadTable(&*stream, &table));
  }
  return std::move(table.concepts);
}

}  // namespace

Result<Vocabulary> ReadVocabulary(const std::string& path, const std::string& language,
                                  std::vector<std::string>* notes) {
  Result<Concepts> concepts = ReadConcepts(path);
  DSLIDE_RETURN_IF_ERROR(concepts);
  if (!language.empty() && !HasLanguage(*concepts, language)) {
    return BadInput(fmt::format("{}: no name is in the language {} (labels.language); there are {}",
                                path, Quoted(language), LanguageList(*concepts)));
  }
  Vocabulary vocabulary = InLanguage(*std::move(concepts), language, notes);
  if (vocabulary.empty()) {
    return BadInput(
        fmt::format("{}: no concept: names are read from lines \"identifier TAB "
                    "name\", from CSV with uri and label_LANGUAGE, and from SKOS",
                    path));
  }
  if (const uint64_t ambiguous = vocabulary.CountAmbiguous(); ambiguous > 0) {
    notes->push_back(fmt::format("{} of several concepts each; the first one has it",
                                 Plural(ambiguous, "name is", "names are")));
  }
  return vocabulary;
}

}  // namespace dslide
