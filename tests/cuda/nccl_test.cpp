// Exchanges on the device: the contract of all_gather, in stream order and inside graphs; two ranks where there are two
// devices.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "tests/cuda/device_fixture.hpp"

#if defined(TANDEM_HAVE_NCCL)
#include <cuda_runtime_api.h>

#include <atomic>

#include "gpu/comm/nccl_communicator.hpp"
#include "tests/gpu/comm_ranks.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(nccl)

namespace {

constexpr std::int64_t columns = 512;

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Communicator> reaching_devices(std::unique_ptr<Communicator> control, int device) {
  auto made = make_nccl_communicator(control, device);
  return made ? std::move(*made) : nullptr;
}

float value_of(int rank, int round, std::int64_t i) {
  return static_cast<float>(1000 * rank + 10 * round) + static_cast<float>(i) / 1024;
}

// One rank's tensors on its own device.
struct Rank {
  std::unique_ptr<Communicator> group;
  std::unique_ptr<Ops> ops;
  Buffer memory;
  Tensor own, all;

  Rank(std::unique_ptr<Communicator> control, int device) : group(reaching_devices(std::move(control), device)) {
    CudaOptions options;
    options.device = device;
    if (auto made = make_cuda_ops(options)) ops = std::move(*made);
    if (!is_ready()) return;
    memory = ops->memory().allocate(static_cast<std::size_t>((1 + group->size()) * columns) * sizeof(float));
    own = Tensor::f32(memory.as<float>(), 1, columns);
    all = Tensor::f32(memory.as<float>() + columns, group->size(), columns);
  }
  bool is_ready() const { return group != nullptr && ops != nullptr; }

  // Uploads this rank's row, exchanges it and doubles everything; true if all rows are right.
  bool exchanges(int round, bool as_one) {
    Floats row(columns);
    for (std::int64_t i = 0; i < columns; ++i) row[static_cast<std::size_t>(i)] = value_of(group->rank(), round, i);
    const auto body = [&]() -> Result<void> {
      ops->memory().upload(std::as_bytes(std::span(row)), own.data);
      if (!ops->gather(*group, own, all)) return Error{ErrorCode::internal, "gather", "refused", "done"};
      ops->scale(all, 2, false);
      return {};
    };
    if (!(as_one ? ops->run_as_one(body) : body())) return false;
    Floats back(static_cast<std::size_t>(all.rows * columns));
    if (!ops->memory().download(all.data, std::as_writable_bytes(std::span(back)))) return false;
    for (std::size_t i = 0; i < back.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (back[i] != 2 * value_of(static_cast<int>(at / columns), round, at % columns)) return false;
    }
    return true;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_rank_gets_its_own_block_by_operation_and_as_a_graph) {
  if (!has_device()) return;
  Rank rank(make_solo_communicator(), 0);
  BOOST_REQUIRE(rank.is_ready());
  for (int round = 0; round < 3; ++round) BOOST_TEST(rank.exchanges(round, false));
  for (int round = 3; round < 9; ++round) BOOST_TEST(rank.exchanges(round, true));
  BOOST_TEST(use_of(*rank.ops).graph_starts == 5);
}

BOOST_AUTO_TEST_CASE(two_ranks_get_both_blocks_in_rank_order) {
  if (device_count() < 2) return;
  auto controls = make_thread_communicators(2, 20s);
  std::atomic<int> wrong = 0;
  on_all_ranks(2, [&](int number) {
    Rank rank(std::move(controls[static_cast<std::size_t>(number)]), number);
    if (!rank.is_ready()) {
      ++wrong;
      return;
    }
    for (int round = 0; round < 40; ++round) wrong += rank.exchanges(round, round % 8 != 0) ? 0 : 1;
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(two_ranks_on_one_device_are_refused_on_both_and_keep_their_control) {
  if (!has_device()) return;
  auto controls = make_thread_communicators(2, 20s);
  std::atomic<int> refused = 0, kept = 0;
  on_all_ranks(2, [&](int number) {
    auto& control = controls[static_cast<std::size_t>(number)];
    const auto made = make_nccl_communicator(control, 0);
    if (!made && made.error().code == ErrorCode::unavailable) ++refused;
    if (control != nullptr && gathers(*control, 0, 100)) ++kept;
  });
  BOOST_TEST(refused == 2);
  BOOST_TEST(kept == 2);
}

BOOST_AUTO_TEST_CASE(host_memory_goes_through_the_control_group) {
  if (!has_device()) return;
  const auto group = reaching_devices(make_solo_communicator(), 0);
  BOOST_REQUIRE(group != nullptr);
  BOOST_TEST(group->size() == 1);
  for (const std::size_t bytes : {0UL, 1UL, 1000UL}) BOOST_TEST(gathers(*group, 3, bytes));
}

BOOST_AUTO_TEST_CASE(after_abort_every_exchange_fails) {
  if (!has_device()) return;
  Rank rank(make_solo_communicator(), 0);
  BOOST_REQUIRE(rank.is_ready());
  rank.group->abort("the user left");
  rank.group->abort("again");
  const auto done = rank.group->all_gather_on(nullptr, bytes_of(rank.own), bytes_of(rank.all));
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().code == ErrorCode::cancelled));
  BOOST_TEST(!gathers(*rank.group, 0, 8));
}

BOOST_AUTO_TEST_CASE(room_of_the_wrong_size_is_refused) {
  if (!has_device()) return;
  Rank rank(make_solo_communicator(), 0);
  BOOST_REQUIRE(rank.is_ready());
  const auto done = rank.group->all_gather_on(nullptr, bytes_of(rank.own), bytes_of(rank.all).subspan(1));
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().code == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_SUITE_END()
#endif
