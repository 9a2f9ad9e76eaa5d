// An HTTP/1.1 server by GNU libmicrohttpd, in one thread of its own.
//
// A handler gets each request when all of it has come, in the server's thread, and answers at once
// or later, from any thread. What a client can cost is bounded by Limits: a connection that sends
// too much, stays silent or takes too long is closed. When all places are taken a new connection
// takes that of the one that waits longest for its client (open_connections.h), and where requests
// and responses hold too many bytes those that hold most of them for longest are given up
// (held_bytes.h): a body gets 503, {"error": "..."}, a response ends with its connection. The
// destructor closes every connection: it waits for no client.
//
// A request's path and query are decoded once. One with a NUL byte gets 400.
//
// Every response forbids browsers to guess its type, to frame it, to hand it to other sites, and to
// tell other sites its address.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"

namespace dslide {

struct HttpRequest {
  std::string method;  // "GET" for HEAD too, whose response has no body
  std::string path;    // "/api/status", without the query
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> query = {};    // names and values, decoded
  std::vector<std::pair<std::string, std::string>> headers = {};  // as they came

  // The value of the first header with this name (case is ignored); "" if the request lacks it.
  const std::string& Header(std::string_view name) const;
};

struct HttpResponse {
  using Headers = std::vector<std::pair<std::string, std::string>>;  // names and values

  unsigned status = 200;
  std::string type;                         // its Content-Type
  std::shared_ptr<const std::string> body;  // never null
  Headers headers = {};                     // further ones

  static HttpResponse Text(unsigned status, std::string text);  // text/plain
};

class HttpServer {
 public:
  // Answers the request it came with: once, from any thread. Later calls, and calls after the
  // server's end, do nothing. A request that is dropped without an answer gets 500.
  using Respond = std::function<void(HttpResponse)>;
  // Called in the server's thread.
  using Handle = std::function<void(HttpRequest, Respond)>;
  // The same, when the headers have come, before any byte of a body is read: a response refuses the
  // request.
  using Screen = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
  // Returns further headers for the response to a request, also for a refusal by the server itself.
  // Called when the request's headers have come.
  using MoreHeaders = std::function<HttpResponse::Headers(const HttpRequest&)>;

  struct Limits {
    unsigned connections = 256;  // at once, at most a quarter of the files that may be open
    unsigned of_address = 0;     // at once of one address, which others are refused; 0: any number
    size_t header_bytes = 8192;  // of a request line and its headers
    size_t body_bytes = 0;       // of a request; a longer one gets 413, {"error": "..."}
    size_t held_bytes = 0;       // of all bodies and responses at once; 0: any number
    size_t held_bytes_of_address = 0;  // of those of one client's address; 0: any number
    unsigned silent_s = 10;   // without a byte in either direction, before a request is complete
    unsigned headers_s = 10;  // from a connection, or its last response, to the end of the headers
    unsigned request_s = 60;  // from there to the end of the response
    bool keep_alive = false;  // whether a connection may bring more than one request
  };

  // Listens at `bind`, tcp://HOST:PORT with * for every host and for any free port. Errors
  // (kBadInput) say why it cannot.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& bind, Handle handle,
                                                   Limits limits, Screen screen = nullptr,
                                                   MoreHeaders more_headers = nullptr);
  ~HttpServer();

  int port() const;

  // Accepts no more connections, closes each that has its response, and waits until all requests
  // that have come are answered and sent, at most `limit_ms`, the first time up to two seconds
  // more. False: some were not. What is on its way in the kernel has come, unless there are as many
  // connections as there may be.
  bool Drain(int limit_ms);

 private:
  struct Connection;
  struct Exchange;
  class Answerer;
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
