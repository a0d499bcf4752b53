// Memory of the device: what is placed comes back, what fails is an error and stays one, and warm steps allocate
// nothing.
#include <boost/test/unit_test.hpp>

#include <cstring>

#include "gpu/comm/communicator.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/state/cache_pools.hpp"
#include "tests/build_paths.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

std::unique_ptr<Model> load_golden(Communicator& communicator) {
  ModelOptions options;
  options.folder = golden_model_folder() / "ckpt";
  options.backend = "cuda";
  options.max_positions = 256;
  auto model = load_model(options, communicator, {}, nullptr);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
  return std::move(*model);
}

CacheLayout layout_of(const Model& model) {
  CacheLimits limits;
  limits.max_positions = 256;
  limits.kv_tokens = 1024;
  limits.chunk_rows_max = 32;
  return plan_caches(model.config, model.numerics, limits).value();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(fresh_memory_is_zero_and_placed_bytes_come_back) {
  if (!has_device()) return;
  Memory& memory = backends().cuda->memory();
  const Buffer fresh = memory.allocate(1000);
  const std::vector<std::byte> zeros = bytes_on_host(fresh.data.get(), 1000);
  BOOST_TEST((zeros == std::vector<std::byte>(1000)));
  Random random(61);
  // One byte, a shared block, a block of its own that also exceeds the staging area.
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{70000}, std::int64_t{40} << 20}) {
    const auto bytes = random.bytes(std::min<std::int64_t>(size, 4096));
    Buffer buffer = Buffer::host(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < buffer.bytes; ++i) buffer.as<std::uint8_t>()[i] = bytes[i * 31 % bytes.size()];
    const Buffer host = copy_of(buffer);
    memory.place(buffer);
    const std::vector<std::byte> found = bytes_on_host(buffer.data.get(), buffer.bytes);
    BOOST_TEST(std::memcmp(found.data(), host.data.get(), host.bytes) == 0);
  }
}

BOOST_AUTO_TEST_CASE(memory_that_does_not_exist_is_an_error_that_stays) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer none = (*ops)->memory().allocate(std::size_t{1} << 50);
  BOOST_TEST(none.bytes == 0U);
  for (int i = 0; i < 2; ++i) {
    const auto failed = (*ops)->wait();
    BOOST_REQUIRE(!failed.has_value());
    BOOST_TEST((failed.error().code == ErrorCode::resource));
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_does_not_exist_is_named) {
  if (!has_device()) return;
  const auto ops = make_cuda_ops({1000});
  BOOST_REQUIRE(!ops.has_value());
  BOOST_TEST((ops.error().code == ErrorCode::resource));
}

BOOST_AUTO_TEST_CASE(warm_steps_allocate_nothing) {
  if (!has_device()) return;
  const auto communicator = make_solo_communicator();
  const auto model = load_golden(*communicator);
  CachePools pools(layout_of(*model), model->ops->memory());
  ForwardPass forward(*model);
  auto sequence = pools.open(200);
  BOOST_REQUIRE(sequence.has_value());
  std::int64_t allocations = 0;
  for (int step = 0; step < 12; ++step) {
    const std::vector<std::int32_t> tokens(16, 5 + step);
    RowBatch rows;
    const std::int64_t first = (*sequence)->length();
    BOOST_REQUIRE((*sequence)->append(tokens).has_value());
    rows.add(**sequence, first, 16);
    const auto result = forward.run(rows, {});
    BOOST_REQUIRE(result.has_value());
    BOOST_REQUIRE(model->ops->wait().has_value());
    if (step == 2) allocations = use_of(*model->ops).allocations;
  }
  BOOST_TEST(use_of(*model->ops).allocations == allocations);
}

BOOST_AUTO_TEST_SUITE_END()
