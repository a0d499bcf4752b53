// EXL3 tiles to f32.
//
// Column c of a tile holds positions 32 c .. 32 c + 31 of the walk, interleaved with column c + 8: its 16 rows are four
// groups of four states, 10 steps long each, and every group lies inside 16 bytes that begin at a whole word. So a
// group is one load, one byte shuffle (which also turns the words' bytes into stream order), one shift by lane and a
// mask; shuffles and shifts are the same for all eight columns, the next column begins `bits` words further on.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/exl3_decode.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <cstring>

#include "gpu/cpu/exl3_kernels.hpp"
#include "gpu/cpu/simd/lanes_inl.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

// A tile copied to where the word before its first one is its last one, and 16 bytes may be read behind it.
struct RoundTile {
  static constexpr int first = 4;
  HWY_ALIGN std::uint32_t words[first + 8 * exl3::bits_max + 4] = {};

  void copy(const std::uint16_t* tile, int bits) {
    std::memcpy(words + first, tile, static_cast<std::size_t>(32 * bits));
    words[first - 1] = words[first + 8 * bits - 1];
  }
};

// How the 16 states of a column are taken out of a tile, for columns c (half 0) and c + 8 (half 1).
struct Extraction {
  struct Half {
    HWY_ALIGN std::uint8_t bytes[64];   // byte shuffle of each group's 16 bytes
    HWY_ALIGN std::uint32_t shift[16];  // right shift of each row's word
    std::int64_t word[4];               // where each group's 16 bytes begin, from the column's first word
  };
  Half half[2];
  int bits;

  explicit Extraction(int bits_in) : bits(bits_in) {
    for (int h = 0; h < 2; ++h) {
      for (int row = 0; row < 16; ++row) set_row(half[h], h, row);
    }
  }

 private:
  // The three bytes that hold the state's bits, most significant last, and the bits below it.
  void set_row(Half& into, int h, int row) const {
    const int group = row / 4;
    const int base = first_bit(exl3::position_of({4 * group, 8 * h}));
    const int word = (base + 32) / 32 - 1;  // rounded down; base is at least -15
    const int offset = first_bit(exl3::position_of({row, 8 * h})) - 32 * word;
    into.word[group] = word;
    for (int i = 0; i < 4; ++i) {
      const int stream_byte = offset / 8 + 2 - i;
      into.bytes[4 * row + i] = static_cast<std::uint8_t>(i < 3 ? stream_byte ^ 3 : 0x80);
    }
    into.shift[row] = static_cast<std::uint32_t>(8 - offset % 8);
  }
  int first_bit(int position) const { return (position + 1) * bits - 16; }
};

#if HWY_TARGET != HWY_SCALAR

using Block = hn::Full128<std::uint8_t>;
using Bytes = hn::Repartition<std::uint8_t, Floats>;

// The 16-byte groups from `group` on, as many as a vector holds.
HWY_INLINE hn::Vec<Bytes> load_groups(const std::uint32_t* column, const std::int64_t* word) {
  constexpr Block block;
  const auto load = [&](int i) { return hn::LoadU(block, reinterpret_cast<const std::uint8_t*>(column + word[i])); };
#if HWY_TARGET <= HWY_AVX3
  constexpr hn::Full256<std::uint8_t> pair;
  return hn::Combine(Bytes(), hn::Combine(pair, load(3), load(2)), hn::Combine(pair, load(1), load(0)));
#elif HWY_TARGET <= HWY_AVX2
  return hn::Combine(Bytes(), load(1), load(0));
#else
  return load(0);
#endif
}

// Nearest FP16 value of |v| < 65520: the same steps as in the plain codebook; no result is a negative zero.
HWY_INLINE V rounded_f16(V v) {
  constexpr Floats d;
  constexpr Bits du;
  const auto exponent = hn::And(hn::BitCast(du, v), hn::Set(du, 0x7F800000U));
  const V power = hn::BitCast(d, hn::Max(exponent, hn::Set(du, 113U << 23)));
  const V magic = hn::Mul(power, hn::Set(d, 1.5F * (1 << 13)));
  return hn::Sub(hn::Add(v, magic), magic);
}

struct ByteSum {  // MUL1
  std::uint32_t multiplier;

  HWY_INLINE V operator()(hn::Vec<Bits> state) const {
    constexpr Floats d;
    constexpr Bits du;
    const auto even = hn::Set(du, 0x00FF00FFU);
    const auto x = hn::Mul(state, hn::Set(du, multiplier));
    const auto pairs = hn::Add(hn::And(x, even), hn::And(hn::ShiftRight<8>(x), even));
    const auto sum = hn::And(hn::Add(pairs, hn::ShiftRight<16>(pairs)), hn::Set(du, 0xFFFFU));
    const V bytes = hn::ConvertTo(d, hn::BitCast(Ints(), sum));
    // Exact: the offset at 1024 folded in is -3.453125, and the result is a multiple of 2^-18 below 4.
    constexpr float offset = 1024.0F * exl3::mul1_step + exl3::mul1_offset;
    return rounded_f16(hn::Add(hn::Mul(bytes, hn::Set(d, exl3::mul1_step)), hn::Set(d, offset)));
  }
};

struct HalfPair {  // 3INST and MCG
  std::uint32_t multiplier;
  std::uint32_t addend;

  HWY_INLINE V operator()(hn::Vec<Bits> state) const {
    constexpr Bits du;
    const auto hashed = hn::Add(hn::Mul(state, hn::Set(du, multiplier)), hn::Set(du, addend));
    const auto x = hn::Xor(hn::And(hashed, hn::Set(du, exl3::half_pair_mask)), hn::Set(du, exl3::half_pair_flip));
    return rounded_f16(hn::Add(widened(hn::ShiftLeft<16>(x)), widened(x)));
  }

 private:
  // The upper FP16 of each word; its exponent is 2^-3 to 2^0, so it is never zero, subnormal or infinite.
  static HWY_INLINE V widened(hn::Vec<Bits> x) {
    constexpr Bits du;
    const auto sign = hn::And(x, hn::Set(du, 0x80000000U));
    const auto magnitude = hn::And(hn::ShiftRight<3>(x), hn::Set(du, 0x0FFFE000U));
    return hn::BitCast(Floats(), hn::Or(sign, hn::Add(magnitude, hn::Set(du, 112U << 23))));
  }
};

template <class Hash>
HWY_INLINE void decode_column(const Extraction::Half& half, const std::uint32_t* column, Hash hash, float* out) {
  constexpr Floats d;
  constexpr Bits du;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  for (int row = 0; row < 16; row += width) {
    const auto groups = load_groups(column, half.word + row / 4);
    const auto bytes = hn::TableLookupBytes(groups, hn::Load(Bytes(), half.bytes + 4 * row));
    const auto shifted = hn::Shr(hn::BitCast(du, bytes), hn::Load(du, half.shift + row));
    hn::StoreU(hash(hn::And(shifted, hn::Set(du, 0xFFFFU))), d, out + row);
  }
}

template <class Hash>
void decode_strip(const Exl3Strip& strip, Hash hash) {
  const int bits = strip.form.bits;
  const Extraction extraction(bits);
  // The next tile is copied before this one is decoded: its words have left the store queue when they are read.
  RoundTile tiles[2];
  tiles[0].copy(strip.words, bits);
  for (std::int64_t i = 0; i < strip.tiles; ++i) {
    if (i + 1 < strip.tiles) tiles[(i + 1) % 2].copy(strip.words + (i + 1) * strip.form.tile_words(), bits);
    const std::uint32_t* column = tiles[i % 2].words + RoundTile::first;
    float* out = strip.out + 16 * i;
    for (int c = 0; c < 8; ++c, column += bits) {
      decode_column(extraction.half[0], column, hash, out + c * strip.out_stride);
      decode_column(extraction.half[1], column, hash, out + (c + 8) * strip.out_stride);
    }
  }
}

void DecodeExl3(const Exl3Strip& strip) {
  if (strip.tiles == 0) return;
  const exl3::Hash hash = exl3::hash_of(strip.form.codebook);
  if (strip.form.codebook == exl3::Codebook::mul1) return decode_strip(strip, ByteSum{hash.multiplier});
  decode_strip(strip, HalfPair{hash.multiplier, hash.addend});
}

#else

void DecodeExl3(const Exl3Strip& strip) {
  const auto words = static_cast<std::size_t>(strip.form.tile_words());
  for (std::int64_t i = 0; i < strip.tiles; ++i) {
    float tile[exl3::tile_weights];
    exl3::decode_tile({strip.words + i * strip.form.tile_words(), words}, strip.form, tile);
    for (int c = 0; c < 16; ++c) {
      for (int r = 0; r < 16; ++r) strip.out[c * strip.out_stride + 16 * i + r] = tile[r * 16 + c];
    }
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(DecodeExl3);

void decode_exl3(const Exl3Strip& strip) {
  HWY_DYNAMIC_DISPATCH(DecodeExl3)(strip);
}

}  // namespace tandem::gpu::simd
#endif
