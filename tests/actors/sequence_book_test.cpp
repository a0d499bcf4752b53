// The book's conservation law and order, at its limits.
#include <boost/test/unit_test.hpp>

#include "actors/sequence_book.hpp"

using namespace tandem::actors;

namespace {

Sequence make(RequestId id, std::size_t prompt, std::uint32_t max_tokens) {
  Sequence sequence;
  sequence.id = id;
  sequence.prompt = std::make_shared<const std::vector<tandem::gpu::TokenId>>(prompt, 1);
  sequence.max_tokens = max_tokens;
  return sequence;
}

SequenceBook make_book(std::uint32_t lanes, std::int64_t pages, std::uint32_t queue = 4) {
  SequenceBook book;
  book.set_limits({lanes, pages, 16, queue, 1000});
  return book;
}

constexpr std::chrono::steady_clock::time_point now{};

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_book)

BOOST_AUTO_TEST_CASE(pages_are_rounded_up_and_come_back) {
  auto book = make_book(4, 10);
  BOOST_TEST(!book.enqueue(make(1, 16, 1)));
  BOOST_TEST(book.admit(now).size() == 1U);
  BOOST_TEST(book.pages_free() == 8);
  BOOST_TEST(book.usage() == 0.2);
  BOOST_TEST((book.erase(1) == SequencePhase::prefill));
  BOOST_TEST(book.pages_free() == 10);
  BOOST_TEST(!book.erase(1).has_value());
}

BOOST_AUTO_TEST_CASE(a_book_is_prefilling_while_any_running_sequence_has_prompt_left) {
  auto book = make_book(4, 10);
  BOOST_TEST(!book.is_prefilling());
  BOOST_TEST(!book.enqueue(make(1, 4, 4)));
  BOOST_TEST(!book.enqueue(make(2, 4, 4)));
  BOOST_TEST(!book.is_prefilling());  // who waits is fed nothing yet
  book.admit(now);
  book.find(1)->phase = SequencePhase::decode;
  BOOST_TEST(book.is_prefilling());
  book.find(2)->phase = SequencePhase::decode;
  BOOST_TEST(!book.is_prefilling());
  book.park_running();
  BOOST_TEST(!book.is_prefilling());
  book.admit(now);
  BOOST_TEST(book.is_prefilling());  // lost caches are filled again
}

BOOST_AUTO_TEST_CASE(a_request_of_exactly_the_pool_runs_and_one_token_more_is_refused) {
  auto book = make_book(4, 10);
  BOOST_TEST(!book.enqueue(make(1, 100, 60)));
  BOOST_TEST((book.enqueue(make(2, 100, 61))->reason == RejectReason::invalid));
  BOOST_TEST(book.admit(now).size() == 1U);
  BOOST_TEST(book.pages_free() == 0);
}

BOOST_AUTO_TEST_CASE(the_head_of_the_queue_is_never_overtaken) {
  auto book = make_book(4, 10);
  BOOST_TEST(!book.enqueue(make(1, 80, 16)));
  BOOST_TEST(!book.enqueue(make(2, 80, 16)));  // does not fit beside 1
  BOOST_TEST(!book.enqueue(make(3, 1, 1)));    // would
  BOOST_TEST(book.admit(now).size() == 1U);
  BOOST_TEST(book.admit(now).empty());
  book.erase(1);
  const auto admitted = book.admit(now);
  BOOST_REQUIRE(admitted.size() == 2U);
  BOOST_TEST(admitted[0]->id == 2U);
}

BOOST_AUTO_TEST_CASE(lanes_bound_what_runs) {
  auto book = make_book(2, 100);
  for (RequestId id = 1; id <= 4; ++id) BOOST_TEST(!book.enqueue(make(id, 1, 1)));
  BOOST_TEST(book.admit(now).size() == 2U);
  BOOST_TEST(book.waiting() == 2U);
}

BOOST_AUTO_TEST_CASE(the_queue_is_bounded_by_count_and_by_tokens) {
  auto book = make_book(1, 1000, 2);
  BOOST_TEST(!book.enqueue(make(1, 1, 1)));
  BOOST_TEST(!book.enqueue(make(2, 999, 1)));
  BOOST_TEST((book.enqueue(make(3, 1, 1))->reason == RejectReason::queue_full));
  book.erase(1);
  BOOST_TEST((book.enqueue(make(4, 2, 1))->reason == RejectReason::queue_full));  // 999 + 2 > 1000 tokens
  BOOST_TEST(!book.enqueue(make(5, 1, 1)));
}

BOOST_AUTO_TEST_CASE(parked_sequences_return_to_the_front_oldest_first_with_their_text) {
  auto book = make_book(2, 100);
  for (RequestId id = 1; id <= 3; ++id) BOOST_TEST(!book.enqueue(make(id, 1, 9)));
  book.admit(now);
  book.find(2)->generated = {7, 8};
  const auto parked = book.park_running();
  BOOST_TEST(parked == (std::vector<RequestId>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(book.pages_free() == 100);
  const auto admitted = book.admit(now);
  BOOST_REQUIRE(admitted.size() == 2U);
  BOOST_TEST(admitted[0]->id == 1U);
  BOOST_TEST(admitted[1]->generated.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
