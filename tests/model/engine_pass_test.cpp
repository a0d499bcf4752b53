// EnginePass: what was prepared runs if it is what is asked for, and never instead of anything else; rows, logits and
// the state behind them are those of passes that nobody prepared.
#include "gpu/engine_pass.hpp"

#include <boost/test/unit_test.hpp>
#include <functional>

#include "tests/model/pass_side.hpp"

namespace tandem::gpu::test {
namespace {

// What a script of steps is to make ready, and how much of that is to run.
struct Expected {
  int prepared = 1;
  int started = 0;
};

void check(const std::string& what, const Expected& expected, const std::function<void(PassSide&)>& script) {
  BOOST_TEST_CONTEXT(what) {
    PassSide plain(false);
    const Played none = played().ops->played();
    script(plain);
    BOOST_TEST(played().ops->played().prepared == none.prepared);
    PassSide ahead(true);
    const Played before = played().ops->played();
    script(ahead);
    const Played& after = played().ops->played();
    BOOST_TEST(after.prepared - before.prepared == expected.prepared);
    BOOST_TEST(after.prepared_starts - before.prepared_starts == expected.started);
    BOOST_TEST(!plain.seen().empty());
    BOOST_TEST((ahead.seen() == plain.seen()), "bits differ");
  }
}

NextRows next_of(const Line& line, std::int32_t count = 1) {
  return {line.state.get(), count};
}

// A step that differs from the one of `rows` rows that was prepared.
void check_not_started(const std::string& what, std::int32_t rows, const Feed& fed_instead, const How& how) {
  check(what, {1, 0}, [&](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line, rows)});
    side.step({{line, fed_instead.count, fed_instead.kind}}, how);
    side.look_behind({line});
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_pass)

BOOST_AUTO_TEST_CASE(the_pass_that_was_prepared_is_the_one_that_runs) {
  for (const std::int32_t rows : {1, 2, 6, rows_of_one}) {
    check(std::to_string(rows) + " rows", {1, 1}, [&](PassSide& side) {
      Line line = side.open();
      side.prepare({next_of(line, rows)});
      side.step({{line, rows}});
      side.look_behind({line});
    });
  }
}

BOOST_AUTO_TEST_CASE(a_pass_over_several_sequences_is_prepared_in_their_order) {
  check("in order", {1, 1}, [](PassSide& side) {
    Line first = side.open(), second = side.open();
    side.prepare({next_of(second, 2), next_of(first)}, true);
    side.step({{second, 2}, {first}}, {true, nullptr, {}, 0});
    side.look_behind({first, second});
  });
  check("the other way round", {1, 0}, [](PassSide& side) {
    Line first = side.open(), second = side.open();
    side.prepare({next_of(first), next_of(second)});
    side.step({{second}, {first}});
    side.look_behind({first, second});
  });
  check("without the second", {1, 0}, [](PassSide& side) {
    Line first = side.open(), second = side.open();
    side.prepare({next_of(first), next_of(second)});
    side.step({{first}});
    side.look_behind({first, second});
  });
  check("with one more", {1, 0}, [](PassSide& side) {
    Line first = side.open(), second = side.open();
    side.prepare({next_of(first)});
    side.step({{first}, {second}});
    side.look_behind({first, second});
  });
}

BOOST_AUTO_TEST_CASE(a_pass_of_other_rows_is_not_the_prepared_one) {
  Line none;
  check_not_started("more rows", 1, {none, 2}, {});
  check_not_started("fewer rows", 3, {none, 1}, {});
  check_not_started("an image", 1, {none, 1, TokenKind::image}, {});
  check_not_started("a row without logits", 2, {none, 2}, {false, nullptr, {}, 1});
  check_not_started("no logits at all", 2, {none, 2}, {false, nullptr, {}, 2});
}

BOOST_AUTO_TEST_CASE(a_pass_with_other_options_is_not_the_prepared_one) {
  Line none;
  check_not_started("taps", 2, {none, 2}, {true, nullptr, {}, 0});
  check_not_started("rows that reach the top", 2, {none, 2}, {false, nullptr, {2}, 0});
  Recorder probe;
  check_not_started("a probe", 2, {none, 2}, {false, &probe, {}, 0});
  BOOST_TEST(!probe.seen.empty());
  check("no taps", {1, 0}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line)}, true);
    side.step({{line}});
    side.look_behind({line});
  });
}

BOOST_AUTO_TEST_CASE(a_pass_from_another_position_is_not_the_prepared_one) {
  check("one position back", {1, 0}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line)});
    BOOST_REQUIRE(line.state->truncate(prompt_rows - 1).has_value());
    side.step({{line}});
    side.look_behind({line});
  });
}

// The state of the new one may lie where that of the old one was.
BOOST_AUTO_TEST_CASE(what_was_prepared_is_void_when_sequences_come_or_go) {
  check("another one of the same length", {1, 0}, [](PassSide& side) {
    Line line = side.open(), other = side.open();
    side.prepare({next_of(line), next_of(other)});
    side.forget();
    line.state.reset();
    line = side.open();
    side.step({{line}, {other}});
    side.look_behind({line, other});
  });
  check("the same one, after others came or went", {1, 0}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line)});
    side.forget();
    side.step({{line}});
    side.look_behind({line});
  });
}

BOOST_AUTO_TEST_CASE(only_what_was_prepared_last_can_start) {
  check("fewer rows instead", {2, 1}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line, 3)});
    side.prepare({next_of(line)});
    side.step({{line}});
    side.look_behind({line});
  });
  check("nothing instead", {1, 0}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line)});
    side.prepare({});
    side.step({{line}});
    side.look_behind({line});
  });
  // A long pass does not tell the backend to discard anything.
  check("a pass that was prepared before a long one ran", {1, 0}, [](PassSide& side) {
    Line line = side.open(), other = side.open();
    side.prepare({next_of(line)});
    side.step({{other, rows_of_one + 1}});
    side.step({{line}});
    side.look_behind({line, other});
  });
  check("a pass that was prepared before another one ran", {1, 0}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line, 2)});
    side.step({{line}});
    BOOST_REQUIRE(line.state->truncate(prompt_rows).has_value());
    side.step({{line, 2}});
    side.look_behind({line});
  });
}

BOOST_AUTO_TEST_CASE(a_long_pass_is_not_prepared) {
  check("a row too many", {0, 0}, [](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line, rows_of_one + 1)});
    side.step({{line, rows_of_one + 1}});
    side.look_behind({line});
  });
}

BOOST_AUTO_TEST_CASE(a_backend_may_refuse_and_forget) {
  PlayedOps& ops = *played().ops;
  check("refused", {0, 0}, [&](PassSide& side) {
    Line line = side.open();
    ops.refuse(true);
    side.prepare({next_of(line)});
    ops.refuse(false);
    side.step({{line}});
    side.look_behind({line});
  });
  check("discarded by another body", {1, 0}, [&](PassSide& side) {
    Line line = side.open();
    side.prepare({next_of(line)});
    BOOST_REQUIRE(ops.run_as_one([]() -> Result<void> { return {}; }).has_value());
    side.step({{line}});
    side.look_behind({line});
  });
}

// Each step prepares its successor while its own results are still to be read. Guesses of two rows are wrong.
BOOST_AUTO_TEST_CASE(steps_that_prepare_each_other_have_the_bits_of_steps_that_do_not) {
  struct Guess {
    std::int32_t rows, guessed;
  };
  check("eleven steps", {11, 7}, [](PassSide& side) {
    Line first = side.open(), second = side.open();
    for (const Guess step : {Guess{1, 1}, {1, 6}, {6, 6}, {6, 1}, {1, 2}, {1, 2}, {6, 2}, {1, 1}, {1, 1}, {1, 6}}) {
      side.step({{first, step.rows}, {second}}, {}, {next_of(first, step.guessed), next_of(second)});
    }
    side.step({{first, 6}, {second}}, {}, {next_of(first), next_of(second)});
    side.look_behind({first, second});
  });
}

BOOST_AUTO_TEST_CASE(preparing_in_host_memory_changes_nothing) {
  Rig& rig = shared_rig("serve");
  const std::vector<std::int32_t> token{5};
  const auto fed = rig.open(), prepared = rig.open();
  rig.feed(*fed, tokens_of("p17"));
  const Logits expected = rig.feed(*fed, token);
  rig.feed(*prepared, tokens_of("p17"));
  EnginePass pass(*rig.forward);
  const NextRows next[] = {{prepared.get(), 1}};
  pass.prepare(next, false);
  PassRows rows;
  BOOST_REQUIRE(prepared->append(token).has_value());
  rows.rows.add(*prepared, prepared->length() - 1, 1);
  rows.wanted = {0};
  const auto passed = pass.run(rows);
  BOOST_REQUIRE(passed.has_value());
  const Tensor& logits = passed->logits;
  BOOST_TEST((Logits(logits.row<float>(0), logits.row<float>(1)) == expected));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
