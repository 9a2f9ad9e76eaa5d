// Where members, people and their browsers reach a run: its keys, its socket, its status page.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/net/socket.h"
#include "scheduler/access_control.h"
#include "scheduler/status/status_page.h"

namespace dslide {

class Endpoint {
 public:
  // Takes the run's keys, or draws them, and binds cluster.scheduler_bind and cluster.status_bind.
  // A run that goes on takes its earlier port if it can. Errors name the key, or the file with
  // keys. Keys that were drawn are removed at the end, unless Keep() was called.
  static Result<std::unique_ptr<Endpoint>> Open(const Config& config,
                                                const std::filesystem::path& run_directory,
                                                bool resume);

  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  void Keep() { has_new_keys_ = false; }
  // Keeps the keys, and writes what others find the run by (address, keys, the page's token).
  Status Publish();
  // For people: what they need to join the run and to see it.
  std::vector<std::string> Hints() const;

  const std::string& address() const { return address_; }
  bool encrypted() const { return access_ != nullptr; }

  NetContext* context() { return context_.get(); }
  AccessControl* access() { return access_.get(); }  // null: not encrypted
  RouterSocket& socket() { return *socket_; }
  StatusPage* page() { return page_.get(); }  // null: none

 private:
  // What the status page wants to be told outside loopback.
  struct PageToken {
    std::string text;  // "": nothing
    bool is_new = false;
  };

  explicit Endpoint(std::filesystem::path run_directory)
      : run_directory_(std::move(run_directory)) {}
  Status OpenKeys();
  Status Bind(const Config& config, bool resume);
  Status OpenPage(const std::string& bind);
  std::string TokenPath() const { return (run_directory_ / "keys" / "status.token").string(); }

  const std::filesystem::path run_directory_;
  bool has_new_keys_ = false;
  std::unique_ptr<AccessControl> access_;  // outlives the context, whose thread asks it
  std::unique_ptr<NetContext> context_;
  std::optional<RouterSocket> socket_;
  std::string address_;  // that members dial
  PageToken token_;
  std::unique_ptr<StatusPage> page_;
};

}  // namespace dslide
