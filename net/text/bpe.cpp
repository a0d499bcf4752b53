// The merge loop, worked through on "aaab" with the rules  aa -> A (rank 0),  Ab -> C (rank 1):
//
//   symbols a a a b   heap (0,at 0) (0,at 1)          pop (0,0): symbols A . a b, new pair (A,a): no rule
//   symbols A . a b   heap (0,at 1)                   pop (0,1): stale, symbol 1 is gone
//
// A heap entry is only a proposal: it stands if both its symbols are still what they were when it was made.
#include "net/text/bpe.hpp"

#include "net/text/piece_cache.hpp"

#include <algorithm>
#include <bit>
#include <queue>

namespace tandem::net::text {
namespace {

constexpr std::uint32_t nowhere = ~std::uint32_t{0};

struct Symbol {
  TokenId token;
  std::uint32_t previous;
  std::uint32_t next;
  bool is_alive;
};

struct Proposal {
  std::uint32_t rank;
  std::uint32_t left;  // index of the left symbol; lower is more to the left
  TokenId left_token;
  TokenId right_token;
  TokenId result;

  // Orders a max-heap so that the lowest rank, then the leftmost pair, is on top.
  friend bool operator<(const Proposal& a, const Proposal& b) noexcept {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};

// The symbols of one piece and the merges proposed for them.
class MergeList {
 public:
  MergeList(const MergeTable& merges, std::string_view piece, const std::array<TokenId, 256>& byte_tokens)
      : merges_(merges) {
    const auto count = static_cast<std::uint32_t>(piece.size());
    symbols_.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const TokenId token = byte_tokens[static_cast<unsigned char>(piece[i])];
      symbols_.push_back({token, i == 0 ? nowhere : i - 1, i + 1 == count ? nowhere : i + 1, true});
    }
    std::vector<Proposal> initial;
    initial.reserve(count);
    proposals_ = std::priority_queue<Proposal>(std::less<Proposal>(), std::move(initial));
    for (std::uint32_t i = 0; i + 1 < count; ++i) propose(i);
  }

  void run(const std::stop_token& stop) {
    while (!proposals_.empty() && !stop.stop_requested()) {
      const Proposal top = proposals_.top();
      proposals_.pop();
      if (stands(top)) apply(top);
    }
  }

  void append_to(std::vector<TokenId>& out) const {
    for (std::uint32_t i = 0; i != nowhere; i = symbols_[i].next) out.push_back(symbols_[i].token);
  }

 private:
  void propose(std::uint32_t left) {
    const std::uint32_t right = symbols_[left].next;
    if (right == nowhere) return;
    const TokenId left_token = symbols_[left].token, right_token = symbols_[right].token;
    if (const Merge* merge = merges_.find(left_token, right_token)) {
      proposals_.push({merge->rank, left, left_token, right_token, merge->result});
    }
  }

  bool stands(const Proposal& proposal) const {
    const Symbol& left = symbols_[proposal.left];
    return left.is_alive && left.token == proposal.left_token && left.next != nowhere &&
           symbols_[left.next].token == proposal.right_token;
  }

  void apply(const Proposal& proposal) {
    Symbol& left = symbols_[proposal.left];
    Symbol& right = symbols_[left.next];
    left.token = proposal.result;
    right.is_alive = false;
    left.next = right.next;
    if (left.next != nowhere) symbols_[left.next].previous = proposal.left;
    propose(proposal.left);
    if (left.previous != nowhere) propose(left.previous);
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Proposal> proposals_;
};

// The same merges for a short piece, without any allocation: the lowest rank is searched anew each time, which for at
// most 64 symbols is faster than keeping a heap.
class ShortMerge {
 public:
  ShortMerge(const MergeTable& merges, std::string_view piece, const std::array<TokenId, 256>& byte_tokens)
      : merges_(merges), count_(piece.size()) {
    for (std::size_t i = 0; i < count_; ++i) tokens_[i] = byte_tokens[static_cast<unsigned char>(piece[i])];
    for (std::size_t i = 0; i + 1 < count_; ++i) look_up(i);
  }

  void run() {
    while (count_ > 1) {
      const auto lowest = std::min_element(ranks_.begin(), ranks_.begin() + static_cast<std::ptrdiff_t>(count_ - 1));
      if (*lowest == no_rank) return;
      apply(static_cast<std::size_t>(lowest - ranks_.begin()));
    }
  }

  void append_to(std::vector<TokenId>& out) const {
    out.insert(out.end(), tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(count_));
  }

 private:
  static constexpr std::uint32_t no_rank = ~std::uint32_t{0};

  void look_up(std::size_t left) {
    const Merge* merge = merges_.find(tokens_[left], tokens_[left + 1]);
    ranks_[left] = merge == nullptr ? no_rank : merge->rank;
    results_[left] = merge == nullptr ? 0 : merge->result;
  }

  void apply(std::size_t left) {
    tokens_[left] = results_[left];
    --count_;
    for (std::size_t i = left + 1; i < count_; ++i) {
      tokens_[i] = tokens_[i + 1];
      ranks_[i] = ranks_[i + 1];
      results_[i] = results_[i + 1];
    }
    if (left + 1 < count_) look_up(left);
    if (left > 0) look_up(left - 1);
  }

  const MergeTable& merges_;
  std::size_t count_;
  // One more than a piece has, so that a shift may read one past its last symbol.
  std::array<TokenId, PieceCache::piece_bytes_max + 1> tokens_{};
  std::array<std::uint32_t, PieceCache::piece_bytes_max + 1> ranks_{};  // of the pair that begins here
  std::array<TokenId, PieceCache::piece_bytes_max + 1> results_{};
};

std::uint64_t pair_key(TokenId left, TokenId right) noexcept {
  return (std::uint64_t{left} << 32) | right;
}

}  // namespace

MergeTable::MergeTable(std::size_t rules_max) : slots_(std::bit_ceil(std::max<std::size_t>(rules_max, 8) * 2)) {}

std::size_t MergeTable::slot_of(std::uint64_t key) const noexcept {
  // Fibonacci hashing: the product's high bits depend on all bits of the key.
  const std::uint64_t product = key * 0x9E3779B97F4A7C15ull;
  std::size_t slot = static_cast<std::size_t>((product ^ (product >> 32)) & (slots_.size() - 1));
  while (slots_[slot].key != empty_key && slots_[slot].key != key) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  Slot& slot = slots_[slot_of(pair_key(left, right))];
  if (slot.key == empty_key) slot = {pair_key(left, right), merge};
}

const Merge* MergeTable::find(TokenId left, TokenId right) const noexcept {
  const Slot& slot = slots_[slot_of(pair_key(left, right))];
  return slot.key == empty_key ? nullptr : &slot.merge;
}

BytePairEncoder::BytePairEncoder(std::array<TokenId, 256> byte_tokens, MergeTable merges)
    : byte_tokens_(byte_tokens), merges_(std::move(merges)), cache_(std::make_unique<PieceCache>()) {}

BytePairEncoder::BytePairEncoder(BytePairEncoder&&) noexcept = default;
BytePairEncoder& BytePairEncoder::operator=(BytePairEncoder&&) noexcept = default;
BytePairEncoder::~BytePairEncoder() = default;

void BytePairEncoder::encode(std::string_view piece, std::vector<TokenId>& out, const std::stop_token& stop) const {
  if (piece.empty()) return;
  if (piece.size() > PieceCache::piece_bytes_max) return merge_long(piece, out, stop);
  if (cache_->find(piece, out)) return;
  const std::size_t begin = out.size();
  ShortMerge merge(merges_, piece, byte_tokens_);
  merge.run();
  merge.append_to(out);
  cache_->store(piece, out.data() + begin, out.size() - begin);
}

void BytePairEncoder::merge_long(std::string_view piece, std::vector<TokenId>& out, const std::stop_token& stop) const {
  MergeList list(merges_, piece, byte_tokens_);
  list.run(stop);
  list.append_to(out);
}

}  // namespace tandem::net::text
