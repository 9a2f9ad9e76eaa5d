// What an executor is made of again: the rows of a checkpoint and the records of executors.
//
//   input = kind(1) *(length(2, little-endian) part)    part: key and value of a row, or a record
//
// The low bits of `kind` choose the executor's configuration.
#include <algorithm>

#include "common/math/kernels.h"
#include "server/executor/executor.h"
#include "server/storage/stored_keys.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/messages/executor_config.h"

namespace dslide::executor_state_fuzz {
namespace {

using fuzz::Inputs;

constexpr uint64_t kSamples = 1000;

class Loading {
 public:
  explicit Loading(uint8_t kind)
      : config_(fuzz::ExecutorConfig(kind)),
        executor_(config_, kSamples, AllSlots(config_.cluster), Purpose::kTraining, BestKernels()) {
  }

  void Add(std::string_view part) {
    if (const auto key = DecodeRowKey(part.substr(0, kRowKeyBytes))) {
      const std::string_view value = part.substr(kRowKeyBytes);
      rows_ &= fuzz::Accepted(
          executor_.LoadRow(*key, {reinterpret_cast<const uint8_t*>(value.data()), value.size()}));
      return;
    }
    const std::string_view record = part.substr(std::min(kRecordKeyBytes, part.size()));
    (void)fuzz::Accepted(ExecutorRecord::Decode(record));
    records_.emplace_back(record);
  }

  // Whether the executor is as it was. Then it works.
  bool Finish() {
    if (!rows_ || !fuzz::Accepted(executor_.FinishLoad(records_))) return false;
    TopKRequest top{Matrix(1, config_.model.hidden), 3, Search::kExact, {}};
    (void)executor_.Handle({5}, top);
    (void)executor_.Measure(true);
    return true;
  }

 private:
  const Config config_;
  Executor executor_;
  bool rows_ = true;  // all were good
  std::vector<std::string> records_;
};

bool Run(std::string_view input) {
  if (input.empty()) return false;
  Loading loading(static_cast<uint8_t>(input[0]));
  input.remove_prefix(1);
  while (input.size() >= 2) {
    const size_t length =
        size_t{static_cast<uint8_t>(input[0])} | size_t{static_cast<uint8_t>(input[1])} << 8;
    input.remove_prefix(2);
    loading.Add(input.substr(0, length));
    input.remove_prefix(std::min(length, input.size()));
  }
  return loading.Finish();
}

// Takes a snapshot as an input.
class InputSink : public SnapshotSink {
 public:
  explicit InputSink(uint8_t kind) : input(1, static_cast<char>(kind)) {}
  bool HasRoom(uint32_t) override { return true; }
  void AwaitRoom(uint32_t, uint32_t) override {}
  void Put(uint32_t, RowChunk chunk) override {
    for (size_t i = 0; i < chunk.keys.size(); ++i) {
      const size_t begin = i == 0 ? 0 : chunk.ends[i - 1];
      const RowKeyBytes key = EncodeRowKey(chunk.keys[i]);
      Add(View(key),
          {reinterpret_cast<const char*>(chunk.bytes.data()) + begin, chunk.ends[i] - begin});
    }
  }
  void Finish(uint32_t executor, std::string record) override {
    Add(View(EncodeRecordKey(executor)), record);
  }

  std::string input;

 private:
  void Add(std::string_view key, std::string_view value) {
    const size_t length = key.size() + value.size();
    input += static_cast<char>(length & 0xff);
    input += static_cast<char>(length >> 8);
    (input += key) += value;
  }
};

Inputs Seeds() {
  Inputs seeds;
  for (uint8_t kind = 0; kind < fuzz::kExecutorConfigs; ++kind) {
    const Config config = fuzz::ExecutorConfig(kind);
    Executor executor(config, kSamples, AllSlots(config.cluster), Purpose::kTraining,
                      BestKernels());
    executor.Initialise();
    InputSink sink(kind);
    executor.BeginSnapshot(&sink);
    while (executor.AdvanceSnapshot()) {
    }
    seeds.push_back(sink.input);
  }
  return seeds;
}

const fuzz::Entered kEntered({"executor_state", Run, Seeds});

}  // namespace
}  // namespace dslide::executor_state_fuzz
