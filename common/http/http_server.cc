#include "common/http/http_server.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/address.h"
#include "common/base/mutex.h"
#include "common/base/process.h"
#include "common/http/held_bytes.h"
#include "common/http/http_listener.h"
#include "common/http/open_connections.h"

namespace dslide {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(250);  // at the time that connections take
// What Drain() asks its own server.
constexpr std::string_view kPing = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr int kMostPingMs = 1000;
constexpr size_t kReadOn = 64 << 10;     // of a body that is too long
constexpr size_t kGrowth = 2;            // of a body's buffer
constexpr size_t kMostTarget = 1 << 20;  // more than a request's target has

using Content = std::shared_ptr<const std::string>;

// The response shares the body, which may be replaced while a slow client still reads it.
MHD_Response* WithBody(const Content& body) {
  const auto release = [](void* owner) { delete static_cast<Content*>(owner); };
  return MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), const_cast<char*>(body->data()), release, new Content(body));
}

void Ignore(void*, const char*, va_list) {}

// What every response says besides.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
};

// Connections must leave files for everything else.
unsigned WithinOpenFiles(unsigned connections) {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return connections;
  return static_cast<unsigned>(std::clamp<rlim_t>(files.rlim_cur / 4, 1, connections));
}

std::vector<std::pair<std::string, std::string>> ValuesOf(MHD_Connection* connection,
                                                          MHD_ValueKind kind) {
  std::vector<std::pair<std::string, std::string>> values;
  const MHD_KeyValueIterator add = [](void* into, MHD_ValueKind, const char* name,
                                      const char* value) {
    static_cast<decltype(values)*>(into)->emplace_back(name, value == nullptr ? "" : value);
    return MHD_YES;
  };
  (void)MHD_get_connection_values(connection, kind, add, &values);
  return values;
}

bool IsSameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

const std::string& HttpRequest::Header(std::string_view name) const {
  static const std::string none;
  for (const auto& [each, value] : headers) {
    if (IsSameName(each, name)) return value;
  }
  return none;
}

HttpResponse HttpResponse::Text(unsigned status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::make_shared<std::string>(std::move(text))};
}

// A connection, of the server's thread.
struct HttpServer::Connection {
  std::string address;      // the client's
  const char* target = "";  // of the request that comes, before it is decoded
  size_t target_bytes = 0;
  bool has_encoded_nul = false;
};

// A request and its answer, which two threads meet at.
struct HttpServer::Exchange : std::enable_shared_from_this<Exchange> {
  explicit Exchange(MHD_Connection* of) : connection(of) {}

  MHD_Connection* const connection;  // usable until `ended`
  HttpRequest request;
  std::string address;                  // the client's
  size_t received = 0;                  // bytes of the body
  std::optional<HttpResponse> refusal;  // what it gets when all of its body has come
  bool handled = false;                 // the handler was called; of the server's thread
  HttpResponse::Headers headers = {};   // further headers of its response

  Mutex mutex;
  bool ended DSLIDE_GUARDED_BY(mutex) = false;
  bool suspended DSLIDE_GUARDED_BY(mutex) = false;
  std::optional<HttpResponse> response DSLIDE_GUARDED_BY(mutex);

  void Drop() { std::string().swap(request.body); }  // an assignment would keep its memory

  void Answer(HttpResponse answer) {
    const MutexLock lock(mutex);
    if (response || ended) return;
    response = std::move(answer);
    if (std::exchange(suspended, false)) MHD_resume_connection(connection);
  }
};

// The last copy of a Respond that was not called answers for it.
class HttpServer::Answerer {
 public:
  explicit Answerer(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Answerer() { exchange_->Answer(HttpResponse::Text(500, "500 Internal Server Error\n")); }
  void Answer(HttpResponse response) { exchange_->Answer(std::move(response)); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

struct HttpServer::Impl {
  Impl(Handle handler, Screen screener, MoreHeaders more, const Limits& with)
      : handle(std::move(handler)),
        screen(std::move(screener)),
        more_headers(std::move(more)),
        limits(with),
        connections({with.connections, with.headers_s, with.request_s}),
        held({with.held_bytes, with.held_bytes_of_address}) {}

  const Handle handle;
  const Screen screen;
  const MoreHeaders more_headers;
  const Limits limits;
  OpenConnections connections;
  HeldBytes held;  // of the server's thread
  Mutex watch_mutex;
  bool watched DSLIDE_GUARDED_BY(watch_mutex) = true;
  ConditionVariable unwatched;
  std::thread watch;  // of what takes too long
  sockaddr_storage bound = {};
  int listener = -1;  // once it is quiesced
  MHD_Daemon* daemon = nullptr;
  std::atomic<bool> draining = false;
  std::atomic<bool> stopping = false;

  Mutex mutex;
  ConditionVariable idle;
  // Requests that have begun and whose answer is not sent.
  std::set<std::shared_ptr<Exchange>> exchanges DSLIDE_GUARDED_BY(mutex);

  void Watch() {
    MutexLock lock(watch_mutex);
    while (watched) {
      (void)unwatched.WaitUntil(lock, std::chrono::steady_clock::now() + kLookEvery);
      if (watched) connections.CloseLate(MonotonicMillis());
    }
  }

  ~Impl() {
    if (watch.joinable()) {
      {
        const MutexLock lock(watch_mutex);
        watched = false;
      }
      unwatched.NotifyAll();
      watch.join();
    }
    if (daemon != nullptr) {
      // A connection that waits for its answer would never end.
      stopping = true;
      std::set<std::shared_ptr<Exchange>> open;
      {
        const MutexLock lock(mutex);
        open = exchanges;
      }
      for (const auto& exchange : open) {
        exchange->Answer(Unavailable());
      }
      MHD_stop_daemon(daemon);  // closes the listening socket, too
    }
    if (listener >= 0) close(listener);
  }

  // The exchange holds so many bytes from now on.
  void Hold(const Exchange& exchange, HeldBytes::Kind kind, size_t bytes) {
    for (const HeldBytes::Id id :
         held.Set(&exchange, exchange.address, kind, bytes, MonotonicMillis())) {
      GiveUp(static_cast<Exchange*>(const_cast<void*>(id)));
    }
  }

  // A body is dropped as it comes, and refused at its end; a response ends with its connection.
  void GiveUp(Exchange* exchange) {
    if (exchange->handled || exchange->refusal) return connections.Close(exchange->connection);
    exchange->refusal = Refused(503, "too many bytes of requests wait; try again later");
    exchange->Drop();
  }

  MHD_Result Send(MHD_Connection* connection, const Exchange& exchange,
                  const HttpResponse& response) {
    MHD_Response* made = WithBody(response.body);
    connections.OnResponse(connection);
    Hold(exchange, HeldBytes::Kind::kResponse, response.body->size());
    (void)MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response.type.c_str());
    for (const auto& [name, value] : kHeaders) (void)MHD_add_response_header(made, name, value);
    for (const auto* headers : {&response.headers, &exchange.headers}) {
      for (const auto& [name, value] : *headers) {
        (void)MHD_add_response_header(made, name.c_str(), value.c_str());
      }
    }
    if (!limits.keep_alive || draining) {
      (void)MHD_add_response_header(made, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    const MHD_Result queued = MHD_queue_response(connection, response.status, made);
    MHD_destroy_response(made);
    return queued;
  }

  // Waits until the server's thread has begun what the kernel has for it by now. In a turn that
  // thread accepts connections, in their order, and reads all that have something: the connection
  // of the first ping is accepted after those, and that of the second in a later turn.
  void CatchUp() const {
    (void)(AskOnce(bound, kPing, kMostPingMs) && AskOnce(bound, kPing, kMostPingMs));
  }

  static Connection* Of(MHD_Connection* connection) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == nullptr ? nullptr : static_cast<Connection*>(info->socket_context);
  }

  // Whether the target of a request has a NUL byte, encoded or not, at which the library ends it.
  // The library puts the version of the protocol right behind the target, in the same memory.
  static bool HasNul(const Connection& of, const char* version) {
    const auto rest = reinterpret_cast<uintptr_t>(version) -
                      reinterpret_cast<uintptr_t>(of.target + of.target_bytes + 1);
    return of.has_encoded_nul || (rest > 0 && rest < kMostTarget);
  }

  MHD_Result Begin(MHD_Connection* connection, const char* path, const char* method,
                   const char* version, void** state) {
    auto exchange = std::make_shared<Exchange>(connection);
    const Connection* of = Of(connection);
    if (of != nullptr) exchange->address = of->address;
    exchange->request = {method, path, "", ValuesOf(connection, MHD_GET_ARGUMENT_KIND),
                         ValuesOf(connection, MHD_HEADER_KIND)};
    *state = exchange.get();
    {
      const MutexLock lock(mutex);
      exchanges.insert(exchange);
    }
    connections.OnHeaders(connection, MonotonicMillis());
    if (draining && exchange->request.method == "OPTIONS" && exchange->request.path == "*") {
      return Send(connection, *exchange, HttpResponse::Text(200, "stopping\n"));
    }
    if (more_headers) exchange->headers = more_headers(exchange->request);
    if (of != nullptr && HasNul(*of, version)) {
      return Send(connection, *exchange, Refused(400, "an address has no NUL byte"));
    }
    if (screen) {
      if (const auto refusal = screen(exchange->request)) {
        return Send(connection, *exchange, *refusal);
      }
    }
    // A body that is announced to be much too long is not read, nor one that waits for a word, nor
    // one of unknown length where none is wanted. Others are read to their end: their clients read
    // an answer only then.
    const HttpRequest& request = exchange->request;
    const bool waits = !request.Header(MHD_HTTP_HEADER_EXPECT).empty();
    const size_t length =
        std::strtoull(request.Header(MHD_HTTP_HEADER_CONTENT_LENGTH).c_str(), nullptr, 10);
    const bool chunked = !request.Header(MHD_HTTP_HEADER_TRANSFER_ENCODING).empty();
    if (length > (waits ? limits.body_bytes : MostRead()) || (chunked && limits.body_bytes == 0)) {
      return Send(connection, *exchange, TooLong());
    }
    if (length > limits.body_bytes) exchange->refusal = TooLong();
    return MHD_YES;
  }

  static HttpResponse Refused(unsigned status, const std::string& message) {
    return {status, "application/json",
            std::make_shared<std::string>(fmt::format("{{\"error\":\"{}\"}}\n", message))};
  }
  static HttpResponse Unavailable() { return Refused(503, "the server is stopping"); }
  HttpResponse TooLong() const {
    return Refused(413, fmt::format("a request has at most {} bytes", limits.body_bytes));
  }

  // Bytes of a refused body that are read; a client that sends more is disconnected.
  size_t MostRead() const { return 2 * limits.body_bytes + kReadOn; }

  // When all of the request has come, and again when a connection is resumed.
  MHD_Result Proceed(MHD_Connection* connection, Exchange* exchange) {
    if (exchange->refusal) return Send(connection, *exchange, *exchange->refusal);
    if (stopping && !exchange->handled) return Send(connection, *exchange, Unavailable());
    if (!std::exchange(exchange->handled, true)) {
      connections.OnComplete(connection);
      Hold(*exchange, HeldBytes::Kind::kComplete, exchange->received);
      const auto answerer = std::make_shared<Answerer>(exchange->shared_from_this());
      handle(std::move(exchange->request),
             [answerer](HttpResponse response) { answerer->Answer(std::move(response)); });
    }
    const MutexLock lock(exchange->mutex);
    if (!exchange->response) {
      MHD_suspend_connection(connection);
      exchange->suspended = true;
      return MHD_YES;
    }
    return Send(connection, *exchange, *exchange->response);
  }

  // More of a body has come. A body of unknown length gets its refusal at its end, if that is near.
  MHD_Result Read(MHD_Connection* connection, Exchange* exchange, const char* data, size_t size) {
    connections.OnBody(connection, size, MonotonicMillis());
    exchange->received += size;
    if (exchange->received > MostRead()) return MHD_NO;
    if (!exchange->refusal && exchange->received > limits.body_bytes) {
      exchange->refusal = TooLong();
      exchange->Drop();
      held.Erase(exchange);
    }
    if (exchange->refusal) return MHD_YES;
    std::string& body = exchange->request.body;
    // In few steps: each copies what has come, and the other clients wait meanwhile.
    if (exchange->received > body.capacity()) {
      body.reserve(std::min(limits.body_bytes, kGrowth * exchange->received));
    }
    body.append(data, size);
    Hold(*exchange, HeldBytes::Kind::kIncoming, exchange->received);
    return MHD_YES;
  }

  void End(Exchange* exchange) {
    held.Erase(exchange);
    connections.OnEnd(exchange->connection, MonotonicMillis());
    {
      const MutexLock lock(exchange->mutex);
      exchange->ended = true;
    }
    const MutexLock lock(mutex);
    exchanges.erase(exchange->shared_from_this());
    if (exchanges.empty()) idle.NotifyAll();
  }
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& bind, Handle handle,
                                                      Limits limits, Screen screen,
                                                      MoreHeaders more_headers) {
  const std::optional<TcpAddress> address = ParseTcp(bind);
  if (!address || !WhyNotListenable(bind).empty()) return BadInput("must be tcp://HOST:PORT");
  const Result<int> listener = Listen(*address);
  DSLIDE_RETURN_IF_ERROR(listener);
  limits.connections = WithinOpenFiles(limits.connections);
  auto impl =
      std::make_unique<Impl>(std::move(handle), std::move(screen), std::move(more_headers), limits);
  impl->bound = BoundAddressOf(*listener);
  const MHD_AccessHandlerCallback answer =
      [](void* self, MHD_Connection* connection, const char* path, const char* method,
         const char* version, const char* data, size_t* size, void** state) {
        Impl& server = *static_cast<Impl*>(self);
        if (*state == nullptr) return server.Begin(connection, path, method, version, state);
        auto* exchange = static_cast<Exchange*>(*state);
        if (*size == 0) return server.Proceed(connection, exchange);
        return server.Read(connection, exchange, data, std::exchange(*size, 0));
      };
  const MHD_NotifyConnectionCallback connected = [](void* self, MHD_Connection* connection,
                                                    void** context,
                                                    MHD_ConnectionNotificationCode code) {
    OpenConnections& open = static_cast<Impl*>(self)->connections;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
      delete static_cast<Connection*>(*context);
      return open.Remove(connection);
    }
    auto own = std::make_unique<Connection>();
    const auto* client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (client != nullptr) own->address = HostOf(client->client_addr);
    *context = own.release();
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) open.Add(connection, info->connect_fd, MonotonicMillis());
  };
  // Called before a request's target is decoded.
  const auto log = [](void*, const char* target, MHD_Connection* connection) -> void* {
    if (Connection* of = Impl::Of(connection)) {
      of->target = target;
      of->target_bytes = std::strlen(target);
      of->has_encoded_nul = std::string_view(target).find("%00") != std::string_view::npos;
    }
    return nullptr;
  };
  void* (*const log_target)(void*, const char*, MHD_Connection*) = log;
  const MHD_RequestCompletedCallback completed = [](void* self, MHD_Connection*, void** state,
                                                    MHD_RequestTerminationCode) {
    if (*state != nullptr) static_cast<Impl*>(self)->End(static_cast<Exchange*>(*state));
  };
  impl->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME, 0,
      nullptr, nullptr, answer, impl.get(), MHD_OPTION_LISTEN_SOCKET, *listener,
      MHD_OPTION_EXTERNAL_LOGGER, &Ignore, nullptr, MHD_OPTION_NOTIFY_COMPLETED, completed,
      impl.get(), MHD_OPTION_NOTIFY_CONNECTION, connected, impl.get(), MHD_OPTION_URI_LOG_CALLBACK,
      log_target, nullptr, MHD_OPTION_CONNECTION_LIMIT, 2 * limits.connections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, limits.of_address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      limits.header_bytes, MHD_OPTION_CONNECTION_TIMEOUT, limits.silent_s, MHD_OPTION_END);
  if (impl->daemon == nullptr) {
    close(*listener);
    return CannotListen("libmicrohttpd does not start");
  }
  impl->watch = std::thread([self = impl.get()] { self->Watch(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return PortOf(impl_->bound); }

bool HttpServer::Drain(int limit_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  if (!impl_->draining.exchange(true)) impl_->CatchUp();
  if (impl_->listener < 0) impl_->listener = MHD_quiesce_daemon(impl_->daemon);
  MutexLock lock(impl_->mutex);
  while (!impl_->exchanges.empty() && impl_->idle.WaitUntil(lock, end)) {
  }
  return impl_->exchanges.empty();
}

}  // namespace dslide
