#include "scheduler/endpoint.h"

#include <fmt/core.h>

#include <utility>

#include "common/app/executable.h"
#include "common/base/address.h"
#include "common/base/process.h"
#include "common/data/whole_file.h"
#include "common/log/log.h"
#include "common/security/run_keys.h"
#include "common/security/run_place.h"
#include "common/security/small_file.h"
#include "common/security/token.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Binds to `bind`. If that leaves the port open, the port of the address in `earlier` is taken, if
// it can be: members look for the scheduler there.
Result<RouterSocket> BindScheduler(NetContext& context, const std::string& bind,
                                   const std::optional<KeyPair>& keys, const fs::path& earlier) {
  const Result<std::string> before = ReadFirstLine(earlier.string());
  if (bind.ends_with(":*") && before.ok()) {
    const std::string host = bind.substr(0, bind.size() - 1);
    Result<RouterSocket> same =
        RouterSocket::Bind(context, host + before->substr(before->rfind(':') + 1), keys);
    if (same.ok()) return same;
    LogWarning({event::kPortTaken, same.error().message + "; taking another port"});
  }
  return RouterSocket::Bind(context, bind, keys);
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::Open(const Config& config,
                                                 const fs::path& run_directory, bool resume) {
  const bool encrypted = IsEncrypted(config);
  const bool trusted = config.security.encryption == Encryption::kTrustedNetwork;
  const ClusterConfig& cluster = config.cluster;
  DSLIDE_RETURN_IF_ERROR(
      CheckBind("cluster.scheduler_bind", cluster.scheduler_bind, encrypted || trusted, ""));
  auto endpoint = std::unique_ptr<Endpoint>(new Endpoint(run_directory));
  if (encrypted) DSLIDE_RETURN_IF_ERROR(endpoint->OpenKeys());
  DSLIDE_RETURN_IF_ERROR(endpoint->Bind(config, resume));
  if (!cluster.status_bind.empty()) {
    DSLIDE_RETURN_IF_ERROR(endpoint->OpenPage(cluster.status_bind));
  }
  return endpoint;
}

Endpoint::~Endpoint() {
  if (!has_new_keys_) return;
  std::error_code ignored;
  fs::remove_all(run_directory_ / "keys", ignored);
  fs::remove(run_directory_, ignored);  // if nothing else is there
}

Status Endpoint::OpenKeys() {
  has_new_keys_ = !RunKeys::Exist(run_directory_.string());
  const int64_t now_s = SecondsSince1970();
  Result<RunKeys> keys = RunKeys::OpenOrDraw(run_directory_.string(), now_s);
  DSLIDE_RETURN_IF_ERROR(keys);
  access_ = std::make_unique<AccessControl>(*std::move(keys), now_s);
  return {};
}

Status Endpoint::Bind(const Config& config, bool resume) {
  const ClusterConfig& cluster = config.cluster;
  context_ =
      access_ ? std::make_unique<NetContext>(&access_->holder()) : std::make_unique<NetContext>();
  Result<RouterSocket> socket = BindScheduler(
      *context_, cluster.scheduler_bind, access_ ? std::optional(access_->own()) : std::nullopt,
      resume ? run_directory_ / kAddressName : fs::path());
  DSLIDE_RETURN_IF_ERROR(socket);
  socket->SetConnections(RouterLimits::ConnectionsFor(cluster.most_workers));
  Result<std::string> address =
      AdvertisedAddress("cluster.scheduler", socket->address(), cluster.scheduler_advertise);
  DSLIDE_RETURN_IF_ERROR(address);
  socket_.emplace(*std::move(socket));
  address_ = *std::move(address);
  return {};
}

// A run that goes on has the token that it had.
Status Endpoint::OpenPage(const std::string& bind) {
  DSLIDE_RETURN_IF_ERROR(CheckBind("cluster.status_bind", bind, true, ""));
  if (!IsLoopback(bind)) {
    std::error_code ignored;
    token_.is_new = !fs::exists(TokenPath(), ignored);
    Result<std::string> text =
        token_.is_new ? Result<std::string>(DrawToken()) : ReadToken(TokenPath());
    DSLIDE_RETURN_IF_ERROR(text);
    token_.text = *std::move(text);
  }
  Result<std::unique_ptr<StatusPage>> page = StatusPage::Start(bind, token_.text, address_);
  DSLIDE_RETURN_IF_ERROR(page);
  page_ = *std::move(page);
  return {};
}

Status Endpoint::Publish() {
  Keep();
  // First: whoever waits for the address uses the keys.
  if (access_) DSLIDE_RETURN_IF_ERROR(access_->keys().Publish(address_));
  if (token_.is_new) DSLIDE_RETURN_IF_ERROR(WriteToken(TokenPath(), token_.text));
  return WriteWholeFile((run_directory_ / kAddressName).string(), address_ + "\n");
}

std::vector<std::string> Endpoint::Hints() const {
  std::vector<std::string> lines;
  if (access_) {
    const std::string keys = (run_directory_ / "keys").string();
    lines.push_back(
        fmt::format("encrypted; members need a key: dslide-worker --key {0}/worker.key, "
                    "dslide-server --key {0}/server.key",
                    keys));
    lines.push_back(
        fmt::format("(`dslide key allow` makes a key and a join string for each volunteer; the "
                    "scheduler's key is {})",
                    TextOf(access_->own().public_key)));
  }
  if (page_) {
    // Browsers send nobody what is behind a #.
    std::string hint;
    if (token_.is_new) hint = "#token=" + token_.text;
    if (!token_.is_new && !token_.text.empty()) hint = "#token=... (of " + TokenPath() + ")";
    lines.push_back(fmt::format("status page: {}{}", page_->url(), hint));
  }
  return lines;
}

}  // namespace dslide
