// Answers ZeroMQ's authentication requests (ZAP, RFC 27) of one context.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <zmq.hpp>

#include "common/base/mutex.h"
#include "common/net/access_list.h"

namespace dslide {

// The domain of all sockets with keys.
constexpr const char* kZapDomain = "dslide";

// Listens before the constructor returns, so that no socket of the context can bind before. Its
// thread ends when the context shuts down; should it end before, the process ends (RFC 27: a server
// without an authenticator must let nobody in).
class Authenticator {
 public:
  Authenticator(zmq::context_t* context, const AccessListHolder* access);
  ~Authenticator();  // REQUIRES the context to be shut down

  Refusals TakeRefusals();

 private:
  void Serve(zmq::socket_t* socket);

  const AccessListHolder* access_;
  Mutex mutex_;
  Refusals refusals_ DSLIDE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace dslide
