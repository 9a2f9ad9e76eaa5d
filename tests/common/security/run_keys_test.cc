#include "common/security/run_keys.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::run_keys_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNow = 1'763'985'600;  // 2025-11-24T12:00:00Z
constexpr const char* kAddress = "tcp://10.0.0.1:7700";

struct Fixture {
  TempDirectory directory;
  std::string run = directory.path();

  RunKeys Draw() {
    RunKeys keys = Ok(RunKeys::OpenOrDraw(run, kNow));
    REQUIRE(keys.Publish(kAddress).ok());
    return keys;
  }
  void WriteRing(const std::string& text) {
    REQUIRE(WriteSecretFile(run + "/keys/members", text).ok());
  }
  std::string ErrorOfRing(const std::string& line) {
    WriteRing("# first line\n" + line + "\n");
    const Result<RunKeys> keys = RunKeys::Open(run);
    if (keys.ok()) return "";
    CHECK(keys.error().kind == ErrorKind::kBadInput);
    return keys.error().message;
  }
};

Grant Worker(const std::string& name) { return {KeyRole::kWorker, name, {}, kNow}; }

// The public key of a new member.
PublicKey Allowed(RunKeys* keys, const Grant& grant) {
  return KeyPairOf(*Ok(keys->Allow(grant, std::nullopt)).secret_key).public_key;
}

TEST_CASE_FIXTURE(Fixture,
                  "run keys: a new run has a key of each role, for its owner's eyes only") {
  CHECK_FALSE(RunKeys::Exist(run));
  CHECK(MessageOf(RunKeys::Open(run)).starts_with(run + ": has no keys"));

  const RunKeys keys = Draw();
  std::set<std::string> roles;
  for (const Grant& grant : keys.ring().grants()) {
    CHECK(grant.name == NameOf(grant.role));
    CHECK(grant.expires_s == 0);
    roles.insert(grant.name);
    const MemberKey file = Ok(ReadKeyFile(keys.FileOf(grant.name)));
    CHECK(file.scheduler == kAddress);
    CHECK(file.scheduler_key == keys.scheduler().public_key);
    CHECK(KeyPairOf(*file.secret_key).public_key == grant.key);
  }
  CHECK(roles == std::set<std::string>{"server", "worker", "observer", "operator"});
  for (const auto& entry : fs::recursive_directory_iterator(run + "/keys")) {
    CAPTURE(entry.path());
    const bool has_secret = entry.path().filename() != "address";
    CHECK(((entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
           fs::perms::none) == has_secret);
  }
  CHECK((fs::status(run + "/keys").permissions() & fs::perms::others_all) == fs::perms::none);

  const RunKeys again = Ok(RunKeys::OpenOrDraw(run, kNow + 1));
  CHECK(again.scheduler().public_key == keys.scheduler().public_key);
  CHECK(again.ring().grants().size() == 4);
}

TEST_CASE_FIXTURE(Fixture, "run keys: keys are allowed, seen by a running scheduler, and revoked") {
  RunKeys of_scheduler = Draw();
  CHECK_FALSE(Ok(of_scheduler.Refresh()));

  RunKeys by_command = Ok(RunKeys::Open(run));
  Grant alice = Worker("alice");
  alice.expires_s = kNow + 60;
  alice.members = 2;
  const MemberKey key = Ok(by_command.Allow(alice, std::nullopt));
  const MemberKey parsed = Ok(ParseJoinString(JoinString(key)));
  CHECK(parsed.scheduler == kAddress);
  CHECK(parsed.scheduler_key == of_scheduler.scheduler().public_key);
  CHECK(TextOf(*parsed.secret_key) == TextOf(*key.secret_key));

  CHECK(Ok(of_scheduler.Refresh()));
  const PublicKey alices = KeyPairOf(*key.secret_key).public_key;
  const Grant* grant = of_scheduler.ring().Find(alices);
  REQUIRE(grant != nullptr);
  CHECK(grant->name == "alice");
  CHECK(grant->members == 2);
  CHECK_FALSE(grant->ExpiredAt(kNow + 59));
  CHECK(grant->ExpiredAt(kNow + 60));

  CHECK(MessageOf(by_command.Allow(alice, std::nullopt)).find("alice has a key already") == 0);
  REQUIRE(by_command.Revoke("alice").ok());
  CHECK_FALSE(fs::exists(by_command.FileOf("alice")));
  CHECK(by_command.Revoke("alice").error().message == "no key has the name alice");
  REQUIRE(of_scheduler.Refresh().ok());
  CHECK(of_scheduler.ring().Find(alices) == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "run keys: keys are allowed before the scheduler listens") {
  RunKeys keys = Ok(RunKeys::OpenOrDraw(run, kNow));
  const PublicKey own = DrawKeyPair().public_key;
  const MemberKey alice = Ok(keys.Allow(Worker("alice"), std::nullopt));
  CHECK(alice.scheduler.empty());
  CHECK(alice.secret_key);
  REQUIRE(keys.Allow(Worker("bob"), own).ok());
  REQUIRE(keys.Rotate("worker", kNow, kNow + 1).ok());
  CHECK(keys.KeyOf("alice")->scheduler.empty());
  CHECK(MessageOf(AccessFrom("", keys.FileOf("alice")), ErrorKind::kTryLater)
            .starts_with(keys.FileOf("alice") + ": does not have the"));
  REQUIRE(keys.Publish(kAddress).ok());
  for (const char* name : {"alice", "worker", "server"}) {
    CAPTURE(name);
    const MemberKey key = Ok(keys.KeyOf(name));
    CHECK(key.scheduler == kAddress);
    CHECK(key.secret_key);
  }
  CHECK(TextOf(*keys.KeyOf("alice")->secret_key) == TextOf(*alice.secret_key));
  const MemberKey bob = Ok(keys.KeyOf("bob"));
  CHECK(bob.scheduler == kAddress);
  CHECK_FALSE(bob.secret_key);
  CHECK(keys.KeyOf("carol").error().message == "no key has the name carol");
}

TEST_CASE_FIXTURE(Fixture, "run keys: a member's own key is let in, and its secret is nowhere") {
  RunKeys keys = Draw();
  const KeyPair own = DrawKeyPair();
  const MemberKey invitation = Ok(keys.Allow(Worker("bob"), own.public_key));
  CHECK_FALSE(invitation.secret_key);
  CHECK_FALSE(fs::exists(keys.FileOf("bob")));
  CHECK(MessageOf(keys.Allow(Worker("eve"), own.public_key)).find("is that of bob already") !=
        std::string::npos);
  // Two keys whose members' incarnations could not be told apart.
  PublicKey twin = own.public_key;
  twin.bytes[31] ^= 1;
  CHECK(keys.Allow(Worker("twin"), twin).error().message.find("begins like that of bob") !=
        std::string::npos);

  const std::string file = run + "/own.key";
  REQUIRE(WriteKeyFile(file, {"", std::nullopt, own.secret_key}, "test").ok());
  const SchedulerAccess access = Ok(AccessFrom(JoinString(invitation), file));
  CHECK(access.address == kAddress);
  CHECK(access.curve->own.public_key == own.public_key);
  CHECK(access.curve->peer == keys.scheduler().public_key);
  CHECK(AccessFrom(JoinString(invitation), "").error().message.find("has no secret key") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "run keys: a rotated key counts until its time is over") {
  RunKeys keys = Draw();
  const PublicKey before = keys.ring().grants()[1].key;
  const MemberKey next = Ok(keys.Rotate("worker", kNow + 10, kNow + 100));
  const Grant* old_grant = keys.ring().Find(before);
  REQUIRE(old_grant != nullptr);
  CHECK(old_grant->expires_s == kNow + 100);
  const Grant* new_grant = keys.ring().Find(KeyPairOf(*next.secret_key).public_key);
  REQUIRE(new_grant != nullptr);
  CHECK(new_grant->expires_s == 0);
  CHECK(new_grant->role == KeyRole::kWorker);
  CHECK(TextOf(*ReadKeyFile(keys.FileOf("worker"))->secret_key) == TextOf(*next.secret_key));
  CHECK(keys.Rotate("nobody", kNow, kNow).error().message == "no key has the name nobody");
}

TEST_CASE_FIXTURE(Fixture, "run keys: the file of members is read strictly") {
  (void)Draw();
  const std::string key = TextOf(DrawKeyPair().public_key);
  const std::string good =
      "worker alice " + key + " added=2025-11-24T12:00:00Z expires=never members=0";
  CHECK(ErrorOfRing(good) == "");
  const std::string where = run + "/keys/members:2: ";
  for (const std::string& bad : std::initializer_list<std::string>{
           "worker", "boss alice " + key + " added=never expires=never members=0",
           "scheduler alice " + key + " added=never expires=never members=0",
           "worker alice " + key + "x added=never expires=never members=0",
           "worker alice " + key + " added=now expires=never members=0",
           "worker alice " + key + " added=never expires=2025-11-24 members=0",
           "worker alice " + key + " added=never expires=never members=-1",
           "worker alice " + key + " expires=never added=never members=0", good + " more"}) {
    CAPTURE(bad);
    CHECK(ErrorOfRing(bad) ==
          where + "expected ROLE NAME KEY added=TIME expires=TIME members=COUNT");
  }
  CHECK(ErrorOfRing("worker a/b " + key + " added=never expires=never members=0").find(where) == 0);
  CHECK(ErrorOfRing(good + "\n" + good).find(run + "/keys/members:3: the key") == 0);
  // Two keys of one name are one that is being replaced; of two roles they cannot be.
  CHECK(ErrorOfRing(good + "\nserver alice " + TextOf(DrawKeyPair().public_key) +
                    " added=never expires=never members=0") ==
        run + "/keys/members:3: the name alice is that of a key of role worker");
}

TEST_CASE_FIXTURE(Fixture, "key files: read strictly, and by their owner only") {
  const std::string file = run + "/x.key";
  const KeyPair own = DrawKeyPair();
  REQUIRE(WriteKeyFile(file, {kAddress, own.public_key, own.secret_key}, "test").ok());
  CHECK(Ok(AccessFrom("", file)).address == kAddress);
  // The option goes before the file.
  CHECK(Ok(AccessFrom("tcp://10.0.0.2:1", file)).address == "tcp://10.0.0.2:1");

  CHECK(chmod(file.c_str(), 0640) == 0);
  CHECK(AccessFrom("", file).error().message == file + ": others may read it; chmod 600 " + file);
  const auto error_of = [&](const std::string& text) {
    REQUIRE(WriteSecretFile(file, text).ok());
    const std::string message = MessageOf(AccessFrom("", file));
    // What may be a secret is never shown.
    CHECK(message.find(TextOf(own.secret_key).substr(0, 10)) == std::string::npos);
    return message;
  };
  CHECK(error_of("secret " + TextOf(own.secret_key)).find(file + ":1: expected") == 0);
  CHECK(error_of("\nsecret_key = " + TextOf(own.secret_key) + "x").find(file + ":2: expected") ==
        0);
  CHECK(error_of("scheduler = tcp://a:1\nsecret_key = " + TextOf(own.secret_key))
            .find("does not have the scheduler's key") != std::string::npos);
  CHECK(error_of("# nothing").find("has no secret_key") != std::string::npos);
  CHECK(AccessFrom("", run + "/none.key").error().message.find(run + "/none.key: cannot open") ==
        0);
}

TEST_CASE_FIXTURE(Fixture, "the scheduler's address may be in a file, which may be there later") {
  const std::string file = run + "/scheduler.address";
  CHECK(MessageOf(AccessFrom("file://" + file, ""), ErrorKind::kTryLater)
            .starts_with(file + ": cannot be read, or is empty; "));
  std::ofstream(file) << "tcp://10.0.0.2:7700\n";
  CHECK(AccessFrom("file://" + file, "")->address == "tcp://10.0.0.2:7700");
  const KeyPair own = DrawKeyPair(), scheduler = DrawKeyPair();
  std::ofstream(file) << JoinString({kAddress, scheduler.public_key, own.secret_key});
  CHECK(AccessFrom("file://" + file, "")->curve->own.public_key == own.public_key);
  CHECK(AccessFrom("file://scheduler.address", "").error().kind == ErrorKind::kBadInput);
}

TEST_CASE_FIXTURE(Fixture,
                  "secrets: blanks, line ends and a byte order mark around them are ignored") {
  const KeyPair own = DrawKeyPair(), scheduler = DrawKeyPair();
  const std::string join = JoinString({kAddress, scheduler.public_key, own.secret_key});
  const std::string file = run + "/x";
  const auto keys = fmt::format("scheduler = {}\r\nscheduler_key = {} \r\n secret_key = {}\t\r\n",
                                kAddress, TextOf(scheduler.public_key), TextOf(own.secret_key));
  for (const auto& [before, after] :
       {std::pair("", ""), {"", "\n"}, {"", "\r\n"}, {" ", " \t\n"}, {"\xef\xbb\xbf", "\r\n"}}) {
    CAPTURE(after);
    const std::string text = before + join + after;
    const auto is_own = [&](const Result<SchedulerAccess>& read) {
      const SchedulerAccess access = Ok(read);
      CHECK(access.address == kAddress);
      CHECK(access.curve->own.public_key == own.public_key);
    };
    is_own(AccessFrom(text, ""));
    REQUIRE(WriteSecretFile(file, text).ok());
    is_own(AccessFrom("file://" + file, ""));
    setenv("DSLIDE_JOIN", text.c_str(), 1);
    is_own(AccessFrom("", ""));
    REQUIRE(WriteSecretFile(file, before + keys).ok());
    is_own(AccessFrom("", file));
  }
  const auto variable = [](const std::string& text) {
    setenv("DSLIDE_JOIN", text.c_str(), 1);
    return MessageOf(AccessFrom("", ""));
  };
  CHECK(variable(" \r\n") == "DSLIDE_JOIN is set, but empty; unset it or give it a join string");
  CHECK(variable(join.substr(0, 60) + "\x1b" + join.substr(60)) ==
        "DSLIDE_JOIN: line 1 has the control byte 0x1b; write it as plain text");
  unsetenv("DSLIDE_JOIN");
  // A file of members that was edited elsewhere.
  (void)Draw();
  const std::string grant = "worker alice " + TextOf(own.public_key) +
                            " added=2025-11-24T12:00:00Z expires=never members=0";
  WriteRing("\xef\xbb\xbf# edited\r\n\r\n" + grant + " \r\n");
  const RunKeys edited = Ok(RunKeys::Open(run));
  CHECK(edited.ring().grants().size() == 1);
  WriteRing("\xff\xfew");
  CHECK(RunKeys::Open(run).error().message == run + "/keys/members: is UTF-16; save it as UTF-8");
}

TEST_CASE_FIXTURE(Fixture, "key files: an address with '#' comes back") {
  const std::string file = run + "/x.key", address = "ipc://" + run + "/a #b";
  const KeyPair own = DrawKeyPair();
  REQUIRE(WriteKeyFile(file, {address, own.public_key, own.secret_key}, "test").ok());
  CHECK(ReadKeyFile(file)->scheduler == address);
}

TEST_CASE("join strings: damaged ones are refused without being shown") {
  const KeyPair own = DrawKeyPair(), scheduler = DrawKeyPair();
  const std::string good = JoinString({kAddress, scheduler.public_key, own.secret_key});
  CHECK(good ==
        "dslide://10.0.0.1:7700/" + TextOf(scheduler.public_key) + "/" + TextOf(own.secret_key));
  const SchedulerAccess access = Ok(AccessFrom(good, ""));
  CHECK(access.curve->own.public_key == own.public_key);
  for (const std::string& bad :
       std::vector<std::string>{good.substr(0, good.size() - 1), good + "x", good + "/",
                                "dslide://10.0.0.1:7700", "dslide://", good.substr(0, 40)}) {
    const std::string message = MessageOf(AccessFrom(bad, ""));
    CHECK(message.starts_with("the join string "));
    CHECK(message.find(TextOf(own.secret_key).substr(0, 10)) == std::string::npos);
  }
  CHECK_FALSE(AccessFrom("tcp://10.0.0.1:7700", "")->curve);
}

TEST_CASE_FIXTURE(Fixture, "run keys: what two processes change at a time both counts") {
  RunKeys scheduler = Draw();
  RunKeys command = *RunKeys::Open(run);
  const PublicKey alice = Allowed(&command, Worker("alice"));
  const PublicKey mallory = Allowed(&command, Worker("mallory"));
  // Each works by what it read before the other's change.
  REQUIRE(command.Revoke("alice").ok());
  REQUIRE(scheduler.Quarantine(mallory, {}, kNow).ok());
  REQUIRE(command.Allow(Worker("bob"), std::nullopt).ok());
  const RunKeys after = *RunKeys::Open(run);
  CHECK(after.ring().Find(alice) == nullptr);
  const Grant* liar = after.ring().Find(mallory);
  REQUIRE(liar != nullptr);
  CHECK(liar->quarantined_s == kNow);
}

TEST_CASE_FIXTURE(Fixture, "run keys: a quarantine ends with a key on whose word it rests") {
  RunKeys keys = Draw();
  const auto server = [&](const char* name) {
    Grant grant = Worker(name);
    grant.role = KeyRole::kServer;
    return Allowed(&keys, grant);
  };
  const PublicKey first = server("first"), second = server("second");
  const PublicKey accused = Allowed(&keys, Worker("alice")), seen = Allowed(&keys, Worker("bob"));
  REQUIRE(keys.Quarantine(accused, {FingerprintOf(first), FingerprintOf(second)}, kNow).ok());
  REQUIRE(keys.Quarantine(seen, {}, kNow).ok());
  CHECK(keys.LiftUnfounded()->empty());
  const auto in_quarantine = [&](const PublicKey& key) {
    return RunKeys::Open(run)->ring().Find(key)->quarantined_s != 0;
  };
  CHECK(in_quarantine(accused));
  SUBCASE("that is replaced") {
    REQUIRE(keys.Rotate("second", kNow, kNow + 1).ok());
    CHECK(keys.LiftUnfounded()->empty());
  }
  SUBCASE("that is revoked") {
    REQUIRE(keys.Revoke("second").ok());
    CHECK(*keys.LiftUnfounded() == std::vector<std::string>{"alice"});
    CHECK_FALSE(in_quarantine(accused));
  }
  SUBCASE("that has lied itself") {
    REQUIRE(keys.Quarantine(first, {}, kNow).ok());
    CHECK(*keys.LiftUnfounded() == std::vector<std::string>{"alice"});
    CHECK_FALSE(in_quarantine(accused));
  }
  CHECK(in_quarantine(seen));
}

TEST_CASE_FIXTURE(Fixture, "run keys: nobody takes the scheduler's place") {
  RunKeys keys = Draw();
  CHECK(MessageOf(keys.Allow(Worker("scheduler"), std::nullopt))
            .find("is that of the scheduler's own key") != std::string::npos);
  CHECK_FALSE(keys.Revoke("scheduler").ok());
  CHECK(MessageOf(keys.Allow(Worker("mallory"), keys.scheduler().public_key))
            .find("begins like that of the scheduler") != std::string::npos);
  CHECK(RunKeys::Open(run)->scheduler().public_key == keys.scheduler().public_key);
  CHECK(RunKeys::Open(run)->ring().grants().size() == 4);
  for (const char* name : {"../worker", ".worker", "-worker", ""}) {
    CHECK_FALSE(keys.Allow(Worker(name), std::nullopt).ok());
  }
}

TEST_CASE_FIXTURE(Fixture, "run keys: a rotated key is as good as the one before was at first") {
  RunKeys keys = Draw();
  Grant lent = Worker("alice");
  lent.expires_s = kNow + 100;
  REQUIRE(keys.Quarantine(Allowed(&keys, lent), {}, kNow).ok());
  const auto second = Ok(keys.Rotate("alice", kNow + 500, kNow + 500));
  const Grant* grant = keys.ring().Find(KeyPairOf(*second.secret_key).public_key);
  REQUIRE(grant != nullptr);
  CHECK(grant->CountsAt(kNow + 500));
  CHECK(grant->expires_s == kNow + 600);
}

TEST_CASE_FIXTURE(Fixture, "run keys: two keys of one second, and the next one counts for ever") {
  RunKeys keys = Draw();
  REQUIRE(keys.Allow(Worker("alice"), std::nullopt).ok());
  REQUIRE(keys.Rotate("alice", kNow, kNow + 60).ok());
  const auto third = Ok(keys.Rotate("alice", kNow + 2, kNow + 62));
  CHECK(keys.ring().Find(KeyPairOf(*third.secret_key).public_key)->expires_s == 0);
  CHECK_FALSE(std::filesystem::exists(keys.FileOf("alice") + ".drawn"));
}

TEST_CASE_FIXTURE(Fixture, "run keys: a change that cannot be stored leaves the key's file") {
  RunKeys keys = Draw();
  const std::string before = *ReadWholeFile(keys.FileOf("worker"));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(keys.Allow(Worker("worker-" + std::to_string(i)), std::nullopt).ok());
  }
  // Room for a key's file, and not for the ring.
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto old_action = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto rotated = keys.Rotate("worker", kNow, kNow);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  signal(SIGXFSZ, old_action);
  REQUIRE_FALSE(rotated.ok());
  CHECK(rotated.error().message.find("/keys/members") != std::string::npos);
  CHECK(*ReadWholeFile(keys.FileOf("worker")) == before);
  CHECK_FALSE(std::filesystem::exists(keys.FileOf("worker") + ".drawn"));
}

TEST_CASE_FIXTURE(Fixture, "run keys: a change that fails leaves the ring as it was") {
  RunKeys keys = Draw();
  CHECK_FALSE(keys.Revoke("nobody").ok());
  CHECK_FALSE(keys.Rotate("nobody", kNow, kNow).ok());
  CHECK(keys.ring().grants().size() == 4);
  CHECK(RunKeys::Open(run)->ring().grants().size() == 4);
  CHECK(ErrorOfRing("worker late " + TextOf(DrawKeyPair().public_key) +
                    " added=2025-11-24T12:00:00Z expires=1970-01-01T00:00:00Z members=0") != "");
}

}  // namespace
}  // namespace dslide::run_keys_test
