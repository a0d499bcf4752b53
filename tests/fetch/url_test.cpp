// Addresses: what is accepted, what is never repeated, and where a relative one leads.
#include "net/fetch/url.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_url)

BOOST_AUTO_TEST_CASE(an_address_is_read_and_written_back) {
  const struct {
    const char *text, *host, *port, *target, *written;
  } cases[] = {
      {"http://a/b", "a", "80", "/b", "http://a/b"},
      {"HTTPS://Example.ORG", "example.org", "443", "/", "https://example.org/"},
      {"https://a:8443/x?y=1#z", "a", "8443", "/x?y=1", "https://a:8443/x?y=1"},
      {"http://[::1]:80/x", "::1", "80", "/x", "http://[::1]/x"},
      {"http://[::1]/x", "::1", "80", "/x", "http://[::1]/x"},
      {"http://a?q", "a", "80", "/?q", "http://a/?q"},
  };
  for (const auto& c : cases) {
    const auto url = Url::parse(c.text);
    BOOST_REQUIRE_MESSAGE(url, c.text);
    BOOST_TEST(url->host == c.host);
    BOOST_TEST(url->port == c.port);
    BOOST_TEST(url->target == c.target);
    BOOST_TEST(url->text() == c.written);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_address_is_refused_and_a_password_is_not_repeated) {
  for (const char* text :
       {"", "a/b", "ftp://a/b", "http://", "http://:80/", "http://a:0/", "http://a:65536/", "http://a:x/",
        "http://[::1/x", "http://a b/", "http://a/\r\nX: y", "http://name:secret@a/b", "http://a\\b"}) {
    const auto url = Url::parse(text);
    BOOST_REQUIRE_MESSAGE(!url, text);
    BOOST_TEST((url.error().code == ErrorCode::bad_config));
    BOOST_TEST(url.error().message().find("secret") == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_file_below_a_folder_is_encoded_and_keeps_the_query) {
  const auto encoded = Url::parse("http://a/m")->child("exl3/q n/100%.safetensors");
  BOOST_TEST(encoded.target == "/m/exl3/q%20n/100%25.safetensors");
  BOOST_TEST(Url::parse("http://a/m/?sig=1")->child("x").target == "/m/x?sig=1");
  BOOST_TEST(Url::parse("http://a/m/?sig=1")->child("x").text_without_query() == "http://a/m/x");
}

BOOST_AUTO_TEST_CASE(a_location_leads_where_rfc_3986_says) {
  const auto from = Url::parse("https://a:8443/m/x?q");
  const struct {
    const char *location, *to;
  } cases[] = {{"https://b/y?sig=1", "https://b/y?sig=1"},
               {"//b/y", "https://b/y"},
               {"/y", "https://a:8443/y"},
               {"y", "https://a:8443/m/y"},
               {"y?to=http://c/", "https://a:8443/m/y?to=http://c/"}};
  for (const auto& c : cases) BOOST_TEST(from->follow(c.location)->text() == c.to);
  for (const char* location : {"", "ftp://b/y", "http://u:p@b/y"}) BOOST_TEST(!from->follow(location));
}

BOOST_AUTO_TEST_CASE(only_a_whole_commit_pins_a_revision) {
  const std::string commit(40, 'a');
  const auto hub = HubAddress::parse(*Url::parse("https://h/owner/name/resolve/main/"));
  BOOST_REQUIRE(hub);
  BOOST_TEST(hub->revision == "main");
  BOOST_TEST(!hub->is_pinned());
  BOOST_TEST(hub->at(commit).text() == "https://h/owner/name/resolve/" + commit);
  BOOST_TEST(HubAddress::parse(hub->at(commit))->is_pinned());
  BOOST_TEST(!HubAddress::parse(hub->at(commit.substr(1)))->is_pinned());
  for (const char* other :
       {"https://h/owner/name", "https://h/resolve/main", "https://h/o/n/resolve/", "https://h/o/resolve/a/b"})
    BOOST_TEST(!HubAddress::parse(*Url::parse(other)), other);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
