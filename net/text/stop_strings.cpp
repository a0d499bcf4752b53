// The first match to complete is searched for in pending text only: shown text can take part in no match.
#include "net/text/stop_strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::net::text {

RequestResult<std::vector<std::string>> read_stop(const Json* json, const std::string& param) {
  std::vector<std::string> stops;
  if (json == nullptr || json->is_null()) return stops;
  const auto refuse = [&] {
    return invalid_value(param, fmt::format("{} must be a string or at most {} strings, each of 1 to {} bytes", param,
                                            stop_strings_max, stop_bytes_max));
  };
  const auto add = [&](const Json& value) {
    const std::string* text = value.if_string();
    if (text == nullptr || text->empty() || text->size() > stop_bytes_max) return false;
    stops.push_back(*text);
    return true;
  };
  const JsonArray* list = json->if_array();
  const bool is_good =
      list == nullptr ? add(*json) : list->size() <= stop_strings_max && std::all_of(list->begin(), list->end(), add);
  if (!is_good) return refuse();
  return stops;
}

std::string StopFilter::push(std::string_view text) {
  if (matched_) return {};
  pending_ += text;
  std::size_t first_end = std::string::npos;
  const std::string* match = nullptr;
  for (const std::string& stop : stops_) {
    const std::size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    const bool is_longer = match != nullptr && end == first_end && stop.size() > match->size();
    if (end < first_end || is_longer) {
      first_end = end;
      match = &stop;
    }
  }
  if (match != nullptr) {
    matched_ = *match;
    pending_.resize(includes_match_ ? first_end : first_end - match->size());
    return std::exchange(pending_, {});
  }
  std::string shown = pending_.substr(0, pending_.size() - held_bytes());
  pending_.erase(0, shown.size());
  return shown;
}

std::string StopFilter::release() {
  return std::exchange(pending_, {});
}

// Length of the longest tail of the pending text that a stop string begins with.
std::size_t StopFilter::held_bytes() const {
  std::size_t held = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > held; --length) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) held = length;
    }
  }
  return held;
}

}  // namespace tandem::net::text
