// The sockets of the cluster under virtual time, as in common/net/socket.h: a router that many
// dial, dealers that redial by themselves.
//
// A connection may break. Messages in transit are then lost, messages that the dealer sends
// meanwhile wait for the next connection, and the router knows the next connection under another
// peer id. Messages of one connection keep their order. Loss, duplicates and overtaking within a
// connection, which the protocol must survive, come with the weather between two hosts.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/net/socket.h"
#include "common/wire/messages.h"
#include "tests/simulation/world/sim_host.h"

namespace dslide::sim {

// Applies to all messages from one host to another.
struct Weather {
  int64_t delay_us = 1 * kMs;
  int64_t jitter_us = 1 * kMs;
  double loss = 0;  // share of the messages
  double duplicates = 0;
  double overtaking = 0;  // share of messages that may arrive before earlier ones
};

class SimNetwork {
 public:
  using LinkId = uint64_t;
  using TakeFromPeer = std::function<void(const PeerId&, Bytes)>;
  using Take = std::function<void(Bytes)>;

  SimNetwork(SimClock* clock, uint64_t seed) : clock_(clock), random_(seed) {}

  // Opens a router at an address; `take` gets what arrives, on `host`.
  void Bind(const std::string& address, SimHost* host, TakeFromPeer take);
  // Opens a dealer.
  LinkId Dial(SimHost* host, const std::string& address, Take take);
  void Close(LinkId link);

  void Send(LinkId link, Bytes bytes);                // dealer to router
  void Send(const PeerId& peer, const Bytes& bytes);  // router to dealer; dropped if it is gone

  // Call when the process on this host has ended. `lingers`: it ended by itself, so its messages
  // still arrive.
  void HostEnded(SimHost* host, bool lingers);

  Weather& Between(const SimHost* from, const SimHost* to) {
    return weather_[{from->number(), to->number()}];
  }
  // Breaks all connections between two hosts.
  void Break(const SimHost* a, const SimHost* b);
  // No message passes from one host to the other until `until_us`. `kept`: messages arrive
  // afterwards, as with TCP; else they are lost.
  void Block(const SimHost* from, const SimHost* to, int64_t until_us, bool kept);
  void EndWeather();  // no more loss, duplicates and overtaking
  void EndBlockades();

  uint64_t messages() const { return messages_; }
  size_t connections() const { return links_.size(); }

 private:
  struct Router {
    SimHost* host;
    uint64_t life;
    TakeFromPeer take;
  };
  struct Link {
    SimHost* dialler = nullptr;
    uint64_t dialler_life = 0;
    std::string address;
    Take take;
    SimHost* acceptor = nullptr;  // null: not connected
    uint64_t acceptor_life = 0;
    uint64_t connection = 0;
    PeerId peer;
    std::deque<Bytes> waiting;  // messages that wait for a connection
    int64_t last_up_us = 0;     // arrival of the latest message
    int64_t last_down_us = 0;
  };
  struct Blockade {
    int64_t until_us = 0;
    bool kept = false;
  };
  using Direction = std::pair<uint32_t, uint32_t>;

  void Connect(LinkId id);
  void Redial(LinkId id);
  void BreakLink(LinkId id, Link* link);
  void CarryUp(LinkId id, Link* link, Bytes bytes);
  void CarryDown(LinkId id, Link* link, Bytes bytes);
  // Schedules the arrivals (none, one or two) of a message.
  void Carry(SimHost* from, uint64_t from_life, SimHost* to, int64_t* last_us,
             const std::function<void()>& arrive);
  bool Blocked(const SimHost* from, const SimHost* to) const;

  SimClock* clock_;
  Random random_;
  std::map<std::string, Router> routers_;
  std::map<LinkId, Link> links_;
  std::map<PeerId, LinkId> peers_;
  std::map<Direction, Weather> weather_;
  std::map<Direction, Blockade> blocked_;
  LinkId next_link_ = 1;
  uint64_t next_peer_ = 1;
  uint64_t messages_ = 0;
};

}  // namespace dslide::sim
