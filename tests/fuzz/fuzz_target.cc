#include "tests/fuzz/fuzz_target.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/base/temporary_directory.h"
#include "common/data/whole_file.h"

namespace dslide::fuzz {
namespace {

std::vector<FuzzTarget>& All() {
  static std::vector<FuzzTarget> targets;
  return targets;
}

constexpr size_t kLongestError = 4000;

bool IsControl(char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }

}  // namespace

Entered::Entered(const FuzzTarget& target) {
  All().push_back(target);
  std::ranges::sort(All(), {}, &FuzzTarget::name);
}

const std::vector<FuzzTarget>& Targets() { return All(); }

const FuzzTarget* FindTarget(std::string_view name) {
  const auto found = std::ranges::find(All(), name, &FuzzTarget::name);
  return found == All().end() ? nullptr : &*found;
}

void CheckError(const Error& error) {
  const bool sound = error.kind == ErrorKind::kBadInput && !error.message.empty() &&
                     error.message.size() < kLongestError &&
                     std::ranges::none_of(error.message, IsControl);
  if (!sound) std::fprintf(stderr, "the error: %s\n", error.message.c_str());
  DSLIDE_CHECK(sound);
}

std::string MutateBytes(std::string_view input, Random* random) {
  static constexpr char kBytes[] = " ,:\n\r\t-+.eE0123456789xnaif\"{}[]\\\0\xff\x80\x1f";
  constexpr std::string_view kTelling(kBytes, sizeof kBytes - 1);
  std::string bytes(input);
  for (uint64_t edits = 1 + random->Below(4); edits > 0; --edits) {
    const size_t at = random->Below(bytes.size() + 1);
    const size_t length = random->Below(8);
    const char byte = random->Below(4) == 0 ? static_cast<char>(random->Below(256))
                                            : kTelling[random->Below(kTelling.size())];
    switch (random->Below(8)) {
      case 0:
        bytes.insert(at, 1, byte);
        break;
      case 1:
        bytes.insert(at, 3 * length, byte);
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(random->Below(bytes.size() + 1), bytes.substr(at, length));
        break;
      case 4:
        if (random->Below(16) == 0) bytes.resize(at);
        break;
      case 5:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random->Below(8)));
        break;
      default:
        if (at < bytes.size()) bytes[at] = byte;
    }
  }
  return bytes;
}

const std::string& InputDirectory() {
  static const TemporaryDirectory directory("dslide-fuzz-");
  DSLIDE_CHECK(directory.ok());
  return directory.path();
}

std::string InputFile(std::string_view bytes, const std::string& name) {
  std::string path = InputDirectory() + "/" + name;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  DSLIDE_CHECK(file >= 0);
  DSLIDE_CHECK(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(file);
  return path;
}

std::string FileBytes(const std::string& path) {
  const Result<std::string> bytes = ReadWholeFile(path);
  DSLIDE_CHECK(bytes.ok());
  return *bytes;
}

}  // namespace dslide::fuzz
