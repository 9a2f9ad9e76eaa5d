#include "common/net/connection_meter.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "common/base/check.h"
#include "common/base/process.h"

namespace dslide {
namespace {

// Handshake, commands, and what is between two readings of the same connection.
constexpr uint64_t kSlackBytes = 64 << 10;

std::optional<uint64_t> CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return std::nullopt;
  return cookie;
}

// Received on a TCP connection; nullopt: it is none.
std::optional<uint64_t> BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr size_t kEnd =
      offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  if (size < kEnd) return std::nullopt;  // a kernel before 4.1
  return info.tcpi_bytes_received;
}

// Of them, what its owner has not read yet: it is in the kernel, which bounds it.
uint64_t BytesUnread(int fd) {
  int unread = 0;
  if (ioctl(fd, FIONREAD, &unread) != 0 || unread < 0) return 0;
  return static_cast<uint64_t>(unread);
}

std::string PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "?";
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
    return fmt::format("{}:{}", host, ntohs(v4->sin_port));
  }
  if (address.ss_family != AF_INET6) return "?";
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
  return fmt::format("[{}]:{}", host, ntohs(v6->sin6_port));
}

std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

uint64_t BytesOnWire(uint64_t content, bool encrypted) {
  constexpr uint64_t kCurve = 33;  // command name, nonce, authenticator, flags
  const uint64_t body = content + (encrypted ? kCurve : 0);
  return body + (body < 256 ? 2 : 9);
}

ConnectionMeter::ConnectionMeter(zmq::context_t* context, void* socket, Limits limits)
    : context_(context), socket_(socket), limits_(limits) {
  static std::atomic<uint64_t> count = 0;
  address_ = fmt::format("inproc://connections-{}", ++count);
  constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;
  DSLIDE_CHECK(zmq_socket_monitor(socket, address_.c_str(), kEvents) == 0);
  thread_ = std::thread([this] { Run(); });
}

ConnectionMeter::~ConnectionMeter() {
  // First: ZeroMQ's thread would wait for a reader of its events, with a lock that this call wants.
  zmq_socket_monitor(socket_, nullptr, 0);
  stop_.Close();
  thread_.join();
}

void ConnectionMeter::Delivered(int fd, uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto connection = connections_.find(fd);
  if (connection != connections_.end()) {
    connection->second.delivered += bytes;
  } else {
    not_accepted_[fd] += bytes;
  }
}

void ConnectionMeter::SetConnectionBytes(uint64_t bytes) {
  const MutexLock lock(mutex_);
  limits_.connection_bytes = bytes;
  limits_.all_bytes = std::max(limits_.all_bytes, bytes);
}

void ConnectionMeter::SetConnections(size_t connections) {
  const MutexLock lock(mutex_);
  limits_.connections = connections;
}

Closings ConnectionMeter::TakeClosings() {
  const MutexLock lock(mutex_);
  return std::exchange(closings_, {});
}

void ConnectionMeter::Run() try {
  zmq::socket_t monitor(*context_, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.set(zmq::sockopt::rcvhwm, 0);  // ZeroMQ's thread must not wait for this one
  monitor.connect(address_);
  int64_t next_ms = 0;  // connections that come and go without end do not make it look oftener
  while (true) {
    zmq_pollitem_t items[] = {{monitor.handle(), 0, ZMQ_POLLIN, 0},
                              {nullptr, stop_.fd(), ZMQ_POLLIN, 0}};
    (void)zmq_poll(items, 2, static_cast<long>(std::max<int64_t>(0, next_ms - MonotonicMillis())));
    if (stop_.closed() || !TakeEvents(&monitor)) return;
    if (MonotonicMillis() < next_ms) continue;
    next_ms = MonotonicMillis() + PauseMs();
    const MutexLock lock(mutex_);
    CheckNumber();
    Check();
  }
} catch (const zmq::error_t&) {
  // The context has ended, and its connections with it.
}

int ConnectionMeter::PauseMs() {
  const MutexLock lock(mutex_);
  return std::max(kCheckMs, static_cast<int>(connections_.size() / 2));
}

bool ConnectionMeter::TakeEvents(zmq::socket_t* monitor) {
  while (true) {
    zmq::message_t event, endpoint;
    if (zmq_msg_recv(event.handle(), monitor->handle(), ZMQ_DONTWAIT) < 0) {
      return zmq_errno() != ETERM && zmq_errno() != ENOTSOCK;
    }
    if (zmq_msg_recv(endpoint.handle(), monitor->handle(), ZMQ_DONTWAIT) < 0) return true;
    uint16_t kind = 0;
    int32_t fd = 0;
    if (event.size() < sizeof(kind) + sizeof(fd)) continue;
    std::memcpy(&kind, event.data(), sizeof(kind));
    std::memcpy(&fd, event.data<uint8_t>() + sizeof(kind), sizeof(fd));
    const MutexLock lock(mutex_);
    connections_.erase(fd);
    if (kind != ZMQ_EVENT_ACCEPTED) not_accepted_.erase(fd);
    if (kind == ZMQ_EVENT_ACCEPTED) Accept(fd);
  }
}

void ConnectionMeter::Accept(int fd) {
  const std::optional<uint64_t> cookie = CookieOf(fd);
  Connection connection;
  if (const auto delivered = not_accepted_.extract(fd)) connection.delivered = delivered.mapped();
  if (!cookie || !BytesReceived(fd)) return;  // closed again, or no TCP
  connection.cookie = *cookie;
  connection.number = ++numbers_;
  connection.peer = PeerOf(fd);
  connections_.emplace(fd, std::move(connection));
}

void ConnectionMeter::Check() {
  uint64_t all = 0, strangers = 0;
  std::vector<Entry*> open;
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    Connection& connection = entry->second;
    const std::optional<uint64_t> received = BytesReceived(entry->first);
    if (!received) {
      entry = connections_.erase(entry);
      continue;
    }
    // What an earlier connection of this descriptor had waiting does not count for this one.
    connection.delivered = std::min(connection.delivered, *received);
    connection.waiting = *received - connection.delivered;
    connection.waiting -= std::min(connection.waiting, BytesUnread(entry->first));
    if (!connection.shut) {
      open.push_back(&*entry);
      all += connection.waiting;
      if (connection.delivered == 0) strangers += connection.waiting;
    }
    ++entry;
  }
  std::ranges::sort(open, std::greater<>(), [](const Entry* e) { return e->second.waiting; });
  for (Entry* entry : open) {
    const uint64_t waiting = entry->second.waiting, slack = kSlackBytes * open.size();
    if (waiting <= kSlackBytes) break;
    const bool stranger = entry->second.delivered == 0;
    const uint64_t most = stranger ? limits_.stranger_bytes() : limits_.connection_bytes;
    const bool over = waiting > most + kSlackBytes || all > limits_.all_bytes + slack ||
                      (stranger && strangers > limits_.strangers_bytes() + slack);
    if (!over) continue;
    Shut(entry, fmt::format("it had {} MB waiting", waiting >> 20));
    all -= waiting;
    if (stranger) strangers -= waiting;
  }
  if (trim_ && std::ranges::none_of(connections_, [](const Entry& e) { return e.second.shut; })) {
    trim_ = false;
    malloc_trim(0);  // large frames: the allocator would keep their memory
  }
}

// Strangers may open any number of connections, and must not use up the process's descriptors.
void ConnectionMeter::CheckNumber() {
  std::map<std::string, size_t> of_host;
  std::vector<Entry*> open;
  for (Entry& entry : connections_) {
    if (!entry.second.shut) open.push_back(&entry);
  }
  if (open.size() <= limits_.connections) return;
  for (const Entry* entry : open) ++of_host[HostOf(entry->second.peer)];
  const auto greatest =
      std::ranges::max_element(of_host, {}, [](const auto& h) { return h.second; });
  std::erase_if(open, [&](const Entry* e) { return HostOf(e->second.peer) != greatest->first; });
  std::ranges::sort(open, {}, [](const Entry* e) {
    return std::pair(e->second.delivered, ~e->second.number);  // the newest first
  });
  const auto size = static_cast<size_t>(
      std::ranges::count_if(connections_, [](const Entry& e) { return !e.second.shut; }));
  const size_t excess = std::min(open.size(), size - limits_.connections);
  for (Entry* entry : std::span(open).first(excess)) Shut(entry, "too many connections");
}

void ConnectionMeter::Shut(Entry* entry, const std::string& why) {
  Connection& connection = entry->second;
  const int fd = fcntl(entry->first, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return;  // without a descriptor to spare: later
  connection.shut = true;
  if (CookieOf(fd) == connection.cookie) {
    shutdown(fd, SHUT_RDWR);
    closings_.count++;
    closings_.last = fmt::format("{}: {}", connection.peer, why);
    trim_ = true;
  }
  close(fd);
}

}  // namespace dslide
