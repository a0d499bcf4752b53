// A side of a comparison: an engine's passes over the golden model, prepared ahead where a script says so, or the same
// passes operation by operation by someone who never prepares.
#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/engine_pass.hpp"
#include "tests/build_paths.hpp"
#include "tests/model/golden_fixture.hpp"
#include "tests/model/played_ops_fixture.hpp"

namespace tandem::gpu::test {

inline constexpr std::int32_t prompt_rows = 20, rows_of_one = 64;

// The golden model with operations that can be prepared.
struct PlayedModel {
  std::unique_ptr<Communicator> communicator = make_solo_communicator();
  std::unique_ptr<Model> model;
  PlayedOps* ops = nullptr;
};

inline PlayedModel load_played() {
  PlayedModel loaded;
  ModelOptions options;
  options.folder = golden_model_folder() / "ckpt";
  options.max_positions = 256;
  auto model = load_model(options, *loaded.communicator, {}, nullptr);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
  loaded.model = std::move(*model);
  auto ops = std::make_unique<PlayedOps>(std::move(loaded.model->ops));
  loaded.ops = ops.get();
  loaded.model->ops = std::move(ops);
  return loaded;
}

inline const PlayedModel& played() {
  static const PlayedModel loaded = load_played();
  return loaded;
}

// A sequence and the number that its tokens follow from.
struct Line {
  std::unique_ptr<SequenceState> state;
  std::int32_t number = 0;
};

struct Feed {
  Line& line;
  std::int32_t count = 1;
  TokenKind kind = TokenKind::text;
};

struct How {
  bool taps = false;
  Probe* probe = nullptr;
  std::vector<std::int32_t> upper_rows;
  std::int32_t unwanted = 0;  // first rows whose logits nobody needs
};

// An engine's passes, of which some are prepared, or the same ones operation by operation.
class PassSide {
 public:
  explicit PassSide(bool prepares) : model_(*played().model), prepares_(prepares), forward_(model_), pass_(forward_) {
    auto layout = plan_caches(model_.config, model_.numerics, {256, 1024, 3, 128});
    BOOST_REQUIRE(layout.has_value());
    pools_ = std::make_unique<CachePools>(std::move(*layout), model_.ops->memory());
    // The workspace of later passes is one block, and none of them makes it larger.
    Line largest = open();
    for (int i = 0; i < 2; ++i) {
      auto passed = plain(fed({{largest, rows_of_one}}, {true, nullptr, {}, 0}));
      BOOST_REQUIRE(passed.has_value());
      overwrite_rest();
    }
    pass_.forget();
    seen_.clear();
  }

  // A sequence that holds a prompt.
  Line open() {
    auto state = pools_->open(200);
    BOOST_REQUIRE(state.has_value());
    Line line{std::move(*state), ++lines_};
    read(plain(fed({{line, prompt_rows}}, {})));
    return line;
  }

  void prepare(const std::vector<NextRows>& next, bool taps = false) {
    if (prepares_) pass_.prepare(next, taps);
  }
  void forget() { pass_.forget(); }

  // Runs a step, then prepares the next one, if any, and only then reads what the step has left.
  void step(const std::vector<Feed>& feeds, const How& how = {}, const std::vector<NextRows>& next = {}) {
    const PassRows pass = fed(feeds, how);
    const auto passed = prepares_ ? pass_.run(pass) : plain(pass);
    if (!next.empty()) prepare(next, how.taps);
    overwrite_rest();
    read(passed);
  }

  // Rows whose bits show what state the passes so far have left, operation by operation.
  void look_behind(const std::vector<std::reference_wrapper<Line>>& lines) {
    for (Line& line : lines) {
      for (const std::int32_t count : {1, 2, 3}) read(plain(fed({{line, count}}, {true, nullptr, {}, 0})));
    }
  }

  // Hidden rows, taps and logits of all steps.
  const std::vector<float>& seen() const { return seen_; }

 private:
  static PassRows fed(const std::vector<Feed>& feeds, const How& how) {
    PassRows pass;
    for (const Feed& feed : feeds) {
      SequenceState& state = *feed.line.state;
      const std::int64_t first = state.length();
      std::vector<std::int32_t> tokens;
      for (std::int64_t at = first; at < first + feed.count; ++at) {
        tokens.push_back(static_cast<std::int32_t>((7 * at + 31 * feed.line.number) % 250));
      }
      BOOST_REQUIRE(state.append(tokens, feed.kind).has_value());
      pass.rows.add(state, first, feed.count);
    }
    pass.options.taps = how.taps;
    pass.options.probe = how.probe;
    pass.options.upper_rows = how.upper_rows;
    for (std::int32_t row = how.unwanted; row < pass.rows.rows(); ++row) pass.wanted.push_back(row);
    return pass;
  }

  Result<PassResult> plain(const PassRows& pass) {
    auto passed = forward_.run(pass.rows, pass.options);
    if (!passed) return passed.error();
    PassResult result{std::move(*passed), {}};
    if (pass.wanted.empty()) return result;
    const auto logits = forward_.logits(result.rows, pass.wanted);
    if (!logits) return logits.error();
    result.logits = *logits;
    return result;
  }

  // Fills memory behind the last pass, as its users do.
  void overwrite_rest() {
    const Workspace::Scope scope(forward_.workspace());
    const std::vector<float> values(std::size_t{1} << 16, std::numeric_limits<float>::quiet_NaN());
    const Tensor rest = forward_.workspace().f32(1, static_cast<std::int64_t>(values.size()));
    model_.ops->memory().upload(std::as_bytes(std::span(values)), rest.data);
  }

  void read(const Result<PassResult>& passed) {
    BOOST_REQUIRE_MESSAGE(passed.has_value(), (passed ? std::string() : passed.error().message()));
    for (const Tensor& tensor : {passed->rows.hidden, passed->rows.taps, passed->logits}) {
      Buffer copy;
      const auto values = on_host(model_.ops->memory(), tensor, copy);
      BOOST_REQUIRE(values.has_value());
      if (values->empty()) continue;
      seen_.insert(seen_.end(), values->row<float>(0), values->row<float>(values->rows));
    }
  }

  const Model& model_;
  bool prepares_;
  std::unique_ptr<CachePools> pools_;
  ForwardPass forward_;
  EnginePass pass_;
  std::int32_t lines_ = 0;
  std::vector<float> seen_;
};

}  // namespace tandem::gpu::test
