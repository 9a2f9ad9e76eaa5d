#include "common/http/allowed_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/base/address.h"

namespace dslide {
namespace {

// Without its port.
std::string_view NameIn(std::string_view host) {
  const size_t port = host.starts_with('[') ? host.find("]:") : host.rfind(':');
  if (port == std::string_view::npos) return host;
  return host.substr(0, host.starts_with('[') ? port + 1 : port);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace

bool IsHost(std::string_view host) {
  if (host.starts_with('[')) {
    return host.size() > 2 && host.ends_with(']') &&
           std::ranges::all_of(host.substr(1, host.size() - 2), [](unsigned char c) {
             return std::isxdigit(c) || c == ':' || c == '.';
           });
  }
  return !host.empty() && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

AllowedHosts AllowedHosts::LoopbackAnd(const std::vector<std::string>& names) {
  AllowedHosts allowed;
  allowed.any_ = false;
  for (const std::string& name : names) allowed.names_.push_back(Lower(name));
  return allowed;
}

bool AllowedHosts::Allows(std::string_view host) const {
  if (any_) return true;
  const std::string name = Lower(NameIn(host));
  return IsLoopback(fmt::format("tcp://{}:1", name)) ||
         std::ranges::find(names_, name) != names_.end();
}

}  // namespace dslide
