#include "common/app/command_line.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <boost/make_shared.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/option.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "common/base/nearest.h"
#include "common/config/config_keys.h"
#include "common/config/retired_keys.h"

namespace dslide {
namespace {

namespace po = boost::program_options;

constexpr size_t kHelpColumn = 30;  // where the explanations start

// Two columns; an option that is too long for the first has its explanation on the next line.
std::string HelpLine(const std::string& left, const std::string& right) {
  if (left.size() + 4 > kHelpColumn)
    return fmt::format("  {}\n{:{}}{}\n", left, "", kHelpColumn, right);
  return fmt::format("  {:<{}}{}\n", left, kHelpColumn - 2, right);
}

// The part of an argument before "=": "--confg" of "--confg=x". Boost's errors contain the dashes,
// and the "=" of "--name=".
std::string OptionPart(const std::string& argument) {
  return argument.substr(0, argument.find('='));
}

Error NeedsValue(std::string_view name) {
  return BadInput(fmt::format("option --{} needs a value", name));
}

Result<uint32_t> NumberFrom(const std::string& text, std::string_view name, uint32_t min,
                            uint32_t max) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return BadInput(fmt::format("--{} {}: must be {} to {}", name, Printable(text), min, max));
  }
  return value;
}

// `--name --other`: Boost would take the other option as the value. `--name=--other` is valid.
bool SwallowedAnOption(const po::option& option) {
  return option.original_tokens.size() > 1 && option.original_tokens[1].starts_with("--");
}

}  // namespace

std::string ParsedArguments::Get(std::string_view name) const {
  const Values& found = Find(name);
  return found.values.empty() ? "" : found.values.back();
}

Result<uint32_t> ParsedArguments::Number(std::string_view name, uint32_t min, uint32_t max) const {
  return NumberFrom(Get(name), name, min, max);
}

Result<float> ParsedArguments::Fraction(std::string_view name) const {
  const std::string text = Get(name);
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && value >= 0 && value <= 1) return value;
  return BadInput(fmt::format("--{} {}: must be a number from 0 to 1", name, Printable(text)));
}

Result<std::vector<uint32_t>> ParsedArguments::Numbers(std::string_view name, uint32_t min,
                                                       uint32_t max) const {
  std::vector<uint32_t> numbers;
  for (const std::string& text : All(name)) {
    const Result<uint32_t> number = NumberFrom(text, name, min, max);
    DSLIDE_RETURN_IF_ERROR(number);
    numbers.push_back(*number);
  }
  return numbers;
}

const ParsedArguments::Values& ParsedArguments::Find(std::string_view name) const {
  const auto found = options_.find(name);
  DSLIDE_CHECK(found != options_.end());
  return found->second;
}

CommandLine::CommandLine(std::string usage, std::string summary)
    : usage_(std::move(usage)), summary_(std::move(summary)) {
  Flag("help", "print this and exit");
  Flag("version", "print the version and exit");
}

void CommandLine::Flag(std::string name, std::string help) {
  Declare({Kind::kFlag, std::move(name), "", std::move(help), ""});
}

void CommandLine::Option(std::string name, std::string value_name, std::string help,
                         std::string default_value) {
  Declare({Kind::kOptional, std::move(name), std::move(value_name), std::move(help),
           std::move(default_value)});
}

void CommandLine::Required(std::string name, std::string value_name, std::string help) {
  Declare({Kind::kRequired, std::move(name), std::move(value_name), std::move(help), ""});
}

void CommandLine::Repeated(std::string name, std::string value_name, std::string help) {
  Declare({Kind::kRepeated, std::move(name), std::move(value_name), std::move(help), ""});
}

void CommandLine::Positional(std::string value_name, std::string help, size_t min, size_t max) {
  DSLIDE_CHECK(min <= max && max > 0);
  positional_ = {std::move(value_name), std::move(help), min, max};
}

void CommandLine::Declare(Declared option) {
  DSLIDE_CHECK(Find(option.name) == nullptr);
  // Boost reads "name,n" as a long and a short option.
  DSLIDE_CHECK(option.name.size() > 1 && option.name.find(',') == std::string::npos);
  options_.push_back(std::move(option));
}

const CommandLine::Declared* CommandLine::Find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Declared& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

Error CommandLine::UnknownOption(const std::string& given) const {
  std::vector<std::string> known;
  for (const Declared& option : options_) known.push_back("--" + option.name);
  const std::string* nearest = Nearest(given, known);
  std::string remedy = nearest == nullptr ? "--help lists the known ones"
                                          : fmt::format("did you mean {}?", *nearest);
  // People give keys of the configuration as options, too.
  size_t distance = nearest == nullptr ? 2 : std::min<size_t>(2, EditDistance(given, *nearest));
  const bool has_keys = Find("set") != nullptr && Find("help-config") != nullptr;
  for (const ConfigKey& key : ConfigKeys()) {
    if (IsStoredKey(key.FullName())) continue;
    const size_t from_key = has_keys ? EditDistance(given, "--" + key.name) : distance;
    if (from_key >= distance) continue;
    distance = from_key;
    remedy = fmt::format("did you mean --set {}=...?", key.FullName());
  }
  return BadInput(fmt::format("unknown option {}; {}", Printable(given), remedy));
}

Error CommandLine::SyntaxError(const std::string& given) const {
  const Declared* option = Find(std::string_view(given).substr(given.starts_with("--") ? 2 : 0));
  if (option == nullptr) return UnknownOption(given);
  if (option->kind != Kind::kFlag) return NeedsValue(option->name);
  return BadInput(fmt::format("option --{} takes no value", option->name));
}

Status CommandLine::Add(const std::string& name, const std::vector<std::string>& values,
                        ParsedArguments* parsed) const {
  const Declared* option = Find(name);
  DSLIDE_CHECK(option != nullptr);  // Boost knows no others
  ParsedArguments::Values& slot = parsed->options_.find(name)->second;
  if (!slot.given) slot.values.clear();  // the default
  if (slot.given && (option->kind == Kind::kOptional || option->kind == Kind::kRequired)) {
    return BadInput(fmt::format("option --{} is given twice", name));
  }
  if (std::find(values.begin(), values.end(), "") != values.end()) return NeedsValue(name);
  slot.given = true;
  slot.values.insert(slot.values.end(), values.begin(), values.end());
  return {};
}

Status CommandLine::CheckComplete(const ParsedArguments& parsed) const {
  if (parsed.positional_.size() > positional_.max) {
    const std::string& extra = parsed.positional_[positional_.max];
    const bool joins = extra.starts_with("dslide://") && parsed.Declares("scheduler");
    return BadInput(
        fmt::format("unexpected argument {}; {}", Printable(extra),
                    joins ? "a join string is given by --scheduler" : "--help shows the usage"));
  }
  for (const char* question : {"help", "version", "help-config"}) {
    if (parsed.Declares(question) && parsed.Has(question)) return {};
  }
  for (const Declared& option : options_) {
    if (option.kind == Kind::kRequired && !parsed.Has(option.name)) {
      return BadInput(fmt::format("option --{} {} is required", option.name, option.value_name));
    }
  }
  if (parsed.positional_.size() < positional_.min) {
    return BadInput(
        fmt::format("argument {} is missing; --help shows the usage", positional_.value_name));
  }
  return {};
}

Result<ParsedArguments> CommandLine::ParseInto(ParsedArguments parsed,
                                               const std::vector<std::string>& arguments) const {
  po::options_description description;
  for (const Declared& option : options_) {
    const std::string name = option.name == "help" ? "help,h" : option.name;
    const bool no_value = option.kind == Kind::kFlag;
    description.add(boost::make_shared<po::option_description>(
        name.c_str(), new po::untyped_value(no_value)));  // the description takes ownership
  }
  // Guessing would let an abbreviation change its meaning when an option is added.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  const auto found = po::command_line_parser(arguments).options(description).style(style).run();
  for (const po::option& option : found.options) {
    if (option.position_key >= 0) {
      parsed.positional_.insert(parsed.positional_.end(), option.value.begin(), option.value.end());
      continue;
    }
    if (SwallowedAnOption(option)) return NeedsValue(option.string_key);
    DSLIDE_RETURN_IF_ERROR(Add(option.string_key, option.value, &parsed));
  }
  DSLIDE_RETURN_IF_ERROR(CheckComplete(parsed));
  return parsed;
}

Result<ParsedArguments> CommandLine::Parse(std::span<const std::string> arguments) const {
  ParsedArguments parsed;
  for (const Declared& option : options_) {
    ParsedArguments::Values& slot = parsed.options_[option.name];
    if (!option.default_value.empty()) slot.values.push_back(option.default_value);
  }
  try {
    return ParseInto(std::move(parsed), {arguments.begin(), arguments.end()});
  } catch (const po::unknown_option& error) {
    return UnknownOption(OptionPart(error.get_option_name()));
  } catch (const po::invalid_command_line_syntax& error) {
    return SyntaxError(OptionPart(error.get_option_name()));
  } catch (const po::error& error) {
    return BadInput(Printable(error.what()));
  }
}

Result<ParsedArguments> CommandLine::Parse(int argc, const char* const* argv) const {
  // A program may be run without even its own name.
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  return Parse(arguments);
}

std::string CommandLine::Help() const {
  std::string text = fmt::format("usage: {}\n\n{}\n\n", usage_, summary_);
  if (positional_.max > 0) {
    text += "arguments:\n" + HelpLine(positional_.value_name, positional_.help) + "\n";
  }
  text += "options:\n";
  for (const Declared& option : options_) {
    std::string help = option.help;
    if (option.kind == Kind::kRequired) help += " (required)";
    if (option.kind == Kind::kRepeated) help += " (may be given again)";
    if (!option.default_value.empty()) help += fmt::format(" (default: {})", option.default_value);
    std::string left = "--" + option.name;
    if (!option.value_name.empty()) left += " " + option.value_name;
    text += HelpLine(left, help);
  }
  return text;
}

}  // namespace dslide
