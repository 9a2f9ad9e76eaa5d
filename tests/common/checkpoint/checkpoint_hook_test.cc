#include "common/checkpoint/checkpoint_hook.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>

#include "common/data/whole_file.h"
#include "common/log/events.h"
#include "tests/support/events.h"
#include "tests/support/temp_directory.h"

namespace dslide::checkpoint_hook_test {
namespace {

struct Hooked {
  std::string Path(const std::string& name) const { return directory.path() + "/" + name; }
  std::string Text(const std::string& name) const { return *ReadWholeFile(Path(name)); }
  // Ticks at one time until a command has ended. Its events.
  std::vector<Event> End(CheckpointHook* hook, int64_t now_ms) {
    const uint32_t before = hook->figures().runs;
    std::vector<Event> events;
    for (int i = 0; i < 60'000 && hook->figures().runs == before; ++i) {
      for (Event& event : hook->Tick(now_ms)) events.push_back(std::move(event));
      if (hook->figures().runs == before) poll(nullptr, 0, 1);
    }
    REQUIRE(hook->figures().runs == before + 1);
    return events;
  }

  TempDirectory directory;
};

TEST_CASE_FIXTURE(Hooked, "hook: it is run with the directory, and the newest is the next") {
  CheckpointHook hook("checkpoint.hook",
                      "echo \"$1 $DSLIDE_CHECKPOINT $EXTRA\" >>" + Path("said") +
                          "; while [ ! -e " + Path("go") + " ]; do sleep 0.01; done",
                      60'000);
  CHECK_FALSE(hook.busy());
  hook.Offer("/a", {"EXTRA=more"});
  CHECK(hook.busy());
  CHECK(hook.Tick(0).empty());
  CHECK(hook.figures().running == "/a");
  hook.Offer("/b");
  hook.Offer("/c");
  std::ofstream(Path("go")) << "";
  CHECK(End(&hook, 1).empty());
  CHECK(hook.figures().done == "/a");
  CHECK(End(&hook, 2).empty());
  CHECK(hook.figures().done == "/c");
  CHECK_FALSE(hook.busy());
  CHECK(hook.figures().runs == 2);
  CHECK(hook.figures().failures == 0);
  CHECK(Text("said") == "/a /a more\n/c /c \n");
}

TEST_CASE_FIXTURE(Hooked, "hook: it is run again when a file beside the checkpoint has changed") {
  CheckpointHook hook(
      "checkpoint.hook",
      "echo $1 >>" + Path("said") + "; while [ ! -e " + Path("go") + " ]; do sleep 0.01; done",
      60'000);
  hook.Offer("/a");
  hook.Repeat("/a");  // before it runs: once is enough
  CHECK(hook.Tick(0).empty());
  hook.Repeat("/a");  // while it runs
  std::ofstream(Path("go")) << "";
  CHECK(End(&hook, 1).empty());
  CHECK(hook.busy());
  CHECK(End(&hook, 2).empty());
  CHECK_FALSE(hook.busy());
  hook.Repeat("/a");  // afterwards
  CHECK(End(&hook, 3).empty());
  hook.Repeat("/a");
  hook.Offer("/b");  // a newer checkpoint takes its place
  CHECK(End(&hook, 4).empty());
  CHECK_FALSE(hook.busy());
  CHECK(Text("said") == "/a\n/a\n/a\n/b\n");
  CheckpointHook restarted("checkpoint.hook", "echo again $1 >>" + Path("said"), 60'000);
  restarted.Repeat("/b");  // of an earlier process
  CHECK(End(&restarted, 1).empty());
  CHECK(Text("said").ends_with("again /b\n"));
}

TEST_CASE_FIXTURE(Hooked, "hook: one that fails is run again after a while, or with the next") {
  CheckpointHook hook("checkpoint.hook", "[ -e " + Path("good") + " ] || exit 3", 60'000);
  hook.Offer("/a");
  const auto first = End(&hook, 0);
  CHECK(first.size() == 1);
  CHECK(Has(first, event::kHookFailed,
            {{"key", "checkpoint.hook"}, {"directory", "/a"}, {"why", "exit code 3"}}));
  CHECK(hook.figures().why == "exit code 3");
  (void)hook.Tick(CheckpointHook::kFirstRetryMs - 1);
  CHECK(hook.figures().running == "");
  CHECK(hook.busy());
  const auto again = End(&hook, CheckpointHook::kFirstRetryMs);
  CHECK(Has(again, event::kHookFailed, {{"in_a_row", 2}}));
  hook.Offer("/b");
  std::ofstream(Path("good")) << "";
  CHECK(
      Has(End(&hook, CheckpointHook::kFirstRetryMs), event::kHookSucceeded, {{"directory", "/b"}}));
  CHECK(hook.figures().failures == 2);
  CHECK(hook.figures().in_a_row == 0);
}

TEST_CASE_FIXTURE(Hooked, "hook: one that runs for too long is ended") {
  CheckpointHook hook("checkpoint.hook", "exec sleep 1000", 1000);
  hook.Offer("/a");
  (void)hook.Tick(0);
  (void)hook.Tick(999);
  CHECK(hook.figures().running == "/a");
  CHECK(Has(End(&hook, 1000), event::kHookFailed, {{"why", "it ran for more than 1 s"}}));
}

TEST_CASE("hook: without a command there is nothing to do") {
  CheckpointHook hook("checkpoint.hook", "", 1000);
  hook.Offer("/a");
  CHECK_FALSE(hook.exists());
  CHECK_FALSE(hook.busy());
  CHECK(hook.Tick(0).empty());
}

}  // namespace
}  // namespace dslide::checkpoint_hook_test
