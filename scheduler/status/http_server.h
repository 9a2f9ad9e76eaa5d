// HTTP for the status page: GET and HEAD of ready pages, by GNU libmicrohttpd in one thread of its
// own.
//
// What a client can cost is bounded by Limits. A connection that sends too much or stays silent is
// closed. The destructor closes every connection: it waits for no client.
#pragma once

#include <cstddef>
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
  // The present page at `path` ("/api/status"). Called in the server's thread.
  using Find = std::function<Page(std::string_view path)>;

  struct Limits {
    unsigned connections = 64;    // at once; more wait in the kernel's queue
    size_t request_bytes = 8192;  // of a request line and its headers
    unsigned silent_s = 10;       // without a byte in either direction
  };

  // Listens at `bind`, tcp://HOST:PORT with * for every host and for any free port. Errors
  // (kBadInput) say why it cannot.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& bind, Find find,
                                                   Limits limits);
  ~HttpServer();

  int port() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
