// The file of a vocabulary, plain, gzip or Zstandard. Its first line tells the format:
//
//   SKOS         in Turtle, N-Triples or RDF/XML: skos:prefLabel, altLabel and hiddenLabel of
//                each skos:Concept; owl:deprecated
//   CSV          a header with `uri` and `label_de`, `label_en` ... or `label`, as Annif's
//   TSV          identifier TAB name [TAB synonym ...], as Annif's <uri> TAB name
//   names        a name a line, which is the identifier too
#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/text/vocabulary/vocabulary.h"

namespace dslide {

// Reads it in one language (InLanguage()). Identifiers are without angle brackets; a concept that
// occurs several times has all its names. *notes: lines for people, without the path. Errors are
// kBadInput and name the file and the line.
Result<Vocabulary> ReadVocabulary(const std::string& path, const std::string& language,
                                  std::vector<std::string>* notes);

}  // namespace dslide
