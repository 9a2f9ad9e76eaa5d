// dslide-delay-switch: a network whose packets take their time, for tools/bench/network.
//
//   dslide-delay-switch NAMESPACE,ADDRESS,DELAY_US ...
//
// Makes a TUN device eth0 in each named network namespace and hands IPv4 packets on by their
// destination, after the larger of both ends' one-way delays. It sets no rate: tc does. Prints
// "ready" when all devices exist, and at SIGINT or SIGTERM one line of counters.
//
// Packets are up to 64 KB (TCP segmentation offload) and cross with their virtio header, so that
// a bulk transfer costs a system call pair per 64 KB.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/base/process.h"
#include "common/config/executable.h"

namespace dslide {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kHeader = 10;  // struct virtio_net_hdr, whose own header is C only
constexpr size_t kMaxPacket = kHeader + 65536;
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv4Destination = 16;  // offset in the IPv4 header
constexpr int kReadAtOnce = 32;          // packets of a host before the next one's turn
// Of packets under way to a host: 10 Gbit/s for 50 ms. Only a safeguard; tc's queues drop first.
constexpr size_t kMaxQueuedBytes = size_t{64} << 20;

struct Host {
  int fd = -1;  // its TUN device
  Clock::duration delay{};
  size_t queued_bytes = 0;
};

struct Packet {
  Clock::time_point due;
  uint64_t number = 0;  // keeps packets of equal due time in order
  size_t to = 0;        // index of the host
  std::vector<char> bytes;

  bool operator>(const Packet& other) const {
    return std::tie(due, number) > std::tie(other.due, other.number);
  }
};

Error SystemError(const std::string& what) {
  return Failed(fmt::format("{}: {}", what, std::strerror(errno)));
}

// A TUN device belongs to the namespace that its file was opened in.
Result<int> OpenDevice(const std::string& name_space) {
  const std::string path = "/var/run/netns/" + name_space;
  const int ns = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (ns < 0) return SystemError(path + ": cannot open; create it with ip netns add");
  const int entered = setns(ns, CLONE_NEWNET);
  close(ns);
  if (entered != 0) return SystemError(path + ": cannot enter (needs root)");
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return SystemError("/dev/net/tun: cannot open");
  ifreq request{};
  std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(fd, TUNSETIFF, &request) != 0 ||
      ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) {
    const Error error = SystemError(path + ": cannot make a TUN device eth0");
    close(fd);
    return error;
  }
  return fd;
}

class Switch {
 public:
  Switch() : epoll_(epoll_create1(EPOLL_CLOEXEC)) { DSLIDE_CHECK(epoll_ >= 0); }
  ~Switch() {
    for (const Host& host : hosts_) close(host.fd);
    close(epoll_);
  }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  // `text` is NAMESPACE,ADDRESS,DELAY_US.
  Status AddHost(const std::string& text);
  void Run(StopSignals* signals);

 private:
  static constexpr uint64_t kSignal = UINT64_MAX;  // epoll's data for the signals

  void Watch(int fd, uint64_t data);
  void Receive(size_t from);
  void Accept(size_t from, size_t size);
  void DeliverDue();
  void WaitAndReceive(bool* stop);

  int epoll_;
  std::vector<Host> hosts_;
  std::unordered_map<uint32_t, size_t> by_address_;  // network byte order to index of the host
  std::priority_queue<Packet, std::vector<Packet>, std::greater<>> under_way_;
  std::vector<char> buffer_ = std::vector<char>(kMaxPacket);
  uint64_t packets_ = 0;
  uint64_t overflows_ = 0;  // kMaxQueuedBytes
  uint64_t refused_ = 0;    // by the receiving device
  uint64_t unknown_ = 0;    // not IPv4, or to no host of this switch
};

Status Switch::AddHost(const std::string& text) {
  const size_t first = text.find(',');
  const size_t second = text.find(',', first + 1);
  in_addr address{};
  char* end = nullptr;
  if (second == std::string::npos ||
      inet_pton(AF_INET, text.substr(first + 1, second - first - 1).c_str(), &address) != 1) {
    return BadInput(fmt::format("{}: expected NAMESPACE,IPV4_ADDRESS,DELAY_US", text));
  }
  const double delay_us = std::strtod(text.c_str() + second + 1, &end);
  if (*end != '\0' || end == text.c_str() + second + 1 || !(delay_us >= 0 && delay_us <= 1e7)) {
    return BadInput(fmt::format("{}: the delay must be 0 to 10000000 microseconds", text));
  }
  const Result<int> fd = OpenDevice(text.substr(0, first));
  DSLIDE_RETURN_IF_ERROR(fd);
  by_address_[address.s_addr] = hosts_.size();
  Watch(*fd, hosts_.size());
  const auto delay = std::chrono::duration<double, std::micro>(delay_us);
  hosts_.push_back({*fd, std::chrono::duration_cast<Clock::duration>(delay)});
  return {};
}

void Switch::Watch(int fd, uint64_t data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  DSLIDE_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0);
}

void Switch::Run(StopSignals* signals) {
  Watch(signals->fd(), kSignal);
  fmt::print("ready\n");
  std::fflush(stdout);
  for (bool stop = false; !stop;) {
    WaitAndReceive(&stop);
    DeliverDue();
  }
  fmt::print("{} packets; lost: {} by full queues, {} by receivers, {} to nobody\n", packets_,
             overflows_, refused_, unknown_);
}

void Switch::WaitAndReceive(bool* stop) {
  timespec wait{1, 0};
  if (!under_way_.empty()) {
    const auto left = std::max(under_way_.top().due - Clock::now(), Clock::duration::zero());
    const auto left_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    wait = {left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  }
  epoll_event events[64];
  const int ready = epoll_pwait2(epoll_, events, 64, &wait, nullptr);
  for (int i = 0; i < ready; ++i) {
    if (events[i].data.u64 == kSignal) {
      *stop = true;
    } else {
      Receive(events[i].data.u64);
    }
  }
}

void Switch::Receive(size_t from) {
  for (int i = 0; i < kReadAtOnce; ++i) {
    const ssize_t size = read(hosts_[from].fd, buffer_.data(), buffer_.size());
    if (size <= 0) return;
    Accept(from, static_cast<size_t>(size));
  }
}

void Switch::Accept(size_t from, size_t size) {
  packets_++;
  uint32_t destination = 0;
  const bool ipv4 = size >= kHeader + kIpv4Header && (buffer_[kHeader] >> 4) == 4;
  if (ipv4) std::memcpy(&destination, &buffer_[kHeader + kIpv4Destination], sizeof destination);
  const auto found = by_address_.find(destination);
  if (!ipv4 || found == by_address_.end()) {
    unknown_++;
    return;
  }
  Host& to = hosts_[found->second];
  if (to.queued_bytes + size > kMaxQueuedBytes) {
    overflows_++;
    return;
  }
  to.queued_bytes += size;
  under_way_.push({Clock::now() + std::max(hosts_[from].delay, to.delay),
                   packets_,
                   found->second,
                   {buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(size)}});
}

void Switch::DeliverDue() {
  const Clock::time_point now = Clock::now();
  while (!under_way_.empty() && under_way_.top().due <= now) {
    const Packet& packet = under_way_.top();
    Host& to = hosts_[packet.to];
    to.queued_bytes -= packet.bytes.size();
    if (write(to.fd, packet.bytes.data(), packet.bytes.size()) < 0) refused_++;
    under_way_.pop();
  }
}

// A wire does not wait for a free core.
Status TakePrecedence() {
  (void)prctl(PR_SET_TIMERSLACK, 1);  // ns; the default is 50,000
  const sched_param priority{1};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    return SystemError("cannot take a real-time priority (needs root)");
  }
  return {};
}

Status RunSwitch(const ParsedArguments& arguments) {
  StopSignals signals;
  DieWithParent();
  Switch network;
  for (const std::string& host : arguments.Positional()) {
    DSLIDE_RETURN_IF_ERROR(network.AddHost(host));
  }
  DSLIDE_RETURN_IF_ERROR(TakePrecedence());
  network.Run(&signals);
  return {};
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line("dslide-delay-switch NAMESPACE,ADDRESS,DELAY_US ...",
                           "Joins network namespaces by a switch that delays IPv4 packets.");
  line.Positional("HOST", "a host: its namespace, its address, its one-way delay", 1, 1000);
  return dslide::RunExecutable("dslide-delay-switch", line, argc, argv, dslide::RunSwitch);
}
