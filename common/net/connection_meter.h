// Bounds what the connections of a RouterSocket may have waiting in ZeroMQ.
//
// ZeroMQ counts the messages of a connection, not their bytes, and the frames of a message that
// does not end not at all. The meter knows the bytes: a socket monitor names the descriptor of
// every connection (ACCEPTED, DISCONNECTED), TCP_INFO says what the kernel has received on it, and
// the receiver says by ZMQ_SRCFD what it was handed. The difference waits in ZeroMQ. A connection
// over its budget is shut down, as is the greatest one when all together are over theirs, and those
// that have brought least of the address with the most connections when there are too many.
// Strangers, which have brought no message yet, have smaller budgets. ZeroMQ then drops what is not
// a whole message; whole messages stay until the receiver takes them.
//
// Descriptors are ZeroMQ's and may be closed and used again at any time. So the meter acts on a
// duplicate, and only if that is still the socket that was accepted (SO_COOKIE).
//
// Connections that are not TCP (ipc, inproc) are not metered. Thread-safe; has a thread, which
// looks every kCheckMs, less often with many connections.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "common/base/bounded_queue.h"
#include "common/base/mutex.h"
#include "common/net/access_list.h"

namespace dslide {

class ConnectionMeter {
 public:
  static constexpr int kCheckMs = 50;
  static constexpr uint64_t kMemberMore = uint64_t{16} << 20;

  struct Limits {
    uint64_t connection_bytes = 0;
    uint64_t all_bytes = 0;
    // Of connections that have brought no message yet: of one, and of all together.
    uint64_t stranger_bytes() const {
      return connection_bytes - std::min(kMemberMore, connection_bytes / 2);
    }
    uint64_t strangers_bytes() const { return connection_bytes + kMemberMore; }
    size_t connections = 0;
  };

  // Watches a socket, which must outlive the meter. Call before it is bound.
  ConnectionMeter(zmq::context_t* context, void* socket, Limits limits);
  ~ConnectionMeter();

  // The receiver was handed so many bytes of a connection.
  void Delivered(int fd, uint64_t bytes);
  void SetConnectionBytes(uint64_t bytes);
  void SetConnections(size_t connections);
  // Connections that were shut down since the last call.
  Closings TakeClosings();

 private:
  struct Connection {
    uint64_t cookie = 0;
    uint64_t delivered = 0;  // bytes
    uint64_t waiting = 0;    // bytes, when it was last looked at
    uint64_t number = 0;     // ascends
    std::string peer;        // HOST:PORT
    bool shut = false;
  };
  using Entry = std::pair<const int, Connection>;

  void Run();
  // False: the context has ended.
  bool TakeEvents(zmq::socket_t* monitor) DSLIDE_EXCLUDES(mutex_);
  void Accept(int fd) DSLIDE_REQUIRES(mutex_);
  void Check() DSLIDE_REQUIRES(mutex_);
  void CheckNumber() DSLIDE_REQUIRES(mutex_);
  void Shut(Entry* entry, const std::string& why) DSLIDE_REQUIRES(mutex_);
  int PauseMs() DSLIDE_EXCLUDES(mutex_);

  zmq::context_t* context_;
  void* socket_;
  std::string address_;  // of the monitor
  Mutex mutex_;
  Limits limits_ DSLIDE_GUARDED_BY(mutex_);
  std::map<int, Connection> connections_ DSLIDE_GUARDED_BY(mutex_);  // by descriptor
  // Delivered of those whose event is still to be read.
  std::map<int, uint64_t> not_accepted_ DSLIDE_GUARDED_BY(mutex_);
  uint64_t numbers_ DSLIDE_GUARDED_BY(mutex_) = 0;
  Closings closings_ DSLIDE_GUARDED_BY(mutex_);
  bool trim_ DSLIDE_GUARDED_BY(mutex_) = false;  // memory has become free
  BoundedQueue<bool> stop_{1};
  std::thread thread_;
};

// Bytes of a frame with so many of content on the wire (ZMTP 3, RFC 23; CurveZMQ, RFC 26).
uint64_t BytesOnWire(uint64_t content, bool encrypted);

}  // namespace dslide
