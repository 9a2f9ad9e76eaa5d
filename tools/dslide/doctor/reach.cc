#include "tools/dslide/doctor/reach.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/app/executable.h"
#include "common/base/address.h"
#include "common/base/process.h"
#include "common/net/access_list.h"
#include "common/net/local_address.h"
#include "common/net/resolve.h"
#include "common/net/socket.h"
#include "tools/dslide/cluster/observer.h"
#include "tools/dslide/doctor/link.h"

namespace dslide {
namespace {

constexpr int kConnectMs = 4000;  // a machine that is not there is known after three seconds
constexpr int64_t kAnswerMs = 6000;
constexpr int64_t kProbeMs = 12'000;  // the scheduler gives an address up after ten heartbeats
constexpr double kSlowRoundMs = 300;
constexpr int64_t kClockApart = 60;  // seconds

// What a TCP connection to an address came to.
struct Dialled {
  double round_ms = 0;  // time of the handshake, one round trip
  int error = 0;        // errno; ETIMEDOUT without an answer
};

Dialled Dial(const SocketAddress& to) {
  Dialled dialled;
  const int fd = socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return {0, errno};
  const int64_t began = MonotonicMicros();
  int outcome = connect(fd, to.get(), to.size) == 0 ? 0 : errno;
  if (outcome == EINPROGRESS) {
    pollfd wait = {fd, POLLOUT, 0};
    socklen_t size = sizeof outcome;
    if (poll(&wait, 1, kConnectMs) <= 0) {
      outcome = ETIMEDOUT;
    } else {
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &outcome, &size);
    }
  }
  dialled.round_ms = static_cast<double>(MonotonicMicros() - began) / 1000;
  dialled.error = outcome;
  close(fd);
  return dialled;
}

const char* MendOf(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "nothing listens there: is the process running, and is the port the right one?";
    case ETIMEDOUT:
      return "a firewall drops what goes there, or the address is not that machine's: open the "
             "port";
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
      return "there is no route to that network from this machine: is the address one that others "
             "can "
             "reach (--advertise), and the network up?";
    case EACCES:
    case EPERM:
      return "this machine's own firewall forbids it: allow outgoing connections";
    default:
      return "look at the network between both machines";
  }
}

// Reports a name that does not resolve, or an address that cannot be dialled. False: it said why.
bool CheckAddress(const std::string& what, const std::string& address, Findings* findings) {
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp) {
    findings->Problem(what, fmt::format("{}: no address", address), "use tcp://HOST:PORT");
    return false;
  }
  const auto all = Resolve(address);
  if (!all.ok()) {
    findings->Problem(
        what, all.error().message,
        "the name is wrong, or this machine's resolver (/etc/resolv.conf, /etc/hosts) "
        "does not know it; a number works too");
    return false;
  }
  Dialled last;
  for (const SocketAddress& to : *all) {
    last = Dial(to);
    if (last.error == 0) break;
  }
  if (last.error != 0) {
    findings->Problem(what, fmt::format("{}: {}", address, std::strerror(last.error)),
                      MendOf(last.error));
    return false;
  }
  const std::string text = fmt::format("{} reached, round trip {:.3g} ms", address, last.round_ms);
  if (last.round_ms > kSlowRoundMs) {
    findings->Note(what, text, "far away: see \"Slow links\" in configs/README.md");
  } else {
    findings->Fine(what, text);
  }
  return true;
}

// "eth0" for one of this machine's addresses; "" if none has it.
std::string InterfaceOf(const std::string& host) {
  for (const OwnAddress& own : OwnAddresses()) {
    if (own.host == host) return own.interface;
  }
  return "";
}

void CheckRoute(const std::string& address, Findings* findings) {
  const Result<std::string> host = LocalHostTowards(address);
  if (!host.ok()) return;
  const std::string interface = InterfaceOf(*host);
  std::string text = *host;
  if (!interface.empty()) text += fmt::format(" ({})", interface);
  int mbit = 0;
  std::ifstream speed("/sys/class/net/" + interface + "/speed");
  if (speed >> mbit && mbit > 0) text += fmt::format(", {} Mbit/s", mbit);
  findings->Fine("own address", text);
}

void CheckClock(const nlohmann::json& status, Findings* findings) {
  const auto time_s = status.value("time", int64_t{0});
  if (time_s == 0) return;
  const int64_t apart = std::time(nullptr) - time_s;
  if (std::abs(apart) > kClockApart) {
    findings->Problem(
        "clocks",
        fmt::format("this machine's is {} s {} the scheduler's", std::abs(apart),
                    apart > 0 ? "ahead of" : "behind"),
        "keys expire by the clock: set the one that is wrong (chrony, systemd-timesyncd)");
  } else {
    findings->Fine("clocks", "agree with the scheduler's");
  }
}

// How fast the link to a server is, if that can be asked.
void CheckLink(const SchedulerAccess& access, const nlohmann::json& server, Findings* findings) {
  const std::string name = server.value("name", "");
  const std::optional<PublicKey> key = PublicKeyFrom(server.value("key", ""));
  if (access.curve && !key) return;  // an older scheduler does not say it
  const Result<LinkFacts> link = MeasureLink(access, server.value("address", ""), key);
  if (link.ok()) return JudgeLink(name, *link, findings);
  findings->Note(name + ": link", link.error().message,
                 "it is busy, another program has the port, or it is of an older version: its log "
                 "tells");
}

void CheckMembers(const SchedulerAccess& access, const nlohmann::json& status, bool with_run,
                  Findings* findings) {
  if (with_run) findings->Fine("run", status.value("phase", "") + ": " + status.value("line", ""));
  for (const auto& member : status.value("members", nlohmann::json::array())) {
    const std::string name = member.value("name", ""), address = member.value("address", "");
    if (member.value("role", "") != "server" || address.empty()) continue;
    if (CheckAddress(name, address, findings)) CheckLink(access, member, findings);
  }
}

// Where others may dial a process that this one dials at `address`: that address outside loopback,
// or this machine's own ones at which its port is open. "": nowhere.
std::string OpenToOthers(const std::string& address) {
  if (!IsLoopback(address)) return address;
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp) return "";
  for (const OwnAddress& own : OwnAddresses()) {
    const std::string other = fmt::format("tcp://{}:{}", own.host, tcp->port);
    if (IsLoopback(other)) continue;
    const auto resolved = Resolve(other);
    if (resolved.ok() && !resolved->empty() && Dial(resolved->front()).error == 0) return other;
  }
  return "";
}

// A run in plaintext is meant for loopback, or for a network that is trusted.
void CheckPlaintext(const SchedulerAccess& access, const nlohmann::json& status,
                    Findings* findings) {
  if (access.curve) return;
  std::string open = OpenToOthers(access.address);
  for (const auto& member : status.value("members", nlohmann::json::array())) {
    const std::string address = member.value("address", "");
    if (open.empty() && member.value("role", "") == "server") open = OpenToOthers(address);
  }
  if (open.empty()) {
    return findings->Fine("plaintext", "the run's ports are open to this machine alone");
  }
  findings->Note("plaintext",
                 fmt::format("the run is not encrypted, and {} is open to others: whoever reaches "
                             "it can join in any role",
                             open),
                 "bind 127.0.0.1, or begin the run with security.encryption=always; "
                 "schema/SECURITY.md lists the rights of each role");
}

}  // namespace

bool CheckScheduler(const SchedulerAccess& access, Findings* findings, nlohmann::json* whole) {
  if (!CheckAddress("scheduler", access.address, findings)) return false;
  CheckRoute(access.address, findings);
  Result<Observer> observer = Observer::Join(access, kDoctorName, kAnswerMs);
  if (!observer.ok()) {
    const std::string& why = observer.error().message;
    // A key of another role is let in, and may not look.
    if (access.curve && why.find("a key of role ") != std::string::npos) {
      findings->Note("key", "is let in, and may not see the status",
                     "for more give the key of an observer: RUN/keys/observer.key");
      return true;
    }
    findings->Problem(
        "scheduler's answer", why,
        observer.error().kind == ErrorKind::kTryLater && access.curve
            ? "the port is open, and no scheduler with this key is behind it: is the key of this "
              "run?"
        : observer.error().kind == ErrorKind::kTryLater
            ? "the port is open, and no scheduler answers: is it another program's, or is the run "
              "encrypted (then give --key)?"
            : "dslide key list RUN shows the keys; members of one version understand each other");
    return false;
  }
  findings->Fine("scheduler's answer",
                 access.curve ? "this key is let in, encrypted" : "not encrypted");
  const Result<std::string> text = observer->StatusJson();
  const auto status = text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!text.ok()) {
    findings->Problem("status", text.error().message, "see the scheduler's log");
  } else if (status.is_discarded()) {
    findings->Problem("status", "is no JSON", "use executables of one version");
  } else {
    CheckClock(status, findings);
    CheckPlaintext(access, status, findings);
    CheckMembers(access, status, whole == nullptr, findings);
    if (whole != nullptr) *whole = status;
  }
  return true;
}

void CheckListening(const ListeningPlace& place, const std::optional<SchedulerAccess>& access,
                    Findings* findings) {
  const std::string check = "listening";
  if (const std::string why = WhyNotListenable(place.bind); !why.empty()) {
    return findings->Problem(check, fmt::format("{}: {}", place.bind, why), "use tcp://*:7701");
  }
  AccessListHolder letting_in;
  if (access && access->curve) {
    letting_in.Set({{{TextOf(access->curve->peer), KeyRole::kScheduler}}});
  }
  NetContext context(&letting_in);
  Result<RouterSocket> socket =
      RouterSocket::Bind(context, place.bind, access ? access->own() : std::nullopt);
  if (!socket.ok()) {
    return findings->Problem(
        check, socket.error().message,
        "another process has the port (ss -ltnp shows it), or the address is not "
        "this machine's");
  }
  if (!access && place.advertise.empty()) return findings->Fine(check, place.bind);
  const Result<std::string> advertised = AdvertisedAddress(
      "cluster.server", socket->address(), place.advertise, access ? access->address : "");
  if (!advertised.ok()) {
    return findings->Problem(check, advertised.error().message, "give --advertise tcp://HOST:PORT");
  }
  findings->Fine(check, fmt::format("{}, others dial {}", place.bind, *advertised));
  if (!access) return;

  Result<DealerSocket> scheduler = DealerSocket::Connect(context, access->address, access->curve);
  if (!scheduler.ok()) return;  // CheckScheduler() has said so
  Message message;
  message.envelope.incarnation = DrawIncarnation(access->own());
  message.envelope.sequence = 1;
  Join join;
  join.role = Role::kServer;
  join.name = kDoctorName;
  join.address = *advertised;
  join.cores = CoresOfThisMachine();
  join.memory_bytes = MemoryOfThisMachine();
  message.body = join;
  (void)scheduler->Send(Encode(message, WirePrecision::kFp32));
  // However it ends: it does not want to join any more.
  struct Farewell {
    ~Farewell() {
      message.envelope.sequence = 2;
      message.body = Leave{};
      (void)to.Send(Encode(message, WirePrecision::kFp32));
    }
    DealerSocket& to;
    Message message;
  } farewell{*scheduler, message};
  Poller poller;
  poller.Add(*scheduler);
  poller.Add(*socket);
  const std::string back = "reached from the scheduler";
  for (const int64_t end_ms = MonotonicMillis() + kProbeMs; MonotonicMillis() < end_ms;) {
    poller.Wait(100);
    // The scheduler looks who listens there. It gets no answer, so this process does not join.
    if (socket->Receive()) return findings->Fine(back, *advertised);
    while (const auto bytes = scheduler->Receive()) {
      const Result<Message> answer = Decode(*bytes);
      const auto* refusal = answer.ok() ? std::get_if<ErrorReply>(&answer->body) : nullptr;
      if (refusal == nullptr) continue;
      const bool unreached = refusal->text.find("advertised address") != std::string::npos;
      return findings->Problem(
          back, refusal->text,
          unreached
              ? "open the port in this machine's firewall, and let --advertise name an address "
                "that the scheduler and the workers reach"
              : "the scheduler refuses a server from here, whatever the network");
    }
  }
  findings->Problem(
      back, fmt::format("{}: nothing came within {} s", *advertised, kProbeMs / 1000),
      "open the port in this machine's firewall; with encryption give the key of a server");
}

}  // namespace dslide
