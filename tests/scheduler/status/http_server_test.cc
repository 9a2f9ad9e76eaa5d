#include "scheduler/status/http_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "scheduler/status/status_page.h"

namespace dslide::http_server_test {
namespace {

constexpr int kDeadlineS = 30;
constexpr unsigned kForeverS = 3600;
constexpr char kAnyPort[] = "tcp://127.0.0.1:*";

// A connection to loopback. What does not come within kDeadlineS has not come.
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

const auto kBig = std::make_shared<const std::string>(size_t{8} << 20, 'x');

HttpServer::Page Pages(std::string_view path) {
  if (path == "/") return {"text/html", std::make_shared<std::string>("hello")};
  if (path == "/big") return {"text/plain", kBig};
  return {};
}

std::unique_ptr<HttpServer> Serve(HttpServer::Limits limits = {}) {
  Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(kAnyPort, Pages, limits);
  REQUIRE(server.ok());
  return std::move(*server);
}

std::string Ask(const HttpServer& server, const std::string& request) {
  Client client(server.port());
  CHECK(client.Send(request));
  return client.Receive();
}

TEST_CASE("http: pages, and what is none") {
  const auto server = Serve();
  const std::string hello = Ask(*server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(hello.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(hello.find("Content-Type: text/html\r\n") != std::string::npos);
  CHECK(hello.find("Content-Length: 5\r\n") != std::string::npos);
  CHECK(hello.ends_with("\r\n\r\nhello"));
  CHECK(Ask(*server, "GET /?a=b HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nhello"));
  const std::string head = Ask(*server, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(Ask(*server, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
  CHECK(Ask(*server, "POST / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405 "));
  for (const char* bad : {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / FTP/1.1\r\n\r\n"}) {
    Client client(server->port());
    CHECK(client.Send(bad));
    client.EndSending();
    CHECK(client.Receive().find(" 200 ") == std::string::npos);
  }
}

TEST_CASE("http: a request may come in pieces, a response may be long") {
  const auto server = Serve();
  Client client(server->port());
  for (const char* piece : {"GET /b", "ig HTTP/1.1\r", "\nHost: x\r\n", "\r\n"}) {
    CHECK(client.Send(piece));
  }
  const std::string answer = client.Receive();
  CHECK(answer.size() > kBig->size());
  CHECK(answer.ends_with(*kBig));
}

TEST_CASE("http: too long a request ends the connection") {
  const auto server = Serve();
  CHECK(Ask(*server, "GET /" + std::string(10'000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n")
            .find(" 200 ") == std::string::npos);
  Client headers(server->port());
  CHECK(headers.Send("GET / HTTP/1.1\r\n"));
  while (headers.Send("X: " + std::string(1000, 'x') + "\r\n")) continue;
  CHECK(Ask(*server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
}

TEST_CASE("http: who is silent is closed, and keeps nobody else out") {
  HttpServer::Limits limits;
  limits.connections = 1;
  limits.silent_s = 1;
  const auto server = Serve(limits);
  for (const char* sent : {"", "GET /", "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"}) {
    CAPTURE(sent);
    Client slow(server->port());
    CHECK(slow.Send(sent));
    CHECK(Ask(*server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
              .ends_with("hello"));  // has the only place next
    CHECK(slow.Receive().size() < kBig->size());
  }
}

TEST_CASE("http: the end of the server waits for no client") {
  HttpServer::Limits limits;
  limits.silent_s = kForeverS;
  auto server = Serve(limits);
  Client silent(server->port()), slow(server->port()), deaf(server->port());
  CHECK(slow.Send("GET / HTTP/1.1\r\nX"));
  CHECK(deaf.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(Ask(*server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));  // all are connected
  server.reset();
  CHECK(silent.Receive() == "");
  CHECK(slow.Receive() == "");
  CHECK(deaf.Receive().size() < kBig->size());
}

TEST_CASE("http: an address that cannot be listened at is an error with its reason") {
  const auto server = Serve();
  const auto refused = [](const std::string& bind, const std::string& reason) {
    CAPTURE(bind);
    const auto second = HttpServer::Start(bind, Pages, {});
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().kind == ErrorKind::kBadInput);
    CHECK(second.error().message == reason);
  };
  refused("tcp://127.0.0.1:" + std::to_string(server->port()),
          "cannot listen there: Address already in use");
  refused("127.0.0.1:1", "must be tcp://HOST:PORT");
  refused("ipc://path", "must be tcp://HOST:PORT");
}

TEST_CASE("status page: what was published last is served") {
  const auto page = StatusPage::Start(kAnyPort);
  REQUIRE(page.ok());
  const std::string& url = (*page)->url();
  REQUIRE(url.starts_with("http://127.0.0.1:"));
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  const auto get = [&](const std::string& path) {
    Client client(port);
    CHECK(client.Send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"));
    const std::string answer = client.Receive();
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  CHECK(get("/api/status") == "{}");
  (*page)->Publish("{\"phase\": 1}", "dslide_samples 1\n");
  CHECK(get("/api/status") == "{\"phase\": 1}");
  CHECK(get("/metrics") == "dslide_samples 1\n");
  CHECK(get("/").starts_with("<!doctype html>"));
}

}  // namespace
}  // namespace dslide::http_server_test
