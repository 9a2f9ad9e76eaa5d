// Makes segments of a stream: takes bytes from the source into the spool, cuts them, counts names,
// and turns samples into numbers, in a thread of its own and one segment ahead of training.
//
// A segment ends after train.segment_samples samples or kMostBytes, at the end of the stream, or
// when training waits for it and train.segment_s have passed since its first line came. Its file is
// on disk before anybody hears of it, so that it is the same whenever it is asked for again. What
// no checkpoint goes back to is removed (Forget()).
//
// Lines that are no records are left out, with a warning.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/config/config.h"
#include "common/text/open_vocabulary.h"
#include "common/text/preprocessor.h"
#include "scheduler/base/run_inputs.h"

namespace dslide {

// What the feeder's thread works with.
struct StreamPlace {
  std::string directory;    // of segments and spool, in the run directory
  std::string checkpoints;  // where the files of preprocessors lie
  TrainConfig train;
  TextConfig text;
  OpenVocabulary::Limit limit = {};  // of labels and words
};

class StreamFeeder {
 public:
  static constexpr size_t kMostBytes = size_t{256} << 20;  // of a segment

  struct Fed {
    StreamSegment segment;
    std::shared_ptr<const Preprocessor> preprocessor;
    std::vector<std::string> notes = {};  // as SegmentMaker::Made has them
  };
  using Delivery = std::variant<Fed, StreamEnd>;
  // What earlier starts took of the stream.
  struct Taken {
    uint64_t bytes = 0;
    uint64_t lines = 0;    // whole ones
    bool in_line = false;  // a part of one more
    bool is_file = false;
  };

  // `goes_on_at`: the newest segment of a run that goes on; 0: the run is new. Errors are those of
  // the source and the spool.
  static Result<std::unique_ptr<StreamFeeder>> Start(StreamPlace place, uint32_t goes_on_at);
  ~StreamFeeder();

  const Taken& taken() const { return taken_; }
  // Segment `number`, next: one that was there before, or the one after.
  void Want(uint32_t number);
  // What Want() asked for, once it is there.
  std::optional<Delivery> Take();
  // Readable while Take() has what was wanted last.
  int fd() const { return ready_fd_; }
  // The stream ends with what has come.
  void End();
  // Nobody goes back before segment `oldest`; 0: somebody may go back to the beginning.
  // `preprocessors`: checksums of files that stay, beside those of the last segments.
  void Forget(uint32_t oldest, std::set<uint64_t> preprocessors);

 private:
  class Worker;
  // What the threads tell each other.
  struct Orders {
    struct Forgetting {
      uint32_t oldest = 0;
      std::set<uint64_t> preprocessors;
    };
    Mutex mutex;
    uint32_t wanted DSLIDE_GUARDED_BY(mutex) = 0;  // the number of a segment; 0: none is asked for
    bool end DSLIDE_GUARDED_BY(mutex) = false;
    bool stop DSLIDE_GUARDED_BY(mutex) = false;
    std::optional<Forgetting> forgetting DSLIDE_GUARDED_BY(mutex);
    std::optional<Delivery> delivery DSLIDE_GUARDED_BY(mutex);
  };

  StreamFeeder();

  Taken taken_;
  Orders orders_;
  int wake_fd_;   // for the feeder's thread
  int ready_fd_;  // for the other one
  std::unique_ptr<Worker> worker_;
  std::jthread thread_;
};

}  // namespace dslide
