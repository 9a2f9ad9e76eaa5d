#include "common/net/authenticator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/log/events.h"
#include "common/log/log.h"

namespace dslide {
namespace {

constexpr const char* kAddress = "inproc://zeromq.zap.01";
constexpr const char* kVersion = "1.0";

// A request: version, request id, domain, address, identity, mechanism, credentials.
constexpr size_t kVersionFrame = 0;
constexpr size_t kRequestFrame = 1;
constexpr size_t kDomainFrame = 2;
constexpr size_t kMechanismFrame = 5;
constexpr size_t kCredentialsFrame = 6;
constexpr size_t kFrames = 7;

std::optional<PublicKey> KeyIn(const std::vector<std::string>& frames) {
  if (frames.size() != kFrames || frames[kVersionFrame] != kVersion ||
      frames[kDomainFrame] != kZapDomain || frames[kMechanismFrame] != "CURVE" ||
      frames[kCredentialsFrame].size() != kKeyBytes) {
    return std::nullopt;
  }
  PublicKey key;
  std::ranges::copy(frames[kCredentialsFrame], key.bytes.begin());
  return key;
}

std::vector<std::string> ReceiveFrames(zmq::socket_t* socket) {
  std::vector<std::string> frames;
  bool more = true;
  while (more) {
    zmq::message_t frame;
    if (!socket->recv(frame)) continue;
    frames.push_back(frame.to_string());
    more = frame.more();
  }
  return frames;
}

}  // namespace

Authenticator::Authenticator(zmq::context_t* context, const AccessListHolder* access)
    : access_(access) {
  auto socket = std::make_unique<zmq::socket_t>(*context, zmq::socket_type::rep);
  socket->bind(kAddress);
  thread_ = std::thread([this, socket = std::move(socket)] { Serve(socket.get()); });
}

Authenticator::~Authenticator() { thread_.join(); }

Refusals Authenticator::TakeRefusals() {
  const MutexLock lock(mutex_);
  return std::exchange(refusals_, {});
}

void Authenticator::Serve(zmq::socket_t* socket) try {
  while (true) {
    const std::vector<std::string> frames = ReceiveFrames(socket);
    const std::optional<PublicKey> key = KeyIn(frames);
    const bool known = key && access_->RoleOf(*key).has_value();
    if (!known) {
      const MutexLock lock(mutex_);
      refusals_.count++;
      refusals_.last_key = key;
    }
    const std::string reply[] = {kVersion,
                                 frames.size() > kRequestFrame ? frames[kRequestFrame] : "",
                                 known ? "200" : "400",
                                 known ? "OK" : "no such key",
                                 known ? TextOf(*key) : "",
                                 ""};
    for (size_t i = 0; i < std::size(reply); ++i) {
      const auto flags =
          i + 1 < std::size(reply) ? zmq::send_flags::sndmore : zmq::send_flags::none;
      socket->send(zmq::buffer(reply[i]), flags);
    }
  }
} catch (const zmq::error_t& error) {
  if (error.num() == ETERM) return;
  LogWarning({event::kAuthenticationEnded, std::string("authentication ended: ") + error.what()});
  DSLIDE_CHECK(false);
}

}  // namespace dslide
