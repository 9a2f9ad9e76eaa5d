// A small HTTP/1.1 server: GET and HEAD of pages that are there already, one request a connection,
// all in one thread.
//
// What a client can cost is bounded by Limits: a connection that sends too much, too slowly or
// nothing, or that takes too long to read, is closed. The end of the server waits for no client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

class HttpServer {
 public:
  struct Page {
    std::string type;                         // its Content-Type
    std::shared_ptr<const std::string> body;  // null: there is no such page
  };
  // What is at `path` ("/api/status") now. Called in the server's thread.
  using Find = std::function<Page(std::string_view path)>;

  struct Limits {
    size_t connections = 64;       // at once; more wait in the kernel's queue
    size_t request_bytes = 8192;   // of a request line and its headers
    int64_t request_ms = 5'000;    // from the connection to the end of its request
    int64_t response_ms = 30'000;  // from there to the end of the response
  };

  // Listens at `bind`, tcp://HOST:PORT with * for every host and for any free port. Errors
  // (kBadInput) say why it cannot.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& bind, Find find,
                                                   Limits limits);
  ~HttpServer();

  int port() const { return port_; }

 private:
  class Loop;
  HttpServer(std::unique_ptr<Loop> loop, int port);

  std::unique_ptr<Loop> loop_;
  int port_;
};

}  // namespace dslide
