#include "common/vocabulary/rdf_xml.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
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

// Runs rapper with these files, without access to the network and to other files. Returns its
// status as of waitpid(), or nullopt if the program is not installed.
std::optional<int> Convert(std::FILE* in, std::FILE* out, std::FILE* errors) {
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
  pid_t pid = -1;
  const int failure =
      posix_spawnp(&pid, words[0].c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) return std::nullopt;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// The first line that the program wrote on its errors.
std::string FirstLine(std::FILE* errors) {
  std::array<char, 400> line = {};
  std::rewind(errors);
  if (std::fgets(line.data(), line.size(), errors) == nullptr) return "not valid RDF/XML";
  const std::string_view text(line.data());
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

Result<TextStream> TriplesOfXml(const std::string& path, TextStream stream) {
  Result<TemporaryFile> in = MakeTemporary(), out = MakeTemporary(), errors = MakeTemporary();
  DSLIDE_RETURN_IF_ERROR(in);
  DSLIDE_RETURN_IF_ERROR(out);
  DSLIDE_RETURN_IF_ERROR(errors);
  DSLIDE_RETURN_IF_ERROR(CopyAll(&stream, in->get()));
  std::rewind(in->get());
  const std::optional<int> status = Convert(in->get(), out->get(), errors->get());
  if (!status) {
    return BadInput(fmt::format(
        "{}: RDF/XML is read by the program rapper; install the package raptor2-utils, or give "
        "Turtle or N-Triples",
        path));
  }
  if (*status != 0) {
    return BadInput(fmt::format("{}: not valid RDF: {}", path, FirstLine(errors->get())));
  }
  return TextStream::Open(fmt::format("/proc/self/fd/{}", fileno(out->get())));
}

}  // namespace dslide
