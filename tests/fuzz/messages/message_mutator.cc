#include "tests/fuzz/messages/message_mutator.h"

#include <algorithm>
#include <concepts>
#include <optional>
#include <utility>

#include "common/wire/wire_fields.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/message_invariants.h"
#include "tests/support/random_messages.h"

namespace dslide::fuzz {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kMostMessages = 40;  // of a script

// Goes through the numbers, texts and flags of a message and changes each with a chance of 1 in
// `one_in`. Sizes stay, so that what fits together goes on to do so.
class FieldChanger {
 public:
  FieldChanger(uint64_t one_in, Random* random) : one_in_(one_in), random_(*random) {}

  template <typename... T>
  void operator()(const std::tuple<T...>& fields) {
    std::apply([&](auto&&... field) { ((*this)(field), ...); }, fields);
  }
  template <typename T>
  requires requires(T& message) { FieldsOf(message); }
  void operator()(T& message) { (*this)(FieldsOf(message)); }

  void operator()(bool& flag) {
    if (Due()) flag = !flag;
  }
  template <std::integral T>
  void operator()(T& number) {
    if (Due()) number = static_cast<T>(Number(static_cast<uint64_t>(number)));
  }
  template <std::floating_point T>
  void operator()(T& number) {
    if (Due()) number = static_cast<T>(Real());
  }
  template <typename T>
  requires std::is_enum_v<T>
  void operator()(T& value) {
    if (Due()) value = static_cast<T>(random_.Below(3));
  }
  template <typename Tag, typename T>
  void operator()(Id<Tag, T>& id) {
    (*this)(id.value);
  }
  void operator()(std::string& text) {
    if (Due()) text = MutateBytes(text, &random_);
  }
  void operator()(BatchId& batch) {
    (*this)(batch.epoch);
    (*this)(batch.unit);
    (*this)(batch.index);
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    for (T& value : values) (*this)(value);
  }
  template <typename T>
  void operator()(std::optional<T>& optional) {
    if (optional) (*this)(*optional);
  }

  // Shapes stay.
  void operator()(Matrix& m) { (*this)(m.data); }
  void operator()(FixedMatrix& m) { (*this)(m.data); }
  void operator()(PartialSum& sum) {
    std::visit([&](auto& m) { (*this)(m); }, sum);
  }
  void operator()(SparseRows& rows) {
    (*this)(rows.ids);
    (*this)(rows.values);
  }
  void operator()(ExpSum&) {}
  void operator()(ActiveReply& m) {
    for (auto* values : {&m.max, &m.sum_exp, &m.target_logit, &m.loss, &m.tail_variance}) {
      (*this)(*values);
    }
    (*this)(m.active);
    (*this)(m.active_rows);
    (*this)(m.probes);
  }
  template <typename V, typename Of>
  void operator()(const OneEach<V, Of>& each) {
    (*this)(each.values);
  }
  template <typename T>
  void operator()(const Leb128<T>& numbers) {
    (*this)(numbers.numbers);
  }
  template <typename T>
  void operator()(const RowLengths<T>&) {}
  template <typename T>
  void operator()(const LongString<T>& text) {
    (*this)(text.text);
  }
  template <typename T>
  void operator()(const Gradient<T>& gradient) {
    (*this)(gradient.matrix);
  }
  template <typename T>
  void operator()(const Parameters<T>& parameters) {
    (*this)(parameters.rows);
  }
  template <typename T>
  void operator()(const RandomlyRounded<T>& gradients) {
    (*this)(gradients.rows);
  }
  template <typename T>
  void operator()(const UnlessNoRows<T>& rows) {
    (*this)(rows.rows);
  }
  template <typename T>
  void operator()(const HasValue<T>& value) {
    (*this)(value.optional);
  }
  template <typename T>
  void operator()(const ValueOf<T>&) {}

  void operator()(Envelope& envelope) {
    (*this)(envelope.run);
    (*this)(envelope.incarnation);
    (*this)(envelope.sequence);
    (*this)(envelope.reply_to);
    (*this)(envelope.plan_version);
    (*this)(envelope.reply_precision);
    (*this)(envelope.service_us);
  }

 private:
  bool Due() { return random_.Below(one_in_) == 0; }
  // Mostly small: ids, counts and versions that the receiver may know.
  uint64_t Number(uint64_t before) {
    constexpr uint64_t kEdges[] = {0, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, ~uint64_t{0}};
    switch (random_.Below(4)) {
      case 0:
        return before + random_.Below(5) - 2;
      case 1:
        return kEdges[random_.Below(std::size(kEdges))];
      case 2:
        return random_.Next();
      default:
        return random_.Below(32);
    }
  }
  double Real() {
    constexpr double kEdges[] = {0.0, -0.0, 1, -1, 1e-40, 3e38, -3e38, 1e30, 0.5, 1e6};
    return random_.Below(2) == 0 ? kEdges[random_.Below(std::size(kEdges))]
                                 : random_.Uniform() * 4 - 2;
  }

  const uint64_t one_in_;
  Random& random_;
};

WirePrecision AnyPrecision(Random* random) { return static_cast<WirePrecision>(random->Below(3)); }

std::string RandomMessage(Random* random, const Envelope& envelope, std::optional<size_t> kind) {
  testing::RandomMessages messages(random->Next());
  Message message = messages.Next(kind.value_or(random->Below(kBodyKinds)));
  message.envelope = envelope;
  return EncodedAs(message, AnyPrecision(random));
}

std::string ChangeFields(Message message, Random* random) {
  FieldChanger change(uint64_t{1} << (1 + random->Below(5)), random);
  const Message before = message;
  if (random->Below(4) == 0) change(message.envelope);
  std::visit(change, static_cast<AnyBody&>(message.body));
  const bool fits = std::visit(testing::IsConsistent(), static_cast<AnyBody&>(message.body));
  return EncodedAs(fits ? message : before, AnyPrecision(random));
}

std::string& AnyOf(std::vector<std::string>* messages, Random* random) {
  return (*messages)[random->Below(messages->size())];
}

}  // namespace

std::string EncodedAs(const Message& message, WirePrecision precision) {
  const Bytes bytes = Encode(message, precision);
  return {bytes.begin(), bytes.end()};
}

Result<Message> DecodeMessage(std::string_view bytes) {
  const Bytes aligned(bytes.begin(), bytes.end());
  Result<Message> message = Decode(aligned);
  // Of a message the peer is to blame, not the user.
  if (!message.ok()) CheckError(BadInput(message.error().message));
  return message;
}

std::string MutateMessage(std::string_view bytes, Random* random) {
  Result<Message> message = DecodeMessage(bytes);
  const uint64_t how = random->Below(8);
  if (!message.ok()) {
    return how == 0 ? RandomMessage(random, {}, std::nullopt) : MutateBytes(bytes, random);
  }
  if (how == 0) return RandomMessage(random, message->envelope, std::nullopt);
  if (how == 1) return RandomMessage(random, message->envelope, message->body.index());
  if (how == 2) return MutateBytes(bytes, random);
  return ChangeFields(*std::move(message), random);
}

std::vector<std::string_view> MessagesOf(std::string_view script) {
  std::vector<std::string_view> messages;
  while (!script.empty()) {
    size_t length = 0;
    for (size_t i = 0; i < std::min(kLengthBytes, script.size()); ++i) {
      length |= size_t{static_cast<uint8_t>(script[i])} << (8 * i);
    }
    script.remove_prefix(std::min(kLengthBytes, script.size()));
    messages.push_back(script.substr(0, length));
    script.remove_prefix(std::min(length, script.size()));
  }
  return messages;
}

bool ForEachMessage(std::string_view script, const std::function<bool(const Message&)>& take) {
  size_t count = 0;
  bool all = true;
  for (const std::string_view part : MessagesOf(script)) {
    if (++count > kMostMessages) break;
    const Result<Message> message = DecodeMessage(part);
    all &= message.ok();
    if (message.ok() && !take(*message)) break;
  }
  return all && count > 0;
}

std::string ScriptOf(const std::vector<std::string>& messages) {
  std::string script;
  for (const std::string& message : messages) {
    for (size_t i = 0; i < kLengthBytes; ++i) {
      script += static_cast<char>(message.size() >> (8 * i));
    }
    script += message;
  }
  return script;
}

std::string ScriptOf(const std::vector<Message>& messages) {
  std::vector<std::string> encoded;
  for (const Message& message : messages) {
    encoded.push_back(EncodedAs(message, WirePrecision::kFp32));
  }
  return ScriptOf(encoded);
}

std::vector<std::string> RandomScripts(uint64_t seed) {
  std::vector<std::string> scripts;
  testing::RandomMessages messages(seed);
  for (size_t kind = 0; kind < kBodyKinds; kind += 4) {
    std::vector<Message> some;
    for (size_t i = kind; i < std::min(kind + 4, kBodyKinds); ++i) some.push_back(messages.Next(i));
    scripts.push_back(ScriptOf(some));
  }
  return scripts;
}

std::string MutateScript(std::string_view script, Random* random) {
  std::vector<std::string> messages;
  for (const std::string_view message : MessagesOf(script)) messages.emplace_back(message);
  if (messages.empty()) messages.push_back(RandomMessage(random, {}, std::nullopt));
  const auto at = static_cast<ptrdiff_t>(random->Below(messages.size()));
  std::string& message = messages[static_cast<size_t>(at)];
  const uint64_t how = random->Below(10);
  if (how == 0 && messages.size() < kMostMessages) {
    const std::string copy = message;
    messages.insert(messages.begin() + static_cast<ptrdiff_t>(random->Below(messages.size())),
                    copy);
  } else if (how == 1 && messages.size() > 1) {
    messages.erase(messages.begin() + at);
  } else if (how == 2) {
    std::swap(message, AnyOf(&messages, random));
  } else if (how == 3 && messages.size() < kMostMessages) {
    const Result<Message> known = DecodeMessage(message);
    messages.insert(messages.begin() + at,
                    RandomMessage(random, known.ok() ? known->envelope : Envelope{}, std::nullopt));
  } else {
    message = MutateMessage(message, random);
  }
  return ScriptOf(messages);
}

}  // namespace dslide::fuzz
