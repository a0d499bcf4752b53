// An engine whose group exchanges on devices: every step is watched, and one that the group did not survive is not
// believed.
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>

#include "gpu/engine.hpp"
#include "tests/build_paths.hpp"

using namespace tandem;
using namespace tandem::gpu;

namespace {

// A group of one that claims devices and ends when it is told to.
class WatchedGroup final : public Communicator {
 public:
  enum class End { never, before_the_step, within_the_step };
  End end = End::never;
  std::string calls;  // w: watched, q: asked how it fares, r: at rest

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  bool reaches_devices() const noexcept override { return true; }
  Result<void> all_gather(std::span<const std::byte>, std::span<std::byte>) override { return {}; }
  void abort(const std::string&) override {}
  void watch(bool is_on) override { calls += is_on ? 'w' : 'r'; }
  std::optional<Error> failure() override {
    calls += 'q';
    const bool is_first = calls.size() == 2;
    if (end == End::never || (end == End::within_the_step && is_first)) return std::nullopt;
    return Error{ErrorCode::unavailable, "NCCL, rank 0", "remote process exited", ""};
  }
};

StepPlan plan_of(std::uint64_t step, SequenceId id) {
  SequenceOpen open;
  open.id = id;
  open.max_tokens_total = 16;
  PrefillWork work;
  work.id = id;
  work.tokens = {3, 40, 77};
  work.sample = true;
  StepPlan plan;
  plan.step = step;
  plan.open.push_back(open);
  plan.prefill.push_back(work);
  return plan;
}

std::unique_ptr<Engine> engine_over(Communicator& group) {
  EngineOptions options;
  options.model = golden_model_folder() / "ckpt";
  options.max_positions = 64;
  options.lanes_max = 2;
  options.chunk_rows_max = 16;
  options.threads = 1;
  auto engine = load_engine(options, group, {}, nullptr);
  BOOST_REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
  return std::move(*engine);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_watch)

BOOST_AUTO_TEST_CASE(a_step_is_watched_asked_about_and_left_at_rest) {
  WatchedGroup group;
  const auto engine = engine_over(group);
  BOOST_TEST(group.calls == "");
  BOOST_TEST(engine->step(plan_of(1, 1)).has_value());
  BOOST_TEST(group.calls == "wqqr");
}

BOOST_AUTO_TEST_CASE(a_step_that_the_group_did_not_survive_is_not_believed_and_ends_the_engine) {
  for (const auto end : {WatchedGroup::End::before_the_step, WatchedGroup::End::within_the_step}) {
    WatchedGroup group;
    const auto engine = engine_over(group);
    group.end = end;
    const auto result = engine->step(plan_of(1, 1));
    BOOST_REQUIRE(!result.has_value());
    BOOST_TEST((result.error().code == ErrorCode::unavailable));
    BOOST_TEST(result.error().found == "remote process exited");
    BOOST_TEST(group.calls == (end == WatchedGroup::End::before_the_step ? "wq" : "wqq"));
    group.end = WatchedGroup::End::never;
    BOOST_TEST(!engine->step(plan_of(2, 2)).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_failed_by_itself_is_not_called_at_rest) {
  WatchedGroup group;
  const auto engine = engine_over(group);
  StepPlan wrong = plan_of(1, 1);
  wrong.prefill.front().id = 9;  // never opened
  BOOST_TEST(!engine->step(wrong).has_value());
  BOOST_TEST(group.calls == "wqq");
}

BOOST_AUTO_TEST_SUITE_END()
