#include "scheduler/stream_start.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/plural.h"
#include "common/log/log.h"
#include "common/run/slot_plan.h"
#include "common/text/samples.h"
#include "scheduler/base/events.h"
#include "scheduler/base/resume.h"
#include "scheduler/stream/source_mark.h"
#include "scheduler/stream/stored_segment.h"
#include "scheduler/stream/vocabulary_limit.h"
#include "scheduler/terminal.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kSilentMs = 1000;  // what comes at once is not waited for

bool HasSegment(const fs::path& directory, uint32_t number) {
  std::error_code ignored;
  return fs::exists(directory / SegmentName(number), ignored);
}

// 0: the stream has not been cut yet.
Result<uint32_t> SegmentToGoOnWith(const fs::path& directory, const RunInputs& inputs) {
  if (inputs.ledger.live) return inputs.ledger.plan.shape.epoch;
  const Result<std::string> newest = FindCheckpoint(inputs.checkpoint_directory);
  if (newest.ok()) {
    const Result<Manifest> manifest = ReadManifest(*newest);
    DSLIDE_RETURN_IF_ERROR(manifest);
    return manifest->shape_epoch;
  }
  return HasSegment(directory, 1) ? 1u : 0u;
}

Error WasStopped() { return TryLater("stopped before training began"); }

// None: the stream has ended before. `waits`: said if it takes long. `ends`: a signal has ended it.
Result<std::optional<StreamFeeder::Fed>> Await(StreamFeeder* feeder, uint32_t number,
                                               const std::string& waits, StopSignals* signals,
                                               bool* ends) {
  Terminal terminal;
  feeder->Want(number);
  for (int timeout_ms = kSilentMs;;) {
    pollfd ready[2] = {{feeder->fd(), POLLIN, 0}, {signals->fd(), POLLIN, 0}};
    if (poll(ready, 2, timeout_ms) == 0) {
      terminal.Announce({event::kWaiting, waits});
      timeout_ms = -1;
    }
    if (signals->Take()) {
      if (std::exchange(*ends, true)) return WasStopped();
      terminal.Announce({event::kStreamEnds, kStreamEndsLine});
      feeder->End();
    }
    std::optional<StreamFeeder::Delivery> delivery = feeder->Take();
    if (!delivery) continue;
    if (auto* fed = std::get_if<StreamFeeder::Fed>(&*delivery))
      return std::optional(std::move(*fed));
    const StreamEnd& end = std::get<StreamEnd>(*delivery);
    DSLIDE_RETURN_IF_ERROR(end.why);
    return std::optional<StreamFeeder::Fed>();
  }
}

std::string WaitingLine(uint32_t number, const TrainConfig& train) {
  if (number > 0) return fmt::format("waiting for segment {} of the stream", number);
  return fmt::format(
      "waiting for the beginning of the stream: training begins with {}, or {} s after the first "
      "one (train.segment_samples, train.segment_s)",
      Plural(train.segment_samples, "sample"), train.segment_s);
}

// Where the stream goes on; "": at its beginning.
std::string PlaceLine(const StreamFeeder::Taken& taken) {
  if (taken.bytes == 0) return "";
  return fmt::format("; {} {} line {} (after byte {}) of the stream",
                     taken.is_file ? "reading goes on" : "standard input has to go on",
                     taken.in_line ? "within" : "with", taken.lines + 1, taken.bytes);
}

// The first segment of the run without its samples, while no checkpoint has taken its place.
std::optional<StreamSegment> FirstSegment(const fs::path& directory) {
  const Result<StoredSegment> stored = ReadSegment(directory.string(), 1);
  if (!stored.ok()) return std::nullopt;
  StreamSegment first;
  first.shape = stored->shape;
  first.preprocessor = stored->checksum;
  return first;
}

// Nothing of the stream counts. Segments were cut by other settings, it may be. What a file gave it
// gives again, perhaps another file; what a pipe gave stays.
Status BeginAgain(const fs::path& directory, bool resume) {
  const Result<std::optional<SourceMark>> mark = ReadMark(directory.string());
  DSLIDE_RETURN_IF_ERROR(mark);
  if (!resume && mark->has_value() && (*mark)->is_file) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);  // the feeder makes it again
  } else {
    RemoveSegments(directory.string(), std::numeric_limits<uint32_t>::max());
  }
  return {};
}

// Refuses a test file without labels at once: a stream reads it at its end, perhaps days later.
Status CheckTest(const std::string& path, const TextConfig& text) {
  if (path.empty()) return {};
  const Preprocessor nothing(Vectorizer(text, Vectorizer::Vocabulary()), Vocabulary());
  const Result<Dataset> test = ReadLabels(path, {&nothing, {}});
  DSLIDE_RETURN_IF_ERROR(test);
  return CheckLabelled(path, *test, "");
}

Result<StreamStart> Begin(StreamPlace place, uint32_t number, RunInputs* inputs,
                          StopSignals* signals) {
  const fs::path directory = place.directory;
  Result<std::unique_ptr<StreamFeeder>> feeder = StreamFeeder::Start(std::move(place), number);
  DSLIDE_RETURN_IF_ERROR(feeder);
  StreamStart start;
  auto awaited = Await(feeder->get(), std::max(number, 1u),
                       WaitingLine(number, inputs->config.train), signals, &start.ends);
  DSLIDE_RETURN_IF_ERROR(awaited);
  if (!awaited->has_value()) {
    if (start.ends) return WasStopped();
    return BadInput("train.data: the stream has ended without a sample");
  }
  StreamFeeder::Fed* fed = &**awaited;
  const ModelShape& shape = fed->segment.shape;
  inputs->config = SizedBy(shape, std::move(inputs->config));
  inputs->preprocessor = fed->segment.preprocessor;
  inputs->segment = shape.epoch;
  inputs->train = fed->segment.data.get();
  // A scheduler that was killed after the end has nothing to do but to say so.
  if (inputs->ledger.finished && !inputs->ledger.live && inputs->config.train.data == "-") {
    const auto more =
        Await(feeder->get(), shape.epoch + 1, WaitingLine(shape.epoch + 1, inputs->config.train),
              signals, &start.ends);
    DSLIDE_RETURN_IF_ERROR(more);
    start.finished = !more->has_value();
  }
  start.description = fmt::format("stream: {}{}", fed->segment.line, PlaceLine((*feeder)->taken()));
  start.notes = std::move(fed->notes);
  start.preprocessor = std::move(fed->preprocessor);
  start.feeder = *std::move(feeder);
  inputs->stream = std::move(fed->segment);
  inputs->first_segment = FirstSegment(directory);
  return start;
}

}  // namespace

Result<StreamStart> StartStream(const fs::path& root, bool resume, uint32_t server_memory_mb,
                                RunInputs* inputs, StopSignals* signals) {
  ResolveConfig(kOpenFeatures, kOpenLabels, &inputs->config);
  DSLIDE_RETURN_IF_ERROR(CheckTest(inputs->config.train.test, inputs->config.text));
  // Before anything is cut by these settings.
  if (resume) DSLIDE_RETURN_IF_ERROR(CheckKeysToResume(*inputs));
  const fs::path directory = root / kStreamName;
  std::error_code error;
  const bool is_new = !fs::exists(directory, error);
  for (const fs::path& made : {directory, fs::path(inputs->checkpoint_directory)}) {
    fs::create_directories(made, error);
    if (error) return Failed(fmt::format("{}: cannot create: {}", made.string(), error.message()));
  }
  Provisional made(is_new ? directory : fs::path());
  const Result<uint32_t> number = resume ? SegmentToGoOnWith(directory, *inputs) : 0u;
  DSLIDE_RETURN_IF_ERROR(number);
  if (*number == 0) DSLIDE_RETURN_IF_ERROR(BeginAgain(directory, resume));
  StreamPlace place{directory.string(), inputs->checkpoint_directory, inputs->config.train,
                    inputs->config.text,
                    VocabularyLimit(inputs->config, server_memory_mb, MemoryOfThisMachine())};
  Result<StreamStart> start = Begin(std::move(place), *number, inputs, signals);
  if (start.ok()) start->made = std::move(made);
  return start;
}

}  // namespace dslide
