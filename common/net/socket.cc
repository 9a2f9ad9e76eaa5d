#include "common/net/socket.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <zmq.hpp>

#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/nearest.h"
#include "common/base/process.h"
#include "common/base/thread_owner.h"
#include "common/log/log.h"
#include "common/net/authenticator.h"
#include "common/net/connection_meter.h"
#include "common/net/handover.h"

namespace dslide {
namespace {

constexpr int kReconnectMs = 100;
constexpr int kReconnectMaxMs = 2000;
constexpr int kConnectTimeoutMs = 5000;  // of one attempt; the kernel's own is two minutes

// A peer that vanished without closing (power, cable) is noticed by keepalive when idle, and by the
// send timeout when data is under way. Both must stay above the pauses of a healthy peer.
constexpr int kKeepaliveIdleS = 30;
constexpr int kKeepaliveIntervalS = 10;
constexpr int kKeepaliveProbes = 3;
constexpr int kSendTimeoutMs = 60000;

constexpr std::string_view kTcp = "tcp://";

constexpr int kMostSockets = 16384;  // of a context

// "localhost" is 127.0.0.1 whatever the resolver says: it may be ::1, where no peer listens, or
// unknown on a machine without /etc/hosts (RFC 6761, section 6.3).
std::string WithLocalhost(const std::string& address) {
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp || tcp->host != "localhost") return address;
  return fmt::format("{}127.0.0.1:{}", kTcp, tcp->port);
}

// IPv6 sockets reach IPv4 peers too, but report their addresses in mapped form.
bool NeedsIpv6(const std::string& address) {
  const std::optional<TcpAddress> tcp = ParseTcp(WithLocalhost(address));
  return tcp && !IsIpv4Literal(tcp->host);
}

void SetOptions(const std::string& address, zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, kLingerMs);
  socket.set(zmq::sockopt::ipv6, NeedsIpv6(address));
  socket.set(zmq::sockopt::sndhwm, kSendHighWater);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(kMaxMessageBytes));
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, kKeepaliveIdleS);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, kKeepaliveIntervalS);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, kKeepaliveProbes);
  socket.set(zmq::sockopt::tcp_maxrt, kSendTimeoutMs);
}

// The plain functions of ZeroMQ report by errno where cppzmq would throw. EINTR means that nothing
// was transferred, so a repeated call is right.
bool SendFrame(zmq::socket_t& socket, zmq::message_t& frame, int flags) {
  int rc;
  do {
    rc = zmq_msg_send(frame.handle(), socket.handle(), flags | ZMQ_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  return rc >= 0;
}

bool ReceiveFrame(zmq::socket_t& socket, zmq::message_t& frame) {
  int rc;
  do {
    rc = zmq_msg_recv(frame.handle(), socket.handle(), ZMQ_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  return rc >= 0;
}

// Receives one message; false if none is waiting. `count` is its number of frames: a foreign peer
// may send any number. Of too many frames, the first kFrames - 1 and the last are kept.
template <size_t kFrames>
bool ReceiveMessage(zmq::socket_t& socket, zmq::message_t (&frames)[kFrames], size_t* count) {
  *count = 0;
  bool more = true;
  while (more) {
    zmq::message_t& frame = frames[std::min(*count, kFrames - 1)];
    if (!ReceiveFrame(socket, frame)) return false;
    ++*count;
    more = frame.more();
  }
  return true;
}

// Bytes that are on their way to a peer, or to all.
using ByteCount = std::atomic<uint64_t>;

// What a frame on its way holds.
struct Share {
  std::shared_ptr<const Bytes> bytes;
  std::shared_ptr<ByteCount> to_peer;  // null: not counted
  std::shared_ptr<ByteCount> to_all;

  Share(std::shared_ptr<const Bytes> b, std::shared_ptr<ByteCount> peer,
        std::shared_ptr<ByteCount> all)
      : bytes(std::move(b)), to_peer(std::move(peer)), to_all(std::move(all)) {
    if (to_peer == nullptr) return;
    *to_peer += bytes->size();
    *to_all += bytes->size();
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() {
    if (to_peer == nullptr) return;
    *to_peer -= bytes->size();
    *to_all -= bytes->size();
  }
};

// A frame of the shared bytes; ZeroMQ's I/O thread drops the share once they are sent. It only
// reads them.
zmq::message_t Frame(std::unique_ptr<Share> share) {
  const auto release = [](void*, void* hint) {
    TakeOver(hint);
    delete static_cast<Share*>(hint);
  };
  zmq::message_t frame(const_cast<uint8_t*>(share->bytes->data()), share->bytes->size(), release,
                       share.get());
  HandOver(share.get());
  share.release();
  return frame;
}

zmq::message_t Frame(Bytes bytes) {
  return Frame(
      std::make_unique<Share>(std::make_shared<const Bytes>(std::move(bytes)), nullptr, nullptr));
}

// Connections take descriptors, and the usual soft limit is 1,024.
size_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  constexpr rlim_t kEnough = 1 << 18;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur < wanted) {
    rlimit raised = limit;
    raised.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return static_cast<size_t>(std::min(limit.rlim_cur, kEnough));
}

size_t WithinDescriptors(size_t connections) {
  return std::min(connections, RaiseDescriptorLimit() / 2);
}

Bytes ToBytes(const zmq::message_t& frame) {
  const auto* data = frame.data<uint8_t>();
  return {data, data + frame.size()};
}

template <typename Option>
void SetKey(Option option, const std::array<uint8_t, kKeyBytes>& key, zmq::socket_t& socket) {
  socket.set(option, zmq::const_buffer(key.data(), key.size()));
}

// The key that the authenticator put to a message of an encrypted connection.
std::optional<PublicKey> UserKeyOf(const zmq::message_t& frame) {
  const char* text = zmq_msg_gets(frame.handle(), "User-Id");
  return text == nullptr ? std::nullopt : PublicKeyFrom(text);
}

Error BindError(const std::string& address, int error) {
  const bool in_use = error == EADDRINUSE;
  return BadInput(fmt::format("cannot listen on {}: {}; {}", address, zmq_strerror(error),
                              in_use ? "stop the process that uses it or choose another port"
                                     : "use tcp://HOST:PORT with an IP address or interface of "
                                       "this machine or * as HOST"));
}

// A damaged join string, or a part of one.
bool MayBeSecret(std::string_view address) {
  constexpr size_t kKeyText = 43;  // base64url of a key
  if (address.find("dslide:") != address.npos) return true;
  size_t in_row = 0;
  return std::ranges::any_of(address, [&](char c) {
    in_row =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? in_row + 1 : 0;
    return in_row >= kKeyText;
  });
}

Error ConnectError(const std::string& address, std::string_view reason) {
  if (MayBeSecret(address)) {
    return BadInput(
        "cannot connect: the scheduler's address looks like a damaged join string; use "
        "tcp://HOST:PORT, or dslide://HOST:PORT/KEY/KEY as it was printed");
  }
  return BadInput(fmt::format("cannot connect to {}: {}", Printable(address), reason));
}

bool IsInProcess(const std::string& address) { return address.starts_with("inproc://"); }

// The requested address with the port that was bound.
std::string BoundAddress(const std::string& asked, const std::string& endpoint) {
  const std::optional<TcpAddress> tcp = ParseTcp(asked);
  if (!tcp) return endpoint;
  return fmt::format("{}{}:{}", kTcp, tcp->host, endpoint.substr(endpoint.rfind(':') + 1));
}

}  // namespace

struct NetContext::Impl {
  zmq::context_t context;
  std::unique_ptr<Authenticator> authenticator;  // null: no access list
  Mutex mutex;
  std::vector<ConnectionMeter*> meters
      DSLIDE_GUARDED_BY(mutex);  // of the router sockets that there are
};

// Creating a context opens nothing yet: it can fail only for lack of memory.
NetContext::NetContext() : impl_(std::make_unique<Impl>()) {
  // A connection to a peer has three: its own, and two that hear how handshakes end.
  impl_->context.set(zmq::ctxopt::max_sockets, kMostSockets);
}

NetContext::NetContext(const AccessListHolder* access) : NetContext() {
  impl_->authenticator = std::make_unique<Authenticator>(&impl_->context, access);
}

NetContext::~NetContext() {
  impl_->context.shutdown();  // which ends the authenticator's thread
  impl_->authenticator.reset();
}

Refusals NetContext::TakeRefusals() {
  return impl_->authenticator == nullptr ? Refusals() : impl_->authenticator->TakeRefusals();
}

Closings NetContext::TakeClosings() {
  const MutexLock lock(impl_->mutex);
  Closings all;
  for (ConnectionMeter* meter : impl_->meters) {
    Closings closings = meter->TakeClosings();
    all.count += closings.count;
    if (closings.count > 0) all.last = std::move(closings.last);
  }
  return all;
}

struct RouterSocket::Impl {
  zmq::socket_t socket;
  std::string address;
  bool encrypted = false;
  RouterLimits limits;
  std::unique_ptr<ConnectionMeter> meter;
  NetContext::Impl* context = nullptr;
  std::map<PeerId, std::shared_ptr<ByteCount>> to_peers;  // of those with messages on their way
  std::shared_ptr<ByteCount> to_all = std::make_shared<ByteCount>(0);
  ThreadOwner thread;

  ~Impl() {
    if (!meter) return;
    const MutexLock lock(context->mutex);
    std::erase(context->meters, meter.get());
    meter.reset();
  }
  // The bytes of one message, all frames; nullopt: none is waiting. The last frame is in *frame and
  // the peer's id in *peer.
  std::optional<size_t> ReceiveCounted(zmq::message_t* peer, zmq::message_t* frame);
  std::shared_ptr<ByteCount> CountOf(const PeerId& peer);
};

// Frames; nullopt: none is waiting.
std::optional<size_t> RouterSocket::Impl::ReceiveCounted(zmq::message_t* peer,
                                                         zmq::message_t* frame) {
  if (!ReceiveFrame(socket, *peer)) return std::nullopt;
  size_t frames = 1;
  uint64_t bytes = 0;
  int fd = -1;
  for (bool more = peer->more(); more; more = frame->more()) {
    if (!ReceiveFrame(socket, *frame)) return std::nullopt;
    ++frames;
    bytes += BytesOnWire(frame->size(), encrypted);
    fd = zmq_msg_get(frame->handle(), ZMQ_SRCFD);
  }
  if (fd >= 0) meter->Delivered(fd, bytes);
  return frames;
}

std::shared_ptr<ByteCount> RouterSocket::Impl::CountOf(const PeerId& peer) {
  constexpr size_t kMany = 1024;
  if (to_peers.size() > kMany) {
    std::erase_if(to_peers, [](const auto& entry) { return *entry.second == 0; });
  }
  std::shared_ptr<ByteCount>& count = to_peers[peer];
  if (count == nullptr) count = std::make_shared<ByteCount>(0);
  return count;
}

RouterSocket::RouterSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RouterSocket::RouterSocket(RouterSocket&&) noexcept = default;
RouterSocket& RouterSocket::operator=(RouterSocket&&) noexcept = default;
RouterSocket::~RouterSocket() = default;

Result<RouterSocket> RouterSocket::Bind(NetContext& context, const std::string& address,
                                        const std::optional<KeyPair>& keys,
                                        const RouterLimits& limits) try {
  if (!IsInProcess(address) && !WhyNotListenable(address).empty()) {
    return BindError(address, EINVAL);
  }
  auto impl = std::make_unique<Impl>();
  impl->socket = zmq::socket_t(context.impl_->context, zmq::socket_type::router);
  SetOptions(address, impl->socket);
  impl->socket.set(zmq::sockopt::router_mandatory, true);  // unknown peers are reported
  impl->socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(limits.message_bytes));
  impl->socket.set(zmq::sockopt::rcvhwm, kRouterHighWater);
  impl->limits = limits;
  if (keys) {
    DSLIDE_CHECK(context.impl_->authenticator != nullptr);
    impl->socket.set(zmq::sockopt::zap_domain, kZapDomain);
    impl->socket.set(zmq::sockopt::curve_server, true);
    SetKey(zmq::sockopt::curve_secretkey, keys->secret_key.bytes(), impl->socket);
    impl->encrypted = true;
  }
  impl->context = context.impl_.get();
  impl->meter = std::make_unique<ConnectionMeter>(
      &context.impl_->context, impl->socket.handle(),
      ConnectionMeter::Limits{limits.connection_bytes, limits.all_bytes,
                              WithinDescriptors(limits.connections)});
  {
    const MutexLock lock(context.impl_->mutex);
    context.impl_->meters.push_back(impl->meter.get());
  }
  impl->socket.bind(WithLocalhost(address));
  impl->address = BoundAddress(address, impl->socket.get(zmq::sockopt::last_endpoint));
  return RouterSocket(std::move(impl));
} catch (const zmq::error_t& e) {
  return BindError(address, e.num());
}

const std::string& RouterSocket::address() const { return impl_->address; }

std::optional<RouterSocket::Received> RouterSocket::Receive() {
  impl_->thread.Check();
  zmq::message_t peer, payload;
  while (const std::optional<size_t> frames = impl_->ReceiveCounted(&peer, &payload)) {
    if (*frames != 2) continue;
    std::optional<PublicKey> key = impl_->encrypted ? UserKeyOf(payload) : std::nullopt;
    // Without an answer of the authenticator libzmq lets peers in, but says of none who it is.
    if (impl_->encrypted && !key) continue;
    return Received{peer.to_string(), ToBytes(payload), key};
  }
  return std::nullopt;
}

void RouterSocket::SetConnectionBytes(uint64_t bytes) {
  impl_->limits.connection_bytes = bytes;
  impl_->limits.all_bytes = std::max(impl_->limits.all_bytes, bytes);
  impl_->meter->SetConnectionBytes(bytes);
}

void RouterSocket::SetConnections(size_t connections) {
  impl_->meter->SetConnections(WithinDescriptors(connections));
}

bool RouterSocket::Send(const PeerId& peer, Bytes bytes) {
  return Send(peer, std::make_shared<const Bytes>(std::move(bytes)));
}

bool RouterSocket::Send(const PeerId& peer, std::shared_ptr<const Bytes> bytes) {
  impl_->thread.Check();
  const std::shared_ptr<ByteCount> to_peer = impl_->CountOf(peer);
  const uint64_t size = bytes->size();
  // A single message goes whatever its size.
  if (*to_peer > 0 && (*to_peer + size > 2 * impl_->limits.connection_bytes ||
                       *impl_->to_all + size > impl_->limits.all_bytes)) {
    return false;
  }
  zmq::message_t id(peer.data(), peer.size());
  if (!SendFrame(impl_->socket, id, ZMQ_SNDMORE)) return false;
  zmq::message_t frame = Frame(std::make_unique<Share>(std::move(bytes), to_peer, impl_->to_all));
  return SendFrame(impl_->socket, frame, 0);
}

struct DealerSocket::Impl {
  zmq::socket_t socket;
  std::string endpoint;
  zmq::socket_t monitor;  // hears how handshakes end
  int64_t failed_ms = 0;  // when one failed, after which the socket has to dial again; 0: none
  uint32_t failures = 0;  // in a row
  int64_t first_failure_ms = 0;  // of them
  bool had_connected = false;
  ThreadOwner thread;

  // ZeroMQ's thread would wait for ever for a reader of its events: they end before their reader.
  ~Impl() {
    if (monitor) zmq_socket_monitor(socket.handle(), nullptr, 0);
  }

  // Begins to watch handshakes. In-process connections have none.
  void Watch(zmq::context_t& context) {
    static std::atomic<uint64_t> count = 0;
    const std::string address = fmt::format("inproc://handshakes-{}", ++count);
    constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                            ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    DSLIDE_CHECK(zmq_socket_monitor(socket.handle(), address.c_str(), kEvents) == 0);
    monitor = zmq::socket_t(context, zmq::socket_type::pair);
    monitor.set(zmq::sockopt::linger, 0);
    monitor.set(zmq::sockopt::rcvhwm, 0);
    monitor.connect(address);
  }
  // The number of the next event; 0: none is waiting.
  uint16_t NextEvent();
};

// An event has two frames: its number (16 bits) and a value, then the endpoint.
uint16_t DealerSocket::Impl::NextEvent() {
  zmq::message_t frames[2];
  size_t count = 0;
  uint16_t event = 0;
  if (!monitor || !ReceiveMessage(monitor, frames, &count)) return 0;
  if (count == 2 && frames[0].size() >= sizeof(event)) {
    std::memcpy(&event, frames[0].data(), sizeof(event));
  }
  return event;
}

DealerSocket::DealerSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DealerSocket::DealerSocket(DealerSocket&&) noexcept = default;
DealerSocket& DealerSocket::operator=(DealerSocket&&) noexcept = default;
DealerSocket::~DealerSocket() = default;

Status CheckDialable(const std::string& address) {
  const std::string why = IsInProcess(address) ? "" : WhyNotDialable(address);
  if (!why.empty()) return ConnectError(address, why);
  return {};
}

Result<DealerSocket> DealerSocket::Connect(NetContext& context, const std::string& address,
                                           const std::optional<CurvePeer>& keys) try {
  DSLIDE_RETURN_IF_ERROR(CheckDialable(address));
  auto impl = std::make_unique<Impl>();
  impl->socket = zmq::socket_t(context.impl_->context, zmq::socket_type::dealer);
  SetOptions(address, impl->socket);
  impl->socket.set(zmq::sockopt::immediate, false);  // queue for a peer that is not there yet
  impl->socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  impl->socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
  impl->socket.set(zmq::sockopt::connect_timeout, kConnectTimeoutMs);
  if (keys) {
    SetKey(zmq::sockopt::curve_serverkey, keys->peer.bytes, impl->socket);
    SetKey(zmq::sockopt::curve_publickey, keys->own.public_key.bytes, impl->socket);
    SetKey(zmq::sockopt::curve_secretkey, keys->own.secret_key.bytes(), impl->socket);
  }
  impl->endpoint = WithLocalhost(address);
  if (!IsInProcess(address)) impl->Watch(context.impl_->context);
  impl->socket.connect(impl->endpoint);
  return DealerSocket(std::move(impl));
} catch (const zmq::error_t& e) {
  return ConnectError(address, zmq_strerror(e.num()));
}

std::optional<Bytes> DealerSocket::Receive() {
  impl_->thread.Check();
  zmq::message_t frames[1];
  for (size_t count = 0; ReceiveMessage(impl_->socket, frames, &count);) {
    if (count == 1) return ToBytes(frames[0]);
  }
  return std::nullopt;
}

// libzmq redials by itself after a broken connection, but not after a refusal.
std::optional<HandshakeFailure> DealerSocket::TakeFailure() {
  impl_->thread.Check();
  std::optional<HandshakeFailure> failure;
  while (const uint16_t event = impl_->NextEvent()) {
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      impl_->failures = 0;
      impl_->had_connected = true;
      failure.reset();
      continue;
    }
    const int64_t now_ms = MonotonicMillis();
    if (++impl_->failures == 1) impl_->first_failure_ms = now_ms;
    failure = HandshakeFailure{event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, impl_->failures,
                               now_ms - impl_->first_failure_ms, impl_->had_connected};
    const bool redials = event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    if (!redials && impl_->failed_ms == 0) impl_->failed_ms = MonotonicMillis();
  }
  if (impl_->failed_ms != 0 && MonotonicMillis() - impl_->failed_ms >= kRefusedRetryMs) {
    impl_->failed_ms = 0;
    (void)zmq_disconnect(impl_->socket.handle(), impl_->endpoint.c_str());
    DSLIDE_CHECK(zmq_connect(impl_->socket.handle(), impl_->endpoint.c_str()) == 0);
  }
  return failure;
}

bool DealerSocket::Send(Bytes bytes) {
  impl_->thread.Check();
  zmq::message_t frame = Frame(std::move(bytes));
  return SendFrame(impl_->socket, frame, 0);
}

struct Poller::Impl {
  std::vector<zmq_pollitem_t> items;
};

Poller::Poller() : impl_(std::make_unique<Impl>()) {}
Poller::~Poller() = default;

void Poller::Add(RouterSocket& socket) {
  impl_->items.push_back({socket.impl_->socket.handle(), 0, ZMQ_POLLIN, 0});
}

void Poller::Add(DealerSocket& socket) {
  impl_->items.push_back({socket.impl_->socket.handle(), 0, ZMQ_POLLIN, 0});
}

void Poller::AddFd(int fd) { impl_->items.push_back({nullptr, fd, ZMQ_POLLIN, 0}); }

void Poller::Clear() { impl_->items.clear(); }

void Poller::Wait(int timeout_ms) {
  DSLIDE_CHECK(timeout_ms >= 0);
  // The outcome does not matter: the caller checks all sources and the clock again.
  (void)zmq_poll(impl_->items.data(), static_cast<int>(impl_->items.size()), timeout_ms);
}

}  // namespace dslide
