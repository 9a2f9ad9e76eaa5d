// Appends to the ledger in argv[1] until it is killed, a byte to standard output after each entry.
#include <unistd.h>

#include "tests/scheduler/ledger/ledger_entries.h"

int main(int argc, char** argv) {
  using namespace dslide;
  if (argc != 2) return 2;
  LedgerState state;
  const auto ledger = Ledger::Open(argv[1], &state);
  if (!ledger.ok()) return 1;
  for (uint64_t n = (*ledger)->entries();; ++n) {
    if (!(*ledger)->Append(testing::FixedEntry(n)).ok()) return 1;
    if (write(STDOUT_FILENO, "", 1) != 1) return 1;
  }
}
