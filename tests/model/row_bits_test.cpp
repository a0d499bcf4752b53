// Serving arithmetic: the bits of a row depend on its sequence alone, not on how it was scheduled.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

const std::string prompt_name = "p200";

Logits whole_prompt(Rig& rig) {
  const auto sequence = rig.open();
  return rig.feed(*sequence, tokens_of(prompt_name));
}

const Logits& reference() {
  static const Logits logits = whole_prompt(shared_rig("serve"));
  return logits;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row_bits)

BOOST_AUTO_TEST_CASE(do_not_depend_on_the_chunking) {
  Rig& rig = shared_rig("serve");
  for (const std::size_t chunk : {1U, 3U, 17U, 64U}) {
    const auto sequence = rig.open();
    BOOST_TEST((rig.prefill(*sequence, tokens_of(prompt_name), chunk) == reference()), "chunks of " << chunk);
  }
}

BOOST_AUTO_TEST_CASE(do_not_depend_on_the_batch) {
  Rig& rig = shared_rig("serve");
  const auto tokens = tokens_of(prompt_name);
  const auto others = tokens_of("p97");
  const auto before = rig.open(256);
  const auto sequence = rig.open(256);
  const auto behind = rig.open(256);
  Logits seen;
  std::size_t other = 0;
  for (std::size_t first = 0; first < tokens.size();) {
    const std::size_t count = std::min<std::size_t>(first % 2 == 0 ? 37 : 1, tokens.size() - first);
    RowBatch rows;
    const auto add = [&](SequenceState& state, std::span<const std::int32_t> ids) {
      const std::int64_t start = state.length();
      BOOST_REQUIRE(state.append(ids).has_value());
      rows.add(state, start, static_cast<std::int32_t>(ids.size()));
    };
    if (other + 3 <= others.size()) add(*before, std::span(others).subspan(other, 3));
    const std::int32_t own = rows.rows();
    add(*sequence, std::span(tokens).subspan(first, count));
    if (other + 3 <= others.size()) add(*behind, std::span(others).subspan(other, 2));
    const auto result = rig.forward->run(rows, {});
    BOOST_REQUIRE(result.has_value());
    std::vector<std::int32_t> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(own + static_cast<std::int32_t>(i));
    const auto logits = rig.forward->logits(*result, numbers);
    BOOST_REQUIRE(logits.has_value());
    const auto* values = static_cast<const float*>(logits->data);
    seen.insert(seen.end(), values, values + logits->rows * logits->cols);
    first += count;
    other += 3;
  }
  BOOST_TEST((seen == reference()));
}

BOOST_AUTO_TEST_CASE(do_not_depend_on_rejected_rows) {
  Rig& rig = shared_rig("serve");
  const auto tokens = tokens_of(prompt_name);
  const auto sequence = rig.open();
  const std::vector<std::int32_t> wrong{9, 8, 7, 6, 5};
  Logits seen;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t right = std::min<std::size_t>(1 + at % 6, tokens.size() - at);
    std::vector<std::int32_t> burst(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(at + right));
    burst.insert(burst.end(), wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(6 - right));
    const Logits logits = rig.feed(*sequence, burst);
    at += right;
    BOOST_REQUIRE(sequence->truncate(static_cast<std::int64_t>(at)).has_value());
    seen.insert(seen.end(), logits.begin(),
                logits.begin() + static_cast<std::ptrdiff_t>(right) * rig.config().vocab_size);
  }
  BOOST_TEST((seen == reference()));
}

BOOST_AUTO_TEST_CASE(do_not_depend_on_what_a_lane_and_its_pages_held_before) {
  Rig& rig = shared_rig("serve");
  {
    const auto first = rig.open();
    rig.prefill(*first, tokens_of("p701"), 256);
  }
  BOOST_TEST((whole_prompt(rig) == reference()));
}

BOOST_AUTO_TEST_CASE(are_the_same_on_one_and_two_ranks) {
  BOOST_TEST((on_ranks(2, "serve", whole_prompt) == reference()));
}

// The exact encoder/decoder shortcut: rows far from the prompt's end skip the upper layers; the end and all later rows
// cannot tell.
BOOST_AUTO_TEST_CASE(do_not_depend_on_the_upper_layers_of_old_rows) {
  Rig& rig = shared_rig("serve");
  BOOST_TEST(upper_rows_needed(rig.config()) == 46);
  const Logits& all_rows = reference();  // before anything else: it is computed on first use, by this very rig
  const auto tokens = tokens_of(prompt_name);
  const auto continuation = tokens_of("continuation");
  const auto whole = rig.open();
  rig.feed(*whole, tokens);
  const Logits expected = rig.prefill(*whole, std::span(continuation).first(20), 1);
  for (const std::size_t chunk : {200U, 64U, 41U}) {
    const auto sequence = rig.open();
    ForwardResult last;
    for (std::size_t first = 0; first < tokens.size(); first += chunk) {
      const std::size_t count = std::min(chunk, tokens.size() - first);
      BOOST_REQUIRE(sequence->append(std::span(tokens).subspan(first, count)).has_value());
      RowBatch rows;
      rows.add(*sequence, static_cast<std::int64_t>(first), static_cast<std::int32_t>(count));
      const auto needed = static_cast<std::int64_t>(first + count) - (static_cast<std::int64_t>(tokens.size()) - 46);
      ForwardOptions options;
      options.upper_rows = {
          static_cast<std::int32_t>(std::clamp<std::int64_t>(needed, 0, static_cast<std::int64_t>(count)))};
      auto result = rig.forward->run(rows, options);
      BOOST_REQUIRE(result.has_value());
      last = std::move(*result);
    }
    const std::vector<std::int32_t> newest{last.rows.rows() - 1};
    const auto logits = rig.forward->logits(last, newest);
    BOOST_REQUIRE(logits.has_value());
    const auto* row = static_cast<const float*>(logits->data);
    BOOST_TEST(std::equal(row, row + logits->cols, all_rows.end() - logits->cols), "chunks of " << chunk);
    BOOST_TEST((rig.prefill(*sequence, std::span(continuation).first(20), 1) == expected),
               "decode after chunks of " << chunk);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
