// RDF/XML becomes N-Triples by the program rapper (Debian package raptor2-utils). Its library would
// need another libcurl than the build's other packages.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/data/text_stream.h"

namespace dslide {

// The statements of the file `path`, whose stream this is. Errors (kBadInput) have the program's
// first line, or name the package.
Result<TextStream> TriplesOfXml(const std::string& path, TextStream stream);

}  // namespace dslide
