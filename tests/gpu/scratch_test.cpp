// What the device's experts take is what the plan counts, and a workspace that meets ever longer calls stays within it.
#include <boost/test/unit_test.hpp>

#include "gpu/cuda/expert_scratch.hpp"
#include "gpu/plan/scratch_meter.hpp"

using namespace tandem;
using namespace tandem::gpu;

BOOST_AUTO_TEST_SUITE(scratch)

namespace {

Linear shaped(WeightFormat format, std::int64_t n, std::int64_t k) {
  Linear linear;
  linear.format = format;
  linear.n = n;
  linear.k = k;
  return linear;
}

// One rank of two at full size; experts that are not looked at are left out.
struct FullSize {
  explicit FullSize(WeightFormat format) {
    const ExpertWeights expert{
        shaped(format, 1152, 5120), shaped(format, 1152, 5120), {{shaped(format, 5120, 1152)}, 5120, 1152}};
    weights.experts.assign(384, expert);
    weights.shared = expert;
    call.weights = &weights;
  }
  const MoeCall& of(std::int64_t rows) {
    call.x = Tensor::f32(nullptr, rows, 5120);
    call.routing.ids = Tensor::i32(nullptr, rows, 6);
    return call;
  }
  MoeWeights weights;
  MoeCall call;
};

std::size_t planned(const MoeCall& call) {
  ScratchMeter meter("cuda", 1);
  meter.moe(call);
  return meter.bytes();
}

}  // namespace

BOOST_AUTO_TEST_CASE(exl3_experts_are_planned_with_chunks_of_2048_rows) {
  FullSize model(WeightFormat::exl3);
  const auto taken = cuda::expert_scratch(cuda::expert_shape(model.of(2048)), 2048);
  // Gate, up and the rotated rows of one of them for 12288 uses, in floats.
  BOOST_TEST(taken.stream >= 4U * 12288 * (2 * 1152 + 5120 / 2));
  BOOST_TEST(taken.stream + taken.branch < 310'000'000U);
  BOOST_TEST(planned(model.of(2048)) > taken.stream + taken.branch);
  BOOST_TEST(planned(model.of(4096)) == planned(model.of(2048)), "longer calls come in chunks");
  BOOST_TEST(planned(model.of(64)) < planned(model.of(2048)) / 8);
}

BOOST_AUTO_TEST_CASE(other_formats_are_planned_with_chunks_of_128_rows) {
  FullSize model(WeightFormat::fp4_block32);
  BOOST_TEST(planned(model.of(1024)) == planned(model.of(128)));
  BOOST_TEST(planned(model.of(64)) < planned(model.of(128)));
}

// With 2 and 8 slots some calls do not take turns whose power of two does.
BOOST_AUTO_TEST_CASE(a_call_takes_no_more_than_is_planned_for_its_power_of_two) {
  FullSize model(WeightFormat::exl3);
  cuda::ExpertShape shape = cuda::expert_shape(model.of(1));
  for (const std::int64_t slots : {1, 2, 3, 6, 8}) {
    shape.slots = slots;
    std::int64_t beyond = 0;
    for (std::int64_t rows = 1; rows <= 2048; ++rows) {
      beyond += cuda::routed_scratch(shape, rows) > cuda::expert_scratch(shape, rows).stream ? 1 : 0;
    }
    BOOST_TEST(beyond == 0, slots << " slots");
  }
}

// Blocks that became too small stay: what they add up to is planned.
BOOST_AUTO_TEST_CASE(a_workspace_that_meets_ever_longer_calls_stays_within_the_plan) {
  FullSize model(WeightFormat::exl3);
  cuda::ExpertShape shape = cuda::expert_shape(model.of(1));
  shape.width = 640;
  shape.inter = shape.shared_inter = shape.slice_width = 144;
  Workspace stream, branch;
  for (std::int64_t rows = 1; rows <= 2100; ++rows) {
    const auto wanted = cuda::expert_scratch(shape, rows);
    for (const auto& [workspace, bytes] : {std::pair{&stream, wanted.stream}, std::pair{&branch, wanted.branch}}) {
      const Workspace::Scope scope(*workspace);
      workspace->reserve(bytes);
      const std::size_t before = workspace->bytes();
      (void)workspace->f32(1, static_cast<std::int64_t>(bytes / sizeof(float)));
      BOOST_TEST(workspace->bytes() == before, "what was reserved is there");
    }
  }
  const auto grown = cuda::grown_expert_scratch(shape, 2100);
  BOOST_TEST(stream.bytes() <= grown.stream);
  BOOST_TEST(branch.bytes() <= grown.branch);
  BOOST_TEST(grown.stream < 2.2 * static_cast<double>(cuda::expert_scratch(shape, 2048).stream));
}

BOOST_AUTO_TEST_CASE(sides_that_run_at_the_same_time_are_added_on_the_device_only) {
  const Linear weight = shaped(WeightFormat::exl3, 1024, 5120);
  const Tensor x = Tensor::f32(nullptr, 8, 5120);
  for (const char* backend : {"cpu", "cuda"}) {
    ScratchMeter one(backend, 1), both(backend, 1);
    one.linear(x, weight, {});
    both.linear(x, weight, {});
    both.beside(Ops::Side::residual, [&] { both.linear(x, weight, {}); });
    both.beside(Ops::Side::branch, [&] { both.linear(x, weight, {}); });
    both.linear(x, weight, {});
    const std::size_t times = backend == std::string_view("cuda") ? 3 : 1;
    BOOST_TEST(both.bytes() == times * one.bytes(), backend);
    ScratchMeter set(backend, 1);
    const LinearCall calls[] = {{x, &weight, {}, {}}, {x, &weight, {}, {}}};
    set.linears(calls);
    BOOST_TEST(set.bytes() == (times == 1 ? 1 : 2) * one.bytes(), backend);
  }
}

BOOST_AUTO_TEST_SUITE_END()
