// The examples of FIPS 180-4 and every split of a message.
#include "engram/sha256.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

using namespace tandem::engram;

BOOST_AUTO_TEST_SUITE(sha256)

namespace {
std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}
}  // namespace

BOOST_AUTO_TEST_CASE(published_examples_are_reproduced) {
  BOOST_TEST(sha256_hex({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(sha256_hex(bytes("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(sha256_hex(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  BOOST_TEST(sha256_hex(bytes("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
                              "lmnopqrsmnopqrstnopqrstu")) ==
             "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  BOOST_TEST(sha256_hex(bytes(std::string(1'000'000, 'a'))) ==
             "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

BOOST_AUTO_TEST_CASE(the_digest_does_not_depend_on_how_the_message_is_cut) {
  std::string message;
  for (int i = 0; i < 200; ++i) message += static_cast<char>(i);
  for (std::size_t length = 0; length <= message.size(); ++length) {
    const std::string part = message.substr(0, length);
    const std::string whole = sha256_hex(bytes(part));
    for (const std::size_t cut : {std::size_t{0}, length / 3, length / 2, length}) {
      Sha256 hash;
      hash.update(bytes(part).first(cut));
      hash.update(bytes(part).subspan(cut));
      BOOST_REQUIRE_EQUAL(to_hex(hash.finish()), whole);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
