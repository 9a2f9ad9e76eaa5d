// A TCP connection without any protocol.
#pragma once

#include <string>
#include <string_view>

namespace dslide {

class Tcp {
 public:
  // Dials loopback; without waiting for the connection if not `wait`.
  explicit Tcp(int port, bool wait = true);
  Tcp(Tcp&& other) noexcept;
  Tcp& operator=(Tcp&&) = delete;
  ~Tcp();

  bool open() const { return fd_ >= 0; }
  // What the kernel takes within `ms`, in bytes; -1: the peer has closed.
  long Send(std::string_view bytes, int ms = 200);
  // What comes within `ms`, up to `max` bytes.
  std::string Receive(size_t max = 65536, int ms = 200);
  void Close();

 private:
  int fd_ = -1;
};

// The port of tcp://HOST:PORT.
int PortOf(const std::string& address);

}  // namespace dslide
