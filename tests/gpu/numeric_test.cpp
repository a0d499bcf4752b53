// Number formats, quantisers and records against the golden codes and against exhaustive round trips.
#include <boost/test/unit_test.hpp>

#include <limits>

#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/kv_record.hpp"
#include "gpu/numeric/bf16.hpp"
#include "gpu/numeric/minifloat.hpp"
#include "gpu/numeric/quantise.hpp"
#include "tests/gpu/golden_ops_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

constexpr std::size_t width = 128;  // columns of quant.x

const GoldenFile& ops_file() {
  static const GoldenFile file("ops.safetensors");
  return file;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(numeric)

BOOST_AUTO_TEST_CASE(every_e4m3_code_survives_decoding_and_encoding) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(code));
    BOOST_TEST(int{e4m3_code(round_to_e4m3(value))} == code);
  }
  BOOST_TEST(e4m3_to_float(0x01) == 0x1p-9F);
  BOOST_TEST(e4m3_to_float(0x7E) == 448.0F);
  BOOST_TEST(std::isnan(e4m3_to_float(0x7F)));
}

BOOST_AUTO_TEST_CASE(e4m3_rounds_to_the_nearest_even_code_between_all_neighbours) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = e4m3_to_float(static_cast<std::uint8_t>(code)),
                high = e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    BOOST_TEST(round_to_e4m3(middle) == (code % 2 == 0 ? low : high));
    BOOST_TEST(round_to_e4m3(std::nextafter(middle, high)) == high);
    BOOST_TEST(round_to_e4m3(std::nextafter(middle, low)) == low);
  }
}

BOOST_AUTO_TEST_CASE(e2m1_ties_go_to_the_even_code) {
  const std::pair<float, float> ties[] = {{.25F, 0.F}, {.75F, 1.F}, {1.25F, 1.F}, {1.75F, 2.F},
                                          {2.5F, 2.F}, {3.5F, 4.F}, {5.F, 4.F},   {7.F, 6.F}};
  for (const auto& [value, rounded] : ties) {
    BOOST_TEST(round_to_e2m1(value) == rounded);
    BOOST_TEST(round_to_e2m1(-value) == -rounded);
  }
  for (int code = 0; code < 16; ++code)
    BOOST_TEST(int{e2m1_code(e2m1_to_float(static_cast<std::uint8_t>(code)))} == code);
}

BOOST_AUTO_TEST_CASE(every_f16_code_survives_decoding_and_encoding) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const float value = f16_to_float(static_cast<std::uint16_t>(code));
    if (std::isnan(value)) continue;
    BOOST_TEST_REQUIRE(float_to_f16(value) == code);
  }
  BOOST_TEST(float_to_f16(65520.0F) == 0x7C00);
  BOOST_TEST(float_to_f16(65519.0F) == 0x7BFF);
  BOOST_TEST(float_to_f16(0x1p-25F) == 0);
}

BOOST_AUTO_TEST_CASE(bf16_ties_go_to_even_and_nan_stays_nan) {
  BOOST_TEST(float_to_bf16(std::bit_cast<float>(0x3F808000U)) == 0x3F80);
  BOOST_TEST(float_to_bf16(std::bit_cast<float>(0x3F818000U)) == 0x3F82);
  BOOST_TEST(std::isnan(round_to_bf16(std::bit_cast<float>(0x7F800001U))));
  BOOST_TEST(std::isinf(round_to_bf16(std::numeric_limits<float>::max())));
}

BOOST_AUTO_TEST_CASE(q8_codes_and_scales_equal_the_golden_ones) {
  const auto x = ops_file().floats("quant.x");
  const auto codes = ops_file().raw<std::uint8_t>("q8.codes"), scales = ops_file().raw<std::uint8_t>("q8.scale_bytes");
  for (std::size_t i = 0; i < x.size(); i += q8_group) {
    std::uint8_t own[q8_group];
    BOOST_TEST(quantise_q8({x.data() + i, q8_group}, own) == scales[i / q8_group]);
    BOOST_TEST(std::equal(own, own + q8_group, codes.begin() + static_cast<std::ptrdiff_t>(i)));
  }
}

BOOST_AUTO_TEST_CASE(records_hold_the_golden_codes_and_read_back_the_golden_values) {
  const auto x = ops_file().floats("quant.x");
  const struct {
    RecordFormat format;
    const char* name;
  } cases[] = {{RecordFormat::w8, "w8"}, {RecordFormat::x4, "x4"}, {RecordFormat::n4, "n4"}};
  for (const auto& c : cases) {
    const auto y = ops_file().floats(std::string(c.name) + ".y");
    std::vector<std::byte> record(record_bytes(c.format, width));
    for (std::size_t row = 0; row * width < x.size(); ++row) {
      write_record(c.format, {x.data() + row * width, width}, record.data());
      std::vector<float> back(width);
      read_record(c.format, record.data(), back);
      BOOST_TEST(std::equal(back.begin(), back.end(), y.begin() + static_cast<std::ptrdiff_t>(row * width)),
                 c.name << " row " << row);
      if (c.format == RecordFormat::w8) continue;
      const auto packed = ops_file().raw<std::byte>(std::string(c.name) + ".packed");
      const auto scales = ops_file().raw<std::byte>(std::string(c.name) + ".scale_bytes");
      const std::size_t groups = record.size() - width / 2;
      BOOST_TEST(std::equal(record.begin(), record.begin() + width / 2,
                            packed.begin() + static_cast<std::ptrdiff_t>(row * width / 2)));
      BOOST_TEST(std::equal(record.begin() + width / 2, record.end(),
                            scales.begin() + static_cast<std::ptrdiff_t>(row * groups)));
    }
  }
}

BOOST_AUTO_TEST_CASE(records_have_the_sizes_of_the_released_model) {
  BOOST_TEST(record_bytes(RecordFormat::w8, 512) == 528U);
  BOOST_TEST(record_bytes(RecordFormat::n4, 512) == 288U);
  BOOST_TEST(record_bytes(RecordFormat::x4, 128) == 68U);
  BOOST_TEST(record_bytes(RecordFormat::f32, 512) == 2048U);
}

BOOST_AUTO_TEST_CASE(a_nan_in_a_row_comes_back_as_nan_from_every_record) {
  for (const RecordFormat format : {RecordFormat::w8, RecordFormat::x4, RecordFormat::n4}) {
    std::vector<float> x(width, 6.0F), back(width);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    x[40] = std::numeric_limits<float>::infinity();
    std::vector<std::byte> record(record_bytes(format, width));
    write_record(format, x, record.data());
    read_record(format, record.data(), back);
    BOOST_TEST(std::isnan(back[5]));
    BOOST_TEST(!std::isfinite(back[40]));
    BOOST_TEST(back[100] == 6.0F);
  }
}

BOOST_AUTO_TEST_CASE(the_vectorised_q8_equals_the_scalar_one_also_on_a_ragged_end) {
  auto x = ops_file().floats("quant.x");
  x.push_back(3.3F);
  x.push_back(-0.7F);
  std::vector<float> fast = x;
  simd::fake_q8(fast.data(), static_cast<std::int64_t>(fast.size()));
  for (std::size_t i = 0; i < x.size(); i += q8_group) {
    std::uint8_t codes[q8_group];
    const std::size_t n = std::min<std::size_t>(q8_group, x.size() - i);
    const float scale = e8m0_to_float(quantise_q8({x.data() + i, n}, codes));
    for (std::size_t j = 0; j < n; ++j) BOOST_TEST_REQUIRE(same_bits(fast[i + j], e4m3_to_float(codes[j]) * scale));
  }
}

BOOST_AUTO_TEST_CASE(vectorised_decoding_equals_scalar_decoding_of_every_code) {
  std::vector<std::uint8_t> codes(256 + 7), scales(9);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(100 + 5 * i);
  std::vector<float> fast(2 * codes.size());
  const auto n = static_cast<std::int64_t>(codes.size());
  simd::decode_fp8(codes.data(), scales.data(), n, fast.data());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const float value = e4m3_to_float(codes[i]) * e8m0_to_float(scales[i / 32]);
    BOOST_TEST_REQUIRE((std::isnan(value) ? std::isnan(fast[i]) : same_bits(fast[i], value)));
  }
  scales.resize(40, 0x38);
  simd::decode_fp4(codes.data(), scales.data(), 2 * n, fast.data());
  for (std::size_t i = 0; i < fast.size(); ++i) {
    BOOST_TEST_REQUIRE(fast[i] == e2m1_to_float(static_cast<std::uint8_t>(codes[i / 2] >> (4 * (i % 2)))) *
                                      e8m0_to_float(scales[i / 32]));
  }
  simd::decode_n4(codes.data(), scales.data(), 2 * n, fast.data());
  for (std::size_t i = 0; i < fast.size(); ++i) {
    BOOST_TEST_REQUIRE(fast[i] == e2m1_to_float(static_cast<std::uint8_t>(codes[i / 2] >> (4 * (i % 2)))) *
                                      e4m3_to_float(scales[i / 16]));
  }
}

BOOST_AUTO_TEST_CASE(exp_is_within_one_ulp_and_has_the_right_limits) {
  double worst = 0;
  for (float x = -87.0F; x < 88.7F; x += 0.01371F) {
    float y = x;
    simd::exp(&y, 1);
    const double exact = std::exp(double{x});
    const double ulp = double{std::nextafter(static_cast<float>(exact), std::numeric_limits<float>::infinity())} -
                       static_cast<float>(exact);
    worst = std::max(worst, std::abs(y - exact) / ulp);
  }
  BOOST_TEST(worst <= 1.0);
  float limits[] = {-1000.0F,
                    1000.0F,
                    -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::infinity(),
                    0.0F,
                    std::numeric_limits<float>::quiet_NaN()};
  simd::exp(limits, 6);
  BOOST_TEST(limits[0] == 0.0F);
  BOOST_TEST(std::isinf(limits[1]));
  BOOST_TEST(limits[2] == 0.0F);
  BOOST_TEST(std::isinf(limits[3]));
  BOOST_TEST(limits[4] == 1.0F);
  BOOST_TEST(std::isnan(limits[5]));
}

BOOST_AUTO_TEST_SUITE_END()
