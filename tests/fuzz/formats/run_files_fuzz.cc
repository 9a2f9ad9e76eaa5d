// What a run directory tells reports and resumed runs: all its files of JSON.
//
//   input = metrics.jsonl "\f" loads.jsonl "\f" examples.jsonl "\f" summary.json "\f" totals.json
#include <nlohmann/json.hpp>

#include "common/config/config.h"
#include "scheduler/status/run_costs.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/dslide/report/run_directory.h"

namespace dslide::run_files_fuzz {
namespace {

using fuzz::Inputs;

constexpr const char* kFiles[] = {"metrics.jsonl", "loads.jsonl", "examples.jsonl", "summary.json",
                                  "totals.json"};

void ReadCosts(std::string_view text) {
  const Result<RunCosts> costs = ParseCosts(text);
  if (!fuzz::Accepted(costs)) return;
  const Result<RunCosts> again = ParseCosts(FormatCosts(*costs));
  DSLIDE_CHECK(again.ok() && FormatCosts(*again) == FormatCosts(*costs));
}

bool Run(std::string_view input) {
  Config config;
  config.train.epochs = 4;
  ResolveConfig(40, 20, &config);
  (void)fuzz::InputFile(FormatConfig(config), "config.ini");
  for (const char* file : kFiles) {
    const size_t end = input.find('\f');
    (void)fuzz::InputFile(input.substr(0, end), file);
    if (end == std::string_view::npos) ReadCosts(input);
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  const auto run = ReadRunDirectory(fuzz::InputDirectory());
  if (!fuzz::Accepted(run)) return false;
  (void)run->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return true;
}

Inputs Seeds() {
  const std::string start =
      R"({"event":"start","elapsed_s":0,"time":9,"train_samples":7,"test_samples":3,"label_repeats":2})"
      "\n";
  const std::string progress =
      R"({"event":"progress","elapsed_s":5,"progress":0.5,"samples_per_second":100,"loss":2.5,)"
      R"("bytes_sent_per_sample":10,"bytes_received_per_sample":20,"active_neurons_per_sample":30,)"
      R"("tail_error":0.25,"active_set_recall_at_10":0.5})"
      "\n";
  const std::string evaluation =
      R"({"event":"evaluation","elapsed_s":6,"epochs_trained":1,"evaluated_samples":3,"p_at_1":0.5,)"
      R"("p_at_3":0.4,"p_at_5":0.3,"ndcg_at_1":0.5,"ndcg_at_3":0.4,"ndcg_at_5":0.3,"psp_at_1":0.5,)"
      R"("psp_at_3":0.4,"psp_at_5":0.3})"
      "\n";
  const std::string notice = R"({"event":"notice","elapsed_s":3,"text":"slots move"})"
                             "\n";
  const std::string loads = R"({"elapsed_s":5,"servers":[{"name":"s","slots":4,"load":1.5}]})"
                            "\n";
  const std::string examples = R"({"number":1,"labels":["a"],"predicted":["b"]})"
                               "\n";
  RunCosts costs;
  costs.work.samples = 3;
  costs.member_cpu_seconds = {{5, 1.5}};
  return {start + progress + evaluation + notice + start + progress + "\f" + loads + "\f" +
              examples + "\f" + R"({"outcome":"finished","p_at_1":0.5})" + "\f" +
              FormatCosts(costs),
          start + "\f\f\f\f" + FormatCosts({}), "{}\n", start + "{\n"};
}

const fuzz::Entered kEntered({"run_files", Run, Seeds});

}  // namespace
}  // namespace dslide::run_files_fuzz
