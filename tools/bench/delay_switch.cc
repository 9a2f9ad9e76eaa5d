// dslide-delay-switch: a network with delays and limited rates, for tools/bench/network.
//
//   dslide-delay-switch NAMESPACE,ADDRESS,DELAY_US,BITS_PER_S ...
//
// Makes a TUN device eth0 in each named network namespace and forwards IPv4 packets by their
// destination: through the sender's uplink, the larger of both ends' one-way delays, the
// receiver's downlink. Up- and downlink have the host's rate (0: unlimited) and a buffer of 100 ms
// or 64 KB, whichever is more. Prints "ready" when all devices exist, and at SIGINT or SIGTERM one
// line of counters.
//
// Packets are up to 64 KB (TCP segmentation offload) and cross with their virtio header, so that
// a bulk transfer costs a system call pair per 64 KB. Such a packet stands for a train of small
// ones: its first bytes are on the downlink while its last ones are on the uplink.
//
// Rates are enforced here, not by tc: the kernel's queues would use the CPU time of the processes
// that their timers interrupt, and so the quotas of the measured hosts.
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
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <sstream>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/app/executable.h"
#include "common/base/process.h"

namespace dslide {
namespace {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;
using Time = Clock::time_point;

constexpr size_t kHeader = 10;  // struct virtio_net_hdr, whose own header is C only
constexpr size_t kMaxPacket = kHeader + 65536;
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv4Destination = 16;  // offset in the IPv4 header
constexpr int kReadAtOnce = 32;          // packets of a host before the next one's turn
constexpr Duration kBuffer = std::chrono::milliseconds(100);
constexpr double kMinBufferBytes = 65536;
constexpr size_t kMaxUnderWayBytes = size_t{1} << 30;  // limits memory at absurd rates and delays

// One direction of a host's link. It sends one packet after the other.
struct Channel {
  double bytes_per_s = 0;  // 0: unlimited
  Time free;               // when the accepted packets will have been sent

  Duration TransferTime(size_t bytes) const { return Seconds(static_cast<double>(bytes)); }
  // How long a packet may wait before it is dropped instead.
  Duration Buffer() const { return std::max(kBuffer, Seconds(kMinBufferBytes)); }

 private:
  Duration Seconds(double bytes) const {
    if (bytes_per_s == 0) return {};
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bytes / bytes_per_s));
  }
};

struct Host {
  int fd = -1;  // its TUN device
  Duration delay{};
  Channel up, down;
};

struct Packet {
  Time due;                  // when its first byte reaches the downlink, or its last one the host
  Time complete;             // when its last byte reaches the downlink
  uint64_t number = 0;       // keeps packets of equal due time in order
  size_t to = 0;             // index of the host
  bool on_downlink = false;  // has its place on the downlink
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

// A finite number that is not negative.
std::optional<double> Number(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(number >= 0 && number <= 1e12)) return std::nullopt;
  return number;
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

  // `text` is NAMESPACE,ADDRESS,DELAY_US,BITS_PER_S.
  Status AddHost(const std::string& text);
  void Run(StopSignals* signals);

 private:
  static constexpr uint64_t kSignal = UINT64_MAX;  // epoll's data for the signals

  void Watch(int fd, uint64_t data);
  void Receive(size_t from);
  void Accept(size_t from, size_t size);
  void MoveDue();
  bool TakeDownlink(Packet* packet);
  void Push(Packet packet);
  Packet Pop();
  void WaitAndReceive(bool* stop);

  int epoll_;
  std::vector<Host> hosts_;
  std::unordered_map<uint32_t, size_t> by_address_;  // network byte order to index of the host
  std::vector<Packet> under_way_;                    // a heap, the next one due in front
  size_t under_way_bytes_ = 0;
  std::vector<char> buffer_ = std::vector<char>(kMaxPacket);
  uint64_t packets_ = 0;
  uint64_t overflows_ = 0;  // of a link's buffer
  uint64_t refused_ = 0;    // by the receiving device
  uint64_t unknown_ = 0;    // not IPv4, or to no host of this switch
};

Status Switch::AddHost(const std::string& text) {
  std::vector<std::string> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  in_addr address{};
  if (fields.size() != 4 || inet_pton(AF_INET, fields[1].c_str(), &address) != 1) {
    return BadInput(fmt::format("{}: expected NAMESPACE,IPV4_ADDRESS,DELAY_US,BITS_PER_S", text));
  }
  const auto delay_us = Number(fields[2]);
  const auto bits_per_s = Number(fields[3]);
  if (!delay_us || !bits_per_s) {
    return BadInput(fmt::format("{}: delay and rate must be numbers, not negative", text));
  }
  const Result<int> fd = OpenDevice(fields[0]);
  DSLIDE_RETURN_IF_ERROR(fd);
  by_address_[address.s_addr] = hosts_.size();
  Watch(*fd, hosts_.size());
  const auto delay = std::chrono::duration<double, std::micro>(*delay_us);
  const Channel channel{*bits_per_s / 8, {}};
  hosts_.push_back({*fd, std::chrono::duration_cast<Duration>(delay), channel, channel});
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
    MoveDue();
  }
  fmt::print("{} packets; lost: {} by full queues, {} by receivers, {} to nobody\n", packets_,
             overflows_, refused_, unknown_);
}

void Switch::WaitAndReceive(bool* stop) {
  timespec wait{1, 0};
  if (!under_way_.empty()) {
    const auto left = std::max(under_way_.front().due - Clock::now(), Clock::duration::zero());
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
  Channel& up = hosts_[from].up;
  const Time now = Clock::now();
  const Time start = std::max(now, up.free);
  if (start - now > up.Buffer() || under_way_bytes_ + size > kMaxUnderWayBytes) {
    overflows_++;
    return;
  }
  up.free = start + up.TransferTime(size - kHeader);
  const Duration delay = std::max(hosts_[from].delay, hosts_[found->second].delay);
  Push({start + delay,
        up.free + delay,
        packets_,
        found->second,
        false,
        {buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(size)}});
}

// Puts the packet on the downlink; false if its buffer is full. The packet is then due when its
// last byte has passed.
bool Switch::TakeDownlink(Packet* packet) {
  Channel& down = hosts_[packet->to].down;
  const Time start = std::max(packet->due, down.free);
  if (start - packet->due > down.Buffer()) return false;
  down.free = start + down.TransferTime(packet->bytes.size() - kHeader);
  packet->due = std::max(down.free, packet->complete);
  packet->on_downlink = true;
  return true;
}

void Switch::MoveDue() {
  const Time now = Clock::now();
  while (!under_way_.empty() && under_way_.front().due <= now) {
    Packet packet = Pop();
    if (!packet.on_downlink && !TakeDownlink(&packet)) {
      overflows_++;
    } else if (packet.due > now) {
      Push(std::move(packet));
    } else if (write(hosts_[packet.to].fd, packet.bytes.data(), packet.bytes.size()) < 0) {
      refused_++;
    }
  }
}

void Switch::Push(Packet packet) {
  under_way_bytes_ += packet.bytes.size();
  under_way_.push_back(std::move(packet));
  std::push_heap(under_way_.begin(), under_way_.end(), std::greater<>());
}

Packet Switch::Pop() {
  std::pop_heap(under_way_.begin(), under_way_.end(), std::greater<>());
  Packet packet = std::move(under_way_.back());
  under_way_.pop_back();
  under_way_bytes_ -= packet.bytes.size();
  return packet;
}

// Real-time priority: a wire does not wait for a free core.
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
  dslide::CommandLine line("dslide-delay-switch NAMESPACE,ADDRESS,DELAY_US,BITS_PER_S ...",
                           "Joins network namespaces by links of a given delay and rate.");
  line.Positional("HOST", "a host: namespace, address, one-way delay, rate", 1, 1000);
  return dslide::RunExecutable("dslide-delay-switch", line, argc, argv, dslide::RunSwitch);
}
