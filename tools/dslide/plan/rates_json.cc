// Rates as JSON: what `dslide plan --json` prints and --rates reads.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/nearest.h"
#include "tools/dslide/plan/calibration.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Every number of `rates`, by its name.
template <typename R>
auto NumbersOf(R& r) {
  using Number = decltype(&r.worker_seconds);
  return std::vector<std::pair<const char*, Number>>{
      {"neurons_fixed_s", &r.neurons.fixed},
      {"neurons_shared_s", &r.neurons.shared},
      {"input_fixed_s", &r.input.fixed},
      {"input_shared_s", &r.input.shared},
      {"worker_s", &r.worker_seconds},
      {"sum_s", &r.sum_seconds},
      {"gather_s", &r.gather_seconds},
      {"embed_push_encode_s", &r.embed_push.encode},
      {"embed_push_decode_s", &r.embed_push.decode},
      {"embed_reply_encode_s", &r.embed_reply.encode},
      {"embed_reply_decode_s", &r.embed_reply.decode},
      {"active_query_encode_s", &r.active_query.encode},
      {"active_query_decode_s", &r.active_query.decode},
      {"gradient_reply_encode_s", &r.gradient_reply.encode},
      {"gradient_reply_decode_s", &r.gradient_reply.decode},
      {"statistics_encode_s", &r.statistics.encode},
      {"statistics_decode_s", &r.statistics.decode},
      {"lease_encode_s", &r.lease.encode},
      {"lease_decode_s", &r.lease.decode},
      {"send_s", &r.send_seconds},
      {"byte_s", &r.byte_seconds},
      {"rows_per_batch", &r.rows_per_batch},
      {"epochs_trained", &r.epochs_trained},
      {"evaluate_s", &r.evaluate_seconds},
      {"pre_activations_share", &r.activity.pre_activations.wide},
      {"pre_activations_share_int8", &r.activity.pre_activations.int8},
      {"hidden_share", &r.activity.hidden.wide},
      {"hidden_share_int8", &r.activity.hidden.int8},
      {"hidden_gradient_share", &r.activity.hidden_gradient.wide},
      {"hidden_gradient_share_int8", &r.activity.hidden_gradient.int8},
      {"gradient_share", &r.activity.gradient.wide},
      {"gradient_share_int8", &r.activity.gradient.int8},
  };
}

Result<double> NumberIn(const OrderedJson& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) {
    return BadInput(fmt::format("\"{}\" is missing, or no number", name));
  }
  const double number = found->get<double>();
  if (!(number >= 0) || !std::isfinite(number)) {
    return BadInput(fmt::format("\"{}\" has to be 0 or more", name));
  }
  return number;
}

Result<EpochRates> PartFrom(const OrderedJson& json) {
  EpochRates part;
  auto numbers = NumbersOf(part.rates);
  numbers.insert(numbers.end(), {{"epochs", &part.epochs}});
  for (const auto& [name, number] : numbers) {
    const Result<double> read = NumberIn(json, name);
    DSLIDE_RETURN_IF_ERROR(read);
    *number = *read;
  }
  const auto machine = json.find("machine"), task = json.find("task");
  if (machine == json.end() || !machine->is_string()) {
    return BadInput("\"machine\" is missing, or no text");
  }
  part.rates.machine = *machine;
  if (task == json.end() || !task->is_object()) {
    return BadInput("\"task\" is missing, or no object");
  }
  for (const auto& [name, value] : task->items()) {
    if (!value.is_string()) return BadInput(fmt::format("\"{}\" is no text", Printable(name)));
    part.rates.task.emplace_back(name, value);
  }
  if (part.epochs <= 0 || part.rates.neurons.shared <= 0) {
    return BadInput("\"epochs\" and \"neurons_shared_s\" have to be more than 0");
  }
  return part;
}

}  // namespace

std::string RatesJson(const std::vector<EpochRates>& epochs) {
  OrderedJson list = OrderedJson::array();
  for (const EpochRates& part : epochs) {
    OrderedJson json;
    json["machine"] = part.rates.machine;
    json["epochs"] = part.epochs;
    json["task"] = OrderedJson::object();
    for (const auto& [name, value] : part.rates.task) json["task"][name] = value;
    for (const auto& [name, number] : NumbersOf(part.rates)) json[name] = *number;
    list.push_back(std::move(json));
  }
  return list.dump();
}

Result<std::vector<EpochRates>> RatesFromJson(const std::string& text) {
  OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (json.is_object()) json = json.value("rates", OrderedJson());
  if (!json.is_array() || json.empty()) {
    return BadInput("no rates in it; give what `dslide plan --json` has printed");
  }
  std::vector<EpochRates> epochs;
  for (const OrderedJson& item : json) {
    if (!item.is_object()) return BadInput("\"rates\" has something that is no object");
    Result<EpochRates> part = PartFrom(item);
    DSLIDE_RETURN_IF_ERROR(part);
    epochs.push_back(*std::move(part));
  }
  return epochs;
}

}  // namespace dslide
