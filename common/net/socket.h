// Message transport: the only interface to ZeroMQ.
//
// Sockets never cross threads: one thread creates, uses and closes each of them. A Context may be
// shared and outlives its sockets. Sending never blocks: if the queue is full (kSendHighWater
// messages), Send() drops the message and returns false; a caller that may need it again sends a
// copy. Closing does not block; the context's destructor waits at most kLingerMs for messages that
// are still queued.
//
// Connections are encrypted (CurveZMQ, RFC 26) where both ends have keys. Whom a RouterSocket lets
// in its context's AccessListHolder says, by ZeroMQ's authentication protocol (ZAP, RFC 27), for
// which the context has a thread. What comes from a peer that it did not name is dropped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/net/access_list.h"
#include "common/security/member_key.h"
#include "common/wire/messages.h"

namespace dslide {

constexpr int kSendHighWater = 1000;  // messages queued towards one peer

// A RouterSocket takes so many of a peer's messages before its owner does. A server's peer has at
// most 128 requests open.
constexpr int kRouterHighWater = 256;

constexpr int64_t kRefusedRetryMs = 500;  // from a failed handshake to the next one

// Whether an address is one that DealerSocket::Connect() takes. The error (kBadInput) does not show
// what may be a join string.
Status CheckDialable(const std::string& address);

constexpr int kLingerMs = 500;  // for the last messages (Shutdown, Ack) of a process that exits

// Addresses are ZeroMQ endpoints: tcp://host:port, ipc://path, inproc://name.
class NetContext {
 public:
  NetContext();
  // A context whose RouterSockets may have keys. Peers whose keys are not in `access` at that
  // moment are refused. The list must outlive the context.
  explicit NetContext(const AccessListHolder* access);
  ~NetContext();
  NetContext(const NetContext&) = delete;
  NetContext& operator=(const NetContext&) = delete;

  // Connections that were refused since the last call.
  Refusals TakeRefusals();
  // Connections that RouterSockets have shut down since the last call (RouterLimits).
  Closings TakeClosings();

 private:
  friend class RouterSocket;
  friend class DealerSocket;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What peers may cost a RouterSocket. A connection beyond its limits is closed, and where all
// together are beyond theirs, the greatest is; ConnectionMeter has the details. Only TCP is
// metered.
struct RouterLimits {
  uint64_t message_bytes = uint64_t{16} << 20;     // the largest message
  uint64_t connection_bytes = uint64_t{32} << 20;  // that wait, twice of it on their way out
  uint64_t all_bytes = uint64_t{256} << 20;        // of all connections, in each direction
  size_t connections = 4096;  // or half of the descriptors that the process may have

  // Of a run with so many workers: some of them dial again before their old connection is gone.
  static size_t ConnectionsFor(uint32_t workers) {
    return std::max<size_t>(RouterLimits().connections, workers + workers / 4);
  }
};

// A socket that many peers dial.
class RouterSocket {
 public:
  // Binds. With keys, only peers with keys are let in; REQUIRES a context with an access list then.
  // Errors (kBadInput) name the address and the reason ("address in use", ...).
  static Result<RouterSocket> Bind(NetContext& context, const std::string& address,
                                   const std::optional<KeyPair>& keys = std::nullopt,
                                   const RouterLimits& limits = {});
  RouterSocket(RouterSocket&&) noexcept;
  RouterSocket& operator=(RouterSocket&&) noexcept;
  ~RouterSocket();

  // The bound address with the real port in place of "*".
  const std::string& address() const;

  struct Received {
    PeerId peer;
    Bytes bytes;
    std::optional<PublicKey> key;  // that the sender has proved to hold; none: plaintext
  };
  // The next message, or nullopt if none is waiting. Messages over RouterLimits::message_bytes
  // never arrive (the connection is closed).
  std::optional<Received> Receive();

  // From now on; also raises all_bytes to it.
  void SetConnectionBytes(uint64_t bytes);
  // The same of RouterLimits::connections, half of the descriptors at most.
  void SetConnections(size_t connections);

  // False if the peer is gone, or its queue is full: it does not take its messages. The bytes are
  // sent without a copy; ZeroMQ's I/O thread drops its share of them when they are sent.
  bool Send(const PeerId& peer, std::shared_ptr<const Bytes> bytes);
  bool Send(const PeerId& peer, Bytes bytes);

  struct Impl;

 private:
  friend class Poller;
  explicit RouterSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A connection that came to nothing after the peer was reached.
struct HandshakeFailure {
  // The peer does not let this key in. Otherwise the peer ended the connection without a word: it
  // does not hold the expected key, one side has keys and the other has none, or it is no peer.
  bool refused = false;
  uint32_t in_row = 0;         // failures since the last connection that was made
  int64_t for_ms = 0;          // from the first of them to this one
  bool had_connected = false;  // whether there was one
};

// A socket that dials one peer, and redials it by itself when the connection breaks. Messages may
// be lost when that happens; resending is the protocol's job.
class DealerSocket {
 public:
  // Succeeds whether the peer is there or not. With keys, nothing is sent to a peer that does not
  // hold the expected one. Errors (kBadInput) are about the address itself.
  static Result<DealerSocket> Connect(NetContext& context, const std::string& address,
                                      const std::optional<CurvePeer>& keys = std::nullopt);
  DealerSocket(DealerSocket&&) noexcept;
  DealerSocket& operator=(DealerSocket&&) noexcept;
  ~DealerSocket();

  std::optional<Bytes> Receive();
  bool Send(Bytes bytes);
  // A handshake that has failed since the last call. The socket dials again kRefusedRetryMs later,
  // in the first call of this function after that.
  std::optional<HandshakeFailure> TakeFailure();

  struct Impl;

 private:
  friend class Poller;
  explicit DealerSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Waits until one of several sockets or file descriptors is readable. Each must stay open until
// Clear() or the Poller's end; a socket may be moved meanwhile.
class Poller {
 public:
  Poller();
  ~Poller();

  void Add(RouterSocket& socket);
  void Add(DealerSocket& socket);
  void AddFd(int fd);
  void Clear();

  // Returns after `timeout_ms` at the latest, or at a signal. REQUIRES timeout_ms >= 0.
  void Wait(int timeout_ms);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
