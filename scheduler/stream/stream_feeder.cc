#include "scheduler/stream/stream_feeder.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/process.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/log/log.h"
#include "common/text/records/record_file.h"
#include "common/text/samples.h"
#include "scheduler/base/events.h"
#include "scheduler/stream/segment_maker.h"
#include "scheduler/stream/segment_shelf.h"
#include "scheduler/stream/source_mark.h"
#include "scheduler/stream/spool.h"
#include "scheduler/stream/stream_source.h"
#include "scheduler/stream/stream_task.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestLine = size_t{64} << 20;
constexpr int kAgainMs = 10'000;  // after a full disk

void Warn(const std::string& problem) {
  LogWarning({event::kStreamProblem, "train.data: " + problem});
}

void Signal(int event) {
  const uint64_t one = 1;
  (void)!write(event, &one, sizeof(one));
}

void Clear(int event) {
  uint64_t count;
  (void)!read(event, &count, sizeof(count));
}

// A file that is written as a whole may be written again.
Status MayWait(const Status& written) {
  return written.ok() ? written : TryLater(written.error().message);
}

}  // namespace

// All that the feeder's thread owns.
class StreamFeeder::Worker {
 public:
  Worker(StreamPlace place, Spool spool, StreamSource source, SegmentShelf shelf,
         StoredSegment last, std::optional<SourceMark> mark)
      : place_(std::move(place)),
        spool_(std::move(spool)),
        source_(std::move(source)),
        shelf_(std::move(shelf)),
        mark_(std::move(mark)),
        maker_(place_.train, place_.text, std::move(last), place_.limit) {}

  void Run(Orders* orders, int wake, int ready);
  Status Begin();
  Taken TakenSoFar() const {
    return {spool_.end(), maker_.stored().lines + maker_.lines(), maker_.longest_open() > 0,
            source_.is_file()};
  }

 private:
  StreamSituation Situation(uint32_t wanted) const;
  // Carries out a task. Returns what is to be delivered by it, if anything.
  Result<std::optional<Delivery>> Do(StreamTask task, uint32_t wanted, int wake);
  Delivery Deliver(Fed fed);
  Result<Fed> LoadAgain(uint32_t number);
  Status MakeNext();
  Status Store();
  bool Waits(const Error& error, int wake);
  Status Read(uint32_t wanted, int wake);
  Status MarkSource();
  void SayKeptOut();
  Status Forget(const Orders::Forgetting& forgetting);
  StreamEnd EndAt(uint32_t number);
  // Waiting for more would make the next segment no longer.
  bool IsFull() const {
    return maker_.lines() >= place_.train.segment_samples || maker_.pending() >= kMostBytes;
  }
  // When a part of a segment is made, if training waits for it.
  int64_t LatestMs() const { return first_line_ms_ + int64_t{1000} * place_.train.segment_s; }
  bool HasLines() const { return maker_.lines() > 0 || (source_ended_ && maker_.pending() > 0); }

  const StreamPlace place_;
  Spool spool_;
  StreamSource source_;
  SegmentShelf shelf_;
  std::optional<SourceMark> mark_;
  SegmentMaker maker_;
  bool said_kept_out_ = false;
  bool ended_ = false;
  // By itself, so that its last line is whole. After a signal the rest of a line may come yet.
  bool source_ended_ = false;
  bool failed_ = false;                     // nothing more can be made of it
  Status why_;                              // the stream ended
  std::optional<SegmentMaker::Made> made_;  // and not stored yet
  std::optional<Fed> ahead_;
  std::string made_line_;                     // of the last segment, if it was made in this life
  bool waits_ = false;                        // for the disk
  std::shared_ptr<const Preprocessor> last_;  // of the segment delivered last
  std::vector<uint64_t> recent_;              // checksums of the preprocessors of the last segments
  int64_t first_line_ms_ = 0;  // when the first line of the next segment came; 0: not yet
};

Status StreamFeeder::Worker::Begin() {
  Result<std::string> rest = spool_.Read(maker_.end(), spool_.end());
  DSLIDE_RETURN_IF_ERROR(rest);
  maker_.Add(*rest);
  return MarkSource();
}

void StreamFeeder::Worker::Run(Orders* orders, int wake, int ready) {
  while (true) {
    uint32_t wanted = 0;
    std::optional<Orders::Forgetting> forgetting;
    {
      const MutexLock lock(orders->mutex);
      if (orders->stop) return;
      ended_ = ended_ || orders->end;
      wanted = orders->wanted;
      forgetting = std::exchange(orders->forgetting, std::nullopt);
    }
    if (forgetting) {
      const Status forgotten = Forget(*forgetting);
      if (!forgotten.ok()) Warn(forgotten.error().message);
    }
    const StreamTask task = NextTask(Situation(wanted));
    Result<std::optional<Delivery>> delivery = Do(task, wanted, wake);
    if (!delivery.ok() && Waits(delivery.error(), wake)) continue;
    if (!delivery.ok()) {
      if (why_.ok()) why_ = delivery.error();
      ended_ = true;
      failed_ = failed_ || task != StreamTask::kRead;  // the lines before can be made into segments
      if (!failed_) continue;
      delivery = std::optional<Delivery>(StreamEnd{wanted, why_, nullptr});
    }
    if (wanted == 0 || !delivery->has_value()) continue;
    const MutexLock lock(orders->mutex);
    if (orders->wanted != wanted) continue;
    orders->wanted = 0;
    orders->delivery = std::move(**delivery);
    Signal(ready);
  }
}

// Where a full disk is in the way nothing is lost by waiting: the source waits as well, and
// training goes on with what it has. True: it has waited, and everything is to be tried again.
bool StreamFeeder::Worker::Waits(const Error& error, int wake) {
  if (error.kind != ErrorKind::kTryLater) return false;
  if (!std::exchange(waits_, true)) {
    Warn(error.message + "; the stream waits until there is room");
  }
  pollfd order{wake, POLLIN, 0};
  (void)poll(&order, 1, kAgainMs);
  Clear(wake);
  return true;
}

StreamSituation StreamFeeder::Worker::Situation(uint32_t wanted) const {
  StreamSituation now{wanted, maker_.number()};
  now.is_made = made_.has_value();
  now.is_ahead = ahead_.has_value();
  now.has_lines = HasLines();
  now.is_full = IsFull();
  now.is_old = MonotonicMillis() >= LatestMs();
  now.ended = ended_;
  now.failed = failed_;
  return now;
}

Result<std::optional<StreamFeeder::Delivery>> StreamFeeder::Worker::Do(StreamTask task,
                                                                       uint32_t wanted, int wake) {
  Status done;
  switch (task) {
    case StreamTask::kStore:
      done = Store();
      break;
    case StreamTask::kMake:
      done = MakeNext();
      break;
    case StreamTask::kDeliver:
      return std::optional(Deliver(*std::exchange(ahead_, std::nullopt)));
    case StreamTask::kReload: {
      Result<Fed> again = LoadAgain(wanted);
      DSLIDE_RETURN_IF_ERROR(again);
      return std::optional(Deliver(*std::move(again)));
    }
    case StreamTask::kEnd:
      return std::optional<Delivery>(EndAt(wanted));
    case StreamTask::kRead:
      done = Read(wanted, wake);
      break;
    case StreamTask::kAwait:
      source_.WaitForOrders(wake);
      Clear(wake);
      break;
  }
  DSLIDE_RETURN_IF_ERROR(done);
  return std::optional<Delivery>();
}

StreamFeeder::Delivery StreamFeeder::Worker::Deliver(Fed fed) {
  last_ = fed.preprocessor;
  return fed;
}

StreamEnd StreamFeeder::Worker::EndAt(uint32_t number) {
  StreamEnd end{number, why_, nullptr};
  if (place_.train.test.empty()) return end;
  if (last_ == nullptr) last_ = std::make_shared<const Preprocessor>(maker_.MakePreprocessor());
  Result<LoadedSamples> test =
      LoadSamples(place_.train.test, {last_.get(), {last_->num_features(), last_->num_labels()}});
  if (test.ok()) {
    end.test = std::make_shared<const Dataset>(std::move(test->data));
  } else if (end.why.ok()) {
    end.why = test.error();
  }
  return end;
}

Result<StreamFeeder::Fed> StreamFeeder::Worker::LoadAgain(uint32_t number) {
  const Result<StoredSegment> stored = shelf_.Read(number);
  DSLIDE_RETURN_IF_ERROR(stored);
  const Result<std::string> bytes = spool_.Read(stored->begin, stored->end);
  DSLIDE_RETURN_IF_ERROR(bytes);
  const Result<const OpenVocabulary*> vocabulary = shelf_.VocabularyOf(number, spool_);
  DSLIDE_RETURN_IF_ERROR(vocabulary);
  SegmentMaker::Made made = SegmentMaker::MakeAgain(*stored, **vocabulary, *bytes);
  DSLIDE_RETURN_IF_ERROR(shelf_.CheckSame(*stored, made.preprocessor.get()));
  DSLIDE_RETURN_IF_ERROR(MayWait(StorePreprocessor(place_.checkpoints, made.preprocessor.get())));
  recent_.push_back(stored->checksum);
  if (number == maker_.number() && !made_line_.empty()) made.segment.line = made_line_;
  return Fed{std::move(made.segment), std::move(made.preprocessor)};
}

Status StreamFeeder::Worker::MakeNext() {
  auto made = maker_.MakeNext(source_ended_);
  DSLIDE_RETURN_IF_ERROR(made);
  first_line_ms_ = MonotonicMillis();
  if (!made->has_value()) {  // no line was a record
    if (const std::string line = maker_.TakeLeftOut(); !line.empty()) Warn(line);
    return {};
  }
  SayKeptOut();
  made_ = std::move(**made);
  return {};
}

// Keeps the segment that was made last, and what it was made of, before anybody trains it.
Status StreamFeeder::Worker::Store() {
  DSLIDE_RETURN_IF_ERROR(spool_.Sync());
  DSLIDE_RETURN_IF_ERROR(MarkSource());
  DSLIDE_RETURN_IF_ERROR(MayWait(StorePreprocessor(place_.checkpoints, made_->preprocessor.get())));
  DSLIDE_RETURN_IF_ERROR(MayWait(shelf_.Add(maker_.stored(), maker_.vocabulary())));
  waits_ = false;
  recent_.push_back(made_->segment.preprocessor);
  made_line_ = made_->segment.line;
  ahead_ = Fed{std::move(made_->segment), std::move(made_->preprocessor), std::move(made_->notes)};
  made_.reset();
  return {};
}

// Long before the spool forgets the beginning the mark has all that it takes.
Status StreamFeeder::Worker::MarkSource() {
  if (source_.is_empty()) return {};
  if (mark_ && (mark_->bytes == SourceMark::kMostBytes || spool_.begin() > 0)) return {};
  const Result<SourceMark> mark = MarkOf(source_, spool_);
  DSLIDE_RETURN_IF_ERROR(mark);
  if (mark_ == *mark) return {};
  DSLIDE_RETURN_IF_ERROR(MayWait(WriteMark(place_.directory, *mark)));
  mark_ = *mark;
  return {};
}

// Once; each segment's line says so, too.
void StreamFeeder::Worker::SayKeptOut() {
  if (maker_.kept_out() == 0 || std::exchange(said_kept_out_, true)) return;
  LogWarning({event::kStreamProblem,
              fmt::format("the labels or words of the stream take all that they may "
                          "(train.vocabulary_mb = {}, and 16 million together): new ones are left "
                          "out until others are forgotten; raise it, or lower "
                          "train.expire_segments",
                          place_.limit.bytes >> 20)});
}

// Reads what has come, or waits for more.
Status StreamFeeder::Worker::Read(uint32_t wanted, int wake) {
  const Result<StreamSource::Got> got = source_.Fetch(&spool_);
  DSLIDE_RETURN_IF_ERROR(got);
  if (*got == StreamSource::Got::kEnd) ended_ = source_ended_ = true;
  if (*got == StreamSource::Got::kBytes) {
    waits_ = false;
    // A fetch that filled the disk may have left some before.
    const uint64_t begin = maker_.end() + maker_.pending();
    const Result<std::string> bytes = spool_.Read(begin, spool_.end());
    DSLIDE_RETURN_IF_ERROR(bytes);
    const bool had_lines = maker_.lines() > 0;
    maker_.Add(*bytes);
    if (!had_lines && maker_.lines() > 0) first_line_ms_ = MonotonicMillis();
    if (maker_.longest_open() > kLongestLine) {
      return BadInput(fmt::format("train.data: a line has more than {} MiB", kLongestLine >> 20));
    }
  }
  if (*got != StreamSource::Got::kNothing) return {};
  int timeout_ms = -1;
  if (wanted != 0 && HasLines()) {
    timeout_ms =
        static_cast<int>(std::clamp<int64_t>(LatestMs() - MonotonicMillis(), 0, 60'000)) + 1;
  }
  source_.Wait(wake, timeout_ms);
  Clear(wake);
  return {};
}

Status StreamFeeder::Worker::Forget(const Orders::Forgetting& forgetting) {
  std::error_code error;
  constexpr size_t kRecent = 3;  // the one in training, the one ahead, and one between
  if (recent_.size() > kRecent) recent_.erase(recent_.begin(), recent_.end() - kRecent);
  std::set<std::string> kept;
  for (const uint64_t checksum : forgetting.preprocessors) {
    kept.insert(PreprocessorName(checksum));
  }
  for (const uint64_t checksum : recent_) kept.insert(PreprocessorName(checksum));
  if (ahead_) kept.insert(PreprocessorName(ahead_->segment.preprocessor));
  std::vector<fs::path> removed;
  for (const auto& entry : fs::directory_iterator(place_.checkpoints, error)) {
    const std::string name = entry.path().filename();
    const bool is_one = name.starts_with("preprocessor-") && !name.ends_with(kTemporarySuffix);
    if (is_one && !kept.contains(name)) removed.push_back(entry.path());
  }
  for (const fs::path& path : removed) fs::remove(path, error);
  return forgetting.oldest > 0 ? shelf_.Forget(forgetting.oldest, &spool_) : Status();
}

StreamFeeder::StreamFeeder()
    : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ready_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DSLIDE_CHECK(wake_fd_ >= 0 && ready_fd_ >= 0);
}

StreamFeeder::~StreamFeeder() {
  {
    const MutexLock lock(orders_.mutex);
    orders_.stop = true;
  }
  Signal(wake_fd_);
  if (thread_.joinable()) thread_.join();
  close(wake_fd_);
  close(ready_fd_);
}

Result<std::unique_ptr<StreamFeeder>> StreamFeeder::Start(StreamPlace place, uint32_t goes_on_at) {
  Result<Spool> spool = Spool::Open(place.directory);
  DSLIDE_RETURN_IF_ERROR(spool);
  Result<StreamSource> source = StreamSource::Open(place.train.data);
  DSLIDE_RETURN_IF_ERROR(source);
  Result<std::optional<SourceMark>> mark = ReadMark(place.directory);
  DSLIDE_RETURN_IF_ERROR(mark);
  DSLIDE_RETURN_IF_ERROR(CheckSource(*mark, *source, *spool));
  SegmentShelf shelf(place.directory, place.text);
  Result<StoredSegment> last = shelf.Newest(goes_on_at, *spool);
  DSLIDE_RETURN_IF_ERROR(last);
  auto feeder = std::unique_ptr<StreamFeeder>(new StreamFeeder);
  feeder->worker_ =
      std::make_unique<Worker>(std::move(place), *std::move(spool), *std::move(source),
                               std::move(shelf), *std::move(last), *std::move(mark));
  DSLIDE_RETURN_IF_ERROR(feeder->worker_->Begin());
  feeder->taken_ = feeder->worker_->TakenSoFar();
  feeder->thread_ = std::jthread(
      [raw = feeder.get()] { raw->worker_->Run(&raw->orders_, raw->wake_fd_, raw->ready_fd_); });
  return feeder;
}

void StreamFeeder::Want(uint32_t number) {
  {
    const MutexLock lock(orders_.mutex);
    orders_.wanted = number;
    orders_.delivery.reset();
    Clear(ready_fd_);
  }
  Signal(wake_fd_);
}

std::optional<StreamFeeder::Delivery> StreamFeeder::Take() {
  const MutexLock lock(orders_.mutex);
  Clear(ready_fd_);
  return std::exchange(orders_.delivery, std::nullopt);
}

void StreamFeeder::End() {
  {
    const MutexLock lock(orders_.mutex);
    orders_.end = true;
  }
  Signal(wake_fd_);
}

void StreamFeeder::Forget(uint32_t oldest, std::set<uint64_t> preprocessors) {
  {
    const MutexLock lock(orders_.mutex);
    orders_.forgetting = {oldest, std::move(preprocessors)};
  }
  Signal(wake_fd_);
}

}  // namespace dslide
