#include "scheduler/status/http_server.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/process.h"

namespace dslide {
namespace {

constexpr int kBacklog = 64;
constexpr int64_t kAcceptAgainMs = 100;  // after an accept that failed: too many open files, say

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error CannotListen(const char* reason) {
  return BadInput(fmt::format("cannot listen there: {}", reason));
}

// At the first of the host's addresses where that is possible.
Result<Descriptor> Listen(const TcpAddress& address) {
  std::string host = address.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host == "*" ? nullptr : host.c_str(),
                               address.port == "*" ? "0" : address.port.c_str(), &hints, &found);
  if (code != 0) return CannotListen(gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int error = EINVAL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Descriptor listener(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    (void)setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (listener.get() >= 0 && ::bind(listener.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(listener.get(), kBacklog) == 0) {
      return listener;
    }
    error = errno;
  }
  return CannotListen(std::strerror(error));
}

int PortOf(const Descriptor& listener) {
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  DSLIDE_CHECK(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) == 0);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

struct Request {
  std::string_view method;
  std::string_view path;  // without the query
};

// Of a request line "GET /path?query HTTP/1.1".
std::optional<Request> ParseRequest(std::string_view line) {
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end == method_end ||
      !line.substr(target_end + 1).starts_with("HTTP/1.")) {
    return std::nullopt;
  }
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  return Request{line.substr(0, method_end), target.substr(0, target.find('?'))};
}

struct Response {
  std::string head;
  std::shared_ptr<const std::string> body;  // null: none
};

Response Respond(std::string_view status, std::string_view type,
                 std::shared_ptr<const std::string> body, bool with_body) {
  return {fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
                      "Connection: close\r\n\r\n",
                      status, type, body->size()),
          with_body ? std::move(body) : nullptr};
}

Response Refuse(std::string_view status) {
  return Respond(status, "text/plain", std::make_shared<std::string>(fmt::format("{}\n", status)),
                 true);
}

Response Answer(std::string_view request_line, const HttpServer::Find& find) {
  const std::optional<Request> request = ParseRequest(request_line);
  if (!request) return Refuse("400 Bad Request");
  const bool get = request->method == "GET";
  if (!get && request->method != "HEAD") return Refuse("405 Method Not Allowed");
  HttpServer::Page page = find(request->path);
  if (page.body == nullptr) return Refuse("404 Not Found");
  return Respond("200 OK", page.type, std::move(page.body), get);
}

// Whether a call on a socket that does not block may be repeated later.
bool IsTemporary(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// One client: reads its request, then sends the response.
class Connection {
 public:
  Connection(Descriptor socket, const HttpServer::Limits& limits)
      : socket_(std::move(socket)),
        limits_(limits),
        deadline_ms_(MonotonicMillis() + limits.request_ms) {}

  pollfd Awaited() const {
    return {socket_.get(), static_cast<short>(response_ ? POLLOUT : POLLIN), 0};
  }
  int64_t deadline_ms() const { return deadline_ms_; }

  // Does what is possible without waiting. False: it is to be closed.
  bool Advance(const HttpServer::Find& find) {
    if (!response_ && !Read(find)) return false;
    return !response_ || Send();
  }

 private:
  // False if the client is gone or has sent too much.
  bool Read(const HttpServer::Find& find) {
    char bytes[2048];
    const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return IsTemporary(errno);
    if (count == 0) return false;
    request_.append(bytes, static_cast<size_t>(count));
    if (request_.find("\r\n\r\n") == std::string::npos) {
      return request_.size() < limits_.request_bytes;
    }
    response_ = Answer(std::string_view(request_).substr(0, request_.find("\r\n")), find);
    deadline_ms_ = MonotonicMillis() + limits_.response_ms;
    return true;
  }

  // False if all is sent or the client is gone.
  bool Send() {
    for (;;) {
      const bool in_head = sent_ < response_->head.size();
      std::string_view rest = response_->head;
      if (!in_head) rest = response_->body == nullptr ? "" : std::string_view(*response_->body);
      rest.remove_prefix(in_head ? sent_ : sent_ - response_->head.size());
      if (rest.empty()) return false;
      const ssize_t count =
          send(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0) return IsTemporary(errno);
      sent_ += static_cast<size_t>(count);
    }
  }

  Descriptor socket_;
  HttpServer::Limits limits_;
  int64_t deadline_ms_;
  std::string request_;
  std::optional<Response> response_;
  size_t sent_ = 0;  // of head and body
};

}  // namespace

// The thread, and all that it owns.
class HttpServer::Loop {
 public:
  Loop(Descriptor listener, Find find, Limits limits)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        find_(std::move(find)),
        limits_(limits),
        thread_([this] { Serve(); }) {}
  ~Loop() {
    const uint64_t one = 1;
    DSLIDE_CHECK(write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }

 private:
  void Serve() {
    for (;;) {
      std::vector<pollfd> awaited = {{stop_.get(), POLLIN, 0},
                                     {MayAccept() ? listener_.get() : -1, POLLIN, 0}};
      for (const auto& connection : connections_) awaited.push_back(connection->Awaited());
      (void)poll(awaited.data(), awaited.size(), PollMs());
      if (awaited[0].revents != 0) return;
      for (size_t i = 0; i < connections_.size(); ++i) {
        const bool ready = awaited[i + 2].revents != 0;
        if ((ready && !connections_[i]->Advance(find_)) ||
            MonotonicMillis() >= connections_[i]->deadline_ms()) {
          connections_[i].reset();
        }
      }
      std::erase(connections_, nullptr);
      if (awaited[1].revents != 0) Accept();
    }
  }

  bool MayAccept() const {
    return connections_.size() < limits_.connections && MonotonicMillis() >= accept_after_ms_;
  }

  // Until something is due although nobody sends anything; -1: nothing is.
  int PollMs() const {
    const int64_t now_ms = MonotonicMillis();
    std::optional<int64_t> due_ms;
    const auto await = [&](int64_t at_ms) { due_ms = std::min(due_ms.value_or(at_ms), at_ms); };
    if (accept_after_ms_ > now_ms) await(accept_after_ms_);
    for (const auto& connection : connections_) await(connection->deadline_ms());
    return due_ms ? static_cast<int>(std::clamp<int64_t>(*due_ms - now_ms, 0, 60'000)) : -1;
  }

  void Accept() {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
      accept_after_ms_ = MonotonicMillis() + kAcceptAgainMs;
      return;
    }
    connections_.push_back(std::make_unique<Connection>(std::move(socket), limits_));
  }

  Descriptor listener_;
  Descriptor stop_;  // readable: the thread has to end
  Find find_;
  Limits limits_;
  std::vector<std::unique_ptr<Connection>> connections_;
  int64_t accept_after_ms_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& bind, Find find,
                                                      Limits limits) {
  const std::optional<TcpAddress> address = ParseTcp(bind);
  if (!address || !WhyNotListenable(bind).empty()) return BadInput("must be tcp://HOST:PORT");
  Result<Descriptor> listener = Listen(*address);
  DSLIDE_RETURN_IF_ERROR(listener);
  const int port = PortOf(*listener);
  auto loop = std::make_unique<Loop>(std::move(*listener), std::move(find), limits);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(loop), port));
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop, int port)
    : loop_(std::move(loop)), port_(port) {}

HttpServer::~HttpServer() = default;

}  // namespace dslide
