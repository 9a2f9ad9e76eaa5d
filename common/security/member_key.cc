#include "common/security/member_key.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "common/config/quoted.h"
#include "common/config/small_text.h"
#include "common/data/whole_file.h"
#include "common/security/small_file.h"

namespace dslide {
namespace {

constexpr std::string_view kScheme = "dslide://";
constexpr std::string_view kTcp = "tcp://";
constexpr const char* kJoinVariable = "DSLIDE_JOIN";

// Sets a field by its name in key files. False: no such field, or no key.
bool SetField(std::string_view name, const std::string& value, MemberKey* key) {
  if (name == "scheduler") {
    key->scheduler = value;
    return true;
  }
  if (name == "scheduler_key") {
    key->scheduler_key = PublicKeyFrom(value);
    return key->scheduler_key.has_value();
  }
  if (name == "secret_key") {
    key->secret_key = SecretKeyFrom(value);
    return key->secret_key.has_value();
  }
  return false;
}

// What `key` does not say is taken from `other`.
void Complete(const MemberKey& other, MemberKey* key) {
  if (key->scheduler.empty()) key->scheduler = other.scheduler;
  if (!key->scheduler_key) key->scheduler_key = other.scheduler_key;
  if (!key->secret_key) key->secret_key = other.secret_key;
}

// The address, or the first line of the file that file://PATH names.
Result<std::string> AddressIn(const std::string& given) {
  constexpr std::string_view kFile = "file://";
  if (!given.starts_with(kFile)) return given;
  const std::string path = given.substr(kFile.size());
  if (!path.starts_with('/')) {
    return BadInput(
        fmt::format("{}: a file's address is file:///PATH, with the whole path", given));
  }
  const Result<std::string> text = ReadWholeFile(path);
  Result<std::string> line = FirstLine(text.ok() ? *text : "", path);
  if (!line.ok() || !line->empty()) return line;
  return TryLater(
      fmt::format("{}: cannot be read, or is empty; the scheduler writes its address there "
                  "(scheduler.address in its run directory) when it starts",
                  path));
}

// Secrets that come from files end in a line end.
Result<MemberKey> FromJoinVariable(const char* text) {
  const Result<std::string> line = FirstLine(text, kJoinVariable);
  DSLIDE_RETURN_IF_ERROR(line);
  if (line->empty()) {
    return BadInput(
        fmt::format("{} is set, but empty; unset it or give it a join string", kJoinVariable));
  }
  Result<MemberKey> key = ParseJoinString(*line);
  if (key.ok()) return key;
  return BadInput(fmt::format("{}: {}", kJoinVariable, key.error().message));
}

// Of a service: systemd keeps other users from its directory, and may show a mode for the group.
bool IsCredential(const std::string& path) {
  const char* directory = std::getenv("CREDENTIALS_DIRECTORY");
  return directory != nullptr && *directory != '\0' &&
         path.starts_with(directory + std::string("/"));
}

}  // namespace

bool IsJoinString(const std::string& text) { return text.starts_with(kScheme); }

Result<MemberKey> ParseJoinString(const std::string& text) {
  const auto bad = [](const char* why) {
    return BadInput(
        fmt::format("the join string {} (expected dslide://HOST:PORT/KEY/KEY, as the "
                    "scheduler or `dslide key` prints it)",
                    why));
  };
  if (!IsJoinString(text)) return bad("does not begin with dslide://");
  std::vector<std::string> parts = {""};
  for (const char c : text.substr(kScheme.size())) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() < 2 || parts.size() > 3) return bad("is cut off");
  MemberKey key;
  key.scheduler = std::string(kTcp) + parts[0];
  if (!SetField("scheduler_key", parts[1], &key)) return bad("has a damaged first key");
  if (parts.size() == 3 && !SetField("secret_key", parts[2], &key)) {
    return bad("has a damaged second key");
  }
  return key;
}

std::string JoinString(const MemberKey& key) {
  std::string text = fmt::format("{}{}/{}", kScheme, key.scheduler.substr(kTcp.size()),
                                 TextOf(*key.scheduler_key));
  if (key.secret_key) text += "/" + TextOf(*key.secret_key);
  return text;
}

Result<MemberKey> ReadKeyFile(const std::string& path) {
  struct stat file;
  if (stat(path.c_str(), &file) == 0 && !IsCredential(path) &&
      (file.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return BadInput(fmt::format("{}: others may read it; chmod 600 {}", path, path));
  }
  const Result<std::string> text = ReadPlainText(path);
  DSLIDE_RETURN_IF_ERROR(text);
  MemberKey key;
  std::string_view rest = *text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = NextLine(&rest);
    if (Stripped(line.substr(0, line.find('#'))).empty()) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos ||
        !SetField(Stripped(line.substr(0, equals)), ReadValue(line.substr(equals + 1)).text,
                  &key)) {
      return BadInput(fmt::format(
          "{}:{}: expected scheduler = ADDRESS, scheduler_key = KEY or secret_key = KEY", path,
          number));
    }
  }
  return key;
}

Status WriteKeyFile(const std::string& path, const MemberKey& key, const std::string& comment) {
  std::string text = fmt::format("# {}. Who has it can join: keep it secret.\n", comment);
  if (!key.scheduler.empty()) text += fmt::format("scheduler = {}\n", QuotedValue(key.scheduler));
  if (key.scheduler_key) text += fmt::format("scheduler_key = {}\n", TextOf(*key.scheduler_key));
  if (key.secret_key) text += fmt::format("secret_key = {}\n", TextOf(*key.secret_key));
  return WriteSecretFile(path, text);
}

bool HasJoinVariable() { return std::getenv(kJoinVariable) != nullptr; }

Result<SchedulerAccess> AccessFrom(const std::string& given, const std::string& key_file) {
  const Result<std::string> line = FirstLine(given, "the scheduler's address");
  DSLIDE_RETURN_IF_ERROR(line);
  Result<std::string> named = AddressIn(*line);
  DSLIDE_RETURN_IF_ERROR(named);
  const std::string scheduler = *std::move(named);
  MemberKey key;
  if (IsJoinString(scheduler)) {
    Result<MemberKey> parsed = ParseJoinString(scheduler);
    DSLIDE_RETURN_IF_ERROR(parsed);
    key = *std::move(parsed);
  } else {
    key.scheduler = scheduler;
  }
  if (!key_file.empty()) {
    const Result<MemberKey> read = ReadKeyFile(key_file);
    DSLIDE_RETURN_IF_ERROR(read);
    if (!read->secret_key) {
      return BadInput(fmt::format("{}: has no secret_key; give the file of a key", key_file));
    }
    Complete(*read, &key);
  } else if (scheduler.empty()) {
    if (const char* text = std::getenv(kJoinVariable); text != nullptr) {
      Result<MemberKey> joined = FromJoinVariable(text);
      DSLIDE_RETURN_IF_ERROR(joined);
      key = *std::move(joined);
    }
  }
  if (key.scheduler.empty() && key.scheduler_key) {
    return TryLater(
        fmt::format("{}: does not have the scheduler's address yet; the scheduler writes it there "
                    "when it is ready; copy it again after that, if this is a copy",
                    key_file));
  }
  if (key.scheduler.empty()) {
    return BadInput(
        "the scheduler's address is missing: give --scheduler ADDRESS, a join string, or --key "
        "FILE");
  }
  if (!key.scheduler_key && !key.secret_key) return SchedulerAccess{key.scheduler, std::nullopt};
  if (!key.scheduler_key) {
    return BadInput(fmt::format(
        "{}: does not have the scheduler's key; give --scheduler dslide://HOST:PORT/KEY",
        key_file));
  }
  if (!key.secret_key) {
    return BadInput(
        "the join string has no secret key of its own; give --key FILE (dslide key draw makes "
        "one)");
  }
  return SchedulerAccess{key.scheduler, CurvePeer{KeyPairOf(*key.secret_key), *key.scheduler_key}};
}

}  // namespace dslide
