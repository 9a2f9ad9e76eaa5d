#include "common/vocabulary/vocabulary_file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::vocabulary_file_test {
namespace {

// "id: name | synonym; ..." of the file's concepts, then its notes; or the error without the path.
std::string Read(const std::string& bytes, const std::string& language = "") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/vocabulary";
  std::ofstream(path, std::ios::binary) << bytes;
  std::vector<std::string> notes;
  const Result<Vocabulary> read = ReadVocabulary(path, language, &notes);
  if (!read.ok()) {
    CHECK(read.error().kind == ErrorKind::kBadInput);
    REQUIRE(read.error().message.starts_with(path));
    return read.error().message.substr(path.size());
  }
  std::string text;
  for (uint32_t c = 0; c < read->size(); ++c) {
    text += fmt::format("{}:", read->id(c));
    for (const std::string& name : read->NamesOf(c)) text += " " + name + " |";
    text += "\n";
  }
  for (const std::string& note : notes) text += "- " + note + "\n";
  return text;
}

TEST_CASE("vocabulary file: TSV as Annif writes it, and with synonyms") {
  CHECK(Read("<http://example.org/1>\tcats\n\n<http://example.org/2>\tdogs\r\n") ==
        "http://example.org/1: cats |\nhttp://example.org/2: dogs |\n");
  CHECK(Read("\xef\xbb\xbf"
             "1\tcats\thouse cats\t\tcats\n2\t\n") ==
        "1: cats | house cats |\n2:\n"
        "- 1 concept has no name, and is shown by a part of the identifier\n");
  CHECK(Read("1\tcats\n2\tdogs\n1\tkittens\n") == "1: cats | kittens |\n2: dogs |\n");
  CHECK(Read("cats\ndogs\n") == "cats: cats |\ndogs: dogs |\n");
  CHECK(Read("1\tcat\n2\tcat\n") ==
        "1: cat |\n2: cat |\n- 1 name is of several concepts each; the first one has it\n");
  CHECK(Read(Gzip("1\tcats\n")) == "1: cats |\n");
}

TEST_CASE("vocabulary file: CSV with a name a language") {
  const std::string csv =
      "uri,notation,label_en,label_de\n"
      "http://example.org/1,A,cats,Katzen\n"
      "http://example.org/2,B,\"dogs, large\",\n";
  CHECK(Read(csv, "en") ==
        "http://example.org/1: cats |\nhttp://example.org/2: dogs, large |\n"
        "- names are in en; the vocabulary has de (1) too\n");
  CHECK(Read(csv, "DE") ==
        "http://example.org/1: Katzen |\nhttp://example.org/2:\n"
        "- names are in de; the vocabulary has en (2) too\n"
        "- 1 concept has no name in de, and is shown by a part of the identifier\n");
  CHECK(Read(csv) ==
        "http://example.org/1: cats |\nhttp://example.org/2: dogs, large |\n"
        "- names are in en (labels.language names another one); the vocabulary has de (1) too\n");
  CHECK(Read("uri,label\n1,cats\n") == "1: cats |\n");
}

constexpr char kTurtle[] = R"(@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix e: <http://example.org/> .
e:scheme a skos:ConceptScheme ; skos:prefLabel "Animals"@en .
e:1 a skos:Concept ; skos:altLabel "Stubentiger"@de, "house cat"@en ;
    skos:prefLabel "Katze"@de, "cat"@en ; skos:hiddenLabel "kat"@en .
e:2 a skos:Concept ; skos:prefLabel "colour"@en-GB, "Farbe"@de .
e:3 a skos:Concept ; skos:prefLabel "X" .
e:4 a skos:Concept ; skos:prefLabel "Pferd"@de .
e:5 a skos:Concept ; skos:prefLabel "gone"@en ; owl:deprecated true .
e:6 a e:Term ; owl:deprecated true .
)";

TEST_CASE("vocabulary file: SKOS in one language, else without one, else in a variant") {
  CHECK(Read(kTurtle, "en") ==
        "http://example.org/1: cat | house cat | kat |\n"
        "http://example.org/2: colour |\n"
        "http://example.org/3: X |\n"
        "http://example.org/4:\n"
        "- names are in en; the vocabulary has de (3), en-gb (1) too\n"
        "- 2 deprecated concepts are left out\n"
        "- 1 concept has no name in en, and is shown by a part of the identifier\n");
  CHECK(Read(kTurtle).starts_with("http://example.org/1: Katze | Stubentiger |\n"));
}

TEST_CASE("vocabulary file: SKOS in N-Triples and in RDF/XML") {
  const std::string triples =
      "<http://example.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> \"Stra\\u00DFe\"@de "
      ".\n<http://example.org/2> <http://www.w3.org/2004/02/skos/core#prefLabel> \"Weg\"@de .\n";
  CHECK(Read(triples) == "http://example.org/1: Straße |\nhttp://example.org/2: Weg |\n");
  CHECK(Read("# made by hand\n" + triples) ==
        "http://example.org/1: Straße |\nhttp://example.org/2: Weg |\n");
  CHECK(Read(R"(<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:skos="http://www.w3.org/2004/02/skos/core#">
  <skos:Concept rdf:about="http://example.org/1">
    <skos:prefLabel xml:lang="en">cats &amp; dogs</skos:prefLabel>
  </skos:Concept>
</rdf:RDF>
)") == "http://example.org/1: cats & dogs |\n");
}

TEST_CASE("vocabulary file: the format is told by the first line that is no comment") {
  CHECK(Read("#MeToo\nBASEBALL\tx\nPREFIXES\n") ==
        "#MeToo: #MeToo |\nBASEBALL: x |\nPREFIXES: PREFIXES |\n");
  CHECK(Read("# id\tname\n1\tcats\n") == "# id: name |\n1: cats |\n");
  CHECK(Read("prefix s: <http://www.w3.org/2004/02/skos/core#>\n<u:1> s:prefLabel \"cats\" .\n") ==
        "u:1: cats |\n");
  CHECK(Read("<u:1> <http://www.w3.org/2004/02/skos/core#prefLabel> \"cats\" ;\n"
             " <http://www.w3.org/2004/02/skos/core#altLabel> \"kittens\" .\n") ==
        "u:1: cats | kittens |\n");
  CHECK(Read("<u:1>\t<http://www.w3.org/2004/02/skos/core#prefLabel>\t\"cats\" .\n") ==
        "u:1: cats |\n");
  CHECK(Read("uri;label_en\n1;cats, dogs\n") == "1: cats, dogs |\n");
}

TEST_CASE("vocabulary file: a preferred name is shown before synonyms of a better language") {
  CHECK(Read("@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n"
             "<u:1> s:prefLabel \"colour\"@en-GB ; s:hiddenLabel \"kolor\"@en .\n",
             "en")
            .starts_with("u:1: colour | kolor |\n"));
  CHECK(Read("@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n"
             "<u:1> s:altLabel \"Katze\"@de .\n") == "u:1: Katze |\n");
}

TEST_CASE("vocabulary file: RDF/XML with warnings is read, without its end it is refused") {
  const std::string begin = R"(<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:skos="http://www.w3.org/2004/02/skos/core#">
  <skos:Concept rdf:about="http://example.org/1" rdf:bagID="b">
    <skos:prefLabel xml:lang="en">cats</skos:prefLabel>
  </skos:Concept>
)";
  CHECK(Read(begin + "</rdf:RDF>\n") == "http://example.org/1: cats |\n");
  CHECK(Read(begin).starts_with(": not valid RDF: rapper: Error"));
}

TEST_CASE("vocabulary file: what is wrong is named with its line") {
  CHECK(Read("uri,label_en,label_de\n1,cats,Katzen\n", "english") ==
        ": no name is in the language 'english' (labels.language); there are en (1 name), de (1 "
        "name)");
  CHECK(Read("") == ":1: the file has no concepts");
  CHECK(Read("1\tcats\n\tdogs\n") == ":2: has no identifier before the tab");
  CHECK(Read("uri,label_en\n1,cats,x\n") == ":2: has 3 cells, but the header has 2");
  CHECK(Read("uri,label_en\n,cats\n") == ":2: has no uri");
  CHECK(Read("@prefix e: <http://example.org/> .\ne:1 e:2 \n").starts_with(":3: not valid RDF: "));
  CHECK(Read("@prefix e: <http://example.org/> .\ne:1 e:2 e:3 .\n")
            .starts_with(": no concept: names are read from"));
  std::vector<std::string> notes;
  CHECK(MessageOf(ReadVocabulary("/nowhere/vocabulary.tsv", "", &notes))
            .starts_with("/nowhere/vocabulary.tsv: "));
}

}  // namespace
}  // namespace dslide::vocabulary_file_test
