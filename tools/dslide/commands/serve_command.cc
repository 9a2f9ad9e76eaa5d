// dslide serve: a model's predictions over HTTP.
#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/app/executable.h"
#include "common/app/limits.h"
#include "common/base/address.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/security/token.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/model/model_argument.h"
#include "tools/dslide/serve/events.h"
#include "tools/dslide/serve/request_screen.h"
#include "tools/dslide/serve/router.h"
#include "tools/dslide/serve/served_source.h"

namespace dslide {
namespace {

constexpr int kDrainMs = 20'000;
constexpr int kStopPollMs = 50;

struct Task {
  std::string model, bind, name;
  std::string token;  // "": none is wanted
  uint32_t threads = 1, reload_s = 0, limit_ms = 0, request_kb = 0, connections = 0;
  std::optional<ModelSearch> search;
  RankingChoice ranking;
  AllowedOrigins origins;
  AllowedHosts hosts;
};

// Without a token and on loopback, requests by loopback's names and those that are given; else by
// any name, unless some are given.
Result<AllowedHosts> HostsFrom(const ParsedArguments& arguments, const std::string& bind) {
  std::vector<std::string> names = arguments.All("allow-host");
  for (const std::string& name : names) {
    if (name == "*") return AllowedHosts();
    if (IsHost(name)) continue;
    return BadInput(
        fmt::format("--allow-host {}: is not the name of a host; give it without a port, as "
                    "www.example.org, or * for every name",
                    Quoted(name)));
  }
  if (names.empty() && (arguments.Has("token") || !IsLoopback(bind))) return AllowedHosts();
  names.push_back(ParseTcp(bind)->host);
  return AllowedHosts::LoopbackAnd(names);
}

Result<Task> TaskFrom(const ParsedArguments& arguments) {
  Task task;
  const Result<NamedModel> model = ModelFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(model);
  task.model = model->path;
  task.bind = arguments.Get("bind");
  task.name = arguments.Get("name");
  const auto number = [&](const char* option, uint32_t least, uint32_t most,
                          uint32_t* value) -> Status {
    const Result<uint32_t> given = arguments.Number(option, least, most);
    DSLIDE_RETURN_IF_ERROR(given);
    *value = *given;
    return {};
  };
  DSLIDE_RETURN_IF_ERROR(number("threads", 0, 1024, &task.threads));
  DSLIDE_RETURN_IF_ERROR(number("reload", 0, 86400, &task.reload_s));
  DSLIDE_RETURN_IF_ERROR(number("timeout-ms", 1, 3'600'000, &task.limit_ms));
  DSLIDE_RETURN_IF_ERROR(number("max-request-kb", 1, 1 << 20, &task.request_kb));
  DSLIDE_RETURN_IF_ERROR(number("connections", 1, 10'000, &task.connections));
  if (task.threads == 0) task.threads = CoresOfThisMachine();
  const std::string search = arguments.Get("search");
  task.search = ModelSearchByName(search);
  if (!task.search && search != "auto") {
    return BadInput(fmt::format("--search {}: must be auto, exact, scan or index", search));
  }
  const Result<RankingChoice> ranking = RankingFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(ranking);
  task.ranking = *ranking;
  if (arguments.Has("token")) {
    Result<std::string> token = ReadToken(arguments.Get("token"));
    if (!token.ok()) return BadInput("--token: " + token.error().message);
    task.token = *std::move(token);
  }
  Result<AllowedOrigins> origins = AllowedOrigins::Parse(arguments.All("allow-origin"));
  if (!origins.ok()) return BadInput("--allow-origin: " + origins.error().message);
  task.origins = *std::move(origins);
  const bool plain = std::ranges::all_of(task.name, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (task.name.empty() || !plain) {
    return BadInput(fmt::format(
        "--name {}: it is part of a path; use letters, digits, '-', '_' and '.'", task.name));
  }
  if (const std::string why = WhyNotListenable(task.bind); !why.empty()) {
    return BadInput(fmt::format("--bind {}: {}", task.bind, why));
  }
  if (!IsLoopback(task.bind) && !arguments.Has("allow-plaintext")) {
    return BadInput(fmt::format(
        "--bind {} can be reached from other machines, and nothing is encrypted; if that network "
        "is trusted, give --allow-plaintext",
        task.bind));
  }
  Result<AllowedHosts> hosts = HostsFrom(arguments, task.bind);
  DSLIDE_RETURN_IF_ERROR(hosts);
  task.hosts = *std::move(hosts);
  return task;
}

std::string Described(const Model& model) {
  const ModelInfo& info = model.info();
  return fmt::format("{}, {} hidden units, trained on {} over all epochs",
                     Plural(info.labels(), "label"), HiddenText(info.config.model),
                     Plural(info.samples, "sample"));
}

using LoadedModel = Result<std::shared_ptr<const Model>>;

// Loads in a thread of its own, because that may take minutes. Nullopt: the process was asked to
// stop, and the thread still loads.
std::optional<LoadedModel> LoadUnlessStopped(ServedSource* source, StopSignals* stop) {
  std::packaged_task<LoadedModel()> load([source] { return source->Load(MonotonicMillis()); });
  std::future<LoadedModel> loaded = load.get_future();
  std::thread(std::move(load)).detach();
  while (loaded.wait_for(std::chrono::milliseconds(kStopPollMs)) != std::future_status::ready) {
    if (stop->Take()) return std::nullopt;
  }
  return loaded.get();
}

// Ends the process where a thread may still load a model, which would read objects that are gone,
// or where others predict what nobody waits for any more.
[[noreturn]] void EndAtOnce() {
  std::fflush(nullptr);
  std::_Exit(0);
}

enum class Loading { kNone, kUnfinished };

// Loads newer models until the process is asked to stop. Returns what is left of that.
Loading WatchModel(const Task& task, StopSignals* stop, ServedSource* source,
                   PredictionService* service, ServeMetrics* metrics) {
  pollfd stopped = {stop->fd(), POLLIN, 0};
  const int wait_ms = task.reload_s == 0 ? -1 : static_cast<int>(task.reload_s) * 1000;
  while (true) {
    const int ready = poll(&stopped, 1, wait_ms);
    if (ready > 0 && stop->Take()) return Loading::kNone;
    if (ready != 0 || !source->IsToLoad(MonotonicMillis())) continue;
    const std::optional<LoadedModel> loaded = LoadUnlessStopped(source, stop);
    if (!loaded) return Loading::kUnfinished;
    const LoadedModel& model = *loaded;
    if (model.ok()) {
      service->SetModel(*model);
      metrics->Loaded(**model);
      LogInfo({event::kModelLoaded,
               fmt::format("{}: reloaded: {}", task.model, Described(**model)),
               {{"model", task.model}}});
    } else {
      metrics->LoadFailed();
      LogWarning({event::kModelLoadFailed,
                  model.error().message + "; the model that was loaded before stays"});
    }
  }
}

// Answers the requests that have come. A second signal ends the wait.
bool Drain(HttpServer* server, StopSignals* stop) {
  const int64_t end_ms = MonotonicMillis() + kDrainMs;
  while (!server->Drain(kStopPollMs)) {
    if (stop->Take() || MonotonicMillis() >= end_ms) return false;
  }
  return true;
}

Status Serve(const ParsedArguments& arguments) {
  const Result<Task> task = TaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  StopSignals stop;
  StartLog("serve", "", "info");
  ServeMetrics metrics;
  ModelSourceOptions options;
  options.say = [](const std::string& line) { LogInfo({event::kModelLoaded, line}); };
  options.rare = task->ranking.rare;
  options.by_model = task->ranking.by_model;
  ServedSource source(task->model, options);
  std::optional<LoadedModel> loaded = LoadUnlessStopped(&source, &stop);
  if (!loaded) {
    LogInfo({event::kStopRequested, "stopped while the model was loaded"});
    EndAtOnce();
  }
  LoadedModel& model = *loaded;
  DSLIDE_RETURN_IF_ERROR(model);
  metrics.Loaded(**model);
  const std::string described = Described(**model);

  PredictionService::Options service_options;
  service_options.name = task->name;
  service_options.search = task->search.value_or(ModelSearch::kIndex);
  service_options.threads = task->threads;
  service_options.limit_ms = task->limit_ms;
  PredictionService service(service_options, *std::move(model), &metrics);
  Router router(task->name, &service, &metrics);
  HttpServer::Limits limits;
  limits.connections = task->connections;
  limits.header_bytes = 16 << 10;
  limits.body_bytes = size_t{task->request_kb} << 10;
  limits.held_bytes = kServedRequests * limits.body_bytes;
  if (!IsLoopback(task->bind)) limits.held_bytes_of_address = limits.held_bytes / 2;
  limits.silent_s = limits.headers_s = 60;  // connections that are kept alive wait
  limits.request_s += 2 * task->limit_ms / 1000;
  limits.keep_alive = true;
  const RequestScreen screen(task->token, task->origins, task->hosts);
  const auto server = HttpServer::Start(
      task->bind,
      [&router](HttpRequest request, HttpServer::Respond respond) {
        router.Handle(std::move(request), std::move(respond));
      },
      limits, [&screen](const HttpRequest& request) { return screen.Answer(request); },
      [&screen](const HttpRequest& request) { return screen.HeadersFor(request); });
  if (!server.ok()) {
    return BadInput(fmt::format("--bind {}: {}", task->bind, server.error().message));
  }
  LogInfo({event::kModelLoaded,
           fmt::format("{}: {}", task->model, described),
           {{"model", task->model}}});
  const std::string host = ParseTcp(task->bind)->host;
  fmt::print("serving {} at http://{}:{}/\n", task->name, host == "*" ? "0.0.0.0" : host,
             (*server)->port());
  std::fflush(stdout);
  const Loading loading = WatchModel(*task, &stop, &source, &service, &metrics);
  router.StopBeingReady();
  if (!Drain(server->get(), &stop)) {
    LogWarning(
        {event::kRequestsUnanswered,
         fmt::format("some requests were not answered within {} s, or before a second signal",
                     kDrainMs / 1000)});
    EndAtOnce();
  }
  if (loading == Loading::kUnfinished) EndAtOnce();
  return {};
}

}  // namespace

int ServeCommand(int argc, char** argv) {
  CommandLine line("dslide serve MODEL [options]",
                   "Answers prediction requests over HTTP, as JSON; / is a form to try it.");
  DeclareModel(&line);
  line.Option("bind", "ADDRESS", "where to listen", "tcp://127.0.0.1:8080");
  line.Option("name", "NAME", "of the model, in paths of the Annif and inference APIs", "dslide");
  line.Option("search", "auto|exact|scan|index",
              "where a request does not say: all labels, all in 8 bits first, or likely cells",
              "auto");
  DeclareRanking(&line);
  line.Option(
      "threads", "N",
      "that predict, and as many for requests of long bodies or many samples; 0: one a core", "0");
  line.Option("reload", "SECONDS", "how often to look for a newer model; 0: never", "5");
  line.Option("timeout-ms", "MS", "a request that waits longer gets 503", "10000");
  line.Option("max-request-kb", "KB", "a longer request gets 413",
              std::to_string(kServedRequestKb));
  line.Option("connections", "N", "at once; one more closes one that asks nothing", "1000");
  line.Option("token", "FILE",
              "requests want its first line: \"Authorization: Bearer ...\"; but /healthz, /readyz");
  line.Repeated(
      "allow-origin", "ORIGIN",
      "web pages of this origin may send requests, as https://www.example.org; *: any page");
  line.Repeated(
      "allow-host", "NAME",
      "requests may have this Host, or loopback's, as www.example.org; *: any. On loopback "
      "without a token others get 403");
  line.Flag("allow-plaintext", "listen outside loopback, without encryption");
  return RunExecutable("dslide serve", line, argc, argv, Serve);
}

}  // namespace dslide
