#include "scheduler/status/http_server.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/address.h"
#include "common/base/check.h"

namespace dslide {
namespace {

constexpr int kBacklog = 64;

Error CannotListen(const char* reason) {
  return BadInput(fmt::format("cannot listen there: {}", reason));
}

// A listening socket at the first of the host's addresses where listening is possible.
Result<int> Listen(const TcpAddress& address) {
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
    const int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) {
      // A machine without IPv6 has no such socket. Why another address failed says more.
      if (error == EINVAL) error = errno;
      continue;
    }
    const int yes = 1;
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, kBacklog) == 0) {
      return listener;
    }
    error = errno;
    close(listener);
  }
  return CannotListen(std::strerror(error));
}

int PortOf(int listener) {
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  DSLIDE_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &length) == 0);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

using Content = std::shared_ptr<const std::string>;

// The response shares the body, which may be replaced while a slow client still reads it.
MHD_Response* ResponseOf(const Content& body) {
  const auto release = [](void* owner) { delete static_cast<Content*>(owner); };
  return MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), const_cast<char*>(body->data()), release, new Content(body));
}

MHD_Result Reply(MHD_Connection* connection, unsigned status, const char* type,
                 const Content& body) {
  MHD_Response* response = ResponseOf(body);
  (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

// Called when a request's headers have arrived; data after the headers is not read.
MHD_Result Answer(void* find, MHD_Connection* connection, const char* path, const char* method,
                  const char*, const char*, size_t*, void**) {
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
    return Reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
                 std::make_shared<std::string>("405 Method Not Allowed\n"));
  }
  const HttpServer::Page page = (*static_cast<const HttpServer::Find*>(find))(path);
  if (page.body == nullptr) {
    return Reply(connection, MHD_HTTP_NOT_FOUND, "text/plain",
                 std::make_shared<std::string>("404 Not Found\n"));
  }
  return Reply(connection, MHD_HTTP_OK, page.type.c_str(), page.body);
}

void Ignore(void*, const char*, va_list) {}

}  // namespace

struct HttpServer::Impl {
  Find find;
  int port = 0;
  MHD_Daemon* daemon = nullptr;

  ~Impl() {
    if (daemon != nullptr) MHD_stop_daemon(daemon);  // closes the listening socket, too
  }
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& bind, Find find,
                                                      Limits limits) {
  const std::optional<TcpAddress> address = ParseTcp(bind);
  if (!address || !WhyNotListenable(bind).empty()) return BadInput("must be tcp://HOST:PORT");
  const Result<int> listener = Listen(*address);
  DSLIDE_RETURN_IF_ERROR(listener);
  auto impl = std::make_unique<Impl>();
  impl->find = std::move(find);
  impl->port = PortOf(*listener);
  impl->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, nullptr, nullptr, &Answer,
      &impl->find, MHD_OPTION_LISTEN_SOCKET, *listener, MHD_OPTION_EXTERNAL_LOGGER, &Ignore,
      nullptr, MHD_OPTION_CONNECTION_LIMIT, limits.connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      limits.request_bytes, MHD_OPTION_CONNECTION_TIMEOUT, limits.silent_s, MHD_OPTION_END);
  if (impl->daemon == nullptr) {
    close(*listener);
    return CannotListen("libmicrohttpd does not start");
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }

}  // namespace dslide
