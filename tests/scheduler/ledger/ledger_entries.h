// Entries for the ledger's tests: a fixed one for every number, and random ones.
#pragma once

#include <utility>
#include <variant>

#include "common/checkpoint/layout.h"
#include "scheduler/ledger/ledger.h"
#include "tests/support/random_messages.h"

namespace dslide::testing {

inline std::vector<DoneBatch> ManyDone(uint32_t batches) {
  std::vector<DoneBatch> done;
  for (uint32_t i = 0; i < batches; ++i) done.push_back({i / 8, i % 8});
  return done;
}

// Of a ledger of any length: mostly LedgerCounted, and large ones that fill memory now and then.
inline LedgerEntry FixedEntry(uint64_t number) {
  const auto n = static_cast<uint32_t>(number);
  if (n == 0) return LedgerOpened{{7}, "[model]\nhidden = 8\n", 1000, 99};
  if (n % 50 == 49) return LedgerRestored{CheckpointName(n), 1, n, n * 256, ManyDone(20000)};
  if (n % 50 == 1) return LedgerPlanned{{n, {{"server", "tcp://a:1", {n}}}, {0, 0, 0}, "r"}};
  return LedgerCounted{{n % 3, n / 8, n % 8}, 256, "worker-" + std::to_string(n % 5)};
}

class RandomEntries {
 public:
  explicit RandomEntries(uint64_t seed) : messages_(seed) {}

  // Of the variant's alternative `kind`.
  LedgerEntry Next(size_t kind) {
    Random& r = messages_.random();
    const auto text = [&] {
      return std::string(r.Below(20), static_cast<char>('a' + r.Below(26)));
    };
    const auto number = [&] { return static_cast<uint32_t>(r.Next()); };
    switch (kind) {
      case 0:
        return LedgerOpened{{r.Next()}, text(), r.Next(), r.Next()};
      case 1:
        return LedgerPlanned{std::get<Plan>(messages_.Next(2).body)};
      case 2: {
        LedgerRestored restored{text(), number(), r.Next(), r.Next(), {}};
        for (uint64_t i = r.Below(9); i > 0; --i) restored.done.push_back({number(), number()});
        return restored;
      }
      case 3:
        return LedgerCounted{{number(), number(), number()}, number(), text(), text(), number()};
      case 4:
        return LedgerEpochDone{number()};
      case 5:
        return LedgerCheckpointed{text(), r.Next()};
      case 6:
        return LedgerStopped{r.Below(2) == 1};
      default: {
        LedgerHeldOut held_out{number(), {}};
        for (uint64_t i = r.Below(9); i > 0; --i) {
          held_out.ndcg.push_back(static_cast<float>(r.Below(1000)) / 1000);
        }
        return held_out;
      }
    }
  }

  static constexpr size_t kKinds = std::variant_size_v<LedgerEntry>;

 private:
  RandomMessages messages_;
};

}  // namespace dslide::testing
