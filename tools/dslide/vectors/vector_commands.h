// The command of word vectors, for the table of dslide's.
#pragma once

namespace dslide {

int NeighboursCommand(int argc, char** argv);

}  // namespace dslide
