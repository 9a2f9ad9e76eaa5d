// The end of a ledger's write-ahead log. RocksDB takes a record that runs past the end of the file
// for one that a power failure cut off, and drops it. The same happens to a record whose length was
// damaged; the entries behind that record are still there, and would be lost without this check.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dslide {

// Whether the bytes hold a whole stored entry (key, length, value) with a number >= `first`.
bool HoldsEntryFrom(std::string_view bytes, uint64_t first);

// The last bytes of the newest log in a ledger's directory, as many as RocksDB can drop in this
// way.
std::string LogTail(const std::string& directory);

}  // namespace dslide
