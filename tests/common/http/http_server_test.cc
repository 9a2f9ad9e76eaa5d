#include "common/http/http_server.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "tests/common/http/http_fixture.h"
#include "tests/support/results.h"

namespace dslide::http_server_test {
namespace {

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
    CHECK(MessageOf(HttpServer::Start(bind, Pages, {})) == reason);
  };
  refused("tcp://127.0.0.1:" + std::to_string(server->port()),
          "cannot listen there: Address already in use");
  refused("127.0.0.1:1", "must be tcp://HOST:PORT");
  refused("ipc://path", "must be tcp://HOST:PORT");
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
  auto server = Ok(HttpServer::Start(kAnyPort, keeper.Handle(), {}));
  Client first(server->port()), second(server->port()), dropped(server->port());
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
  auto server = Ok(HttpServer::Start(kAnyPort, keeper.Handle(), {}));
  Client client(server->port());
  CHECK(client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(1);
  server.reset();
  keeper.asked[0](HttpResponse::Text(200, "late"));
  CHECK(client.Receive().find("late") == std::string::npos);
}

TEST_CASE("http: draining waits for the answers to what has come") {
  Keeper keeper;
  auto server = Ok(HttpServer::Start(kAnyPort, keeper.Handle(), KeepAlive()));
  Client client(server->port());
  CHECK(client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  keeper.Await(1);
  CHECK_FALSE(server->Drain(0));
  keeper.asked[0](HttpResponse::Text(200, "in time"));
  CHECK(server->Drain(1000 * kDeadlineS));
  CHECK(client.Receive().ends_with("in time"));  // and the connection is closed
}

TEST_CASE("http: draining answers what was sent before it, though nobody has read it yet") {
  for (int round = 0; round < 20; ++round) {
    auto server = Ok(HttpServer::Start(kAnyPort, Pages, KeepAlive()));
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<Client>(server->port()));
    for (const auto& client : clients) CHECK(client->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK(server->Drain(1000 * kDeadlineS));
    server.reset();
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
  auto server = Ok(HttpServer::Start(kAnyPort, Pages, KeepAlive(), screen));
  const auto ask = [&](const std::string& headers) {
    return Ask(*server, "POST /echo HTTP/1.1\r\nConnection: close\r\n" + headers +
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
