#include "common/vocabulary/rdf_reader.h"

#include <fmt/format.h>
#include <serd/serd.h>

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/vocabulary/rdf_xml.h"

namespace dslide {
namespace {

constexpr std::string_view kSkos = "http://www.w3.org/2004/02/skos/core#";
constexpr std::string_view kConcept = "http://www.w3.org/2004/02/skos/core#Concept";
constexpr std::string_view kType = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
constexpr std::string_view kDeprecated = "http://www.w3.org/2002/07/owl#deprecated";

std::string_view TextOf(const SerdNode& node) {
  return {reinterpret_cast<const char*>(node.buf), node.n_bytes};
}

std::optional<NameKind> KindOf(std::string_view property) {
  if (!property.starts_with(kSkos)) return std::nullopt;
  property.remove_prefix(kSkos.size());
  if (property == "prefLabel") return NameKind::kPreferred;
  if (property == "altLabel") return NameKind::kSynonym;
  if (property == "hiddenLabel") return NameKind::kHidden;
  return std::nullopt;
}

// Collects concepts from statements.
class Collector {
 public:
  // `uri`: of the subject.
  void AddType(std::string_view uri, std::string_view type) {
    if (type == kConcept) At(uri).is_concept = true;
  }
  void AddLiteral(std::string_view uri, std::string_view property, std::string_view text,
                  std::string_view language) {
    if (property == kDeprecated) {
      if (text == "true" || text == "1") At(uri).raw.is_deprecated = true;
      return;
    }
    const std::optional<NameKind> kind = KindOf(property);
    if (!kind || text.empty()) return;
    At(uri).raw.names.push_back({std::string(text), LanguageOf(language), *kind});
  }

  // The subjects of type skos:Concept; if the file has no types, all subjects with a name. A
  // deprecated concept has often lost its type.
  Concepts Take() && {
    const bool typed = std::ranges::any_of(subjects_, &Subject::is_concept);
    for (Subject& subject : subjects_) {
      const bool is_one = typed ? subject.is_concept : !subject.raw.names.empty();
      if (!is_one && !subject.raw.is_deprecated) continue;
      concepts_.all.push_back(std::move(subject.raw));
    }
    return std::move(concepts_);
  }

 private:
  struct Subject {
    RawConcept raw;
    bool is_concept = false;
  };

  uint32_t LanguageOf(std::string_view tag) {
    if (tag != last_tag_) {
      last_tag_ = tag;
      last_language_ = concepts_.LanguageOf(last_tag_);
    }
    return last_language_;
  }

  // Statements on a subject mostly follow each other.
  Subject& At(std::string_view uri) {
    if (last_ >= subjects_.size() || subjects_[last_].raw.id != uri) {
      const auto [entry, is_new] = places_.emplace(uri, subjects_.size());
      if (is_new) subjects_.push_back({{std::string(uri), {}}});
      last_ = entry->second;
    }
    return subjects_[last_];
  }

  Concepts concepts_;
  std::vector<Subject> subjects_;
  std::unordered_map<std::string, size_t> places_;
  size_t last_ = 0;
  std::string last_tag_;
  uint32_t last_language_ = Concepts::kUntagged;
};

// Reads statements of a stream into a Collector.
class StatementReader {
 public:
  explicit StatementReader(TextStream* stream)
      : stream_(*stream),
        env_(serd_env_new(nullptr)),
        reader_(serd_reader_new(SERD_TURTLE, this, nullptr, &OnBase, &OnPrefix, &OnStatement,
                                nullptr)) {
    DSLIDE_CHECK(env_ != nullptr && reader_ != nullptr);
    serd_reader_set_error_sink(reader_.get(), &OnError, this);
  }

  // N-Triples are Turtle, too.
  Status Read(const std::string& path) {
    constexpr size_t kPage = 4096;
    const SerdStatus status =
        serd_reader_read_source(reader_.get(), &ReadPage, &HasFailed, this,
                                reinterpret_cast<const uint8_t*>(path.c_str()), kPage);
    if (failure_) return *failure_;
    if (error_) return BadInput(fmt::format("{}:{}", path, *error_));
    if (status != SERD_SUCCESS && status != SERD_FAILURE) {
      return BadInput(fmt::format("{}: not valid RDF", path));
    }
    return {};
  }

  Concepts Take() && { return std::move(collector_).Take(); }

 private:
  struct Free {
    void operator()(SerdEnv* env) const { serd_env_free(env); }
    void operator()(SerdReader* reader) const { serd_reader_free(reader); }
  };

  static StatementReader& Of(void* handle) { return *static_cast<StatementReader*>(handle); }

  static size_t ReadPage(void* to, size_t, size_t bytes, void* handle) {
    return Of(handle).Fill(static_cast<char*>(to), bytes);
  }
  static int HasFailed(void* handle) { return Of(handle).failure_.has_value(); }
  static SerdStatus OnBase(void* handle, const SerdNode* uri) {
    return serd_env_set_base_uri(Of(handle).env_.get(), uri);
  }
  static SerdStatus OnPrefix(void* handle, const SerdNode* name, const SerdNode* uri) {
    return serd_env_set_prefix(Of(handle).env_.get(), name, uri);
  }
  static SerdStatus OnStatement(void* handle, SerdStatementFlags, const SerdNode*,
                                const SerdNode* subject, const SerdNode* predicate,
                                const SerdNode* object, const SerdNode*, const SerdNode* language) {
    Of(handle).Add(*subject, *predicate, *object, language);
    return SERD_SUCCESS;
  }
  static SerdStatus OnError(void* handle, const SerdError* error) {
    if (Of(handle).error_) return SERD_SUCCESS;  // later errors follow from the first
    char text[256];
    va_list arguments;
    va_copy(arguments, *error->args);
    std::vsnprintf(text, sizeof(text), error->fmt, arguments);
    va_end(arguments);
    text[std::strcspn(text, "\n")] = '\0';
    Of(handle).error_ = fmt::format("{}: not valid RDF: {}", error->line, text);
    return SERD_SUCCESS;
  }

  size_t Fill(char* to, size_t bytes) {
    size_t filled = 0;
    while (filled < bytes && !failure_) {
      if (given_ == line_.size()) {
        const auto next = stream_.Next();
        if (!next.ok()) failure_ = next.error();
        if (!next.ok() || !next->has_value()) break;
        line_.assign(**next).push_back('\n');
        given_ = 0;
      }
      const size_t part = std::min(bytes - filled, line_.size() - given_);
      std::memcpy(to + filled, line_.data() + given_, part);
      filled += part;
      given_ += part;
    }
    return filled;
  }

  // The URI that a node stands for; "": it is no URI.
  std::string UriOf(const SerdNode& node) const {
    if (node.type != SERD_URI && node.type != SERD_CURIE) return "";
    SerdNode whole = serd_env_expand_node(env_.get(), &node);
    std::string uri(TextOf(whole.type == SERD_URI ? whole : node));
    serd_node_free(&whole);
    return uri;
  }

  void Add(const SerdNode& subject, const SerdNode& predicate, const SerdNode& object,
           const SerdNode* language) {
    const std::string property = UriOf(predicate);
    const bool is_type = property == kType;
    if (!is_type && property != kDeprecated && !KindOf(property)) return;
    const std::string uri = UriOf(subject);
    if (uri.empty()) return;
    if (is_type) return collector_.AddType(uri, UriOf(object));
    if (object.type != SERD_LITERAL) return;
    collector_.AddLiteral(uri, property, TextOf(object),
                          language == nullptr ? "" : TextOf(*language));
  }

  TextStream& stream_;
  std::string line_;
  size_t given_ = 0;  // bytes of line_
  std::unique_ptr<SerdEnv, Free> env_;
  std::unique_ptr<SerdReader, Free> reader_;
  Collector collector_;
  std::optional<Error> failure_;      // of the stream
  std::optional<std::string> error_;  // of the text: "LINE: ..."
};

bool LooksLikeXml(std::string_view line) {
  for (const std::string_view start : {"<?xml", "<!", "<rdf:", "<RDF"}) {
    if (line.starts_with(start)) return true;
  }
  return false;
}

// Whether a line begins a directive of Turtle: @prefix, or PREFIX as in SPARQL, in any case.
bool IsDirective(std::string_view line) {
  if (line.starts_with('@')) line.remove_prefix(1);
  std::string word(line.substr(0, line.find_first_of(" \t")));
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word.size() < line.size() && (word == "prefix" || word == "base") &&
         line.find('<') != std::string_view::npos;
}

// Whether a line begins with the subject of a triple: <iri> or _:name. In TSV a tab follows an
// identifier, and no further IRI.
bool IsTriple(std::string_view line) {
  if (line.starts_with("_:")) return true;
  const size_t end = line.find('>');
  if (!line.starts_with('<') || end == std::string_view::npos) return false;
  const std::string_view rest = line.substr(end + 1);
  return rest.starts_with(' ') || rest.starts_with("\t<") || rest.empty();
}

}  // namespace

bool LooksLikeRdf(std::string_view beginning) {
  while (!beginning.empty()) {
    const size_t end = std::min(beginning.find('\n'), beginning.size());
    std::string_view line = beginning.substr(0, end);
    beginning.remove_prefix(std::min(end + 1, beginning.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    return LooksLikeXml(line) || IsDirective(line) || IsTriple(line);
  }
  return false;
}

Result<Concepts> ReadSkos(const std::string& path, TextStream stream) {
  std::string_view begin = stream.Peek(256);
  begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  if (LooksLikeXml(begin)) {
    Result<TextStream> triples = TriplesOfXml(path, std::move(stream));
    DSLIDE_RETURN_IF_ERROR(triples);
    stream = *std::move(triples);
  }
  StatementReader reader(&stream);
  DSLIDE_RETURN_IF_ERROR(reader.Read(path));
  return std::move(reader).Take();
}

}  // namespace dslide
