// The connections of an HTTP server: how long each has been at what it does, and which of them ends
// when there are too many or when it takes too long.
//
// Where there are too many, the connection ends that has waited longest for its client: for the
// headers of a request, or for the rest of a body. A client that sends its body at
// kExpectedBytesPerMs or faster never waits.
//
// A connection is closed by its socket (shutdown), of which the server's thread hears as if the
// client had closed it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "common/base/mutex.h"

namespace dslide {

class OpenConnections {
 public:
  struct Limits {
    size_t connections = 0;  // above which the one that waits longest for its client is closed
    unsigned headers_s = 0;  // from the connection or the last response to the end of the headers
    unsigned request_s = 0;  // from there to the end of the response
  };
  // More than twice Limits::connections are never open: the caller sees to that.
  explicit OpenConnections(const Limits& limits) : limits_(limits) {}

  // A connection has come. `id`: any pointer that is its own.
  void Add(const void* id, int socket, int64_t now_ms);
  // REQUIRES that its socket is still open: another connection may get its number afterwards.
  void Remove(const void* id);
  // A request's headers have come, `bytes` more of its body, and all of it; its response has begun,
  // and is sent.
  void OnHeaders(const void* id, int64_t now_ms);
  void OnBody(const void* id, size_t bytes, int64_t now_ms);
  void OnComplete(const void* id);
  void OnResponse(const void* id);
  void OnEnd(const void* id, int64_t now_ms);
  // Closes those that take too long.
  void CloseLate(int64_t now_ms);
  // Closes this one.
  void Close(const void* id);

  static constexpr int64_t kExpectedBytesPerMs = 64;

 private:
  enum class Stage { kHeaders, kBody, kAnswer, kResponse };
  struct Connection {
    int socket = -1;
    int64_t since_ms = 0;        // of the headers, or of the rest
    int64_t waits_since_ms = 0;  // for its client; of the first two stages
    uint64_t number = 0;         // of those that have come
    bool served = false;         // has had a response
    Stage stage = Stage::kHeaders;
    bool closed = false;
  };
  void Begin(const void* id, Stage stage, int64_t now_ms) DSLIDE_EXCLUDES(mutex_);
  void Enter(const void* id, Stage stage) DSLIDE_EXCLUDES(mutex_);
  static void Close(Connection* one);
  void CloseLongestWaiting() DSLIDE_REQUIRES(mutex_);
  void CloseOldestResponse() DSLIDE_REQUIRES(mutex_);

  const Limits limits_;
  Mutex mutex_;
  std::map<const void*, Connection> open_ DSLIDE_GUARDED_BY(mutex_);
  uint64_t come_ DSLIDE_GUARDED_BY(mutex_) = 0;
};

}  // namespace dslide
