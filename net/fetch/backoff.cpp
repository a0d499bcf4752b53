// Exponential waits with jitter; the two forms of Retry-After.
#include "net/fetch/backoff.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string>

namespace tandem::net::fetch {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::optional<milliseconds> Backoff::next(std::optional<seconds> asked) {
  ++failures_;
  if (failures_ >= limits_.attempts) return std::nullopt;
  if (asked && *asked > limits_.retry_after_max) return std::nullopt;
  const int doublings = std::min(failures_ - 1, 20);
  const milliseconds whole = std::min(limits_.backoff_first * (std::int64_t{1} << doublings), limits_.backoff_max);
  std::uniform_int_distribution<std::int64_t> jitter(whole.count() / 2, whole.count());
  const milliseconds own{jitter(random_)};
  return asked ? std::max(own, std::chrono::duration_cast<milliseconds>(*asked)) : own;
}

std::optional<seconds> parse_retry_after(std::string_view field, std::chrono::system_clock::time_point now) {
  std::int64_t count = 0;
  const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), count);
  if (failed == std::errc() && end == field.data() + field.size() && count >= 0) return seconds(count);
  std::tm date{};
  const std::string text(field);
  const char* rest = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  const auto then = std::chrono::system_clock::from_time_t(::timegm(&date));
  return std::max(seconds(0), std::chrono::ceil<seconds>(then - now));
}

}  // namespace tandem::net::fetch
