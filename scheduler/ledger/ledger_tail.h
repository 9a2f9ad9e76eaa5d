// The end of a ledger's write-ahead log. RocksDB takes a record that runs past the end of the file
// for one that a power failure cut off, and leaves it out. The same happens if the length in its
// header was damaged; then what follows it is still there, and is lost unless somebody looks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dslide {

// Whether the bytes hold a whole stored entry of a number from `first` on: key, length, value.
bool HoldsEntryFrom(std::string_view bytes, uint64_t first);

// The last bytes of the newest log in a ledger's directory, as many as RocksDB can leave out so.
std::string LogTail(const std::string& directory);

}  // namespace dslide
