// What every status, length and version means, and how long the next attempt waits.
#include <boost/test/unit_test.hpp>

#include "net/fetch/backoff.hpp"
#include "net/fetch/range_reply.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_judgement)

using Kind = Verdict::Kind;

ReplyHead reply(int status, std::optional<std::uint64_t> length,
                std::vector<std::pair<std::string, std::string>> fields = {}) {
  ReplyHead head{status, length, {}};
  for (const auto& [name, value] : fields) head.fields.set(name, value);
  return head;
}

BOOST_AUTO_TEST_CASE(content_ranges_are_read_strictly) {
  const auto whole = parse_content_range("bytes 10-19/100");
  BOOST_REQUIRE(whole && whole->range && whole->total);
  BOOST_TEST(whole->range->first == 10U);
  BOOST_TEST(whole->range->last == 19U);
  BOOST_TEST(*whole->total == 100U);
  BOOST_TEST(!parse_content_range("bytes 0-0/*")->total);
  BOOST_TEST(!parse_content_range("bytes */7")->range);
  for (const char* wrong : {"", "bytes", "bytes 1-2", "bytes 2-1/9", "bytes 0-9/9", "bytes */*", "bytes 0-1/9x",
                            "items 0-1/9", "bytes -1/9", "bytes 0-99999999999999999999/9"})
    BOOST_TEST(!parse_content_range(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(each_answer_to_a_part_has_its_verdict) {
  const Wanted wanted{"x", 100, ByteRange{10, 19}, "\"1\""};
  const std::pair<std::string, std::string> right{"Content-Range", "bytes 10-19/100"};
  const struct {
    const char* name;
    ReplyHead head;
    Kind kind;
  } cases[] = {
      {"the range", reply(206, 10, {right}), Kind::take},
      {"without a length", reply(206, std::nullopt, {right}), Kind::take},
      {"the front of it", reply(206, 5, {{"Content-Range", "bytes 10-14/100"}}), Kind::take},
      {"of the same version", reply(206, 10, {right, {"ETag", "\"1\""}}), Kind::take},
      {"of another version", reply(206, 10, {right, {"ETag", "\"2\""}}), Kind::changed},
      {"a length that is another", reply(206, 11, {right}), Kind::retry},
      {"no Content-Range", reply(206, 10), Kind::retry},
      {"another range", reply(206, 10, {{"Content-Range", "bytes 0-9/100"}}), Kind::retry},
      {"more than asked for", reply(206, 11, {{"Content-Range", "bytes 10-20/100"}}), Kind::retry},
      {"of a file of another size", reply(206, 10, {{"Content-Range", "bytes 10-19/101"}}), Kind::failed},
      {"the whole file", reply(200, 100), Kind::no_ranges},
      {"the whole of another version", reply(200, 100, {{"ETag", "\"2\""}}), Kind::changed},
      {"a whole file of another size", reply(200, 99), Kind::retry},
      {"compressed", reply(200, 100, {{"Content-Encoding", "gzip"}}), Kind::failed},
      {"no such range", reply(416, 0), Kind::retry},
      {"no such range in this size", reply(416, 0, {{"Content-Range", "bytes */100"}}), Kind::retry},
      {"no such range in another size", reply(416, 0, {{"Content-Range", "bytes */5"}}), Kind::failed},
      {"no permission", reply(401, 0), Kind::failed},
      {"forbidden", reply(403, 0), Kind::failed},
      {"not there", reply(404, 0), Kind::failed},
      {"too many requests", reply(429, 0), Kind::retry},
      {"broken", reply(500, 0), Kind::retry},
      {"not now", reply(503, 0), Kind::retry},
      {"a teapot", reply(418, 0), Kind::failed},
      {"nothing", reply(204, 0), Kind::failed},
  };
  for (const auto& c : cases) BOOST_TEST((judge(c.head, wanted).kind == c.kind), c.name);
}

BOOST_AUTO_TEST_CASE(the_whole_file_is_the_right_answer_where_the_part_is_all_of_it) {
  const Wanted wanted{"x", 100, ByteRange{0, 99}, ""};
  const Verdict verdict = judge(reply(200, 100), wanted);
  BOOST_TEST((verdict.kind == Kind::take));
  BOOST_TEST(verdict.bytes == 100U);
  BOOST_TEST((judge(reply(200, 100), {"x", 100, ByteRange{0, 98}, ""}).kind == Kind::no_ranges));
}

BOOST_AUTO_TEST_CASE(a_weak_tag_names_no_version) {
  BOOST_TEST(version_of(reply(200, 1, {{"ETag", "W/\"1\""}})).empty());
  BOOST_TEST(version_of(reply(200, 1, {{"ETag", "W/\"1\""}, {"Last-Modified", "then"}})) == "then");
  BOOST_TEST(version_of(reply(200, 1, {{"ETag", "\"1\""}, {"Last-Modified", "then"}})) == "\"1\"");
}

BOOST_AUTO_TEST_CASE(waits_double_up_to_their_limit_and_end) {
  FetchLimits limits;
  limits.attempts = 6;
  limits.backoff_first = std::chrono::milliseconds(100);
  limits.backoff_max = std::chrono::milliseconds(350);
  Backoff backoff(limits, 1);
  for (const std::int64_t whole : {100, 200, 350, 350, 350}) {
    const auto wait = backoff.next();
    BOOST_REQUIRE(wait.has_value());
    BOOST_TEST(wait->count() >= whole / 2);
    BOOST_TEST(wait->count() <= whole);
  }
  BOOST_TEST(!backoff.next().has_value());
  backoff.reset();
  BOOST_TEST(backoff.next().has_value());
}

BOOST_AUTO_TEST_CASE(a_server_is_obeyed_within_reason) {
  FetchLimits limits;
  Backoff backoff(limits, 1);
  BOOST_TEST((backoff.next(std::chrono::seconds(7)) == std::chrono::milliseconds(7000)));
  BOOST_TEST(backoff.next(std::chrono::seconds(0))->count() <= limits.backoff_max.count());
  BOOST_TEST(!backoff.next(limits.retry_after_max + std::chrono::seconds(1)).has_value());
}

BOOST_AUTO_TEST_CASE(retry_after_is_seconds_or_a_date) {
  const auto now = std::chrono::system_clock::from_time_t(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT
  BOOST_TEST((parse_retry_after("120", now) == std::chrono::seconds(120)));
  BOOST_TEST((parse_retry_after("Sun, 06 Nov 1994 08:50:37 GMT", now) == std::chrono::seconds(60)));
  BOOST_TEST((parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now) == std::chrono::seconds(0)));
  for (const char* neither : {"", "-1", "soon", "1.5", "Sun, 06 Nov 1994"})
    BOOST_TEST(!parse_retry_after(neither, now).has_value(), neither);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
