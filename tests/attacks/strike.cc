#include "tests/attacks/strike.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>

#include "common/base/process.h"
#include "common/security/run_keys.h"
#include "tests/cluster/process.h"

namespace dslide {
namespace {

constexpr int kNice = 10;

std::optional<PublicKey> PublicKeyIn(const std::string& file) {
  const Result<MemberKey> key = ReadKeyFile(file);
  if (!key.ok() || !key->secret_key) return std::nullopt;
  return KeyPairOf(*key->secret_key).public_key;
}

Target TargetOf(const std::string& run_directory, const nlohmann::json& status, int status_port) {
  Target target;
  target.run_directory = run_directory;
  const std::string address = ReadFile(run_directory + "/scheduler.address");
  target.scheduler = address.substr(0, address.find('\n'));
  target.status_port = status_port;
  target.plan_version = status.value("plan_version", 1u);
  target.encrypted = RunKeys::Exist(run_directory);
  if (target.encrypted) {
    const Result<MemberKey> worker = ReadKeyFile(run_directory + "/keys/worker.key");
    if (worker.ok()) target.scheduler_key = worker->scheduler_key;
  }
  for (const auto& member : status.value("members", nlohmann::json::array())) {
    const std::string name = member.value("name", "");
    // Nobody is told of incarnations, so the attacker guesses.
    const Incarnation incarnation{1000 + target.servers.size() + target.workers.size()};
    if (name.starts_with("server-")) {
      target.servers.push_back({name, member.value("address", ""), incarnation});
      const auto key = PublicKeyIn(fmt::format("{}/keys/{}.key", run_directory, name));
      if (key) target.server_keys[name] = *key;
    } else if (name.starts_with("worker-")) {
      target.workers.push_back(incarnation);
    }
  }
  return target;
}

}  // namespace

std::string KeyNameOf(const Attack& attack) {
  std::string name = attack.name;
  std::ranges::replace(name, '.', '-');
  return "eve-" + name;
}

Strike::Strike(const Attack& attack, const std::string& run_directory, const nlohmann::json& status,
               int status_port, int64_t run_ms)
    : attack_(attack),
      target_(TargetOf(run_directory, status, status_port)),
      random_(SubSeed(1, std::hash<std::string>()(attack.name))),
      end_ms_(MonotonicMillis() + run_ms) {
  if (!target_.encrypted || attack.as == As::kNobody) return;
  if (attack.as == As::kWrongKey) {
    keys_ = DrawKeyPair();
    return;
  }
  const Result<MemberKey> key =
      ReadKeyFile(fmt::format("{}/keys/{}.key", run_directory, KeyNameOf(attack)));
  DSLIDE_CHECK(key.ok() && key->secret_key);
  keys_ = KeyPairOf(*key->secret_key);
}

bool Strike::Goes() const { return left_ms() > 0; }

int64_t Strike::left_ms() const { return end_ms_ - MonotonicMillis(); }

bool Strike::Pace(double per_second) {
  const auto now = static_cast<double>(MonotonicMillis());
  next_ms_ = std::max(next_ms_, now - 50) + 1000 / per_second;
  if (next_ms_ > now + 1) Rest(static_cast<int64_t>(next_ms_ - now));
  return Goes();
}

void Strike::Rest(int64_t ms) const {
  (void)poll(nullptr, 0, static_cast<int>(std::clamp<int64_t>(std::min(ms, left_ms()), 0, 60000)));
}

std::optional<CurvePeer> Strike::To(const std::optional<PublicKey>& peer) const {
  if (!keys_ || !peer) return std::nullopt;
  return CurvePeer{*keys_, *peer};
}

Incarnation Strike::Draw() const { return DrawIncarnation(keys_); }

void Strike::Say(const std::string& line) {
  const MutexLock lock(lines_);
  said_.push_back(line);
}
void Strike::Breach(const std::string& line) {
  const MutexLock lock(lines_);
  breaches_.push_back(line);
}

void Strike::Report() const {
  const MutexLock lock(lines_);
  for (const std::string& line : said_) fmt::print("says {}\n", line);
  for (const std::string& line : breaches_) fmt::print("breach {}\n", line);
  fmt::print("cpu {:.3f}\n", UsageOfThisProcess().cpu_seconds);
}

void BurnCpu(double share, int64_t ms) {
  constexpr int64_t kSliceMs = 10;
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  const int64_t end_ms = MonotonicMillis() + ms;
  const double before = ThreadCpuSeconds();
  for (int64_t now_ms = MonotonicMillis(); now_ms < end_ms; now_ms = MonotonicMillis()) {
    const double due = share * static_cast<double>(ms - (end_ms - now_ms)) / 1000;
    if (ThreadCpuSeconds() - before > due) (void)poll(nullptr, 0, kSliceMs);
  }
}

Status RunStrike(const ParsedArguments& arguments) {
  const std::vector<Attack> all = AllAttacks();
  const std::string name = arguments.Get("strike");
  const auto found =
      std::ranges::find_if(all, [&](const Attack& attack) { return attack.name == name; });
  if (found == all.end()) return BadInput(fmt::format("{}: there is no such attack", name));
  const Result<uint32_t> run_ms = arguments.Number("milliseconds", 1, 600'000);
  DSLIDE_RETURN_IF_ERROR(run_ms);
  const Result<uint32_t> port = arguments.Number("status-port", 0, 65535);
  DSLIDE_RETURN_IF_ERROR(port);
  const Result<uint32_t> serve_port = arguments.Number("serve-port", 0, 65535);
  DSLIDE_RETURN_IF_ERROR(serve_port);
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  rlimit files = {};
  (void)getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
  Strike strike(*found, arguments.Get("run-dir"),
                nlohmann::json::parse(ReadFile(arguments.Get("status")), nullptr, false),
                static_cast<int>(*port), *run_ms);
  strike.SetServePort(static_cast<int>(*serve_port));
  found->run(strike);
  strike.Report();
  return {};
}

}  // namespace dslide
