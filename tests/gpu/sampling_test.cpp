// The sampler: known random numbers, order of the steps, distributions, verification, refusals.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gpu/engine_sampler.hpp"
#include "gpu/sampling/logit_edit.hpp"
#include "gpu/sampling/mass.hpp"
#include "gpu/sampling/sampler.hpp"
#include "gpu/sampling/verification.hpp"

using namespace tandem::gpu;

namespace {

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

DrawContext at(const SamplingParams& params, std::int64_t position = 0) {
  return {params, {}, {}, position};
}

// Chi-square of counts against probabilities; tokens with probability 0 must not occur.
double chi_square(const std::vector<int>& counts, const std::vector<double>& p) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      BOOST_TEST(counts[i] == 0);
      continue;
    }
    sum += (counts[i] - p[i] * total) * (counts[i] - p[i] * total) / (p[i] * total);
  }
  return sum;
}

const std::vector<float> five = {1.0F, 2.0F, 0.5F, -1.0F, 1.5F};

}  // namespace

BOOST_AUTO_TEST_SUITE(sampling)

BOOST_AUTO_TEST_CASE(philox_gives_the_published_known_answers) {
  BOOST_TEST((philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t f = 0xffffffff;
  BOOST_TEST((philox4x32_10({f, f, f, f}, {f, f}) == PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  BOOST_TEST((philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

BOOST_AUTO_TEST_CASE(both_ends_of_the_random_bits_stay_inside_the_open_interval) {
  static_assert(open_unit(0) == 0x1p-53);
  static_assert(open_unit(~std::uint64_t{0}) == 1.0 - 0x1p-53);
  BOOST_TEST(open_unit(0) > 0.0);
  BOOST_TEST(open_unit(~std::uint64_t{0}) < 1.0);
}

BOOST_AUTO_TEST_CASE(uniform_depends_on_seed_position_and_purpose_alone_and_stays_inside_zero_and_one) {
  const double u = uniform({7, 100, DrawPurpose::target});
  BOOST_TEST(u == uniform({7, 100, DrawPurpose::target}));
  BOOST_TEST(u != uniform({8, 100, DrawPurpose::target}));
  BOOST_TEST(u != uniform({7, 101, DrawPurpose::target}));
  BOOST_TEST(u != uniform({7, 100, DrawPurpose::residual}));
  double mean = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = uniform({1, i, DrawPurpose::draft});
    BOOST_TEST_REQUIRE((value > 0 && value < 1));
    mean += value / 10000;
  }
  BOOST_TEST(std::abs(mean - 0.5) < 0.01);
}

BOOST_AUTO_TEST_CASE(greedy_takes_the_best_token_and_the_lowest_id_on_ties) {
  const auto params = greedy();
  BOOST_TEST(sample_token(five, at(params)).value().id == 1);
  BOOST_TEST(sample_token(std::vector<float>{3, 7, 7, 7}, at(params)).value().id == 1);
  BOOST_TEST(sample_token(std::vector<float>{-2}, at(params)).value().id == 0);
}

BOOST_AUTO_TEST_CASE(draws_follow_the_processed_distribution) {
  SamplingParams params;
  params.temperature = 0.8F;
  params.top_p = 0.95F;
  params.seed = 42;
  const auto p = processed_distribution(five, at(params)).value();
  std::vector<int> counts(five.size());
  for (int i = 0; i < 20000; ++i) ++counts[static_cast<std::size_t>(sample_token(five, at(params, i)).value().id)];
  BOOST_TEST(chi_square(counts, p) < 18.5);  // 4 degrees of freedom, p = 0.001
}

BOOST_AUTO_TEST_CASE(truncation_keeps_what_each_rule_says) {
  const struct {
    std::int32_t top_k;
    float top_p, min_p;
    std::vector<int> kept;
  } cases[] = {{1, 1, 0, {1}},       {2, 1, 0, {1, 4}},           {0, 1e-6F, 0, {1}},
               {0, 1, 1, {1}},       {0, 0.7F, 0, {1, 4}},        {0, 1, 0.5F, {1, 4}},
               {3, 1, 0, {0, 1, 4}}, {99, 1, 0, {0, 1, 2, 3, 4}}, {3, 0.999F, 0.4F, {1, 4}}};
  for (const auto& c : cases) {
    SamplingParams params;
    params.top_k = c.top_k;
    params.top_p = c.top_p;
    params.min_p = c.min_p;
    const auto p = processed_distribution(five, at(params)).value();
    std::vector<int> kept;
    for (std::size_t i = 0; i < p.size(); ++i)
      if (p[i] > 0) kept.push_back(static_cast<int>(i));
    BOOST_TEST(kept == c.kept, boost::test_tools::per_element());
    BOOST_TEST(std::abs(std::accumulate(p.begin(), p.end(), 0.0) - 1) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(top_k_with_equal_logits_keeps_the_lower_ids) {
  SamplingParams params;
  params.top_k = 2;
  const auto p = processed_distribution(std::vector<float>{1, 1, 1, 1}, at(params)).value();
  BOOST_TEST((p == std::vector<double>{0.5, 0.5, 0, 0}));
}

BOOST_AUTO_TEST_CASE(top_p_of_a_wide_vocabulary_equals_a_full_sort) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(3000);
  for (float& value : logits) value = normal(random);
  SamplingParams params;
  params.top_p = 0.9F;
  const auto p = processed_distribution(logits, at(params)).value();
  std::vector<double> full = processed_distribution(logits, at(SamplingParams{})).value();
  std::sort(full.begin(), full.end(), std::greater<>());
  double sum = 0;
  int expected = 0;
  while (sum < 0.9) sum += full[static_cast<std::size_t>(expected++)];
  BOOST_TEST(std::count_if(p.begin(), p.end(), [](double v) { return v > 0; }) == expected);
}

BOOST_AUTO_TEST_CASE(a_tiny_temperature_is_greedy_and_a_huge_one_nearly_uniform) {
  SamplingParams params;
  params.temperature = 1e-30F;
  BOOST_TEST(processed_distribution(five, at(params)).value()[1] == 1.0);
  params.temperature = 1e6F;
  for (const double p : processed_distribution(five, at(params)).value()) BOOST_TEST(std::abs(p - 0.2) < 1e-5);
}

BOOST_AUTO_TEST_CASE(a_mass_is_drawn_exactly_where_the_number_points) {
  static_assert(mass_of(1.0) == std::uint64_t{1} << 44 && mass_of(0x1p-44) == 1 && mass_of(0x1.fp-45) == 0);
  static_assert(mass_needed(1e-30F, 100) == 1 && mass_needed(0.5F, 100) == 50 && mass_needed(0.5F, 101) == 51);
  static_assert(mass_drawn(open_unit(0), 1) == 0 && mass_drawn(open_unit(~std::uint64_t{0}), 1) == 0);
  static_assert(mass_drawn(open_unit(~std::uint64_t{0}), std::uint64_t{1} << 50) == (std::uint64_t{1} << 50) - 1);
  static_assert(mass_drawn(open_unit(~std::uint64_t{0}), ~std::uint64_t{0}) == ~std::uint64_t{0} - 2048);
  static_assert(mass_drawn(0.5, 1000) == 500 && mass_drawn(0.25, 1000) == 250);
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t total = random() >> random() % 60, bits = random();
    const long double exact = static_cast<long double>(open_unit(bits)) * static_cast<long double>(total);
    BOOST_TEST(std::abs(static_cast<long double>(mass_drawn(open_unit(bits), total)) - exact) < 1.5L);
    BOOST_TEST(mass_drawn(open_unit(bits), total) < std::max<std::uint64_t>(total, 1));
  }
}

BOOST_AUTO_TEST_CASE(edits_of_a_token_follow_each_other_in_the_order_of_the_rules) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.frequency_penalty = 0.5F;
  params.logit_bias = {{1, 3}, {1, -100}, {9, 1}};
  params.forbidden = {1, 5};
  const std::vector<TokenId> prompt = {4, 1, -1}, generated = {1, 1, 9};
  using Kind = LogitEdit::Kind;
  const std::vector<std::pair<TokenId, Kind>> expected = {{1, Kind::repeated},  {1, Kind::lowered},
                                                          {1, Kind::raised},    {1, Kind::forbidden},
                                                          {1, Kind::forbidden}, {4, Kind::repeated}};
  std::vector<std::pair<TokenId, Kind>> found;
  for (const LogitEdit& edit : logit_edits({params, prompt, generated, 0}, 5))
    found.emplace_back(edit.token, edit.kind);
  BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE(penalties_bias_and_forbidden_ids_change_the_choice_in_their_order) {
  auto params = greedy();
  const std::vector<TokenId> prompt = {1}, generated = {1, 1, 4};
  params.repetition_penalty = 2;
  BOOST_TEST(sample_token(five, {params, prompt, {}, 0}).value().id == 4);
  params.repetition_penalty = 1;
  params.presence_penalty = 1;
  BOOST_TEST(sample_token(five, {params, prompt, {}, 0}).value().id == 1);  // the prompt does not count
  BOOST_TEST(sample_token(five, {params, prompt, generated, 0}).value().id == 0);
  params.logit_bias = {{3, 100}};
  BOOST_TEST(sample_token(five, {params, prompt, generated, 0}).value().id == 3);
  params.forbidden = {3, 99, -1};
  BOOST_TEST(sample_token(five, {params, prompt, generated, 0}).value().id == 0);
  params.logit_bias = {{0, -100}};
  BOOST_TEST(sample_token(five, {params, prompt, generated, 0}).value().id == 1);
}

BOOST_AUTO_TEST_CASE(a_lane_takes_a_token_drawn_elsewhere_as_one_of_its_own) {
  auto params = greedy();
  params.frequency_penalty = 0.7F;
  params.thinking_budget = 3;
  params.think_end_id = 4;
  params.opening = {0, 2};
  params.stop_ids = {1};
  const std::vector<TokenId> prompt = {3};
  LaneSampler own(params, 0), other(params, 0);
  own.begin(prompt);
  other.begin(prompt);
  for (std::int64_t position = 1; position < 12; ++position) {
    const TokenId drawn = sample_token(five, other.context(other.generated(), position)).value().id;
    BOOST_TEST(other.take(drawn).id == own.sample(five, position).value().id);
  }
  BOOST_TEST(other.generated() == own.generated(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_stop_id_waits_for_min_tokens) {
  auto params = greedy();
  params.stop_ids = {1};
  params.min_tokens = 2;
  const std::vector<TokenId> one = {0}, two = {0, 0};
  BOOST_TEST(sample_token(five, {params, {}, one, 0}).value().id == 4);
  BOOST_TEST(sample_token(five, {params, {}, two, 0}).value().id == 1);
}

BOOST_AUTO_TEST_CASE(broken_logits_and_empty_choices_are_refused_by_name) {
  const auto params = greedy();
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  BOOST_TEST((sample_token(std::vector<float>{1, nan}, at(params)).error().code == tandem::ErrorCode::corrupt));
  BOOST_TEST((sample_token(std::vector<float>{1, inf}, at(params)).error().code == tandem::ErrorCode::corrupt));
  BOOST_TEST((sample_token(std::vector<float>{-inf, -inf}, at(params)).error().code == tandem::ErrorCode::corrupt));
  BOOST_TEST((sample_token({}, at(params)).error().code == tandem::ErrorCode::invalid_argument));
  auto none = greedy();
  none.forbidden = {0, 1, 2, 3, 4};
  BOOST_TEST((sample_token(five, at(none)).error().code == tandem::ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(logprobs_are_those_of_the_raw_logits_best_first) {
  SamplingParams params = greedy();
  params.top_logprobs = 2;
  params.forbidden = {1};
  const auto token = sample_token(five, at(params)).value();
  double total = 0;
  for (const float value : five) total += std::exp(double{value});
  BOOST_TEST(token.id == 4);
  BOOST_TEST(std::abs(token.logprob - (1.5 - std::log(total))) < 1e-6);
  BOOST_TEST(token.top.size() == 2U);
  BOOST_TEST(token.top[0].id == 1);
  BOOST_TEST(token.top[1].id == 4);
  params.top_logprobs = 20;
  BOOST_TEST(sample_token(five, at(params)).value().top.size() == five.size());
  params.top_logprobs = -1;
  BOOST_TEST(sample_token(five, at(params)).value().top.empty());
}

BOOST_AUTO_TEST_CASE(keyed_verification_accepts_exactly_the_tokens_that_plain_decoding_draws) {
  SamplingParams params;
  params.seed = 9;
  std::vector<TokenId> plain;
  for (int i = 0; i < 6; ++i) plain.push_back(sample_token(five, at(params, 50 + i)).value().id);
  std::vector<TokenId> drafts(plain.begin(), plain.begin() + 5);
  BOOST_TEST(count_accepted(drafts, plain) == 5U);
  drafts[2] = (drafts[2] + 1) % 5;
  BOOST_TEST(count_accepted(drafts, plain) == 2U);
  BOOST_TEST(count_accepted({}, plain) == 0U);
}

BOOST_AUTO_TEST_CASE(rejection_sampling_emits_the_target_distribution_whatever_the_draft) {
  const std::vector<double> p = {0.5, 0.2, 0.2, 0.1, 0}, q = {0.1, 0.6, 0.1, 0.1, 0.1};
  std::vector<int> counts(p.size());
  int accepted = 0;
  for (int i = 0; i < 40000; ++i) {
    const TokenId draft = draw_token(q, uniform({3, i, DrawPurpose::draft}));
    const auto choice = verify_by_rejection({p, q, draft, 3, i});
    ++counts[static_cast<std::size_t>(choice.token)];
    accepted += choice.accepted ? 1 : 0;
  }
  BOOST_TEST(chi_square(counts, p) < 16.3);               // 3 degrees of freedom, p = 0.001
  BOOST_TEST(std::abs(accepted / 40000.0 - 0.5) < 0.01);  // sum of min(p, q)
}

BOOST_AUTO_TEST_CASE(rejection_handles_padding_and_equal_distributions) {
  const std::vector<double> p = {0, 1, 0};
  BOOST_TEST(verify_by_rejection({p, p, -1, 1, 1}).token == 1);
  BOOST_TEST(!verify_by_rejection({p, p, 3, 1, 1}).accepted);
  BOOST_TEST(verify_by_rejection({p, p, 1, 1, 1}).accepted);
  BOOST_TEST(verify_by_rejection({p, p, 0, 1, 1}).token == 1);
}

BOOST_AUTO_TEST_SUITE_END()
