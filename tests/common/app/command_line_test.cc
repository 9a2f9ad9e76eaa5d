#include "common/app/command_line.h"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/app/executable.h"
#include "common/base/random.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

CommandLine Example() {
  CommandLine line("dslide-server --config FILE [options]", "Owns a share of the parameters.");
  line.Required("config", "FILE", "configuration of the cluster");
  line.Option("threads", "N", "executors", "4");
  line.Option("log-file", "FILE", "where messages go");
  line.Repeated("set", "SECTION.KEY=VALUE", "override a value of the configuration");
  line.Flag("quiet", "no progress line");
  return line;
}

ParsedArguments Parsed(const CommandLine& line, const std::vector<std::string>& arguments) {
  return Ok(line.Parse(arguments));
}

std::string ErrorOf(const CommandLine& line, const std::vector<std::string>& arguments) {
  const Result<ParsedArguments> parsed = line.Parse(arguments);
  return parsed.ok() ? "" : MessageOf(parsed);
}

}  // namespace

TEST_CASE("command line: values, defaults and flags") {
  const ParsedArguments p =
      Parsed(Example(), {"--config", "a.ini", "--set", "a.b=c", "--set=d.e=--f", "--quiet"});
  CHECK(p.Get("config") == "a.ini");
  CHECK(p.All("set") == std::vector<std::string>{"a.b=c", "d.e=--f"});
  CHECK(p.Has("quiet"));
  CHECK_FALSE(p.Has("threads"));
  CHECK(p.Get("threads") == "4");
  CHECK_FALSE(p.Has("log-file"));
  CHECK(p.Get("log-file").empty());
  CHECK(p.Positional().empty());
}

TEST_CASE("command line: a value replaces the default and may be negative") {
  const ParsedArguments p = Parsed(Example(), {"--threads", "-5", "--config=--odd"});
  CHECK(p.Has("threads"));
  CHECK(p.All("threads") == std::vector<std::string>{"-5"});
  CHECK(p.Get("config") == "--odd");
}

TEST_CASE("command line: numbers of a repeated option") {
  const auto numbers = [](const std::vector<std::string>& arguments) {
    return Parsed(Example(), arguments).Numbers("set", 1, 100);
  };
  CHECK(numbers({"--config", "x"})->empty());
  CHECK(*numbers({"--config", "x", "--set", "100", "--set", "1"}) == std::vector<uint32_t>{100, 1});
  for (const char* bad : {"0", "101", "2x", "-1", "1,2", "4294967297"}) {
    CHECK(MessageOf(numbers({"--config", "x", "--set", "7", "--set", bad})) ==
          std::string("--set ") + bad + ": must be 1 to 100");
  }
}

TEST_CASE("command line: help and version need nothing else") {
  CHECK(Parsed(Example(), {"--help"}).Has("help"));
  CHECK(Parsed(Example(), {"-h"}).Has("help"));
  CHECK(Parsed(Example(), {"--quiet", "--version"}).Has("version"));
}

TEST_CASE("command line: a key of the configuration that is given as an option") {
  CommandLine line("program", "Does it.");
  line.Option("config", "FILE", "configuration");
  line.Option("servers", "N", "servers to start");
  line.Repeated("set", "SECTION.KEY=VALUE", "a value");
  CHECK(ErrorOf(line, {"--epochs", "5"}) == "unknown option --epochs; --help lists the known ones");
  line.Flag("help-config", "list the keys");  // an executable that has keys
  CHECK(ErrorOf(line, {"--epochs", "5"}) ==
        "unknown option --epochs; did you mean --set train.epochs=...?");
  CHECK(ErrorOf(line, {"--epoch=5"}) ==
        "unknown option --epoch; did you mean --set train.epochs=...?");
  CHECK(ErrorOf(line, {"--data", "x"}) ==
        "unknown option --data; did you mean --set train.data=...?");
  CHECK(ErrorOf(line, {"--bogus"}) == "unknown option --bogus; --help lists the known ones");
  CHECK(ErrorOf(line, {"--server", "2"}) == "unknown option --server; did you mean --servers?");
}

TEST_CASE("command line: training data may be named by options of their own") {
  CommandLine line("program", "Does it.");
  DeclareDataOptions(&line);
  DeclareConfigOptions(&line);
  const auto overrides = [&](const std::vector<std::string>& arguments) {
    return OverridesOf(*line.Parse(arguments));
  };
  CHECK(overrides({})->empty());
  CHECK(*overrides({"--test", "b", "--set", "train.epochs=3", "--data", "a"}) ==
        Overrides{"train.epochs=3", "train.data=a", "train.test=b"});
  CHECK(*overrides({"--format", "csv", "--fields", "text:body"}) ==
        Overrides{"text.format=csv", "text.fields=text:body"});
  CHECK(MessageOf(overrides({"--data", "a", "--set", "train.data = c"})) ==
        "train.data is given twice, by --data and by --set; give one of them");
  CommandLine other("program", "Does it.");
  other.Option("data", "FILE", "something else");
  other.Repeated("set", "SECTION.KEY=VALUE", "a value");
  CHECK(OverridesOf(*other.Parse(std::vector<std::string>{}))->empty());
  // An executable that reads no data, such as dslide-server, does not take them.
  CommandLine server("program", "Does it.");
  DeclareConfigOptions(&server);
  CHECK(ErrorOf(server, {"--format", "csv"}).starts_with("unknown option --format"));
}

TEST_CASE("command line: errors") {
  const CommandLine line = Example();
  const std::string no_config = "option --config FILE is required";
  CHECK(ErrorOf(line, {}) == no_config);
  CHECK(ErrorOf(line, {"--quiet"}) == no_config);
  CHECK(ErrorOf(line, {"--confg"}) == "unknown option --confg; did you mean --config?");
  CHECK(ErrorOf(line, {"--confg=a"}) == "unknown option --confg; did you mean --config?");
  CHECK(ErrorOf(line, {"--conf", "a"}) == "unknown option --conf; did you mean --config?");
  CHECK(ErrorOf(line, {"-quiet"}) == "unknown option -quiet; did you mean --quiet?");
  CHECK(ErrorOf(line, {"--frobnicate"}) ==
        "unknown option --frobnicate; --help lists the known ones");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--config"}, {"--config="}, {"--config", ""}, {"--config", "--quiet"}}) {
    CHECK(ErrorOf(line, arguments) == "option --config needs a value");
  }
  CHECK(ErrorOf(line, {"--config", "a", "--quiet=1"}) == "option --quiet takes no value");
  CHECK(ErrorOf(line, {"--config", "a", "--config", "b"}) == "option --config is given twice");
  CHECK(ErrorOf(line, {"--config", "a", "extra"}) ==
        "unexpected argument extra; --help shows the usage");
}

TEST_CASE("command line: positional arguments that were asked for") {
  CommandLine line("dslide checkpoint verify DIRECTORY", "Finds damage.");
  line.Positional("DIRECTORY", "the checkpoint", 1, 2);
  line.Flag("quiet", "no progress line");
  CHECK(Parsed(line, {"a", "--quiet", "--", "--b"}).Positional() ==
        std::vector<std::string>{"a", "--b"});
  CHECK(ErrorOf(line, {}) == "argument DIRECTORY is missing; --help shows the usage");
  CHECK(ErrorOf(line, {"a", "b", "c"}) == "unexpected argument c; --help shows the usage");
}

TEST_CASE("command line: the help") {
  CommandLine line = Example();
  line.Positional("FILE", "data", 0, 1);
  line.Option("a-rather-long-option-name", "VALUE", "explained below");
  CHECK(line.Help() ==
        "usage: dslide-server --config FILE [options]\n"
        "\n"
        "Owns a share of the parameters.\n"
        "\n"
        "arguments:\n"
        "  FILE                        data\n"
        "\n"
        "options:\n"
        "  --help                      print this and exit\n"
        "  --version                   print the version and exit\n"
        "  --config FILE               configuration of the cluster (required)\n"
        "  --threads N                 executors (default: 4)\n"
        "  --log-file FILE             where messages go\n"
        "  --set SECTION.KEY=VALUE     override a value of the configuration (may be given again)\n"
        "  --quiet                     no progress line\n"
        "  --a-rather-long-option-name VALUE\n"
        "                              explained below\n");
}

TEST_CASE("command line: any arguments are read or refused") {
  Random random(7);
  const std::vector<std::string> pieces = {"--",   "-", "=", "config", "set",  "quiet", "h",
                                           "help", "",  " ", "\n",     "\xff", "x"};
  const CommandLine line = Example();
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::string> arguments(random.Below(4));
    for (std::string& argument : arguments) {
      for (uint64_t n = random.Below(4); n > 0; --n) {
        argument += pieces[random.Below(pieces.size())];
      }
    }
    const Result<ParsedArguments> parsed = line.Parse(arguments);
    if (parsed.ok()) continue;
    REQUIRE(parsed.error().kind == ErrorKind::kBadInput);
    REQUIRE(parsed.error().message.find('\n') == std::string::npos);
  }
}

}  // namespace dslide
