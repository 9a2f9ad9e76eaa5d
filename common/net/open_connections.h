// The connections of an HTTP server: how long each has been at what it does, and which of them ends
// when there are too many or when it takes too long.
//
// A connection is closed by its socket (shutdown), of which the server's thread hears as if the
// client had closed it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace dslide {

class OpenConnections {
 public:
  struct Limits {
    size_t connections = 0;  // above which who waits without a request loses its place
    unsigned headers_s = 0;  // from the connection or the last response to the end of the headers
    unsigned request_s = 0;  // from there to the end of the response
  };
  // More than twice Limits::connections are never open: the caller sees to that.
  explicit OpenConnections(const Limits& limits) : limits_(limits) {}

  // A connection has come. `id`: any pointer that is its own.
  void Add(const void* id, int socket, int64_t now_ms);
  // REQUIRES that its socket is still open: another connection may get its number afterwards.
  void Remove(const void* id);
  // A request's headers have come, its response has begun, and is sent.
  void OnHeaders(const void* id, int64_t now_ms);
  void OnResponse(const void* id);
  void OnEnd(const void* id, int64_t now_ms);
  // Closes those that take too long.
  void CloseLate(int64_t now_ms);

 private:
  enum class Stage { kHeaders, kBody, kResponse };
  struct Connection {
    int socket = -1;
    int64_t since_ms = 0;  // of the headers, or of the rest
    Stage stage = Stage::kHeaders;
    bool closed = false;
  };
  void Begin(const void* id, Stage stage, int64_t now_ms);
  static void Close(Connection* one);
  void CloseOldest(Stage stage);

  const Limits limits_;
  std::mutex mutex_;  // guards what follows
  std::map<const void*, Connection> open_;
};

}  // namespace dslide
