#include "common/security/key_ring.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/nearest.h"
#include "common/config/config_fields.h"
#include "common/config/small_text.h"
#include "common/data/whole_file.h"
#include "common/security/small_file.h"

namespace dslide {
namespace {

constexpr size_t kMostNameBytes = 32;
constexpr std::string_view kScheduler = "scheduler";  // whose own key has that file
constexpr const char* kTimeForm = "%Y-%m-%dT%H:%M:%SZ";

bool IsName(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, allowed) &&
         name.front() != '.' && name.front() != '-';
}

std::optional<int64_t> TimeFrom(const std::string& text) {
  if (text == "never") return 0;
  std::tm parts = {};
  const char* end = strptime(text.c_str(), kTimeForm, &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const int64_t seconds = timegm(&parts);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;  // 0 means never
}

// "by=0123abcd,..." or nothing.
std::optional<std::vector<uint32_t>> AccusersFrom(std::string_view word) {
  constexpr std::string_view kField = "by=";
  std::vector<uint32_t> accusers;
  if (word.empty()) return accusers;
  if (!word.starts_with(kField)) return std::nullopt;
  word.remove_prefix(kField.size());
  while (true) {
    const std::string_view digits = word.substr(0, word.find(','));
    uint32_t fingerprint = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), fingerprint, 16);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    accusers.push_back(fingerprint);
    if (digits.size() == word.size()) return accusers;
    word.remove_prefix(digits.size() + 1);
  }
}

std::string QuarantineText(const Grant& grant) {
  if (grant.quarantined_s == 0) return "";
  std::string text = " quarantined=" + TimeText(grant.quarantined_s);
  const char* before = " by=";  // fmt::join() would have g++ 12 warn of its code at -O3
  for (const uint32_t accuser : grant.accusers) {
    text += fmt::format("{}{:08x}", std::exchange(before, ","), accuser);
  }
  return text;
}

std::optional<Grant> GrantFrom(const std::string& line) {
  std::istringstream words(line);
  std::string role, name, key, added, expires, members, quarantined = "quarantined=never", by, more;
  words >> role >> name >> key >> added >> expires >> members;
  if (words >> more) quarantined = more;
  words >> by;
  if (words >> more) return std::nullopt;
  const auto value = [](const std::string& word, std::string_view field) {
    return word.starts_with(field) ? std::optional(word.substr(field.size())) : std::nullopt;
  };
  const auto known_role = KeyRoleFrom(role);
  const auto known_key = PublicKeyFrom(key);
  const auto added_text = value(added, "added="), expires_text = value(expires, "expires="),
             members_text = value(members, "members="),
             quarantined_text = value(quarantined, "quarantined=");
  if (!known_role || !known_key || !added_text || !expires_text || !members_text ||
      !quarantined_text) {
    return std::nullopt;
  }
  const auto added_s = TimeFrom(*added_text), expires_s = TimeFrom(*expires_text),
             quarantined_s = TimeFrom(*quarantined_text);
  const std::optional<uint32_t> count = ParseNumber<uint32_t>(*members_text);
  const std::optional<std::vector<uint32_t>> accusers = AccusersFrom(by);
  if (!added_s || !expires_s || !quarantined_s || !count || !accusers) return std::nullopt;
  return Grant{*known_role, name,   *known_key,     *added_s,
               *expires_s,  *count, *quarantined_s, *accusers};
}

}  // namespace

std::string TimeText(int64_t seconds) {
  if (seconds == 0) return "never";
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Result<KeyRing> KeyRing::Read(const std::string& path) {
  const Result<std::string> text = ReadPlainText(path);
  DSLIDE_RETURN_IF_ERROR(text);
  KeyRing ring;
  std::string_view rest = *text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = Stripped(NextLine(&rest));
    if (line.empty() || line.starts_with('#')) continue;
    const std::optional<Grant> grant = GrantFrom(std::string(line));
    if (!grant) {
      return BadInput(fmt::format(
          "{}:{}: expected ROLE NAME KEY added=TIME expires=TIME members=COUNT", path, number));
    }
    if (const Status allowed = ring.Allow(*grant); !allowed.ok()) {
      return BadInput(fmt::format("{}:{}: {}", path, number, allowed.error().message));
    }
  }
  return ring;
}

Status KeyRing::Write(const std::string& path) const {
  std::string text =
      "# The keys that may join this run; `dslide key` changes them while it goes on.\n";
  for (const Grant& grant : grants_) {
    text += fmt::format("{} {} {} added={} expires={} members={}{}\n", NameOf(grant.role),
                        grant.name, TextOf(grant.key), TimeText(grant.added_s),
                        TimeText(grant.expires_s), grant.members, QuarantineText(grant));
  }
  return WriteSecretFile(path, text);
}

const Grant* KeyRing::Find(const PublicKey& key) const {
  const auto found = std::ranges::find(grants_, key, &Grant::key);
  return found == grants_.end() ? nullptr : &*found;
}

Status KeyRing::Allow(const Grant& grant) {
  if (!IsName(grant.name)) {
    return BadInput(
        fmt::format("the name {}: must be 1 to {} letters, digits, '-', '_' or '.', and begin with "
                    "a letter, a digit or '_'",
                    Printable(grant.name), kMostNameBytes));
  }
  if (grant.name == kScheduler) {
    return BadInput("the name scheduler: is that of the scheduler's own key; choose another one");
  }
  for (const Grant& other : grants_) {
    if (other.key == grant.key) {
      return BadInput(
          fmt::format("the key {} is that of {} already", ShortTextOf(grant.key), other.name));
    }
    if (FingerprintOf(other.key) == FingerprintOf(grant.key)) {
      return BadInput(fmt::format("the key {} begins like that of {}; draw another one",
                                  ShortTextOf(grant.key), other.name));
    }
    if (other.name == grant.name && other.role != grant.role) {
      return BadInput(
          fmt::format("the name {} is that of a key of role {}", grant.name, NameOf(other.role)));
    }
  }
  grants_.push_back(grant);
  return {};
}

Status KeyRing::Revoke(const std::string& name) {
  if (std::erase_if(grants_, [&](const Grant& grant) { return grant.name == name; }) > 0) return {};
  return BadInput(fmt::format("no key has the name {}", Printable(name)));
}

Status KeyRing::Quarantine(const PublicKey& key, std::vector<uint32_t> accusers, int64_t now_s) {
  const auto found = std::ranges::find(grants_, key, &Grant::key);
  if (found == grants_.end()) {
    return BadInput(fmt::format("there is no key {}", ShortTextOf(key)));
  }
  found->quarantined_s = now_s;
  found->accusers = std::move(accusers);
  return {};
}

bool KeyRing::IsUnfounded(const Grant& grant) const {
  const auto stands = [&](uint32_t accuser) {
    return std::ranges::any_of(grants_, [&](const Grant& other) {
      return FingerprintOf(other.key) == accuser && other.quarantined_s == 0;
    });
  };
  return grant.quarantined_s != 0 && !std::ranges::all_of(grant.accusers, stands);
}

bool KeyRing::HasUnfounded() const {
  return std::ranges::any_of(grants_, [&](const Grant& grant) { return IsUnfounded(grant); });
}

std::vector<std::string> KeyRing::LiftUnfounded() {
  std::vector<Grant*> unfounded;  // found before any is freed: a freed key accuses from now on only
  for (Grant& grant : grants_) {
    if (IsUnfounded(grant)) unfounded.push_back(&grant);
  }
  std::vector<std::string> lifted;
  for (Grant* grant : unfounded) {
    grant->quarantined_s = 0;
    grant->accusers.clear();
    lifted.push_back(grant->name);
  }
  return lifted;
}

Status KeyRing::Expire(const std::string& name, int64_t at_s) {
  bool found = false;
  for (Grant& grant : grants_) {
    if (grant.name != name) continue;
    found = true;
    if (grant.expires_s == 0 || grant.expires_s > at_s) grant.expires_s = at_s;
  }
  if (found) return {};
  return BadInput(fmt::format("no key has the name {}", Printable(name)));
}

}  // namespace dslide
