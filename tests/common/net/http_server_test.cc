#include "common/net/http_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

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

void Pages(const HttpRequest& request, const HttpServer::Respond& respond) {
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

HttpServer::Limits KeepAlive() {
  HttpServer::Limits limits;
  limits.body_bytes = 100;
  limits.keep_alive = true;
  return limits;
}

std::string Post(const std::string& body, const std::string& more = "") {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/x\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST_CASE("http: bodies come whole, and several requests over one connection") {
  const auto server = Serve(KeepAlive());
  Client client(server->port());
  CHECK(client.Send(Post("a") + Post("bc") + Post("d", "Connection: close\r\n")));
  const std::string answers = client.Receive();
  CHECK(answers.find("\r\n\r\n[a text/x]HTTP/1.1 200") != std::string::npos);
  CHECK(answers.find("\r\n\r\n[bc text/x]HTTP/1.1 200") != std::string::npos);
  CHECK(answers.ends_with("\r\n\r\n[d text/x]"));
}

TEST_CASE("http: the query comes decoded") {
  const auto server = Serve();
  CHECK(Ask(*server, "GET /echo?a=b%20c+d&e&a= HTTP/1.1\r\nHost: x\r\n\r\n")
            .ends_with("\r\n\r\n[  a=b c d e= a=]"));
}

TEST_CASE("http: a body that is longer than the limit is refused") {
  const auto server = Serve(KeepAlive());
  CHECK(Ask(*server, Post(std::string(101, 'x'))).starts_with("HTTP/1.1 413 "));
  std::string chunked =
      "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunked += "a\r\n0123456789\r\n";
  CHECK(Ask(*server, chunked + "0\r\n\r\n").starts_with("HTTP/1.1 413 "));
}

TEST_CASE("http: a client that sends all of too long a body can read why it was refused") {
  const auto server = Serve(KeepAlive());
  // More than the kernel keeps for a server that does not read.
  HttpServer::Limits limits = KeepAlive();
  limits.body_bytes = 4 << 20;
  const auto large = Serve(limits);
  const std::string sent = Post(std::string((8 << 20), 'x'), "Connection: close\r\n");
  for (int i = 0; i < 5; ++i) {
    Client client(large->port());
    CHECK(client.Send(sent));
    CHECK(client.Receive().find("a request has at most 4194304 bytes") != std::string::npos);
  }
  // A client that asks first hears it at once.
  CHECK(Ask(*server,
            "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            "Content-Length: 101\r\n\r\n")
            .starts_with("HTTP/1.1 413 "));
}

TEST_CASE("http: an address with a NUL byte, encoded or not, is refused") {
  using namespace std::string_literals;
  const auto server = Serve();
  for (const std::string& target :
       {"/%00"s, "/echo%00"s, "/echo%00x"s, "/echo\0"s, "/echo\0x"s, "/echo\0 x"s, "/\0"s,
        "/echo?a=%00"s, "/echo?a=b\0c"s, "/echo\0?a=b"s, "/echo\0HTTP/1.1"s}) {
    CAPTURE(target);
    const std::string answer = Ask(*server, "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(answer.starts_with("HTTP/1.1 400 "));
  }
  // What is decoded once is not decoded again.
  CHECK(Ask(*server, "GET /echo%2500 HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
  CHECK(Ask(*server, "GET /%65cho?a=%2500 HTTP/1.1\r\nHost: x\r\n\r\n")
            .ends_with("\r\n\r\n[  a=%00]"));
  // Nor is the next request of a connection judged by this one.
  const auto kept = Serve(KeepAlive());
  CHECK(Ask(*kept, "GET /echo%00 HTTP/1.1\r\nHost: x\r\n\r\n" + Post("d", "Connection: close\r\n"))
            .ends_with("[d text/x]"));
}

TEST_CASE("http: bodies that wait fill no more than their bytes, and keep no small request out") {
  constexpr size_t kBody = 1 << 20;
  HttpServer::Limits limits = KeepAlive();
  limits.body_bytes = kBody;
  limits.held_bytes = 4 * kBody;
  limits.silent_s = kForeverS;
  const auto server = Serve(limits);
  const std::string sent = Post(std::string(kBody, 'x'), "Connection: close\r\n");
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 12; ++i) {
    waiting.push_back(std::make_unique<Client>(server->port()));
    CHECK(waiting.back()->Send(sent.substr(0, sent.size() - 1)));
  }
  CHECK(Ask(*server, Post("a", "Connection: close\r\n")).ends_with("[a text/x]"));
  size_t answered = 0, refused = 0;
  for (const auto& client : waiting) {
    CHECK(client->Send("x"));
    const std::string answer = client->Receive();
    answered += answer.starts_with("HTTP/1.1 200 ");
    refused += answer.starts_with("HTTP/1.1 503 ") &&
               answer.find("{\"error\":\"too many bytes of requests wait") != std::string::npos;
  }
  CHECK(answered + refused == waiting.size());
  CHECK(answered >= 1);
  CHECK(answered <= 4);
  // What they held is free again.
  CHECK(Ask(*server, sent).starts_with("HTTP/1.1 200 "));
}

TEST_CASE("http: clients that read no responses fill no more than their bytes") {
  HttpServer::Limits limits = KeepAlive();
  limits.held_bytes = 3 * kBig->size();
  limits.silent_s = kForeverS;
  const auto server = Serve(limits);
  std::vector<std::unique_ptr<Client>> deaf;
  for (int i = 0; i < 10; ++i) {
    deaf.push_back(std::make_unique<Client>(server->port()));
    CHECK(deaf.back()->Send("GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    CHECK(Ask(*server, Post("a", "Connection: close\r\n")).ends_with("[a text/x]"));
  }
  size_t whole = 0;
  for (const auto& client : deaf) whole += client->Receive().size() > kBig->size();
  CHECK(whole >= 1);
  CHECK(whole <= 3);
}

TEST_CASE("http: slow bodies, however many, close no request that comes whole") {
  HttpServer::Limits limits = KeepAlive();
  limits.connections = 20;
  limits.silent_s = limits.headers_s = limits.request_s = kForeverS;
  const auto server = Serve(limits);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 22; ++i) {
    slow.push_back(std::make_unique<Client>(server->port()));
    CHECK(slow.back()->Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nx"));
  }
  // Two that have connected and not asked yet, and one that comes besides.
  Client first(server->port()), second(server->port());
  CHECK(Ask(*server, Post("a", "Connection: close\r\n")).ends_with("[a text/x]"));
  CHECK(second.Send(Post("b", "Connection: close\r\n")));
  CHECK(second.Receive().ends_with("[b text/x]"));
  CHECK(first.Send(Post("c", "Connection: close\r\n")));
  CHECK(first.Receive().ends_with("[c text/x]"));
}

// Keeps what it is asked, to be answered later.
struct Keeper {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<HttpServer::Respond> asked;

  HttpServer::Handle Handle() {
    return [this](const HttpRequest&, HttpServer::Respond respond) {
      const std::lock_guard lock(mutex);
      asked.push_back(std::move(respond));
      changed.notify_all();
    };
  }
  void Await(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return asked.size() >= count; });
  }
};

TEST_CASE("http: answers may come later, in any order, and once") {
  Keeper keeper;
  auto server = HttpServer::Start(kAnyPort, keeper.Handle(), {});
  REQUIRE(server.ok());
  Client first((*server)->port()), second((*server)->port()), dropped((*server)->port());
  CHECK(first.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(1);
  CHECK(second.Send("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(2);
  CHECK(dropped.Send("GET /3 HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(3);
  keeper.asked[1](HttpResponse::Text(200, "second"));
  CHECK(second.Receive().ends_with("second"));
  keeper.asked[0](HttpResponse::Text(200, "first"));
  keeper.asked[0](HttpResponse::Text(200, "again"));
  CHECK(first.Receive().ends_with("first"));
  keeper.asked[2] = nullptr;
  CHECK(dropped.Receive().starts_with("HTTP/1.1 500 "));
}

TEST_CASE("http: the server's end answers who waits, and later answers go nowhere") {
  Keeper keeper;
  auto server = HttpServer::Start(kAnyPort, keeper.Handle(), {});
  REQUIRE(server.ok());
  Client client((*server)->port());
  CHECK(client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(1);
  server->reset();
  keeper.asked[0](HttpResponse::Text(200, "late"));
  CHECK(client.Receive().find("late") == std::string::npos);
}

TEST_CASE("http: draining waits for the answers to what has come") {
  Keeper keeper;
  auto server = HttpServer::Start(kAnyPort, keeper.Handle(), KeepAlive());
  REQUIRE(server.ok());
  Client client((*server)->port());
  CHECK(client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(1);
  CHECK_FALSE((*server)->Drain(0));
  keeper.asked[0](HttpResponse::Text(200, "in time"));
  CHECK((*server)->Drain(1000 * kDeadlineS));
  CHECK(client.Receive().ends_with("in time"));  // and the connection is closed
}

TEST_CASE("http: draining answers what was sent before it, though nobody has read it yet") {
  for (int round = 0; round < 20; ++round) {
    auto server = HttpServer::Start(kAnyPort, Pages, KeepAlive());
    REQUIRE(server.ok());
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<Client>((*server)->port()));
    for (const auto& client : clients) CHECK(client->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK((*server)->Drain(1000 * kDeadlineS));
    server->reset();
    for (const auto& client : clients) CHECK(client->Receive().ends_with("hello"));
  }
}

TEST_CASE("http: a body that is not wanted is refused before it comes") {
  const auto server = Serve();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  CHECK(Ask(*server, head + "Content-Length: 1500000000\r\n\r\n").starts_with("HTTP/1.1 413 "));
  CHECK(Ask(*server, head + "Content-Length: 99999999999999999999999\r\n\r\n").find(" 200 ") ==
        std::string::npos);
  CHECK(Ask(*server, head + "Transfer-Encoding: chunked\r\n\r\n").starts_with("HTTP/1.1 413 "));
}

TEST_CASE("http: a body without end is not read to its end") {
  HttpServer::Limits limits = KeepAlive();
  const auto server = Serve(limits);
  Client client(server->port());
  CHECK(client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const std::string chunk = "2000\r\n" + std::string(0x2000, 'x') + "\r\n";
  while (client.Send(chunk)) continue;  // until the server closes
  CHECK(client.Receive().find(" 200 ") == std::string::npos);
}

TEST_CASE("http: idle connections, however many, keep nobody out") {
  HttpServer::Limits limits;
  limits.connections = 4;
  limits.silent_s = limits.headers_s = kForeverS;
  const auto server = Serve(limits);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(std::make_unique<Client>(server->port()));
  CHECK(Ask(*server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
  CHECK(idle.front()->Receive() == "");  // it has waited longest
}

TEST_CASE("http: who is slow with the headers, or with the rest, is closed") {
  HttpServer::Limits limits = KeepAlive();
  limits.silent_s = kForeverS;
  limits.headers_s = limits.request_s = 1;
  const auto server = Serve(limits);
  Client headers(server->port()), body(server->port()), reader(server->port());
  CHECK(headers.Send("GET / HTTP/1.1\r\nX"));
  CHECK(body.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"));
  CHECK(reader.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(headers.Receive() == "");
  CHECK(body.Receive() == "");
  CHECK(reader.Receive().size() < kBig->size());
}

TEST_CASE("http: a request may be refused by its headers") {
  const HttpServer::Screen screen = [](const HttpRequest& request) -> std::optional<HttpResponse> {
    CHECK(request.body.empty());
    if (request.Header("authorization") == "Bearer x" && request.Header("HOST") == "y")
      return std::nullopt;
    return HttpResponse::Text(401, "no");
  };
  auto server = HttpServer::Start(kAnyPort, Pages, KeepAlive(), screen);
  REQUIRE(server.ok());
  const auto ask = [&](const std::string& headers) {
    return Ask(**server, "POST /echo HTTP/1.1\r\nConnection: close\r\n" + headers +
                             "Content-Length: 2\r\n\r\nhi");
  };
  CHECK(ask("Host: y\r\n").starts_with("HTTP/1.1 401 "));
  CHECK(ask("Host: z\r\nAuthorization: Bearer x\r\n").starts_with("HTTP/1.1 401 "));
  CHECK(ask("Host: y\r\nAuthorization: Bearer x\r\n").ends_with("[hi ]"));
}

TEST_CASE("http: every response says what browsers may not do with it") {
  const auto server = Serve();
  for (const char* path : {"/", "/none", "/echo"}) {
    const std::string answer =
        Ask(*server, std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    for (const char* header :
         {"X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
          "Cross-Origin-Resource-Policy: same-origin", "Referrer-Policy: no-referrer"}) {
      CHECK(answer.find(std::string("\r\n") + header + "\r\n") != std::string::npos);
    }
    CHECK(answer.find("Access-Control-Allow-Origin") == std::string::npos);
  }
}

}  // namespace
}  // namespace dslide::http_server_test
