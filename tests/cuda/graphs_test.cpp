// Whole steps as graphs: the same bits as operation by operation, nothing allocated, and no surprise where a step
// waits.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "gpu/engine_pass.hpp"
#include "gpu/model/model.hpp"
#include "gpu/state/cache_pools.hpp"
#include "tests/build_paths.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

enum class How { operations, one, prepared };

// One sequence of the golden model on the device.
class Sequence {
 public:
  Sequence() : communicator_(make_solo_communicator()) {
    ModelOptions options;
    options.folder = golden_model_folder() / "ckpt";
    options.backend = "cuda";
    options.max_positions = 256;
    auto model = load_model(options, *communicator_, {}, nullptr);
    BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
    model_ = std::move(*model);
    auto layout = plan_caches(model_->config, model_->numerics, {256, 512, 1, 64});
    BOOST_REQUIRE(layout.has_value());
    pools_ = std::make_unique<CachePools>(std::move(*layout), model_->ops->memory());
    forward_ = std::make_unique<ForwardPass>(*model_);
    pass_ = std::make_unique<EnginePass>(*forward_);
    auto state = pools_->open(250);
    BOOST_REQUIRE(state.has_value());
    state_ = std::move(*state);
  }

  // Logits of `count` rows behind the present end. A prepared step prepares another one of as many rows before its
  // logits are read.
  Floats step(std::int32_t count, How how) {
    const std::int64_t first = state_->length();
    std::vector<std::int32_t> tokens, wanted;
    for (std::int32_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<std::int32_t>(7 * (first + i) % 250));
      wanted.push_back(i);
    }
    BOOST_REQUIRE(state_->append(tokens).has_value());
    PassRows pass;
    pass.rows.add(*state_, first, count);
    pass.wanted = wanted;
    const auto done = how == How::operations ? plain(pass) : pass_->run(pass);
    BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? std::string() : done.error().message()));
    if (how == How::prepared) prepare(count);
    const Tensor& logits = done->logits;
    Floats values(static_cast<std::size_t>(logits.rows * logits.cols));
    BOOST_REQUIRE(model_->ops->memory().download(logits.data, std::as_writable_bytes(std::span(values))).has_value());
    return values;
  }

  Ops& ops() { return *model_->ops; }

 private:
  Result<PassResult> plain(const PassRows& pass) {
    auto passed = forward_->run(pass.rows, {});
    if (!passed) return passed.error();
    const auto made = forward_->logits(*passed, pass.wanted);
    if (!made) return made.error();
    return PassResult{std::move(*passed), *made};
  }
  void prepare(std::int32_t rows) {
    const NextRows next[] = {{state_.get(), rows}};
    pass_->prepare(next, false);
  }

  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<ForwardPass> forward_;
  std::unique_ptr<EnginePass> pass_;
  std::unique_ptr<SequenceState> state_;
};

constexpr int warm_steps = 40;

// After `first` steps, further ones start a graph each and need no memory and no new graph. Returns how many of them
// were started as prepared.
std::int64_t check_warm_steps(How how, int first) {
  Sequence sequence;
  for (int i = 0; i < first; ++i) sequence.step(1, how);
  const CudaUse warm = use_of(sequence.ops());
  for (int i = 0; i < warm_steps; ++i) sequence.step(1, how);
  const CudaUse use = use_of(sequence.ops());
  BOOST_TEST(use.allocations == warm.allocations);
  BOOST_TEST(use.graph_starts == warm.graph_starts + warm_steps);
  BOOST_TEST(use.graphs == warm.graphs);
  return use.prepared_starts - warm.prepared_starts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(graphs)

BOOST_AUTO_TEST_CASE(steps_as_graphs_have_the_bits_of_steps_by_operation) {
  if (!has_device()) return;
  Sequence graph, plain;
  for (const std::int32_t rows :
       {17, 1, 1, 1, 1, 1, 1, 1, 6, 6, 6, 6, 6, 1, 1, 2, 2, 2, 6, 6, 1, 1, 16, 16, 16, 1, 1}) {
    check_same("step of " + std::to_string(rows), plain.step(rows, How::operations), graph.step(rows, How::one));
  }
  BOOST_TEST(use_of(graph.ops()).graph_starts > 8);
  BOOST_TEST(use_of(plain.ops()).graph_starts == 0);
}

BOOST_AUTO_TEST_CASE(warm_graphs_allocate_nothing) {
  if (!has_device()) return;
  check_warm_steps(How::one, 8);
}

// Rows of this model bring Engram rows along, so tokens and table values are told late.
BOOST_AUTO_TEST_CASE(prepared_steps_have_the_bits_of_steps_by_operation) {
  if (!has_device()) return;
  Sequence ahead, plain;
  for (const std::int32_t rows : {17, 1, 1, 1, 1, 1, 1, 1, 1, 1, 6, 1, 1, 6, 6, 1, 1, 1, 1, 40, 1, 1, 1, 1, 1, 1}) {
    check_same("step of " + std::to_string(rows), plain.step(rows, How::operations), ahead.step(rows, How::prepared));
  }
  BOOST_TEST(use_of(ahead.ops()).prepared_starts > 8);
}

BOOST_AUTO_TEST_CASE(warm_prepared_steps_allocate_nothing) {
  if (!has_device()) return;
  const std::int64_t prepared_starts = check_warm_steps(How::prepared, 12);
  BOOST_TEST(prepared_starts == warm_steps);
}

BOOST_AUTO_TEST_CASE(a_prepared_step_runs_once_with_the_contents_of_its_turn) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer memory = (*ops)->memory().allocate(64);
  const Tensor row = Tensor::f32(memory.as<float>(), 1, 16);
  const std::vector<float> unknown(16, -1.0F);
  const std::span<const std::byte> late[] = {std::as_bytes(std::span(unknown))};
  const auto body = [&]() -> Result<void> {
    (*ops)->memory().upload(late[0], memory.data.get());
    (*ops)->scale(row, 2, false);
    (*ops)->cut();
    (*ops)->scale(row, 3, false);
    return {};
  };
  for (int i = 0; i < 4; ++i) {
    std::vector<float> known(16, static_cast<float>(i)), back(16);
    const std::span<const std::byte> contents[] = {std::as_bytes(std::span(known))};
    BOOST_TEST((*ops)->prepare_as_one(body, late) == (i > 0), "a step that was never seen has no graph");
    BOOST_TEST(!(*ops)->run_prepared({}));
    BOOST_TEST((*ops)->run_prepared(contents) == (i > 0));
    BOOST_TEST(!(*ops)->run_prepared(contents));
    BOOST_TEST((*ops)->memory().download(memory.data.get(), std::as_writable_bytes(std::span(back))).has_value());
    BOOST_TEST(back == std::vector<float>(16, 6.0F * static_cast<float>(i)));
  }
  BOOST_TEST(use_of(**ops).prepared_starts == 3);
  BOOST_TEST((*ops)->prepare_as_one(body, late));
  BOOST_TEST((*ops)->run_as_one(body).has_value());
  BOOST_TEST(!(*ops)->run_prepared(late), "another step came between");
}

BOOST_AUTO_TEST_CASE(a_step_without_its_late_list_is_not_prepared) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer memory = (*ops)->memory().allocate(64);
  const std::vector<float> unknown(16, -1.0F);
  const std::span<const std::byte> late[] = {std::as_bytes(std::span(unknown))};
  const auto body = [&]() -> Result<void> {
    const std::vector<float> copy = unknown;
    (*ops)->memory().upload(std::as_bytes(std::span(copy)), memory.data.get());
    return {};
  };
  for (int i = 0; i < 3; ++i) BOOST_TEST(!(*ops)->prepare_as_one(body, late));
}

BOOST_AUTO_TEST_CASE(a_step_that_waits_runs_operation_by_operation) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer memory = (*ops)->memory().allocate(64);
  for (int i = 0; i < 4; ++i) {
    std::vector<float> sent(16, static_cast<float>(i)), back(16);
    const auto done = (*ops)->run_as_one([&]() -> Result<void> {
      (*ops)->memory().upload(std::as_bytes(std::span(sent)), memory.data.get());
      return (*ops)->memory().download(memory.data.get(), std::as_writable_bytes(std::span(back)));
    });
    BOOST_TEST(done.has_value());
    BOOST_TEST(back == sent);
  }
  BOOST_TEST(use_of(**ops).graph_starts == 0);
}

BOOST_AUTO_TEST_CASE(uploads_of_a_step_are_those_of_its_own_walk) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer memory = (*ops)->memory().allocate(64);
  const Tensor row = Tensor::f32(memory.as<float>(), 1, 16);
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> sent(16, static_cast<float>(i));
    const auto done = (*ops)->run_as_one([&]() -> Result<void> {
      (*ops)->memory().upload(std::as_bytes(std::span(sent)), memory.data.get());
      (*ops)->scale(row, 2, false);
      return {};
    });
    BOOST_TEST(done.has_value());
    std::vector<float> back(16);
    BOOST_TEST((*ops)->memory().download(memory.data.get(), std::as_writable_bytes(std::span(back))).has_value());
    BOOST_TEST(back.front() == 2.0F * static_cast<float>(i));
    BOOST_TEST(back.back() == 2.0F * static_cast<float>(i));
  }
  BOOST_TEST(use_of(**ops).graph_starts == 5);
}

// Both parts change a row in place, so a part that ran twice or not at all shows.
BOOST_AUTO_TEST_CASE(parts_of_a_step_run_once_whatever_is_known_of_them) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer memory = (*ops)->memory().allocate(128);
  const Tensor first = Tensor::f32(memory.as<float>(), 1, 16), second = Tensor::f32(memory.as<float>() + 16, 1, 16);
  const std::vector<float> ones(32, 1.0F);
  (*ops)->memory().upload(std::as_bytes(std::span(ones)), memory.data.get());
  std::vector<float> expected(2, 1.0F), back(32);
  for (const float factor : {3.0F, 3.0F, 3.0F, 5.0F, 5.0F, 5.0F, 3.0F}) {
    const auto done = (*ops)->run_as_one([&]() -> Result<void> {
      (*ops)->scale(first, 2, false);
      (*ops)->cut();
      (*ops)->scale(second, factor, false);
      return {};
    });
    BOOST_TEST(done.has_value());
    expected[0] *= 2;
    expected[1] *= factor;
    BOOST_TEST((*ops)->memory().download(memory.data.get(), std::as_writable_bytes(std::span(back))).has_value());
    BOOST_TEST(back.front() == expected[0]);
    BOOST_TEST(back.back() == expected[1]);
  }
  BOOST_TEST(use_of(**ops).graph_starts == 5, "all but the first step of each kind");
}

// The engine ends with such an error, yet what was started before it must not run again, now or in the next step.
BOOST_AUTO_TEST_CASE(a_step_that_fails_behind_the_cut_has_run_what_is_before_it_once) {
  if (!has_device()) return;
  auto ops = make_cuda_ops({});
  BOOST_REQUIRE(ops.has_value());
  const Buffer memory = (*ops)->memory().allocate(128);
  const Tensor first = Tensor::f32(memory.as<float>(), 1, 16), second = Tensor::f32(memory.as<float>() + 16, 1, 16);
  const std::vector<float> ones(32, 1.0F);
  (*ops)->memory().upload(std::as_bytes(std::span(ones)), memory.data.get());
  std::vector<float> expected(2, 1.0F), back(32);
  for (const bool fails : {false, false, false, true, false, true, true, false}) {
    const auto done = (*ops)->run_as_one([&]() -> Result<void> {
      (*ops)->scale(first, 2, false);
      (*ops)->cut();
      if (fails) return Error{ErrorCode::io, "rows", "unreadable", "rows"};
      (*ops)->scale(second, 3, false);
      return {};
    });
    BOOST_TEST(done.has_value() == !fails);
    BOOST_TEST((done.has_value() || done.error().code == ErrorCode::io));
    expected[0] *= 2;
    if (!fails) expected[1] *= 3;
    BOOST_TEST((*ops)->memory().download(memory.data.get(), std::as_writable_bytes(std::span(back))).has_value());
    BOOST_TEST(back.front() == expected[0]);
    BOOST_TEST(back.back() == expected[1]);
  }
  BOOST_TEST(use_of(**ops).graph_starts == 4, "all that did not fail but the first");
}

BOOST_AUTO_TEST_SUITE_END()
