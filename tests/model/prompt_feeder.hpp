// PromptFeeder: one prompt fed in different ways to one model, and all that may not depend on the way: its last row,
// the rows that follow it greedily, and the caches behind them. For any backend; no test macros.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/engine_pass.hpp"
#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu::test {

struct Feeding {
  std::int32_t chunk = 1;   // most rows of the prompt in a step
  bool has_others = false;  // three other sequences have rows in every step, in front of it and behind it
  bool is_one = false;      // short steps as one, each prepared while the one before it runs
  std::string text() const {
    return "chunks of " + std::to_string(chunk) + (has_others ? ", with others" : ", alone") +
           (is_one ? ", as one" : "");
  }
};

// Bits that must be the same.
struct Ending {
  std::vector<float> hidden, logits;  // of the prompt's last row and of the greedy ones
  std::vector<std::int32_t> tokens;   // the best of each row
  std::vector<std::byte> caches;      // all entries and index keys, and the windows that a next row would see
  bool operator==(const Ending&) const = default;
};

// Chunks that a prompt of some rows more than the largest is fed in.
inline constexpr std::array<std::int32_t, 5> exactness_chunks{1, 17, 128, 1024, 2048};
inline constexpr std::int32_t exactness_rows = 2100, greedy_rows = 4;

class PromptFeeder {
 public:
  // A prompt of random tokens; `model` must outlive this. Errors: of plan_caches.
  static Result<std::unique_ptr<PromptFeeder>> make(const Model& model, std::int32_t prompt_rows) {
    const std::int64_t positions = prompt_rows + greedy_rows + exactness_chunks.back();
    auto layout = plan_caches(model.config, model.numerics,
                              {positions, 2 * positions + 4 * other_positions, 4, exactness_chunks.back()});
    if (!layout) return layout.error();
    return std::unique_ptr<PromptFeeder>(new PromptFeeder(model, prompt_rows, std::move(*layout)));
  }

  // Errors: of the pools and the forward pass.
  Result<Ending> feed(const Feeding& how) {
    how_ = how;
    pass_.forget();
    if (auto ok = open(); !ok) return ok.error();
    Ending ending;
    const auto prompt_rows = static_cast<std::int32_t>(prompt_.size());
    for (std::int32_t fed = 0; fed < prompt_rows; fed += how.chunk) {
      const std::int32_t count = std::min(how.chunk, prompt_rows - fed);
      const auto first = static_cast<std::size_t>(fed);
      if (auto ok = step(std::span(prompt_).subspan(first, static_cast<std::size_t>(count)), ending); !ok)
        return ok.error();
    }
    for (std::int32_t i = 0; i < greedy_rows; ++i) {
      const std::int32_t token = ending.tokens.back();
      if (auto ok = step({&token, 1}, ending); !ok) return ok.error();
    }
    if (auto ok = read_caches(ending.caches); !ok) return ok.error();
    return ending;
  }

 private:
  static constexpr std::int64_t other_positions = 256;
  struct Other {
    std::unique_ptr<SequenceState> state;
    std::int32_t count = 1;  // rows in each step
  };

  PromptFeeder(const Model& model, std::int32_t prompt_rows, CacheLayout layout)
      : model_(model), pools_(std::move(layout), model.ops->memory()), forward_(model), pass_(forward_) {
    while (static_cast<std::int32_t>(prompt_.size()) < prompt_rows) prompt_.push_back(draw());
  }

  std::int32_t draw() {
    return static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(model_.config.vocab_size - 16)) + 3;
  }

  Result<void> open() {
    own_.reset();
    others_ = {};
    auto own = pools_.open(pools_.layout().limits.max_positions);
    if (!own) return own.error();
    own_ = std::move(*own);
    for (std::size_t i = 0; how_.has_others && i < others_.size(); ++i) {
      auto other = pools_.open(other_positions);
      if (!other) return other.error();
      others_[i] = {std::move(*other), i == 0 ? 2 : 1};
    }
    return {};
  }

  // Adds rows of another sequence, which starts over when the next ones would not fit behind them.
  Result<void> add_other(Other& other, RowBatch& rows) {
    if (!other.state) return {};
    SequenceState& state = *other.state;
    if (state.length() + 2 * other.count > state.capacity()) {
      if (auto ok = state.truncate(0); !ok) return ok;
    }
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(other.count));
    for (std::int32_t& token : tokens) token = draw();
    const std::int64_t first = state.length();
    if (auto ok = state.append(tokens); !ok) return ok;
    rows.add(state, first, other.count);
    return {};
  }

  // One step; the sequence's newest row is read if it is the prompt's last one or behind it.
  Result<void> step(std::span<const std::int32_t> tokens, Ending& ending) {
    PassRows pass;
    const auto count = static_cast<std::int32_t>(tokens.size());
    for (Other* other : {&others_[0], &others_[1]}) {
      if (auto ok = add_other(*other, pass.rows); !ok) return ok;
    }
    const std::int64_t first = own_->length();
    if (auto ok = own_->append(tokens); !ok) return ok;
    pass.rows.add(*own_, first, count);
    const std::int32_t newest = pass.rows.rows() - 1;
    if (auto ok = add_other(others_[2], pass.rows); !ok) return ok;
    // A step that was prepared has the logits of all rows.
    const bool is_short = how_.is_one && pass.rows.rows() <= 64;
    const std::int32_t first_wanted = is_short ? 0 : newest, wanted = is_short ? pass.rows.rows() : 1;
    for (std::int32_t i = 0; i < wanted; ++i) pass.wanted.push_back(first_wanted + i);
    const auto done = how_.is_one ? pass_.run(pass) : plain(pass);
    if (!done) return done.error();
    if (is_short) prepare(count);
    if (own_->length() < static_cast<std::int64_t>(prompt_.size())) return {};
    return read_row(*done, newest, newest - first_wanted, ending);
  }

  Result<PassResult> plain(const PassRows& pass) {
    auto passed = forward_.run(pass.rows, {});
    if (!passed) return passed.error();
    const auto logits = forward_.logits(*passed, pass.wanted);
    if (!logits) return logits.error();
    return PassResult{std::move(*passed), *logits};
  }

  void prepare(std::int32_t count) {
    std::vector<NextRows> next;
    const auto add = [&](const Other& other) {
      if (other.state) next.push_back({other.state.get(), other.count});
    };
    add(others_[0]);
    add(others_[1]);
    next.push_back({own_.get(), count});
    add(others_[2]);
    pass_.prepare(next, false);
  }

  Result<void> read_row(const PassResult& done, std::int32_t row, std::int32_t logits_row, Ending& ending) {
    std::vector<float> logits;
    if (auto ok = append(done.rows.hidden.slice_rows(row, 1), ending.hidden); !ok) return ok;
    if (auto ok = append(done.logits.slice_rows(logits_row, 1), logits); !ok) return ok;
    ending.tokens.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    ending.logits.insert(ending.logits.end(), logits.begin(), logits.end());
    return {};
  }

  Result<void> append(const Tensor& row, std::vector<float>& values) {
    const std::size_t before = values.size();
    values.resize(before + static_cast<std::size_t>(row.cols));
    return model_.ops->memory().download(row.data, std::as_writable_bytes(std::span(values).subspan(before)));
  }

  Result<void> read_caches(std::vector<std::byte>& bytes) {
    const std::int64_t length = own_->length();
    for (const SourceLayout& source : pools_.layout().sources) {
      if (auto ok = read_entries(own_->entries(source.layer), length / source.ratio, bytes); !ok) return ok;
      if (!source.has_index_keys) continue;
      if (auto ok = read_entries(own_->index_keys(source.layer), length / source.ratio, bytes); !ok) return ok;
    }
    for (int layer = 0; layer < model_.config.layers; ++layer) {
      const RecordRing ring = own_->window(layer);
      for (std::int64_t at = std::max<std::int64_t>(0, length - model_.config.window + 1); at < length; ++at) {
        if (auto ok = append_bytes(ring.at(at), record_bytes(ring.format, ring.n), bytes); !ok) return ok;
      }
    }
    return {};
  }

  // Entries of a page follow each other.
  Result<void> read_entries(const PagedRecords& records, std::int64_t count, std::vector<std::byte>& bytes) {
    for (std::int64_t first = 0; first < count; first += page_entries) {
      const auto some = static_cast<std::size_t>(std::min<std::int64_t>(page_entries, count - first));
      if (auto ok = append_bytes(records.at(first), some * record_bytes(records.format, records.n), bytes); !ok)
        return ok;
    }
    return {};
  }

  Result<void> append_bytes(const std::byte* from, std::size_t count, std::vector<std::byte>& bytes) {
    bytes.resize(bytes.size() + count);
    return model_.ops->memory().download(from, std::span(bytes).last(count));
  }

  const Model& model_;
  CachePools pools_;
  ForwardPass forward_;
  EnginePass pass_;
  std::mt19937 random_{17};
  std::vector<std::int32_t> prompt_;
  Feeding how_;
  std::unique_ptr<SequenceState> own_;
  std::array<Other, 3> others_;
};

}  // namespace tandem::gpu::test
