#include "tools/dslide/model/model_argument.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/results.h"

namespace dslide::model_argument_test {
namespace {

// MODEL and the words, with blanks between; an error's text.
std::string Read(const std::vector<std::string>& given, size_t most_words = 0) {
  CommandLine line("program", "Does it.");
  DeclareModel(&line, "[WORD...]", 2);
  const ParsedArguments arguments = Ok(line.Parse(given));
  const Result<NamedModel> model = ModelFrom(arguments, most_words);
  if (!model.ok()) return MessageOf(model);
  std::string text = model->path;
  for (const std::string& word : model->more) text += " " + word;
  return text;
}

TEST_CASE("a model is named as an argument or by either option") {
  CHECK(Read({"runs/a"}) == "runs/a");
  CHECK(Read({"--model", "runs/a"}) == "runs/a");
  CHECK(Read({"--checkpoint", "runs/a"}) == "runs/a");
  CHECK(Read({"runs/a", "king", "queen"}, 2) == "runs/a king queen");
  CHECK(Read({"--model", "runs/a", "king", "queen"}, 2) == "runs/a king queen");
}

TEST_CASE("a model that is named twice, or not at all, is refused") {
  const std::string none =
      "no model is given: name a run directory, a checkpoint or a file by `dslide export`, as an "
      "argument or by --model";
  CHECK(Read({}) == none);
  CHECK(Read({}, 2) == none);
  CHECK(Read({"--model", "a", "--checkpoint", "b"}) ==
        "--model and --checkpoint are one option; give one");
  CHECK(Read({"--model", "a", "b"}) == "unexpected argument b; the model is a");
  CHECK(Read({"a", "b"}) == "unexpected argument b; the model is a");
}

}  // namespace
}  // namespace dslide::model_argument_test
