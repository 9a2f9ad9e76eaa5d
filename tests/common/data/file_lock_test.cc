#include "common/data/file_lock.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::file_lock_test {
namespace {

TEST_CASE("file lock: one at a time, and again when it is free") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lock";
  {
    const FileLock first = Ok(FileLock::Try(path, "taken"));
    CHECK(MessageOf(FileLock::Try(path, "taken"), ErrorKind::kTryLater) == "taken");
  }
  CHECK(FileLock::Try(path, "taken").ok());
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("file lock: a file that cannot be created") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/none/lock";
  CHECK(MessageOf(FileLock::Try(path, "taken")) ==
        path + ": cannot create: No such file or directory");
  (void)MessageOf(FileLock::Wait(path), ErrorKind::kFailed);
}

TEST_CASE("file lock: a symbolic link is followed or refused") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lock";
  std::filesystem::create_symlink("elsewhere", path);
  CHECK_FALSE(FileLock::Wait(path, FileLock::Links::kRefused).ok());
  CHECK(FileLock::Wait(path).ok());
  CHECK(std::filesystem::exists(directory.path() + "/elsewhere"));
}

TEST_CASE("file lock: one that waits gets the lock when it is free") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lock";
  FileLock first = Ok(FileLock::Wait(path));
  std::optional<FileLock> held(std::move(first));
  std::atomic<bool> is_free = false;
  std::thread waiter([&] {
    CHECK(FileLock::Wait(path).ok());
    CHECK(is_free);
  });
  is_free = true;
  held.reset();
  waiter.join();
}

// Another program, which runs from the constructor's end to End().
class Child {
 public:
  Child() {
    int begun[2];
    REQUIRE(pipe2(input_, O_CLOEXEC) == 0);
    REQUIRE(pipe2(begun, O_CLOEXEC) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(input_[0], STDIN_FILENO);
      execlp("cat", "cat", nullptr);
      _exit(127);
    }
    close(begun[1]);
    char none;
    CHECK(read(begun[0], &none, 1) == 0);  // the other program has begun
    close(begun[0]);
  }
  void End() const {
    close(input_[0]);
    close(input_[1]);
    waitpid(pid_, nullptr, 0);
  }

 private:
  int input_[2];
  pid_t pid_;
};

TEST_CASE("file lock: only heirs keep it") {
  const TempDirectory directory;
  const std::string own = directory.path() + "/own", shared = directory.path() + "/shared";
  Result<FileLock> own_lock = FileLock::Try(own, "");
  Result<FileLock> shared_lock = FileLock::Try(shared, "", FileLock::Heirs::kChildren);
  REQUIRE(own_lock.ok());
  REQUIRE(shared_lock.ok());
  const Child child;
  { const FileLock ends = *std::move(own_lock); }
  { const FileLock ends = *std::move(shared_lock); }
  CHECK(FileLock::Try(own, "taken").ok());
  CHECK_FALSE(FileLock::Try(shared, "taken").ok());
  child.End();
  CHECK(FileLock::Try(shared, "taken").ok());
}

}  // namespace
}  // namespace dslide::file_lock_test
