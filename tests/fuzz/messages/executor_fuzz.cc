// What servers do with requests of workers that anybody may send: an executor gets a script of
// messages (message_mutator.h), whose senders are told apart by the last bit of their incarnations.
// Slot rows come in as from the server that a slot comes from.
//
//   input = kind(1) script         kind: of the executor (executor_config.h)
#include "server/executor/executor.h"

#include <memory>

#include "common/math/kernels.h"
#include "common/run/dense_layers.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/messages/executor_config.h"
#include "tests/fuzz/messages/message_mutator.h"

namespace dslide::executor_fuzz {
namespace {

using fuzz::Inputs;
using fuzz::kFeatures;
using fuzz::kHidden;

// The executor has slots 0, 2 and 3; slot 1 is on its way to it.
class Peer {
 public:
  explicit Peer(uint8_t kind)
      : config_(fuzz::ExecutorConfig(kind)),
        executor_(config_, 1000, std::vector<SlotId>{{0}, {2}, {3}}, Purpose::kTraining,
                  BestKernels()) {
    executor_.Initialise();
    DSLIDE_CHECK(executor_.Do({SlotJob::Kind::kReserve, {{1}}}).ok());
  }

  // Whether it was understood.
  bool Take(const Message& message) {
    if (const auto* rows = std::get_if<SlotRows>(&message.body)) {
      SlotJob put{SlotJob::Kind::kPut, {{1}}};
      put.rows = std::make_shared<const SlotRows>(*rows);
      return Do(put) && Do({SlotJob::Kind::kAttach, {{1}}});
    }
    const Body reply = executor_.Handle({message.envelope.incarnation.value % 2}, message.body);
    (void)executor_.Background();
    const auto* error = std::get_if<ErrorReply>(&reply);
    if (error != nullptr) fuzz::CheckError(BadInput(error->text));
    return error == nullptr;
  }

 private:
  bool Do(const SlotJob& job) {
    const Result<Attached> done = executor_.Do(job);
    if (!done.ok()) fuzz::CheckError(BadInput(done.error().message));
    return done.ok();
  }

  const Config config_;
  Executor executor_;
};

bool Run(std::string_view input) {
  if (input.empty()) return false;
  Peer peer(static_cast<uint8_t>(input[0]));
  bool understood = false;
  (void)fuzz::ForEachMessage(input.substr(1), [&](const Message& message) {
    understood |= peer.Take(message);
    return true;
  });
  return understood;
}

std::string Mutate(std::string_view input, Random* random) {
  if (input.empty()) return "0";
  const char kind = random->Below(16) == 0 ? static_cast<char>(random->Next()) : input[0];
  return kind + fuzz::MutateScript(input.substr(1), random);
}

// A batch on its way through the four requests.
std::vector<Message> BatchScript(uint32_t index, const Config& config) {
  const BatchId batch{0, 0, index};
  EmbedRequest embed{batch, true, {}};
  embed.features.ids = {1, kFeatures, 2, 7, kFeatures};
  embed.features.values = {1, 1, 0.5f, 2, 1};
  embed.features.offsets = {0, 2, 5};
  ActiveQuery query;
  query.batch = batch;
  query.hidden = Matrix(2, kHidden);
  query.hidden.data = {1, 0, 2, 0, 0.5f, 0.5f, 0, 1};
  query.labels.ids = {2, 3, 5};
  query.labels.offsets = {0, 2, 3};
  query.label_totals = {2, 1};
  query.probe_samples = 2;
  ActiveQuery finish = query;
  finish.finish = finish.alone = true;
  finish.batch.index += 7;
  EmbedPush push{batch, Matrix(2, kHidden)};
  push.next = embed;
  push.next->batch.index += 1;
  if (const uint32_t rows = DenseRowCount(config.model); rows > 0) {
    push.dense = LayerRows{{}, Matrix(rows, kHidden)};
    for (uint32_t d = 0; d < rows; ++d) push.dense->ids.push_back(kFeatures + 1 + d);
    push.dense->values.data[3] = 0.5f;
    embed.dense = true;
  }
  TopKRequest top{query.hidden, 3, Search::kScan, query.labels};
  std::vector<Message> script;
  for (Body body : {Body(embed), Body(query), Body(GradientPush{batch, {2, 2}}), Body(push),
                    Body(finish), Body(top), Body(CommitSteps{1}), Body(RebuildTables{1, 2}),
                    Body(SlotPull{0, 0, true, 1000, false}),
                    Body(SlotPull{0, 1, false, 1000, false}), Body(DropBatches{{1}})}) {
    script.push_back({{{77}, {1}, script.size() + 1, 0, 1}, std::move(body)});
  }
  return script;
}

// What another server answers that slot 1 comes from.
std::vector<Message> SlotScript(const Config& config) {
  Executor from(config, 1000, std::vector<SlotId>{{1}}, Purpose::kTraining, BestKernels());
  from.Initialise();
  std::vector<Message> script;
  for (uint32_t part = 0; part < 3; ++part) {
    Body reply = from.Handle({2}, SlotPull{1, part, false, 100, false});
    script.push_back({{{77}, {2}, script.size() + 1, 0, 1}, std::move(reply)});
  }
  return script;
}

Inputs Seeds() {
  Inputs seeds;
  for (uint8_t kind = 0; kind < fuzz::kExecutorConfigs; ++kind) {
    const std::string first(1, static_cast<char>(kind));
    seeds.push_back(first + fuzz::ScriptOf(BatchScript(kind, fuzz::ExecutorConfig(kind))));
    seeds.push_back(first + fuzz::ScriptOf(SlotScript(fuzz::ExecutorConfig(kind))));
  }
  return seeds;
}

const fuzz::Entered kEntered({"executor", Run, Seeds, Mutate});

}  // namespace
}  // namespace dslide::executor_fuzz
