// Whole engines on two devices: they write the text of one, and a lost peer ends a step instead of hanging it.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "tests/cuda/text_writer.hpp"

#if defined(TANDEM_HAVE_NCCL)
#include <cuda_runtime_api.h>

#include <atomic>
#include <optional>

#include "tests/gpu/comm_ranks.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;
using namespace std::chrono_literals;

namespace {

bool has_two_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count >= 2;
}

const std::vector<Writing> all_writings = {{64, 0, 24}, {17, 0, 24}, {64, 5, 24}, {200, 3, 24}};

std::vector<Text> prompts_of(TokenId vocabulary) {
  std::vector<Text> prompts;
  for (const std::size_t length : {1, 7, 40, 129, 300}) prompts.push_back(random_prompt(60, length, vocabulary));
  return prompts;
}

// What one rank says: its texts, or why there are none.
struct Said {
  std::vector<Text> texts;
  std::string error;
  bool reached_devices = false;
};

Said say_all(std::unique_ptr<Communicator> group, const EngineOptions& options, const std::vector<Text>& prompts) {
  Said said;
  if (auto reached = reach_devices(options, group, nullptr); !reached) return {{}, reached.error().message(), false};
  said.reached_devices = group->reaches_devices();
  auto engine = load_engine(options, *group, {}, nullptr);
  if (!engine) return {{}, engine.error().message(), false};
  TextWriter writer(std::move(*engine));
  for (const Text& prompt : prompts) {
    for (const Writing& how : all_writings) {
      auto text = writer.write(prompt, how);
      if (!text) return {{}, text.error().message(), said.reached_devices};
      said.texts.push_back(std::move(*text));
    }
  }
  return said;
}

void check_two_ranks(DeviceExchange exchange) {
  EngineOptions options = writer_options("configs/tiny", "cuda");
  options.devices.exchange = exchange;
  const std::vector<Text> prompts = prompts_of(4000);
  const Said alone = say_all(make_solo_communicator(), options, prompts);
  BOOST_REQUIRE_MESSAGE(alone.error.empty(), alone.error);
  auto controls = make_thread_communicators(2, 60s);
  Said both[2];
  on_all_ranks(2, [&](int rank) {
    both[rank] = say_all(std::move(controls[static_cast<std::size_t>(rank)]), options, prompts);
  });
  for (const Said& one : both) {
    BOOST_TEST(one.error == "");
    BOOST_TEST(one.reached_devices == (exchange != DeviceExchange::host));
    BOOST_TEST((one.texts == alone.texts));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(nccl_engine)

BOOST_AUTO_TEST_CASE(two_ranks_with_a_device_each_write_the_text_of_one) {
  if (!has_two_devices()) return;
  check_two_ranks(DeviceExchange::nccl);
}

BOOST_AUTO_TEST_CASE(two_ranks_by_way_of_host_memory_write_the_text_of_one) {
  if (!has_two_devices()) return;
  check_two_ranks(DeviceExchange::host);
}

BOOST_AUTO_TEST_CASE(a_step_whose_peer_does_not_come_ends_and_the_engine_with_it) {
  if (!has_two_devices()) return;
  EngineOptions options = writer_options("configs/tiny", "cuda");
  options.devices.timeout = 5s;
  auto controls = make_thread_communicators(2, 5s);
  std::optional<bool> has_ended[2];
  on_all_ranks(2, [&](int rank) {
    auto group = std::move(controls[static_cast<std::size_t>(rank)]);
    if (!reach_devices(options, group, nullptr)) return;
    auto engine = load_engine(options, *group, {}, nullptr);
    if (!engine) return;
    TextWriter writer(std::move(*engine));
    const bool is_first = writer.write(random_prompt(1, 20, 4000), {}).has_value();
    if (rank == 1) {
      has_ended[1] = is_first;
      return;  // and leaves
    }
    const bool fails = !writer.write(random_prompt(2, 20, 4000), {});
    has_ended[0] = is_first && fails && !writer.write(random_prompt(3, 20, 4000), {});
  });
  for (const auto& ended : has_ended) BOOST_TEST(ended.value_or(false));
}

BOOST_AUTO_TEST_SUITE_END()
#endif
