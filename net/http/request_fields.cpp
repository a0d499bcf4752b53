// Reads field by field in the order of the contract's table; the first error wins.
#include "net/http/request_fields.hpp"

#include "net/http/field_reader.hpp"
#include "net/text/stop_strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace tandem::net::http {
namespace {

constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();

text::RequestError unsupported(std::string param, std::string message) {
  return {400, std::move(param), "unsupported_value", std::move(message)};
}

void read_sampling(FieldReader& reader, gpu::SamplingParams& out) {
  out.temperature = static_cast<float>(reader.number("temperature", {0, 2}).value_or(1.0));
  out.top_p = static_cast<float>(reader.number("top_p", {0, 1, true}).value_or(1.0));
  out.top_k =
      static_cast<std::int32_t>(std::max<std::int64_t>(reader.integer("top_k", {-1, int32_max}).value_or(0), 0));
  out.min_p = static_cast<float>(reader.number("min_p", {0, 1}).value_or(0.0));
  out.presence_penalty = static_cast<float>(reader.number("presence_penalty", {-2, 2}).value_or(0.0));
  out.frequency_penalty = static_cast<float>(reader.number("frequency_penalty", {-2, 2}).value_or(0.0));
  out.repetition_penalty = static_cast<float>(reader.number("repetition_penalty", {0, 2, true}).value_or(1.0));
  out.min_tokens = static_cast<std::uint32_t>(reader.integer("min_tokens", {0, int32_max}).value_or(0));
}

// One entry of logit_bias. -100 forbids the token.
std::optional<text::RequestError> add_bias(const text::JsonMember& member, const FieldBounds& bounds,
                                           gpu::SamplingParams& out) {
  const auto id = to_integer(member.key);
  const bool is_plain = !member.key.empty() && member.key.find_first_not_of("0123456789") == std::string::npos;
  if (!is_plain || !id || *id >= bounds.vocab_size)
    return text::invalid_value("logit_bias", fmt::format("logit_bias has the key \"{}\", expected token ids below {}",
                                                         member.key.substr(0, 40), bounds.vocab_size));
  const text::JsonNumber* number = member.value.if_number();
  if (number == nullptr) return text::wrong_type("logit_bias", "a map of numbers", member.value.type_name());
  const double bias = to_double(number->text);
  if (!(bias >= -100 && bias <= 100))
    return text::invalid_value("logit_bias", fmt::format("logit_bias of token {} must be from -100 to 100, found {}",
                                                         *id, number->text.substr(0, 40)));
  const auto token = static_cast<gpu::TokenId>(*id);
  if (bias == -100)
    out.forbidden.push_back(token);
  else
    out.logit_bias.push_back({token, static_cast<float>(bias)});
  return std::nullopt;
}

void read_logit_bias(FieldReader& reader, const FieldBounds& bounds, gpu::SamplingParams& out) {
  const text::Json* map = reader.object("logit_bias");
  if (map == nullptr) return;
  const text::JsonObject& members = *map->if_object();
  if (members.size() > bounds.logit_bias_max)
    return reader.fail(text::invalid_value(
        "logit_bias",
        fmt::format("logit_bias has {} entries, at most {} are allowed", members.size(), bounds.logit_bias_max)));
  for (const text::JsonMember& member : members)
    if (auto error = add_bias(member, bounds, out)) return reader.fail(*std::move(error));
}

void read_stops(FieldReader& reader, RequestFields& out) {
  auto stops = text::read_stop(reader.any("stop"), "stop");
  if (!stops) return reader.fail(stops.error());
  out.stops = std::move(*stops);
}

void read_stop_ids(FieldReader& reader, const FieldBounds& bounds, RequestFields& out) {
  const text::Json* list = reader.array("stop_token_ids");
  if (list == nullptr) return;
  if (list->if_array()->size() > bounds.stop_ids_max)
    return reader.fail(
        text::invalid_value("stop_token_ids", fmt::format("stop_token_ids has {} ids, at most {} are allowed",
                                                          list->if_array()->size(), bounds.stop_ids_max)));
  for (const text::Json& value : *list->if_array()) {
    const text::JsonNumber* number = value.if_number();
    const auto id = number != nullptr ? to_integer(number->text) : std::nullopt;
    if (!id || *id < 0 || *id >= bounds.vocab_size)
      return reader.fail(text::invalid_value(
          "stop_token_ids", fmt::format("stop_token_ids must hold token ids from 0 to {}", bounds.vocab_size - 1)));
    out.stop_ids.push_back(static_cast<gpu::TokenId>(*id));
  }
}

void read_logprobs(FieldReader& reader, RequestFields& out) {
  out.has_logprobs = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", {0, 20});
  if (top && *top > 0 && !out.has_logprobs)
    reader.fail(text::invalid_value("top_logprobs", "top_logprobs needs logprobs: true"));
  out.sampling.top_logprobs = out.has_logprobs ? static_cast<std::int32_t>(top.value_or(0)) : -1;
}

void read_delivery(FieldReader& reader, RequestFields& out) {
  out.is_stream = reader.boolean("stream").value_or(false);
  if (const text::Json* options = reader.object("stream_options")) {
    FieldReader inner{*options, "stream_options."};
    out.includes_usage = inner.boolean("include_usage").value_or(false);
    out.includes_usage_always = inner.boolean("continuous_usage_stats").value_or(false);
    if (inner.error()) reader.fail(*inner.error());
  }
  out.hides_reasoning = !reader.boolean("include_reasoning").value_or(true);
  if (const text::Json* reasoning = reader.object("reasoning")) {
    FieldReader inner{*reasoning, "reasoning."};
    out.hides_reasoning = out.hides_reasoning || inner.boolean("exclude").value_or(false);
    if (inner.error()) reader.fail(*inner.error());
  }
}

void read_choices(FieldReader& reader, const FieldBounds& bounds, RequestFields& out) {
  out.choices = static_cast<int>(reader.integer("n", {1, bounds.choices_max}).value_or(1));
  if (const auto best_of = reader.integer("best_of", {1, int32_max}); best_of && *best_of != out.choices)
    reader.fail(unsupported("best_of", fmt::format("best_of must equal n ({}), found {}", out.choices, *best_of)));
  if (reader.boolean("use_beam_search").value_or(false))
    reader.fail(unsupported("use_beam_search", "beam search is not available"));
}

// Fields that would change the answer and that this server does not have: silence would be a lie.
void refuse_unsupported(FieldReader& reader) {
  constexpr std::array names{
      "audio",        "web_search_options", "prompt_logprobs", "truncate_prompt_tokens", "guided_json",
      "guided_regex", "guided_choice",      "guided_grammar",  "structured_outputs",     "logits_processors"};
  for (const char* name : names)
    if (reader.any(name) != nullptr) reader.fail(unsupported(name, fmt::format("{} is not supported", name)));
  if (const text::Json* modalities = reader.array("modalities"))
    for (const text::Json& value : *modalities->if_array())
      if (value.if_string() == nullptr || *value.if_string() != "text")
        reader.fail(unsupported("modalities", "only the modality \"text\" is supported"));
  if (!reader.boolean("skip_special_tokens").value_or(true))
    reader.fail(unsupported("skip_special_tokens", "special tokens are never part of a chat answer"));
}

// Fields that are taken note of by others or by nobody: only their types are judged.
void check_bystanders(FieldReader& reader) {
  for (const char* name : {"user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention",
                           "verbosity", "cache_salt"})
    reader.string(name);
  reader.object("metadata");
  reader.boolean("store");
}

}  // namespace

text::RequestResult<RequestFields> read_request_fields(const text::Json& body, const FieldBounds& bounds) {
  FieldReader reader{body};
  RequestFields out;
  out.model = reader.string("model");
  refuse_unsupported(reader);
  // More than fits is no error: clients send the largest number that they can write, and the context bounds it anyway.
  const auto completion = reader.integer("max_completion_tokens", {1, int64_max});
  const auto tokens = reader.integer("max_tokens", {1, int64_max});
  out.max_tokens = static_cast<std::uint32_t>(std::min(completion.value_or(tokens.value_or(0)), int32_max));
  read_sampling(reader, out.sampling);
  read_logit_bias(reader, bounds, out.sampling);
  out.seed = reader.integer("seed", {int64_min, int64_max});
  read_stops(reader, out);
  read_stop_ids(reader, bounds, out);
  out.ignores_eos = reader.boolean("ignore_eos").value_or(false);
  out.includes_stop = reader.boolean("include_stop_str_in_output").value_or(false);
  read_choices(reader, bounds, out);
  read_logprobs(reader, out);
  read_delivery(reader, out);
  reader.integer("priority", {int64_min, int64_max});
  check_bystanders(reader);
  if (reader.error()) return *reader.error();
  return out;
}

}  // namespace tandem::net::http
