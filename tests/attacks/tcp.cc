#include "tests/attacks/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dslide {

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

Tcp::Tcp(int port, bool wait) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (fd_ < 0) return;
  if (!wait) (void)fcntl(fd_, F_SETFL, O_NONBLOCK);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int code = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (code != 0 && errno != EINPROGRESS) Close();
  if (open()) (void)fcntl(fd_, F_SETFL, O_NONBLOCK);
}

Tcp::Tcp(Tcp&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Tcp::~Tcp() { Close(); }

void Tcp::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

long Tcp::Send(std::string_view bytes, int ms) {
  if (!open()) return -1;
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return -1;
    pollfd waits = {fd_, POLLOUT, 0};
    if (poll(&waits, 1, ms) <= 0) break;
  }
  return static_cast<long>(sent);
}

std::string Tcp::Receive(size_t max, int ms) {
  std::string bytes;
  while (open() && bytes.size() < max) {
    pollfd waits = {fd_, POLLIN, 0};
    if (poll(&waits, 1, ms) <= 0) break;
    char chunk[4096];
    const ssize_t n = recv(fd_, chunk, sizeof chunk, 0);
    if (n <= 0) break;
    bytes.append(chunk, static_cast<size_t>(n));
  }
  return bytes;
}

}  // namespace dslide
