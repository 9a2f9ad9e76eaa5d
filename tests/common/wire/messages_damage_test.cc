// What Decode() makes of messages that were cut. tests/fuzz changes them in other ways.
#include <doctest/doctest.h>

#include "common/wire/messages.h"
#include "tests/support/random_messages.h"
#include "tests/support/results.h"

namespace dslide::messages_damage_test {
namespace {

TEST_CASE("malformed: truncation at every length") {
  testing::RandomMessages messages(11);
  for (size_t kind = 0; kind < testing::RandomMessages::kKinds; ++kind) {
    const Message message = messages.Next(kind);
    CAPTURE(BodyName(message.body));
    const bool int8 = messages.random().Below(2) == 1;
    const Bytes bytes = Encode(message, int8 ? WirePrecision::kInt8 : WirePrecision::kBf16);
    const Message whole = Ok(Decode(bytes));
    for (size_t length = 0; length < bytes.size(); ++length) {
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      const Result<Message> decoded = Decode(part);
      // The last bytes may be padding; then nothing is lost.
      const bool harmless = bytes.size() - length < 8 && decoded.ok();
      if (harmless) CHECK(decoded->body == whole.body);
      if (!harmless) CHECK_FALSE(decoded.ok());
    }
  }
}

}  // namespace
}  // namespace dslide::messages_damage_test
