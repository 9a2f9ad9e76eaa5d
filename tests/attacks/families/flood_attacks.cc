// Too much of what is allowed: messages, joins, memory. Every flood is paced and bounded.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <zmq.hpp>

#include "common/base/process.h"
#include "tests/attacks/intruder.h"

namespace dslide::flood_attacks {
namespace {

// A zmq socket of one's own, for messages that no DealerSocket sends.
class RawDealer {
 public:
  RawDealer(const Strike& strike, const std::string& address, const std::optional<PublicKey>& peer)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 100);
    socket_.set(zmq::sockopt::sndtimeo, 1000);
    if (const auto keys = strike.To(peer)) {
      const auto set = [&](auto option, const auto& bytes) {
        socket_.set(option, zmq::const_buffer(bytes.data(), bytes.size()));
      };
      set(zmq::sockopt::curve_serverkey, keys->peer.bytes);
      set(zmq::sockopt::curve_publickey, keys->own.public_key.bytes);
      set(zmq::sockopt::curve_secretkey, keys->own.secret_key.bytes());
    }
    socket_.connect(address);
  }
  bool Send(const Bytes& frame, bool more) {
    const auto flags = more ? zmq::send_flags::sndmore : zmq::send_flags::none;
    return socket_.send(zmq::buffer(frame), flags).has_value();
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

constexpr uint32_t kMostSamples = 512;  // that a server takes where batches are smaller

// Samples with a feature each that the server owns, so that its reply is full of numbers; or none.
EmbedRequest Untrained(uint32_t samples, std::optional<uint32_t> feature = std::nullopt) {
  EmbedRequest request;
  for (uint32_t i = 0; i < samples; ++i) {
    if (feature) {
      request.features.ids.push_back(*feature);
      request.features.values.push_back(1);
    }
    request.features.EndRow();
  }
  return request;
}

// Asks in a loop, and reads the answers.
void StatusRequests(Strike& strike) {
  Repeat(strike,
         {.per_second = 1000, .what = "requests", .role = Role::kObserver, .listens_every = 10},
         [](Intruder& eve, uint64_t) { eve.Tell(StatusRequest()); });
}

// The same, and does not read them.
void StatusUnread(Strike& strike) {
  Repeat(strike,
         {.per_second = 1000, .what = "requests", .role = Role::kObserver, .listens_every = 0},
         [](Intruder& eve, uint64_t) { eve.Tell(StatusRequest()); });
}

// A new life with every Join; none leaves.
void Joins(Strike& strike, Role role) {
  Repeat(strike, {1300, "members", std::nullopt}, [&](Intruder& eve, uint64_t n) {
    Join join;
    join.role = role;
    join.name = fmt::format("eve-{}", n);
    eve.envelope().incarnation = strike.Draw();
    eve.Tell(join);
  });
}
void WorkersJoin(Strike& strike) { Joins(strike, Role::kWorker); }
void ObserversJoin(Strike& strike) { Joins(strike, Role::kObserver); }

// As many honest workers as a large run has, all at once. Each has a connection.
void Handshakes(Strike& strike) {
  constexpr size_t kWorkers = 300;
  constexpr int64_t kJoined = -1;  // in asked_ms
  const int64_t began_ms = MonotonicMillis();
  std::vector<std::unique_ptr<Intruder>> workers;
  for (size_t i = 0; i < kWorkers; ++i) workers.push_back(std::make_unique<Intruder>(&strike));
  std::vector<int64_t> asked_ms(kWorkers, 0);
  size_t joined = 0;
  int64_t took_ms = 0;
  const auto is_join_reply = [](const Message& message) {
    return std::holds_alternative<JoinReply>(message.body);
  };
  while (strike.Pace(20)) {
    for (size_t i = 0; i < kWorkers; ++i) {
      Intruder& worker = *workers[i];
      const int64_t now_ms = MonotonicMillis();
      // Those that are too many at a time get no answer, and ask again.
      if (asked_ms[i] != kJoined && now_ms - asked_ms[i] > 1000) {
        Join join;
        join.role = Role::kWorker;
        join.name = fmt::format("eve-{}", i);
        worker.Tell(join);
        asked_ms[i] = now_ms;
      }
      worker.Receive();
      if (asked_ms[i] != kJoined && std::ranges::any_of(worker.inbox(), is_join_reply)) {
        worker.set_beats(true);
        asked_ms[i] = kJoined;
        joined++;
      }
      worker.inbox().clear();
    }
    if (joined == kWorkers && took_ms == 0) took_ms = MonotonicMillis() - began_ms;
  }
  if (joined < kWorkers) return strike.Breach(fmt::format("only {} have joined", joined));
  strike.Say(fmt::format("{} workers have joined after {:.1f} s", joined,
                         static_cast<double>(took_ms) / 1000));
}

// A connection, a Join, and away.
void Reconnects(Strike& strike) {
  uint64_t made = 0;
  while (made < 4000 && strike.Goes()) {
    // A context has a thousand sockets at most, which close in its own time.
    NetContext context;
    for (int i = 0; i < 200 && strike.Pace(1300); ++i, ++made) {
      Result<DealerSocket> socket = DealerSocket::Connect(context, strike.target().scheduler,
                                                          strike.To(strike.target().scheduler_key));
      if (socket.ok())
        (void)socket->Send(Encode({{{}, strike.Draw(), 1}, Join()}, WirePrecision::kFp32));
    }
  }
  strike.Say(fmt::format("{} connections", made));
}

// Small messages as fast as possible.
void Heartbeats(Strike& strike) {
  Repeat(strike, {.per_second = 8000, .what = "heartbeats", .listens_every = 50},
         [](Intruder& eve, uint64_t) { eve.Tell(Heartbeat()); });
}
void Leases(Strike& strike) {
  Repeat(strike, {.per_second = 4000, .what = "requests", .listens_every = 50},
         [](Intruder& eve, uint64_t) { eve.Tell(LeaseRequest()); });
}
void Greetings(Strike& strike) {
  Repeat(strike, {.per_second = 4000, .what = "requests", .listens_every = 50},
         [](Intruder& eve, uint64_t n) { eve.TellServer(n % 2, Untrained(1)); });
}

// What a server keeps of its replies to one life.
void Replies(Strike& strike) {
  Repeat(strike, {.per_second = 500, .what = "requests of 512 samples", .listens_every = 10},
         [&](Intruder& eve, uint64_t n) {
           const EmbedRequest request = Untrained(kMostSamples, eve.FeatureOf(0));
           if (n == 0) strike.Say(Described(eve.AskServer(0, request)));
           eve.set_deaf(true);
           eve.TellServer(0, request);
         });
}

// Each in a life of its own, so that the replies of each are kept.
void NewLives(Strike& strike) {
  Repeat(strike, {.per_second = 1500, .what = "lives", .most = 5000}, [&](Intruder& eve, uint64_t) {
    eve.set_beats(false);
    eve.envelope().incarnation = strike.Draw();
    eve.TellServer(0, Untrained(kMostSamples, eve.FeatureOf(0)));
  });
}

void TopK(Strike& strike) {
  Repeat(strike, {.per_second = 30, .what = "requests with k = 10,000", .listens_every = 1},
         [](Intruder& eve, uint64_t n) {
           TopKRequest request;
           request.hidden = Matrix(kMostSamples, eve.config()->model.hidden);
           for (float& x : request.hidden.data) x = 1;
           request.k = 10'000;
           eve.TellServer(n % 2, request);
         });
}

// Requests by a plan that does not exist yet, of 8 MB each: they wait at the server.
void EarlyLarge(Strike& strike) {
  ActiveQuery query;
  query.hidden = Matrix(kMaxBatchSamples, 32);
  for (float& x : query.hidden.data) x = 1;
  for (uint32_t i = 0; i < kMaxBatchSamples; ++i) query.labels.EndRow();
  query.label_totals.assign(kMaxBatchSamples, 0);
  Repeat(strike, {.per_second = 40, .what = "requests of 8 MB", .most = 80, .listens_every = 1},
         [&](Intruder& eve, uint64_t) {
           eve.envelope().plan_version = eve.plan()->version + 5;
           eve.TellServer(0, query);
         });
}

// Batches that are begun and never ended, of many features that the server has to keep.
void OpenLarge(Strike& strike) {
  constexpr uint32_t kRepeated = 200;
  EmbedRequest request;
  request.training = true;
  Repeat(strike,
         {.per_second = 60, .what = "batches of 100,000 values", .most = 200, .listens_every = 1},
         [&](Intruder& eve, uint64_t n) {
           if (n == 0) {
             const uint32_t samples = eve.config()->train.batch;
             const uint32_t repeated = kRepeated * kMostSamples / samples;
             for (uint32_t i = 0; i < samples; ++i) {
               request.features.ids.insert(request.features.ids.end(), repeated, eve.FeatureOf(0));
               request.features.EndRow();
             }
             request.features.values.assign(request.features.ids.size(), 1e-3f);
             strike.Say(Described(eve.AskServer(0, request)));
             eve.set_deaf(true);
           }
           request.batch = {static_cast<uint32_t>(n), 0, 0};
           eve.TellServer(0, request);
         });
}

// To the scheduler and a server.
void ThrowAtBoth(Intruder* eve, uint64_t n, Bytes bytes) {
  eve->ThrowAtServer(n % 2, bytes);
  eve->Throw(std::move(bytes));
}
void Malformed(Strike& strike) {
  Repeat(
      strike, {.per_second = 2000, .what = "messages", .role = std::nullopt, .listens_every = 50},
      [&](Intruder& eve, uint64_t n) {
        Bytes bytes = Encode({eve.envelope(), LeaseRequest()}, WirePrecision::kFp32);
        const size_t changes = 1 + strike.random().Below(6);
        for (size_t i = 0; i < changes; ++i) {
          bytes[strike.random().Below(bytes.size())] = static_cast<uint8_t>(strike.random().Next());
        }
        if (n % 3 == 0) bytes.resize(strike.random().Below(bytes.size() + 1));
        ThrowAtBoth(&eve, n, std::move(bytes));
      });
}

// A small message that unpacks to a large matrix.
void Bombs(Strike& strike) {
  EmbedPush push;
  push.gradient = Matrix(8192, 512);  // zeros: one bit each on the wire, 16 MB unpacked
  Repeat(strike, {.per_second = 60, .what = "matrices of 16 MB in 512 KB", .listens_every = 1},
         [&](Intruder& eve, uint64_t n) { eve.TellServer(n % 2, push); });
}

// Frames of 1 MiB in one message, and messages that never end.
void Multipart(Strike& strike) {
  const Bytes frame(1 << 20, 'e');
  RawDealer scheduler(strike, strike.target().scheduler, strike.target().scheduler_key);
  RawDealer server(strike, strike.target().servers.at(0).address,
                   strike.target().KeyOf(strike.target().servers.at(0).name));
  int sent = 0;
  while (sent < 600 && strike.Pace(300)) {
    const bool more = ++sent % 300 != 0;
    if (!scheduler.Send(frame, more) || !server.Send(frame, more)) break;
  }
  while (strike.Goes()) strike.Rest(100);
  strike.Say(fmt::format("{} frames of 1 MiB in messages of 300", sent));
}

// Tiny frames in endless messages.
void MultipartTiny(Strike& strike) {
  const Bytes frame(1, 'e');
  RawDealer scheduler(strike, strike.target().scheduler, strike.target().scheduler_key);
  int sent = 0;
  while (strike.Goes() && sent < 400'000) {
    const bool more = ++sent % 100'000 != 0;
    if (!scheduler.Send(frame, more)) break;
    if (!more) strike.Rest(200);
  }
  while (strike.Goes()) strike.Rest(100);
  strike.Say(fmt::format("{} frames of a byte in messages of 100,000", sent));
}

void OneMiB(Strike& strike) {
  Repeat(strike, {200, "messages of 1 MiB", std::nullopt, 600, 1},
         [](Intruder& eve, uint64_t) { ThrowAtBoth(&eve, 0, Bytes(1 << 20, 'e')); });
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"flood.status", As::kObserver, "1,000 StatusRequests a second", StatusRequests},
      {"flood.status-unread", As::kObserver, "the same, and the answers are not read",
       StatusUnread},
      {"flood.workers-join", As::kWorker, "1,300 new workers a second", WorkersJoin},
      {"flood.observers-join", As::kObserver, "1,300 new observers a second", ObserversJoin},
      {"flood.handshakes", As::kWorker, "300 workers join at once", Handshakes, on::Lasting(4)},
      {"flood.reconnects", As::kWorker, "4,000 connections that join and go", Reconnects,
       on::Lasting(3)},
      {"flood.heartbeats", As::kWorker, "8,000 heartbeats a second", Heartbeats},
      {"flood.leases", As::kWorker, "4,000 LeaseRequests a second", Leases},
      {"flood.greetings", As::kWorker, "4,000 small EmbedRequests a second", Greetings},
      {"flood.replies", As::kWorker, "500 EmbedRequests of 512 samples a second", Replies},
      {"flood.new-lives", As::kWorker, "EmbedRequests, each in a life of its own", NewLives,
       on::Lasting(3)},
      {"flood.top-k", As::kWorker, "TopKRequests of 512 samples and k of 10,000", TopK},
      {"flood.early-large", As::kWorker, "80 requests of 8 MB by a plan to come", EarlyLarge,
       on::Lasting(3)},
      {"flood.open-large", As::kWorker, "200 batches of 100,000 values, never ended", OpenLarge,
       on::Lasting(3)},
      {"flood.malformed", As::kWorker, "messages with wrong bytes", Malformed, on::kQuick},
      {"flood.bombs", As::kWorker, "small messages that unpack to 16 MB", Bombs},
      {"flood.multipart", As::kWorker, "600 frames of 1 MiB in two messages", Multipart,
       on::Lasting(3)},
      {"flood.multipart-tiny", As::kWorker, "400,000 frames of a byte in four messages",
       MultipartTiny},
      {"flood.1-mib", As::kWorker, "600 messages of 1 MiB", OneMiB, on::Lasting(3)},
  };
}

}  // namespace dslide::flood_attacks
