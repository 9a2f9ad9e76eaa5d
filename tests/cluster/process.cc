#include "tests/cluster/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/check.h"
#include "common/base/process.h"

namespace dslide {
namespace {

constexpr int kLookMs = 10;

int OpenLog(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  DSLIDE_CHECK(fd >= 0);
  return fd;
}

struct ProcessState {
  pid_t parent = 0;
  char state = 'X';
};

// Fields 3 and 4 of /proc/PID/stat; they follow the name in parentheses. A process that ends
// between the open and the read makes the read fail (ESRCH): it is gone.
ProcessState StateOf(pid_t pid) {
  std::string stat;
  const int fd = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    char text[1024];
    const ssize_t size = read(fd, text, sizeof text);
    if (size > 0) stat.assign(text, static_cast<size_t>(size));
    close(fd);
  }
  ProcessState state;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return state;
  std::istringstream(stat.substr(name_end + 1)) >> state.state >> state.parent;
  return state;
}

}  // namespace

bool WaitFor(const std::function<bool()>& condition, int deadline_ms) {
  const int64_t end_ms = MonotonicMillis() + deadline_ms;
  while (!condition()) {
    if (MonotonicMillis() >= end_ms) return condition();
    (void)poll(nullptr, 0, kLookMs);
  }
  return true;
}

Process::Process(const std::string& program, const std::vector<std::string>& arguments,
                 const std::string& log, const std::string& failpoints)
    : log_(log) {
  std::vector<std::string> words = {std::string(DSLIDE_BIN_DIR) + "/" + program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string setting = "DSLIDE_FAILPOINTS=" + failpoints;
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.push_back(*variable);
  }
  if (!failpoints.empty()) environment.push_back(setting.data());
  environment.push_back(nullptr);
  const int out = OpenLog(log + ".out");
  const int err = OpenLog(log + ".err");
  pid_ = fork();
  DSLIDE_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execve(argv[0], argv.data(), environment.data());
    _exit(127);
  }
  close(out);
  close(err);
}

Process::~Process() {
  if (!Running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::Signal(int signal) const { kill(pid_, signal); }

bool Process::Collect() {
  if (ending_) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  ending_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

std::optional<int> Process::Wait(int deadline_ms) {
  WaitFor([&] { return Collect(); }, deadline_ms);
  return ending_;
}

bool Process::Running() { return !Collect(); }

bool Process::Stopped() { return Running() && StateOf(pid_).state == 'T'; }

std::string Process::Output() const { return ReadFile(log_ + ".out"); }

std::string Process::Errors() const { return ReadFile(log_ + ".err"); }

StandardInput::StandardInput(const std::string& path, Kind kind) : before_(dup(STDIN_FILENO)) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  DSLIDE_CHECK(fd >= 0);
  if (kind == Kind::kPipe) {
    close(fd);
    const std::string text = ReadFile(path);
    int ends[2];
    DSLIDE_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    // The pipe holds all of it before anybody reads.
    DSLIDE_CHECK(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= static_cast<int>(text.size()));
    DSLIDE_CHECK(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    close(ends[1]);
    fd = ends[0];
  }
  dup2(fd, STDIN_FILENO);
  close(fd);
}

StandardInput::~StandardInput() {
  dup2(before_, STDIN_FILENO);
  close(before_);
}

std::vector<pid_t> Descendants(pid_t root) {
  std::vector<pid_t> all, found = {root};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) all.push_back(std::stoi(name));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    for (const pid_t pid : all) {
      if (StateOf(pid).parent == found[i]) found.push_back(pid);
    }
  }
  found.erase(found.begin());
  return found;
}

bool IsGone(pid_t pid) {
  const char state = StateOf(pid).state;
  return state == 'X' || state == 'Z';
}

int FreePort() {
  // Below the ports that the system gives to others meanwhile. Tests that run at the same time have
  // other process numbers, and begin elsewhere.
  constexpr int kFirst = 10000, kCount = 22000, kPortsOfAProcess = 16;
  static int next = getpid() * kPortsOfAProcess;
  for (int tried = 0; tried < kCount; ++tried) {
    const int port = kFirst + static_cast<int>(static_cast<unsigned>(next++) % kCount);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (is_free) return port;
  }
  DSLIDE_CHECK(false);
  return 0;
}

std::string Loopback(int port) { return "tcp://127.0.0.1:" + std::to_string(port); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dslide
