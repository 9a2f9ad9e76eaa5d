// Encrypted runs: members with keys train, and whoever has no right key stays out.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <signal.h>

#include <map>

#include "common/data/whole_file.h"
#include "common/net/member_link.h"
#include "common/security/run_keys.h"
#include "tests/cluster/cluster.h"
#include "tests/support/events.h"
#include "tests/support/results.h"

namespace dslide::keys_test {
namespace {

constexpr int64_t kLongAgo = 1'000'000'000;

const Arguments kEncrypted = {"--set", "security.encryption=always"};

// An encrypted run that goes on until it is stopped.
struct LongRun {
  TestRun run;
  std::unique_ptr<Process> train;

  LongRun() {
    Arguments more = kEncrypted;
    more.insert(more.end(), {"--set", "train.epochs=1000"});
    train = run.Train(more, kSlowly);
    REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  }
  ~LongRun() {
    train->Signal(SIGTERM);
    (void)train->Wait();
  }
  std::string Key(const std::string& name) const {
    return run.run_directory() + "/keys/" + name + ".key";
  }
  RunKeys Keys() const { return Ok(RunKeys::Open(run.run_directory())); }
  // What a command says when it is refused.
  std::string Refused(const std::string& program, const Arguments& arguments, int code) {
    CAPTURE(program);
    CHECK(run.Run(program, arguments) == code);
    const std::string& errors = run.last_errors();
    return errors.substr(errors.find(program + ": ") + program.size() + 2);
  }
  // A worker by name in the roster.
  bool Has(const std::string& worker) const {
    const nlohmann::json status = run.Status();
    if (!status.contains("members")) return false;
    for (const auto& entry : status["members"]) {
      if (entry["name"] == worker) return true;
    }
    return false;
  }
};

TEST_CASE("keys: an encrypted cluster trains, and its ledger is complete") {
  TestRun run;
  const auto train = run.Train(kEncrypted);
  CHECK(train->Wait() == 0);
  CHECK(run.Summary()["p_at_1"] > 0.9);
  CHECK(Contains(run.WorkerLog(1), ", encrypted"));
  CHECK(Contains(run.ServerLog(1), ", encrypted"));
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
}

TEST_CASE("keys: who has no right key stays out, and is told why") {
  LongRun run;
  const std::string address = run.run.SchedulerAddress();
  // Without a key, and with a scheduler's key that is another's: the connections come to nothing.
  const auto plain = run.run.Start("dslide-worker", {"--scheduler", address});
  RunKeys keys = run.Keys();
  const Result<MemberKey> worker = ReadKeyFile(run.Key("worker"));
  REQUIRE(worker.ok());
  MemberKey deceived = *worker;
  deceived.scheduler_key = DrawKeyPair().public_key;
  const auto other = run.run.Start("dslide-worker", {"--scheduler", JoinString(deceived)});

  MemberKey unknown = *worker;
  unknown.secret_key = DrawKeyPair().secret_key;
  const std::string stays_out = "the scheduler at " + address + " does not let the key ";
  for (const char* program : {"dslide-worker", "dslide-server"}) {
    CHECK(run.Refused(program, {"--scheduler", JoinString(unknown)}, 2).find(stays_out) == 0);
  }
  CHECK(run.Refused("dslide", {"status", "--scheduler", JoinString(unknown)}, 2).find(stays_out) !=
        std::string::npos);

  Grant expired = {KeyRole::kWorker, "late", {}, kLongAgo, kLongAgo + 1};
  const MemberKey late = Ok(keys.Allow(expired, std::nullopt));
  CHECK(run.Refused("dslide-worker", {"--key", run.Key("late")}, 2).find(stays_out) == 0);

  // A right key of another role.
  CHECK(run.Refused("dslide-server", {"--key", run.Key("worker")}, 2) ==
        "a key of role worker may not join as server\n");
  CHECK(run.Refused("dslide-worker", {"--key", run.Key("observer")}, 2) ==
        "a key of role observer may not join as worker\n");

  CHECK(plain->Wait() == 75);
  CHECK(Contains(plain->Errors(), "it may want a key (--key FILE or a join string)"));
  CHECK(other->Wait() == 75);
  CHECK(Contains(other->Errors(),
                 "the key or join string given here is for another run or mistyped"));
  CHECK(run.train->Running());
}

TEST_CASE("keys: observers look, operators act") {
  LongRun run;
  CHECK(run.run.Run("dslide", {"status", "--key", run.Key("observer")}) == 0);
  CHECK(run.Refused("dslide", {"run", "drain", "server-1", "--key", run.Key("observer")}, 1)
            .find("a key of role observer may not send DrainServer") != std::string::npos);
  CHECK(run.Refused("dslide", {"run", "checkpoint", "--key", run.Key("observer")}, 1)
            .find("may not send CheckpointNow") != std::string::npos);
  CHECK(run.run.Run("dslide", {"run", "checkpoint", "--key", run.Key("operator")}) == 0);
  // A key may be used as soon as it is made; the scheduler hears of it within a second.
  CHECK(run.run.Run("dslide", {"key", "allow", run.run.run_directory(), "--role", "observer",
                               "--name", "fresh"}) == 0);
  CHECK(run.run.Run("dslide", {"status", "--key", run.Key("fresh")}) == 0);
}

TEST_CASE("keys: one member cannot speak for another") {
  LongRun run;
  RunKeys keys = run.Keys();
  const Result<MemberKey> eve = keys.Allow({KeyRole::kWorker, "eve", {}, 0}, std::nullopt);
  REQUIRE(eve.ok());
  const SchedulerAccess access = *AccessFrom(JoinString(*eve), "");
  NetContext context;
  DealerSocket socket = *DealerSocket::Connect(context, access.address, access.curve);
  uint64_t request = 0;
  const auto ask = [&](Incarnation as, const Body& body) {
    Poller poller;
    poller.Add(socket);
    ++request;
    std::optional<Message> message;
    // A refused connection loses what was sent, and the scheduler learns of a new key in a second.
    REQUIRE(WaitFor([&] {
      (void)socket.TakeFailure();
      (void)socket.Send(Encode({{{}, as, request}, body}, WirePrecision::kFp32));
      poller.Wait(100);
      while (const auto answer = socket.Receive()) {
        Message decoded = Ok(Decode(*answer));
        if (decoded.envelope.reply_to == request) message = std::move(decoded);
      }
      return message.has_value();
    }));
    const auto* error = std::get_if<ErrorReply>(&message->body);
    return error == nullptr ? std::string(BodyName(message->body)) : error->text;
  };
  // The incarnations of another key's members: the launched worker's and a server's.
  for (const char* name : {"worker-1", "server"}) {
    const KeyPair victim = KeyPairOf(*ReadKeyFile(run.Key(name))->secret_key);
    for (const Body& body : {Body(Leave()), Body(Heartbeat()), Body(Join())}) {
      CHECK(ask(DrawIncarnation(victim), body).find("speaks for another member") !=
            std::string::npos);
    }
  }
  const Incarnation own = DrawIncarnation(access.own());
  CHECK(ask(own, CheckpointDone()) ==
        "a key of role worker may not send CheckpointDone to the scheduler");
  CHECK(ask(own, DrainServer{"server-1"}) ==
        "a key of role worker may not send DrainServer to the scheduler");
  CHECK(run.Has("worker-1"));
}

TEST_CASE("keys: revoked, rotated and counted while the run goes on") {
  LongRun run;
  RunKeys keys = run.Keys();
  Grant alice = {KeyRole::kWorker, "alice", {}, 0};
  alice.members = 1;
  REQUIRE(keys.Allow(alice, std::nullopt).ok());
  const auto first = run.run.Start("dslide-worker", {"--key", run.Key("alice"), "--name", "first"});
  REQUIRE(WaitFor([&] { return run.run.TrainedSamples("first") > 0; }));
  CHECK(run.Refused("dslide-worker", {"--key", run.Key("alice")}, 75) ==
        "the key alice is for 1 member at once\n");

  // What alice's key has done, whatever her members are called.
  REQUIRE(run.run.Run("dslide", {"ledger", "contributions", run.run.run_directory(), "--json"}) ==
          0);
  std::map<std::string, uint64_t> samples;
  for (const auto& entry : nlohmann::json::parse(run.run.last_output())) {
    samples[entry["name"]] = entry["samples"];
    CHECK(entry["days"].size() >= 1);
    CHECK_FALSE(entry["days"].contains("unknown"));
  }
  CHECK(samples["alice"] > 0);
  CHECK(samples["worker-1"] > 0);
  CHECK(samples.size() == 2);
  CHECK(run.run.Status()["contributions"].size() == 2);

  // Another key for the launched worker: the old one still counts, the new one does, too.
  CHECK(run.run.Run("dslide", {"key", "rotate", run.run.run_directory(), "--name", "worker-1"}) ==
        0);
  const auto second =
      run.run.Start("dslide-worker", {"--key", run.Key("worker-1"), "--name", "new"});
  REQUIRE(WaitFor([&] { return run.run.TrainedSamples("new") > 0; }));
  CHECK(run.Has("worker-1"));

  CHECK(run.run.Run("dslide", {"key", "revoke", run.run.run_directory(), "--name", "alice"}) == 0);
  CHECK(first->Wait() == 2);
  CHECK(Contains(first->Errors(), "does not count here any more"));
  CHECK(WaitFor([&] { return !run.Has("first"); }));
  CHECK(run.Has("new"));
  second->Signal(SIGTERM);
  CHECK(second->Wait() == 0);
}

// What a member hears at a connection until `wanted` is there.
template <typename T>
std::optional<T> Hear(DealerSocket* socket, const Message& says) {
  Poller poller;
  poller.Add(*socket);
  std::optional<T> wanted;
  (void)WaitFor([&] {
    (void)socket->TakeFailure();
    (void)socket->Send(Encode(says, WirePrecision::kFp32));
    poller.Wait(100);
    while (const auto bytes = socket->Receive()) {
      Message message = Ok(Decode(*bytes));
      if (auto* body = std::get_if<T>(&message.body)) wanted = std::move(*body);
    }
    return wanted.has_value();
  });
  return wanted;
}

TEST_CASE("keys: a member whose connection broke is told again who counts") {
  LongRun run;
  const SchedulerAccess access = *AccessFrom("", run.Key("worker"));
  NetContext context;
  const Incarnation self = DrawIncarnation(access.own());
  Join join;
  join.role = Role::kWorker;
  join.name = "redials";
  uint64_t sequence = 0;
  RunId run_id;
  {
    DealerSocket first = *DealerSocket::Connect(context, access.address, access.curve);
    Poller poller;
    poller.Add(first);
    bool joined = false, told = false;
    REQUIRE(WaitFor([&] {
      if (!joined) (void)first.Send(Encode({{{}, self, ++sequence}, join}, WirePrecision::kFp32));
      poller.Wait(100);
      while (const auto bytes = first.Receive()) {
        const Message message = Ok(Decode(*bytes));
        run_id = message.envelope.run;
        joined |= std::holds_alternative<JoinReply>(message.body);
        told |= std::holds_alternative<AccessList>(message.body);
      }
      return joined && told;
    }));
  }
  DealerSocket second = *DealerSocket::Connect(context, access.address, access.curve);
  const auto list = Hear<AccessList>(&second, {{run_id, self, ++sequence}, Heartbeat()});
  REQUIRE(list);
  REQUIRE(list->keys.size() == 2);  // of all servers, and of the one that was launched
  for (const AccessKey& key : list->keys) CHECK(key.role == KeyRole::kServer);
}

TEST_CASE("keys: what is no key is never taken for a run without keys") {
  LongRun run;
  const std::string empty = run.run.Path("empty.key");
  REQUIRE(WriteSecretFile(empty, "# nothing\n").ok());
  const Arguments with_empty = {"--scheduler", run.run.SchedulerAddress(), "--key", empty};
  for (const char* program : {"dslide-worker", "dslide-server"}) {
    CHECK(run.Refused(program, with_empty, 2).find("has no secret_key") != std::string::npos);
  }
  // A damaged join string is a secret still.
  const Result<MemberKey> worker = ReadKeyFile(run.Key("worker"));
  REQUIRE(worker.ok());
  const std::string secret = TextOf(*worker->secret_key);
  for (const std::string& damaged :
       {"dslid://h:1/" + secret, "tcp://h:1/" + TextOf(*worker->scheduler_key) + "/" + secret}) {
    const std::string refused = run.Refused("dslide-worker", {"--scheduler", damaged}, 2);
    CHECK(refused.find(secret.substr(0, 8)) == std::string::npos);
  }
  // Every user can read the command line of every process.
  const auto joined = run.run.Start("dslide-worker", {"--scheduler", JoinString(*worker)});
  CHECK(WaitFor([&] { return Contains(joined->Errors(), "[scheduler.join] joined as worker"); }));
  const std::string command = ReadFile(fmt::format("/proc/{}/cmdline", joined->pid()));
  CHECK(Contains(command, "dslide://xxx"));
  CHECK_FALSE(Contains(command, secret.substr(0, 8)));
  joined->Signal(SIGTERM);
  CHECK(joined->Wait() == 0);
  CHECK(run.run.Run("dslide", {"key", "draw", "--output", run.run.Path("own.key")}) == 0);
  CHECK(run.run.Run("dslide", {"key", "draw", "--output", run.run.Path("own.key")}) == 2);
}

}  // namespace
}  // namespace dslide::keys_test
