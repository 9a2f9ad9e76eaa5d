#include "scheduler/kept_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "common/data/text_stream.h"
#include "common/data/text_writer.h"
#include "common/log/log.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

constexpr char kName[] = "train.data.zst";
constexpr uint64_t kLinesBetweenSignals = 1024;
constexpr char kStopped[] = "stopped by a signal before standard input ended";

Status CopyStandardInput(const std::string& path, StopSignals* signals) {
  if (isatty(STDIN_FILENO) == 1) {
    return BadInput("train.data = -: standard input is a terminal; pipe a file to it, or name one");
  }
  Result<TextStream> in = TextStream::Open("/dev/stdin");
  if (!in.ok()) return BadInput("train.data = -: " + in.error().message);
  Result<TextWriter> out = TextWriter::Create(path);
  DSLIDE_RETURN_IF_ERROR(out);
  bool has_lines = false;
  while (true) {
    const auto line = in->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    has_lines = has_lines || !IsBlank(**line);
    out->Write(**line);
    out->Write("\n");
    if (in->line() % kLinesBetweenSignals == 0 && signals->Take()) return TryLater(kStopped);
  }
  // A signal ends the program that writes as well, and what has come of it is not all.
  if (signals->Take()) return TryLater(kStopped);
  if (!has_lines) return BadInput("train.data = -: standard input is empty");
  return out->Finish();
}

}  // namespace

Result<KeptInput> KeepStandardInput(const std::string& run_directory, bool resume,
                                    StopSignals* signals) {
  const std::string path = run_directory + "/" + kName;
  std::error_code ignored;
  if (resume) {
    if (std::filesystem::exists(path, ignored)) return KeptInput{path, Provisional()};
    return BadInput(fmt::format(
        "train.data = -: {} is gone, which holds the run's standard input; name the training file",
        path));
  }
  LogInfo({event::kInputKept, "keeping standard input in " + path, {{"path", path}}});
  DSLIDE_RETURN_IF_ERROR(CopyStandardInput(path, signals));
  return KeptInput{path, Provisional(path)};
}

}  // namespace dslide
