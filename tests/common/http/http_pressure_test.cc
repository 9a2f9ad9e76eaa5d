// Clients of an HTTP server that try to hold up others, and requests that are cut or too long.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/common/http/http_fixture.h"

namespace dslide::http_server_test {
namespace {

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
  // A decoded escape is not decoded again.
  CHECK(Ask(*server, "GET /echo%2500 HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
  CHECK(Ask(*server, "GET /%65cho?a=%2500 HTTP/1.1\r\nHost: x\r\n\r\n")
            .ends_with("\r\n\r\n[  a=%00]"));
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
  CHECK(refused >= 1);
  // The bytes that they held are free again.
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
  CHECK(whole < deaf.size());
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
  // Two clients that have connected and not asked yet, and one more.
  Client first(server->port()), second(server->port());
  CHECK(Ask(*server, Post("a", "Connection: close\r\n")).ends_with("[a text/x]"));
  CHECK(second.Send(Post("b", "Connection: close\r\n")));
  CHECK(second.Receive().ends_with("[b text/x]"));
  CHECK(first.Send(Post("c", "Connection: close\r\n")));
  CHECK(first.Receive().ends_with("[c text/x]"));
}

}  // namespace
}  // namespace dslide::http_server_test
