#include "tests/simulation/world/sim_network.h"

#include <algorithm>

namespace dslide::sim {
namespace {

constexpr int64_t kLingerUs = int64_t{kLingerMs} * kMs;
constexpr size_t kQueued = kSendHighWater;  // messages that wait for a connection

}  // namespace

void SimNetwork::Bind(const std::string& address, SimHost* host, TakeFromPeer take) {
  routers_[address] = {host, host->life(), std::move(take)};
}

SimNetwork::LinkId SimNetwork::Dial(SimHost* host, const std::string& address, Take take) {
  const LinkId id = next_link_++;
  Link& link = links_[id];
  link.dialler = host;
  link.dialler_life = host->life();
  link.address = address;
  link.take = std::move(take);
  clock_->After(1 + static_cast<int64_t>(random_.Below(kMs)), [this, id] { Connect(id); });
  return id;
}

void SimNetwork::Connect(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.acceptor != nullptr) return;
  Link& link = found->second;
  const auto router = routers_.find(link.address);
  if (router == routers_.end() || Blocked(link.dialler, router->second.host) ||
      Blocked(router->second.host, link.dialler)) {
    return Redial(id);
  }
  link.acceptor = router->second.host;
  link.acceptor_life = router->second.life;
  link.connection++;
  link.peer = "peer-" + std::to_string(next_peer_++);
  peers_[link.peer] = id;
  link.last_up_us = link.last_down_us = clock_->now_us();
  for (Bytes& bytes : std::exchange(link.waiting, {})) CarryUp(id, &link, std::move(bytes));
}

// As ZeroMQ does: 100 ms to 2 s between attempts.
void SimNetwork::Redial(LinkId id) {
  clock_->After(100 * kMs + static_cast<int64_t>(random_.Below(1900 * kMs)),
                [this, id] { Connect(id); });
}

void SimNetwork::BreakLink(LinkId id, Link* link) {
  if (link->acceptor == nullptr) return;
  peers_.erase(link->peer);
  link->acceptor = nullptr;
  link->connection++;
  Redial(id);
}

void SimNetwork::Close(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  peers_.erase(found->second.peer);
  links_.erase(found);
}

void SimNetwork::Send(LinkId id, Bytes bytes) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.acceptor != nullptr) {
    CarryUp(id, &link, std::move(bytes));
  } else if (link.waiting.size() < kQueued) {
    link.waiting.push_back(std::move(bytes));
  }
}

void SimNetwork::Send(const PeerId& peer, const Bytes& bytes) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  CarryDown(found->second, &links_.at(found->second), bytes);
}

void SimNetwork::CarryUp(LinkId id, Link* link, Bytes bytes) {
  const auto shared = std::make_shared<Bytes>(std::move(bytes));
  Carry(link->dialler, link->dialler_life, link->acceptor, &link->last_up_us,
        [this, id, connection = link->connection, shared] {
          const auto found = links_.find(id);
          if (found == links_.end() || found->second.connection != connection) return;
          const Link& now = found->second;
          const auto router = routers_.find(now.address);
          if (router == routers_.end() || router->second.life != now.acceptor_life) return;
          const auto take = [take = router->second.take, peer = now.peer, shared] {
            take(peer, *shared);
          };
          now.acceptor->Run(now.acceptor_life, take);
        });
}

void SimNetwork::CarryDown(LinkId id, Link* link, Bytes bytes) {
  const auto shared = std::make_shared<Bytes>(std::move(bytes));
  Carry(link->acceptor, link->acceptor_life, link->dialler, &link->last_down_us,
        [this, id, connection = link->connection, shared] {
          const auto found = links_.find(id);
          if (found == links_.end() || found->second.connection != connection) return;
          const Link& now = found->second;
          now.dialler->Run(now.dialler_life, [this, id, connection, shared] {
            const auto still = links_.find(id);
            if (still == links_.end()) return;
            const Take take = still->second.take;
            take(*shared);
          });
        });
}

void SimNetwork::Carry(SimHost* from, uint64_t from_life, SimHost* to, int64_t* last_us,
                       const std::function<void()>& arrive) {
  messages_++;
  const Weather& weather = Between(from, to);
  if (weather.loss > 0 && random_.Uniform() < weather.loss) return;
  const int copies = weather.duplicates > 0 && random_.Uniform() < weather.duplicates ? 2 : 1;
  const int64_t sent_us = clock_->now_us();
  for (int copy = 0; copy < copies; ++copy) {
    const auto jitter = static_cast<uint64_t>(std::max<int64_t>(1, weather.jitter_us));
    int64_t arrival = sent_us + weather.delay_us + static_cast<int64_t>(random_.Below(jitter));
    if (const auto blockade = blocked_.find({from->number(), to->number()});
        blockade != blocked_.end() && blockade->second.until_us > sent_us) {
      if (!blockade->second.kept) return;
      arrival += blockade->second.until_us - sent_us;
    }
    if (weather.overtaking == 0 || random_.Uniform() >= weather.overtaking) {
      arrival = std::max(arrival, *last_us + 1);
      *last_us = arrival;
    }
    clock_->At(arrival, [from, from_life, sent_us, arrive] {
      // A message that a stopped process has not handed to its kernel leaves when the process
      // continues.
      if (from->KeepsBack(sent_us) && from->life() == from_life) {
        from->Run(from_life, arrive);
      } else {
        arrive();
      }
    });
  }
}

bool SimNetwork::Blocked(const SimHost* from, const SimHost* to) const {
  const auto found = blocked_.find({from->number(), to->number()});
  return found != blocked_.end() && found->second.until_us > clock_->now_us();
}

void SimNetwork::HostEnded(SimHost* host, bool lingers) {
  std::erase_if(routers_, [&](const auto& entry) { return entry.second.host == host; });
  std::vector<LinkId> dialled, accepted;
  for (const auto& [id, link] : links_) {
    if (link.dialler == host) dialled.push_back(id);
    if (link.acceptor == host) accepted.push_back(id);
  }
  const auto end = [this, dialled, accepted] {
    for (const LinkId id : dialled) Close(id);
    for (const LinkId id : accepted) {
      if (const auto found = links_.find(id); found != links_.end()) {
        BreakLink(id, &found->second);
      }
    }
  };
  if (lingers) {
    clock_->After(kLingerUs, end);
  } else {
    end();
  }
}

void SimNetwork::Break(const SimHost* a, const SimHost* b) {
  for (auto& [id, link] : links_) {
    if (link.acceptor == nullptr) continue;
    const bool forth = link.dialler == a && link.acceptor == b;
    const bool back = link.dialler == b && link.acceptor == a;
    if (forth || back) BreakLink(id, &link);
  }
}

void SimNetwork::Block(const SimHost* from, const SimHost* to, int64_t until_us, bool kept) {
  blocked_[{from->number(), to->number()}] = {until_us, kept};
}

void SimNetwork::EndBlockades() { blocked_.clear(); }

void SimNetwork::EndWeather() {
  for (auto& [direction, weather] : weather_) {
    weather.loss = weather.duplicates = weather.overtaking = 0;
  }
}

}  // namespace dslide::sim
