// Look-up through a two-stage table: 256 code points a block, equal blocks shared, built once from the generated runs.
//
// Most of Unicode is long runs of one class, so about two hundred distinct blocks remain: the table stays in the cache,
// which the generated runs under a binary search would not.
#include "net/text/unicode_class.hpp"

#include "net/text/unicode_class_table.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace tandem::net::text {
namespace {

constexpr std::uint32_t code_points = 0x110000;
constexpr std::uint32_t block_size = 256;
using Block = std::array<UnicodeClass, block_size>;

class ClassTable {
 public:
  ClassTable() {
    const unicode_table::UnicodeRun* run = std::begin(unicode_table::runs);
    for (std::uint32_t first = 0; first < code_points; first += block_size) {
      Block block;
      for (std::uint32_t i = 0; i < block_size; ++i) {
        while (std::next(run) != std::end(unicode_table::runs) && std::next(run)->first <= first + i) ++run;
        block[i] = run->unicode_class;
      }
      block_of_[first / block_size] = place(block);
    }
  }

  UnicodeClass at(std::uint32_t code_point) const noexcept {
    return blocks_[block_of_[code_point / block_size]][code_point % block_size];
  }

 private:
  std::uint16_t place(const Block& block) {
    const auto index = std::find(blocks_.begin(), blocks_.end(), block) - blocks_.begin();
    if (static_cast<std::size_t>(index) == blocks_.size()) blocks_.push_back(block);
    return static_cast<std::uint16_t>(index);
  }

  std::array<std::uint16_t, code_points / block_size> block_of_{};
  std::vector<Block> blocks_;
};

}  // namespace

UnicodeClass unicode_class(std::uint32_t code_point) noexcept {
  static const ClassTable table;
  return code_point < code_points ? table.at(code_point) : UnicodeClass::none;
}

bool is_white_space(std::uint32_t code_point) noexcept {
  if (code_point <= 0x20) return code_point == 0x20 || (code_point >= 0x09 && code_point <= 0x0D);
  if (code_point < 0x1680) return code_point == 0x85 || code_point == 0xA0;
  return code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

}  // namespace tandem::net::text
