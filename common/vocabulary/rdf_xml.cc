#include "common/vocabulary/rdf_xml.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace dslide {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TemporaryFile = std::unique_ptr<std::FILE, Close>;

// Ends with the process, or when it is closed.
Result<TemporaryFile> MakeTemporary() {
  TemporaryFile file(std::tmpfile());
  if (file == nullptr) return Failed(fmt::format("no temporary file: {}", std::strerror(errno)));
  return file;
}

Status CopyAll(TextStream* stream, std::FILE* to) {
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    std::fwrite((*line)->data(), 1, (*line)->size(), to);
    std::fputc('\n', to);
  }
  if (std::fflush(to) == 0 && std::ferror(to) == 0) return {};
  return Failed(fmt::format("a temporary file: {}", std::strerror(errno)));
}

// Runs rapper with these files, without access to the network and to other files. Returns its exit
// code; an error says why it did not run to its end.
Result<int> Convert(const std::string& path, std::FILE* in, std::FILE* out, std::FILE* errors) {
  std::array<std::string, 11> words = {"rapper", "-q",     "-f", "noNet",    "-f", "noFile",
                                       "-i",     "rdfxml", "-o", "ntriples", "-"};
  std::string base = "urn:vocabulary:";
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(base.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, fileno(in), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, fileno(out), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, fileno(errors), STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  // The caller may block or ignore signals; Ctrl-C and SIGTERM must end the program.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int failure =
      posix_spawnp(&pid, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failure == ENOENT) {
    return BadInput(fmt::format(
        "{}: RDF/XML is read by the program rapper; install the package raptor2-utils, or give "
        "Turtle or N-Triples",
        path));
  }
  if (failure != 0) return Failed(fmt::format("{}: rapper: {}", path, std::strerror(failure)));
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) return Failed(fmt::format("{}: rapper: {}", path, std::strerror(errno)));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return Failed(fmt::format("{}: rapper ended by signal {}", path, WTERMSIG(status)));
}

// The program's first error, not a warning before it.
std::string FirstError(std::FILE* errors) {
  std::array<char, 400> line = {};
  std::rewind(errors);
  while (std::fgets(line.data(), line.size(), errors) != nullptr) {
    const std::string_view text(line.data());
    if (text.find("Error") != std::string_view::npos) {
      return std::string(text.substr(0, text.find('\n')));
    }
  }
  return "rapper found an error";
}

}  // namespace

Result<TextStream> TriplesOfXml(const std::string& path, TextStream stream) {
  Result<TemporaryFile> in = MakeTemporary(), out = MakeTemporary(), errors = MakeTemporary();
  DSLIDE_RETURN_IF_ERROR(in);
  DSLIDE_RETURN_IF_ERROR(out);
  DSLIDE_RETURN_IF_ERROR(errors);
  DSLIDE_RETURN_IF_ERROR(CopyAll(&stream, in->get()));
  std::rewind(in->get());
  constexpr int kWarnings = 2;  // all statements are there
  const Result<int> code = Convert(path, in->get(), out->get(), errors->get());
  DSLIDE_RETURN_IF_ERROR(code);
  if (*code != 0 && *code != kWarnings) {
    return BadInput(fmt::format("{}: not valid RDF: {}", path, FirstError(errors->get())));
  }
  return TextStream::Open(fmt::format("/proc/self/fd/{}", fileno(out->get())));
}

}  // namespace dslide
