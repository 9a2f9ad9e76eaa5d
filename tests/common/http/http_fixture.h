// A client without any protocol, and a server of a few pages, for tests of the HTTP server.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "common/http/http_server.h"
#include "tests/support/results.h"

namespace dslide::http_server_test {

inline constexpr int kDeadlineS = 30;
inline constexpr unsigned kForeverS = 3600;
inline constexpr char kAnyPort[] = "tcp://127.0.0.1:*";

// A connection to loopback. Receiving fails after kDeadlineS.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval deadline = {kDeadlineS, 0};
    REQUIRE(setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline) == 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(fd_); }

  // False if the server has closed.
  bool Send(const std::string& bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  void EndSending() { CHECK(shutdown(fd_, SHUT_WR) == 0); }
  // All that comes until the server closes.
  std::string Receive() {
    std::string text;
    char bytes[4096];
    for (ssize_t count; (count = recv(fd_, bytes, sizeof bytes, 0)) != 0;) {
      if (count < 0) {
        CHECK(errno == ECONNRESET);
        break;
      }
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int fd_;
};

inline const auto kBig = std::make_shared<const std::string>(size_t{8} << 20, 'x');

inline void Pages(const HttpRequest& request, const HttpServer::Respond& respond) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (request.path == "/echo") {
    std::string query;
    for (const auto& [name, value] : request.query) query += " " + name + "=" + value;
    respond(HttpResponse::Text(
        200, "[" + request.body + " " + request.Header("content-type") + query + "]"));
  } else if (!reads) {
    respond(HttpResponse::Text(405, "405"));
  } else if (request.path == "/") {
    respond({200, "text/html", std::make_shared<std::string>("hello")});
  } else if (request.path == "/big") {
    respond({200, "text/plain", kBig});
  } else {
    respond(HttpResponse::Text(404, "404"));
  }
}

inline std::unique_ptr<HttpServer> Serve(HttpServer::Limits limits = {}) {
  return Ok(HttpServer::Start(kAnyPort, Pages, limits));
}

inline std::string Ask(const HttpServer& server, const std::string& request) {
  Client client(server.port());
  CHECK(client.Send(request));
  return client.Receive();
}

inline HttpServer::Limits KeepAlive() {
  HttpServer::Limits limits;
  limits.body_bytes = 100;
  limits.keep_alive = true;
  return limits;
}

inline std::string Post(const std::string& body, const std::string& more = "") {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/x\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace dslide::http_server_test
