// The checksum is the published CRC-32C, in one piece or in many.
#include "engram/pack/crc32c.hpp"

#include <boost/test/unit_test.hpp>
#include <string_view>
#include <vector>

using namespace tandem::engram;

namespace {

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(crc32c_checksum)

BOOST_AUTO_TEST_CASE(it_gives_the_published_values) {
  BOOST_TEST(crc_of("") == 0U);
  BOOST_TEST(crc_of("123456789") == 0xE3069283U);
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and ascending.
  std::vector<std::byte> bytes(32);
  BOOST_TEST(crc32c(bytes) == 0x8A9136AAU);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
  BOOST_TEST(crc32c(bytes) == 0x62A8AB43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  BOOST_TEST(crc32c(bytes) == 0x46DD794EU);
}

BOOST_AUTO_TEST_CASE(any_cut_gives_the_same_value) {
  std::vector<std::byte> bytes(61);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto all = std::span<const std::byte>(bytes);
    BOOST_TEST(crc32c(all.subspan(cut), crc32c(all.first(cut))) == whole);
  }
}

BOOST_AUTO_TEST_SUITE_END()
