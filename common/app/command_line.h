// The command lines of all executables: one style of flags, of --help and of errors.
//
//   CommandLine line("dslide-server --config FILE [options]", "Owns a share of the parameters.");
//   line.Required("config", "FILE", "configuration of the cluster");
//   line.Repeated("set", "SECTION.KEY=VALUE", "override a value of the configuration");
//   line.Flag("quiet", "no progress line");
//   Result<ParsedArguments> arguments = line.Parse({argv + 1, argv + argc});
//
// --help (-h) and --version are always declared; the caller prints them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace dslide {

class ParsedArguments {
 public:
  // Whether the option was given (a default does not count). REQUIRES a declared name here and
  // below.
  bool Has(std::string_view name) const { return Find(name).given; }

  // The value given, or the default, or "" if there is neither; the last one of a repeated option.
  std::string Get(std::string_view name) const;

  // The option's value as a whole number. Errors are kBadInput and name the option and the range.
  Result<uint32_t> Number(std::string_view name, uint32_t min, uint32_t max) const;
  // The option's value as a number from 0 to 1. Errors are as above.
  Result<float> Fraction(std::string_view name) const;
  // Number() for every value given, in order.
  Result<std::vector<uint32_t>> Numbers(std::string_view name, uint32_t min, uint32_t max) const;

  // Whether the executable declares the option.
  bool Declares(std::string_view name) const { return options_.contains(name); }

  // Every value given, in order; of an option that has a default and was not given, the default.
  const std::vector<std::string>& All(std::string_view name) const { return Find(name).values; }

  // The arguments that are not options, in order.
  const std::vector<std::string>& Positional() const { return positional_; }

 private:
  friend class CommandLine;

  struct Values {
    bool given = false;
    std::vector<std::string> values;
  };

  const Values& Find(std::string_view name) const;

  std::map<std::string, Values, std::less<>> options_;  // all that are declared
  std::vector<std::string> positional_;
};

class CommandLine {
 public:
  // `usage` follows "usage: " in the help; `summary` is a sentence or two below it.
  CommandLine(std::string usage, std::string summary);

  // Declarations, in the order of the help. Names are without the dashes and distinct.
  void Flag(std::string name, std::string help);
  void Option(std::string name, std::string value_name, std::string help,
              std::string default_value = "");
  void Required(std::string name, std::string value_name, std::string help);
  void Repeated(std::string name, std::string value_name, std::string help);
  // Allows between `min` and `max` arguments that are not options. Without it there are none.
  void Positional(std::string value_name, std::string help, size_t min, size_t max);

  // `arguments` is argv without the program's name. Errors are kBadInput and name the option. With
  // --help, --version or --help-config, required options and arguments may be missing.
  Result<ParsedArguments> Parse(std::span<const std::string> arguments) const;
  // For main(). REQUIRES argc and argv as main() gets them.
  Result<ParsedArguments> Parse(int argc, const char* const* argv) const;

  std::string Help() const;

 private:
  enum class Kind { kFlag, kOptional, kRequired, kRepeated };

  struct Declared {
    Kind kind = Kind::kFlag;
    std::string name;
    std::string value_name;
    std::string help;
    std::string default_value;
  };

  struct PositionalRule {
    std::string value_name;
    std::string help;
    size_t min = 0;
    size_t max = 0;
  };

  void Declare(Declared option);
  const Declared* Find(std::string_view name) const;
  Error UnknownOption(const std::string& given) const;
  Error SyntaxError(const std::string& given) const;
  Status Add(const std::string& name, const std::vector<std::string>& values,
             ParsedArguments* parsed) const;
  Status CheckComplete(const ParsedArguments& parsed) const;
  Result<ParsedArguments> ParseInto(ParsedArguments parsed,
                                    const std::vector<std::string>& arguments) const;

  std::string usage_;
  std::string summary_;
  std::vector<Declared> options_;
  PositionalRule positional_;
};

}  // namespace dslide
