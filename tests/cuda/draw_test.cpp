// Drawing tokens on the device: the token of the CPU's sampler, whatever the request asks for.
#include <boost/test/unit_test.hpp>

#include <limits>
#include <set>

#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

struct Request {
  SamplingParams params;
  std::vector<TokenId> prompt, generated;
  std::int64_t position = 0;
};

// Draws from every row of `logits` [requests, V] on both sides.
std::vector<TokenId> check_draws(const std::string& what, Floats logits, const std::vector<Request>& requests,
                                 Ops& device = *backends().cuda) {
  const auto rows = static_cast<std::int64_t>(requests.size());
  const DeviceMatrix device_logits(logits, rows);
  std::vector<DrawRow> draws;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Request& one = requests[static_cast<std::size_t>(row)];
    draws.push_back({row, {one.params, one.prompt, one.generated, one.position}});
  }
  std::vector<TokenId> expected(requests.size(), -7), found(requests.size(), -7);
  BOOST_TEST(backends().cpu->draw_tokens(matrix(logits, rows), draws, expected).has_value());
  BOOST_TEST(backends().cuda->wait().has_value());  // `device` may be another one, with a stream of its own
  BOOST_TEST(device.draw_tokens(device_logits, draws, found).has_value());
  for (std::size_t i = 0; i < found.size(); ++i) BOOST_TEST(found[i] == expected[i], what << ", row " << i);
  return found;
}

SamplingParams with(float temperature, std::int32_t top_k = 0, float top_p = 1, float min_p = 0) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  params.seed = 99;
  return params;
}

// Every combination of the limits and some values between.
std::vector<Request> all_options(std::int32_t vocabulary) {
  std::vector<Request> requests;
  for (const float temperature : {0.0F, 1e-30F, 0.8F, 1e6F}) {
    for (const std::int32_t top_k : {0, 1, 7, vocabulary - 1, vocabulary + 1}) {
      for (const float top_p : {1e-6F, 0.3F, 0.95F, 1.0F}) {
        const float min_p = requests.size() % 3 == 0 ? 0.05F : requests.size() % 31 == 0 ? 1.0F : 0.0F;
        requests.push_back(
            {with(temperature, top_k, top_p, min_p), {}, {}, static_cast<std::int64_t>(requests.size())});
      }
    }
  }
  return requests;
}

Floats rows_of(const Floats& row, std::size_t count) {
  Floats rows;
  for (std::size_t i = 0; i < count; ++i) rows.insert(rows.end(), row.begin(), row.end());
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(draw)

BOOST_AUTO_TEST_CASE(every_option_draws_the_cpus_token_at_every_size) {
  if (!has_device()) return;
  for (const std::int32_t vocabulary : {1, 2, 33, 1000, 4099}) {
    Random random(81);
    const std::vector<Request> requests = all_options(vocabulary);
    const auto count = static_cast<std::int64_t>(requests.size());
    check_draws("normal " + std::to_string(vocabulary), random.floats(count * vocabulary, 3.0F), requests);
  }
}

BOOST_AUTO_TEST_CASE(equal_logits_keep_and_draw_the_lower_ids) {
  if (!has_device()) return;
  for (const std::int32_t vocabulary : {5, 1500}) {
    Random random(82);
    const std::vector<Request> requests = all_options(vocabulary);
    Floats logits(requests.size() * static_cast<std::size_t>(vocabulary));
    for (float& logit : logits) logit = static_cast<float>(random.below(3));
    check_draws("ties", logits, requests);
    check_draws("all equal", Floats(logits.size(), -2.5F), requests);
  }
}

BOOST_AUTO_TEST_CASE(the_models_vocabulary_draws_the_cpus_tokens) {
  if (!has_device()) return;
  constexpr std::int64_t vocabulary = 129280;
  Random random(83);
  const std::vector<Request> requests{{with(0), {}, {}, 1},
                                      {with(1), {}, {}, 2},
                                      {with(1, 50, 0.9F), {}, {}, 3},
                                      {with(0.6F, 0, 0.95F, 0.01F), {}, {}, 4},
                                      {with(2, 70000), {}, {}, 5}};
  check_draws("129280", random.floats(5 * vocabulary, 4.0F), requests);
}

BOOST_AUTO_TEST_CASE(many_positions_draw_the_cpus_tokens) {
  if (!has_device()) return;
  Random random(84);
  constexpr std::int64_t vocabulary = 257;
  std::vector<Request> requests;
  for (std::int64_t position = 0; position < 200; ++position) {
    requests.push_back({with(1.3F, 0, position % 2 == 0 ? 1.0F : 0.97F), {}, {}, position});
  }
  const auto found = check_draws("positions", rows_of(random.floats(vocabulary), requests.size()), requests);
  BOOST_TEST(std::set<TokenId>(found.begin(), found.end()).size() > 20U);
}

BOOST_AUTO_TEST_CASE(penalties_bias_and_forbidden_ids_apply_in_their_order) {
  if (!has_device()) return;
  Random random(85);
  constexpr std::int64_t vocabulary = 500;
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    Request one{with(i % 2 == 0 ? 0.0F : 1.0F, 0, i % 3 == 0 ? 0.9F : 1.0F), {}, {}, i};
    for (int t = 0; t < 40 * i; ++t) {
      one.prompt.push_back(static_cast<TokenId>(random.below(vocabulary + 20)) - 10);
      if (t % 2 == 0) one.generated.push_back(static_cast<TokenId>(random.below(60)));
    }
    one.params.repetition_penalty = i % 4 == 0 ? 1.0F : 1.3F;
    one.params.presence_penalty = i % 5 == 0 ? 0.0F : 0.4F;
    one.params.frequency_penalty = i % 5 == 0 ? 0.0F : -0.2F;
    one.params.logit_bias = {{3, 2.5F}, {3, -1.0F}, {7, -100.0F}, {7, 5.0F}, {499, 100.0F}, {500, 9.0F}, {-1, 9.0F}};
    one.params.forbidden = {499, 12, 12, 700, -3};
    one.params.stop_ids = {0, 1, 2};
    one.params.min_tokens = i < 12 ? 100000U : 0U;
    requests.push_back(one);
  }
  check_draws("edits", random.floats(24 * vocabulary, 2.0F), requests);
}

BOOST_AUTO_TEST_CASE(lists_that_do_not_fit_the_staging_area_together_reach_their_own_rows) {
  if (!has_device()) return;
  CudaOptions options;
  options.staging_bytes = 16 << 10;
  const auto device = make_cuda_ops(options);
  BOOST_REQUIRE(device.has_value());
  Random random(86);
  constexpr std::int64_t vocabulary = 1000;
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    Request one{with(i % 2 == 0 ? 0.0F : 1.0F), {}, {}, i};
    for (TokenId token = 0; token < 500; ++token) one.prompt.push_back(2 * token + i % 2);
    one.params.repetition_penalty = 1.0F + 0.1F * static_cast<float>(i);
    requests.push_back(one);
  }
  check_draws("pieces", random.floats(12 * vocabulary, 2.0F), requests, **device);
  // One whose own list is longer than a piece is left to the host; its neighbours are not.
  requests[5].params.repetition_penalty = 1.3F;
  for (TokenId token = 0; token < vocabulary; ++token) requests[5].prompt.push_back(token);
  Floats logits = random.floats(12 * vocabulary, 2.0F);
  const DeviceMatrix device_logits(logits, 12);
  BOOST_TEST(backends().cuda->wait().has_value());
  std::vector<DrawRow> draws;
  for (const Request& one : requests)
    draws.push_back({static_cast<std::int64_t>(draws.size()), {one.params, one.prompt, one.generated, one.position}});
  std::vector<TokenId> expected(12, -7), found(12, -7);
  BOOST_TEST(backends().cpu->draw_tokens(matrix(logits, 12), draws, expected).has_value());
  BOOST_TEST((*device)->draw_tokens(device_logits, draws, found).has_value());
  expected[5] = -1;
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_that_the_sampler_refuses_have_no_token) {
  if (!has_device()) return;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Request all_forbidden{with(0), {}, {}, 0};
  all_forbidden.params.forbidden = {0, 1, 2};
  const Request greedy{with(0), {}, {}, 0}, plain{with(1), {}, {}, 0};
  const auto found = check_draws("refusals",
                                 {1, nan, 2,                        //
                                  1, infinite, 2,                   //
                                  -infinite, -infinite, -infinite,  //
                                  1, 2, 3,                          //
                                  -infinite, 1, -infinite,          //
                                  -infinite, -infinite, 5},
                                 {greedy, plain, plain, all_forbidden, greedy, plain});
  BOOST_TEST(found == (std::vector<TokenId>{-1, -1, -1, -1, 1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_penalty_that_overflows_leaves_the_overflown_token) {
  if (!has_device()) return;
  Request one{with(1), {1}, {}, 0};
  one.params.repetition_penalty = 1e-38F;
  check_draws("overflow", {1, 1e10F, 2}, {one});
  one.params.temperature = 0;
  check_draws("overflow", {1, 1e10F, 2}, {one});
}

BOOST_AUTO_TEST_CASE(no_rows_draw_nothing) {
  if (!has_device()) return;
  const DeviceMatrix logits(Floats(8), 2);
  BOOST_TEST(backends().cuda->draw_tokens(logits, {}, {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
