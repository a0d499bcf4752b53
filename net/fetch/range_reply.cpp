// Status by status. 206 must be exactly the range that was asked for, or the front of it; 200 is the whole file.
#include "net/fetch/range_reply.hpp"

#include <fmt/format.h>

#include <charconv>

#include "net/fetch/backoff.hpp"

namespace tandem::net::fetch {
namespace {

using Kind = Verdict::Kind;

// Takes digits off the front of `text`.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

Verdict retry(const Wanted& wanted, std::string found, std::string expected) {
  return try_again(wanted.name, std::move(found), std::move(expected));
}

Verdict fail(const Wanted& wanted, ErrorCode code, std::string found, std::string expected = {}) {
  return {Kind::failed, 0, {code, wanted.name, std::move(found), std::move(expected)}, {}};
}

Verdict other_size(const Wanted& wanted, std::uint64_t bytes) {
  return fail(wanted, ErrorCode::mismatch, fmt::format("{} bytes on the server", bytes),
              fmt::format("{} as the manifest says", wanted.file_bytes));
}

Verdict changed(const Wanted& wanted) {
  return {Kind::changed, 0, {ErrorCode::mismatch, wanted.name, "changed on the server during the fetch", ""}, {}};
}

Verdict judge_partial(const ReplyHead& head, const Wanted& wanted) {
  const std::string field = head.field("Content-Range");
  const auto content = parse_content_range(field);
  if (!content || !content->range || !wanted.range)
    return retry(wanted, fmt::format("status 206 with Content-Range \"{}\"", field), "the range that was asked for");
  if (content->total && *content->total != wanted.file_bytes) return other_size(wanted, *content->total);
  const ByteRange& got = *content->range;
  if (got.first != wanted.range->first || got.last > wanted.range->last)
    return retry(wanted, fmt::format("bytes {} to {}", got.first, got.last),
                 fmt::format("{} to {}", wanted.range->first, wanted.range->last));
  const std::uint64_t bytes = got.last - got.first + 1;
  if (head.content_length && *head.content_length != bytes)
    return retry(wanted, fmt::format("Content-Length {}", *head.content_length), fmt::format("{}", bytes));
  return {Kind::take, bytes, {}, {}};
}

Verdict judge_whole(const ReplyHead& head, const Wanted& wanted) {
  if (head.content_length && *head.content_length != wanted.file_bytes)
    return retry(wanted, fmt::format("Content-Length {}", *head.content_length),
                 fmt::format("{} as the manifest says", wanted.file_bytes));
  const bool is_all = !wanted.range || (wanted.range->first == 0 && wanted.range->last + 1 == wanted.file_bytes);
  if (is_all) return {Kind::take, wanted.file_bytes, {}, {}};
  const Error whole{ErrorCode::unavailable, wanted.name, "status 200: the whole file", "206: the part of it"};
  return {Kind::no_ranges, wanted.file_bytes, whole, {}};
}

// "Range not satisfiable": the server's file ends before the range begins, or the server is confused.
Verdict judge_unsatisfiable(const ReplyHead& head, const Wanted& wanted) {
  const auto content = parse_content_range(head.field("Content-Range"));
  if (content && content->total && *content->total != wanted.file_bytes) return other_size(wanted, *content->total);
  return retry(wanted, "status 416: no such range", "a part of the file");
}

Verdict judge_refusal(const ReplyHead& head, const Wanted& wanted) {
  const std::string status = fmt::format("status {}", head.status);
  switch (head.status) {
    case 401:
    case 403:
      return fail(wanted, ErrorCode::bad_config, status + ": refused", "a token that may read it (--token-file)");
    case 404:
    case 410:
      return fail(wanted, ErrorCode::not_found, status + ": not on the server");
    case 408:
    case 425:
    case 429:
      break;
    default:
      if (head.status < 500) return fail(wanted, ErrorCode::mismatch, status, "200 or 206");
  }
  Verdict verdict = retry(wanted, status, "200 or 206");
  verdict.wait = parse_retry_after(head.field("Retry-After"), std::chrono::system_clock::now());
  return verdict;
}

}  // namespace

Verdict try_again(std::string name, std::string found, std::string expected) {
  return {Kind::retry, 0, {ErrorCode::unavailable, std::move(name), std::move(found), std::move(expected)}, {}};
}

std::optional<ContentRange> parse_content_range(std::string_view field) {
  ContentRange content;
  if (!take(field, "bytes ")) return std::nullopt;
  if (!take(field, "*")) {
    const auto first = take_number(field);
    if (!first || !take(field, "-")) return std::nullopt;
    const auto last = take_number(field);
    if (!last || *last < *first) return std::nullopt;
    content.range = ByteRange{*first, *last};
  }
  if (!take(field, "/")) return std::nullopt;
  if (take(field, "*")) return field.empty() && content.range ? std::optional(content) : std::nullopt;
  content.total = take_number(field);
  const bool is_beyond = content.range && content.total && content.range->last >= *content.total;
  if (!content.total || !field.empty() || is_beyond) return std::nullopt;
  return content;
}

std::string version_of(const ReplyHead& head) {
  const std::string tag = head.field("ETag");
  if (!tag.empty() && !tag.starts_with("W/")) return tag;
  return head.field("Last-Modified");
}

Verdict judge(const ReplyHead& head, const Wanted& wanted) {
  if (head.status == 416) return judge_unsatisfiable(head, wanted);
  if (head.status != 200 && head.status != 206) return judge_refusal(head, wanted);
  const std::string coding = head.field("Content-Encoding");
  if (!coding.empty() && coding != "identity")
    return fail(wanted, ErrorCode::mismatch, "Content-Encoding " + coding, "the bytes as they are");
  const std::string version = version_of(head);
  const bool is_other = !wanted.version.empty() && !version.empty() && version != wanted.version;
  Verdict verdict = head.status == 206 ? judge_partial(head, wanted) : judge_whole(head, wanted);
  const bool has_bytes = verdict.kind == Kind::take || verdict.kind == Kind::no_ranges;
  return is_other && has_bytes ? changed(wanted) : verdict;
}

}  // namespace tandem::net::fetch
