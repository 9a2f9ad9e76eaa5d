// Concepts of a vocabulary in SKOS. libserd appears behind this file only.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/data/text_stream.h"
#include "common/vocabulary/concepts.h"

namespace dslide {

// Whether the first line of a file's beginning that is not a comment is one of Turtle, N-Triples or
// RDF/XML.
bool LooksLikeRdf(std::string_view beginning);

// Reads the stream of the file `path` to its end. Errors are kBadInput and name the file and the
// line, or the Debian package that RDF/XML needs.
Result<Concepts> ReadSkos(const std::string& path, TextStream stream);

}  // namespace dslide
