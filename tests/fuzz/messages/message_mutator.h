// Changes of wire messages that leave most of them messages, and scripts of messages: what a
// process receives, one after another.
//
//   script = *(length(4, little-endian) message)      what follows a wrong length is one message
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/wire/messages.h"

namespace dslide::fuzz {

// Of the bytes of a message: other values in a few fields, another message of this kind or of any,
// or other bytes. Bytes that are no message are changed as bytes, or replaced.
std::string MutateMessage(std::string_view bytes, Random* random);

std::vector<std::string_view> MessagesOf(std::string_view script);
// Calls `take` with the messages of a script, 40 at most, until it returns false. Whether all that
// it looked at were messages, and there was one.
bool ForEachMessage(std::string_view script, const std::function<bool(const Message&)>& take);
std::string ScriptOf(const std::vector<std::string>& messages);
std::string ScriptOf(const std::vector<Message>& messages);
// Scripts of random messages that have every kind between them.
std::vector<std::string> RandomScripts(uint64_t seed);
// Changes, adds, repeats, swaps or removes messages.
std::string MutateScript(std::string_view script, Random* random);

std::string EncodedAs(const Message& message, WirePrecision precision);
// Of bytes anywhere in an input. Checks the error that says that they are no message.
Result<Message> DecodeMessage(std::string_view bytes);

}  // namespace dslide::fuzz
