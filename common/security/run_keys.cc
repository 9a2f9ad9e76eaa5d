#include "common/security/run_keys.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/nearest.h"
#include "common/data/file_lock.h"
#include "common/data/whole_file.h"
#include "common/security/small_file.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr KeyRole kRoles[] = {KeyRole::kServer, KeyRole::kWorker, KeyRole::kObserver,
                              KeyRole::kOperator};
constexpr char kDrawnSuffix[] = ".drawn";  // of a key's file until the ring has the key

std::string DirectoryIn(const std::string& run_directory) { return run_directory + "/keys"; }

// Changes with every write of a file, which is a new file under the old name; "": there is none.
std::string VersionOf(const std::string& path) {
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return "";
  return fmt::format("{}.{} {} {}", file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_ino,
                     file.st_size);
}

Error NoKeyHas(const std::string& name) {
  return BadInput(fmt::format("no key has the name {}", Printable(name)));
}

}  // namespace

bool RunKeys::Exist(const std::string& run_directory) {
  std::error_code ignored;
  return fs::exists(DirectoryIn(run_directory) + "/scheduler.key", ignored);
}

Result<RunKeys> RunKeys::Open(const std::string& run_directory) {
  RunKeys keys(DirectoryIn(run_directory));
  if (!Exist(run_directory)) {
    return BadInput(
        fmt::format("{}: has no keys; a run makes them when it listens outside loopback, or with "
                    "security.encryption = always; `dslide key init` draws them before",
                    Printable(run_directory)));
  }
  const std::string own = keys.directory_ + "/scheduler.key";
  const Result<MemberKey> scheduler = ReadKeyFile(own);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  if (!scheduler->secret_key) return BadInput(fmt::format("{}: has no secret_key", own));
  keys.scheduler_ = KeyPairOf(*scheduler->secret_key);
  const Result<bool> read = keys.Refresh();
  DSLIDE_RETURN_IF_ERROR(read);
  return keys;
}

Result<RunKeys> RunKeys::OpenOrDraw(const std::string& run_directory, int64_t now_s) {
  if (Exist(run_directory)) return Open(run_directory);
  RunKeys keys(DirectoryIn(run_directory));
  std::error_code error;
  fs::create_directories(keys.directory_, error);
  if (!error) fs::permissions(keys.directory_, fs::perms::owner_all, error);
  if (error) return Failed(fmt::format("{}: cannot create: {}", keys.directory_, error.message()));
  keys.scheduler_ = DrawKeyPair();
  for (const KeyRole role : kRoles) {
    const KeyPair member = DrawKeyPair();
    const Grant grant = {role, std::string(NameOf(role)), member.public_key, now_s};
    DSLIDE_RETURN_IF_ERROR(keys.ring_.Allow(grant));
    DSLIDE_RETURN_IF_ERROR(
        keys.WriteKeyOf(grant.name, "", {"", keys.scheduler_.public_key, member.secret_key}));
  }
  DSLIDE_RETURN_IF_ERROR(keys.ring_.Write(keys.RingPath()));
  keys.ring_version_ = VersionOf(keys.RingPath());
  // Last: with it the keys are complete.
  DSLIDE_RETURN_IF_ERROR(WriteKeyFile(keys.directory_ + "/scheduler.key",
                                      {"", std::nullopt, keys.scheduler_.secret_key},
                                      "The scheduler's own key"));
  return keys;
}

std::string RunKeys::FileOf(const std::string& name) const {
  return fmt::format("{}/{}.key", directory_, name);
}

Status RunKeys::WriteKeyOf(const std::string& name, const std::string& suffix,
                           const MemberKey& key) const {
  return WriteKeyFile(FileOf(name) + suffix, key, fmt::format("The key {} of a run", name));
}

Status RunKeys::Publish(const std::string& scheduler_address) {
  const Result<FileLock> lock = Lock();
  DSLIDE_RETURN_IF_ERROR(lock);
  DSLIDE_RETURN_IF_ERROR(Refresh());
  DSLIDE_RETURN_IF_ERROR(WriteWholeFile(directory_ + "/address", scheduler_address + "\n"));
  for (const Grant& grant : ring_.grants()) {
    std::error_code ignored;
    if (!fs::exists(FileOf(grant.name), ignored)) continue;  // the member has a key of its own
    Result<MemberKey> key = ReadKeyFile(FileOf(grant.name));
    DSLIDE_RETURN_IF_ERROR(key);
    key->scheduler = scheduler_address;
    key->scheduler_key = scheduler_.public_key;
    DSLIDE_RETURN_IF_ERROR(WriteKeyOf(grant.name, "", *key));
  }
  return {};
}

Result<bool> RunKeys::Refresh() {
  const std::string version = VersionOf(RingPath());
  if (version == ring_version_ && !version.empty()) return false;
  Result<KeyRing> ring = KeyRing::Read(RingPath());
  DSLIDE_RETURN_IF_ERROR(ring);
  ring_ = *std::move(ring);
  ring_version_ = version;
  return true;
}

// Held while a process reads, changes and writes the ring or key files: the scheduler and commands
// do.
Result<FileLock> RunKeys::Lock() const {
  return FileLock::Wait(directory_ + "/lock", FileLock::Links::kRefused);
}

Status RunKeys::Change(const std::function<Status()>& change) {
  const Result<FileLock> lock = Lock();
  DSLIDE_RETURN_IF_ERROR(lock);
  DSLIDE_RETURN_IF_ERROR(Refresh());
  const KeyRing before = ring_;
  drawn_.clear();
  Status done = change();
  if (done.ok()) done = ring_.Write(RingPath());
  if (!done.ok()) ring_ = before;
  if (drawn_.empty()) return done;
  const std::string file = FileOf(drawn_), waiting = file + kDrawnSuffix;
  std::error_code error;
  if (!done.ok()) {
    fs::remove(waiting, error);
    return done;
  }
  fs::rename(waiting, file, error);
  if (!error) return {};
  return Failed(fmt::format("{}: cannot be renamed: {}", waiting, error.message()));
}

bool RunKeys::HasName(const std::string& name) const {
  return std::ranges::any_of(ring_.grants(),
                             [&](const Grant& grant) { return grant.name == name; });
}

Result<MemberKey> RunKeys::KeyOf(const std::string& name) const {
  if (!HasName(name)) return NoKeyHas(name);
  std::error_code ignored;
  return fs::exists(FileOf(name), ignored) ? ReadKeyFile(FileOf(name)) : Invitation();
}

Result<MemberKey> RunKeys::Invitation() const {
  const std::string path = directory_ + "/address";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return MemberKey{"", scheduler_.public_key, std::nullopt};
  const Result<std::string> address = ReadFirstLine(path);
  DSLIDE_RETURN_IF_ERROR(address);
  return MemberKey{*address, scheduler_.public_key, std::nullopt};
}

Result<MemberKey> RunKeys::Allow(const Grant& grant, const std::optional<PublicKey>& own) {
  MemberKey key;
  const Status changed = Change([&]() -> Status {
    if (HasName(grant.name)) {
      return BadInput(
          fmt::format("{} has a key already; choose another name, or replace the key by "
                      "`dslide key rotate`",
                      grant.name));
    }
    return Add(grant, own, &key);
  });
  DSLIDE_RETURN_IF_ERROR(changed);
  return key;
}

Status RunKeys::Add(Grant grant, const std::optional<PublicKey>& own, MemberKey* key) {
  Result<MemberKey> invitation = Invitation();
  DSLIDE_RETURN_IF_ERROR(invitation);
  if (own) {
    grant.key = *own;
  } else {
    const KeyPair drawn = DrawKeyPair();
    grant.key = drawn.public_key;
    invitation->secret_key = drawn.secret_key;
  }
  if (FingerprintOf(grant.key) == FingerprintOf(scheduler_.public_key)) {
    return BadInput(fmt::format("the key {} begins like that of the scheduler; draw another one",
                                ShortTextOf(grant.key)));
  }
  DSLIDE_RETURN_IF_ERROR(ring_.Allow(grant));
  if (!own) {
    drawn_ = grant.name;
    DSLIDE_RETURN_IF_ERROR(WriteKeyOf(grant.name, kDrawnSuffix, *invitation));
  }
  *key = *std::move(invitation);
  return {};
}

Status RunKeys::Revoke(const std::string& name) {
  DSLIDE_RETURN_IF_ERROR(Change([&] { return ring_.Revoke(name); }));
  std::error_code ignored;
  fs::remove(FileOf(name), ignored);
  fs::remove(FileOf(name) + kDrawnSuffix, ignored);
  return {};
}

Status RunKeys::Quarantine(const PublicKey& key, std::vector<uint32_t> accusers, int64_t now_s) {
  return Change([&] { return ring_.Quarantine(key, std::move(accusers), now_s); });
}

Result<std::vector<std::string>> RunKeys::LiftUnfounded() {
  std::vector<std::string> lifted;
  if (!ring_.HasUnfounded()) return lifted;
  DSLIDE_RETURN_IF_ERROR(Change([&]() -> Status {
    lifted = ring_.LiftUnfounded();
    return {};
  }));
  return lifted;
}

Result<MemberKey> RunKeys::Rotate(const std::string& name, int64_t now_s, int64_t until_s) {
  MemberKey key;
  const Status changed = Change([&]() -> Status {
    // The last one: a second may have two, and a clock may have been set back.
    const Grant* newest = nullptr;
    for (const Grant& grant : ring_.grants()) {
      if (grant.name == name) newest = &grant;
    }
    if (newest == nullptr) return NoKeyHas(name);
    Grant next = *newest;
    if (next.expires_s != 0) next.expires_s = now_s + (next.expires_s - next.added_s);
    next.added_s = now_s;
    next.quarantined_s = 0;
    next.accusers.clear();
    DSLIDE_RETURN_IF_ERROR(ring_.Expire(name, until_s));
    return Add(next, std::nullopt, &key);
  });
  DSLIDE_RETURN_IF_ERROR(changed);
  return key;
}

}  // namespace dslide
