// Every code under every kind of scale, against arithmetic in double; and that codes do not turn into integers.
#include "engram/row.hpp"

#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <type_traits>
#include <vector>

using namespace tandem::engram;

static_assert(!std::is_convertible_v<E4m3, int> && !std::is_convertible_v<E4m3, float>);
static_assert(!std::is_convertible_v<E8m0, int> && !std::is_convertible_v<std::uint8_t, E4m3>);
static_assert(sizeof(E4m3) == 1 && sizeof(E8m0) == 1 && sizeof(RowId) == 4);

namespace {

// The format's definition, in double.
double value_of_code(unsigned byte) {
  const int exponent = static_cast<int>(byte >> 3 & 15U);
  const int mantissa = static_cast<int>(byte & 7U);
  if (exponent == 15 && mantissa == 7) return std::nan("");
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (byte & 128U) != 0 ? -magnitude : magnitude;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row)

BOOST_AUTO_TEST_CASE(all_codes_under_all_scales_have_their_exact_value) {
  for (unsigned scale = 1; scale < 255; ++scale) {
    std::array<E4m3, 256> codes{};
    for (unsigned byte = 0; byte < 256; ++byte) codes[byte] = E4m3(byte);
    std::array<E8m0, 8> scales{};
    scales.fill(E8m0(scale));
    std::array<float, 256> values{};
    dequantise(codes, scales, values);
    for (unsigned byte = 0; byte < 256; ++byte) {
      // Three significant bits: bf16 holds every product exactly down to its own subnormals.
      const double exact = std::ldexp(value_of_code(byte), static_cast<int>(scale) - 127);
      const bool is_nan = std::isnan(exact);
      if (is_nan) BOOST_TEST(std::isnan(values[byte]));
      if (!is_nan && std::abs(exact) >= std::ldexp(1.0, -126) && std::abs(exact) < std::ldexp(1.0, 128)) {
        BOOST_REQUIRE_EQUAL(static_cast<double>(values[byte]), exact);
      }
      if (!is_nan && exact == 0) BOOST_TEST(values[byte] == 0.0F);
    }
  }
}

BOOST_AUTO_TEST_CASE(known_codes_read_as_documented) {
  BOOST_TEST(to_float(E4m3{0x01}) == 0x1p-9F);
  BOOST_TEST(to_float(E4m3{0x7E}) == 448.0F);
  BOOST_TEST(to_float(E4m3{0xFE}) == -448.0F);
  BOOST_TEST(to_float(E4m3{0x38}) == 1.0F);
  BOOST_TEST(std::signbit(to_float(E4m3{0x80})));
  BOOST_TEST(std::isnan(to_float(E4m3{0x7F})));
  BOOST_TEST(std::isnan(to_float(E4m3{0xFF})));
  BOOST_TEST(to_float(E8m0{127}) == 1.0F);
  BOOST_TEST(to_float(E8m0{0}) == 0.0F);
  BOOST_TEST(std::isinf(to_float(E8m0{255})));
}

BOOST_AUTO_TEST_CASE(each_scale_serves_its_own_32_columns) {
  std::vector<E4m3> codes(64, E4m3{0x38});
  const std::vector<E8m0> scales{E8m0{127}, E8m0{130}};
  std::vector<float> values(64);
  dequantise(codes, scales, values);
  BOOST_TEST(values[31] == 1.0F);
  BOOST_TEST(values[32] == 8.0F);
}

BOOST_AUTO_TEST_CASE(rounding_to_bf16_goes_to_nearest_even) {
  const auto bits = [](std::uint32_t word) { return std::bit_cast<float>(word); };
  BOOST_TEST(round_to_bf16(bits(0x3F808000)) == bits(0x3F800000));  // a tie, down to even
  BOOST_TEST(round_to_bf16(bits(0x3F818000)) == bits(0x3F820000));  // a tie, up to even
  BOOST_TEST(round_to_bf16(bits(0x3F808001)) == bits(0x3F810000));
  BOOST_TEST(round_to_bf16(bits(0xBF807FFF)) == bits(0xBF800000));
  BOOST_TEST(std::isinf(round_to_bf16(bits(0x7F7FFFFF))));
  BOOST_TEST(std::isnan(round_to_bf16(bits(0x7F800001))));
}

BOOST_AUTO_TEST_CASE(no_rows_at_all_are_dequantised_to_nothing) {
  dequantise({}, {}, {});
}

BOOST_AUTO_TEST_SUITE_END()
