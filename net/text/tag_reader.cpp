// The kinds of tags, told apart by how their text begins.
#include "net/text/tag_reader.hpp"

namespace tandem::net::text {
namespace {

constexpr std::string_view invoke_start = " invoke name=\"";
constexpr std::string_view parameter_start = " parameter name=\"";
constexpr std::string_view named_end = "\">";
constexpr std::string_view string_attribute = "\" string=\"";

bool has_name(std::string_view text) {
  return text.starts_with(invoke_start) || text.starts_with(parameter_start);
}

TagKind closer_kind(std::string_view text) {
  if (text == " calls>") return TagKind::calls_close;
  if (text == " invoke>") return TagKind::invoke_close;
  return text == " parameter>" ? TagKind::parameter_close : TagKind::unknown;
}

// `inside` is what stands between `name="` and `">`: the key, and the attribute if the model wrote it.
Tag parameter_tag(std::string_view inside) {
  const std::size_t attribute = inside.rfind(string_attribute);
  if (attribute == std::string_view::npos) return {TagKind::parameter_open, std::string(inside), std::nullopt};
  const std::string_view value = inside.substr(attribute + string_attribute.size());
  std::optional<bool> is_string;
  if (value == "true" || value == "false") is_string = value == "true";
  return {TagKind::parameter_open, std::string(inside.substr(0, attribute)), is_string};
}

}  // namespace

std::optional<Tag> TagReader::push(char c) {
  text_.push_back(c);
  if (is_complete()) return tag();
  const std::size_t bytes_max = !is_closer_ && has_name(text_) ? named_bytes_max : unknown_bytes_max;
  return text_.size() >= bytes_max ? std::optional(Tag{}) : std::nullopt;
}

bool TagReader::is_complete() const {
  if (text_.back() != '>') return false;
  if (is_closer_ || !has_name(text_)) return true;
  // Behind the start there must be a quote of its own: `name=">` is not yet an end.
  const std::size_t start = text_.starts_with(invoke_start) ? invoke_start.size() : parameter_start.size();
  return std::string_view(text_).substr(start).ends_with(named_end);
}

Tag TagReader::tag() const {
  const std::string_view text = text_;
  if (is_closer_) return {closer_kind(text), {}, std::nullopt};
  if (text == " calls>") return {TagKind::calls_open, {}, std::nullopt};
  if (!has_name(text)) return {};
  const std::string_view before_end = text.substr(0, text.size() - named_end.size());
  if (text.starts_with(parameter_start)) return parameter_tag(before_end.substr(parameter_start.size()));
  return {TagKind::invoke_open, std::string(before_end.substr(invoke_start.size())), std::nullopt};
}

}  // namespace tandem::net::text
