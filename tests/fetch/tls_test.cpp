// Certificates: whom a fetch believes. Made by the test, for this machine's loopback address.
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <boost/asio/ssl.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_tls)

// A key and a certificate that it signed itself, as PEM files in a folder.
class SelfSigned {
 public:
  explicit SelfSigned(const char* name, long seconds = 3600) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, name);
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate, key, EVP_sha256());
    std::FILE* file = std::fopen(certificate_file().c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    context_.use_certificate_file(certificate_file(), boost::asio::ssl::context::pem);
    context_.use_private_key_file(key_file(), boost::asio::ssl::context::pem);
  }

  std::string certificate_file() const { return (folder_.path() / "certificate.pem").string(); }
  std::string key_file() const { return (folder_.path() / "key.pem").string(); }
  boost::asio::ssl::context* context() { return &context_; }

 private:
  engram::test::TemporaryFolder folder_;
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_server};
};

const Contents files{{"a.safetensors", make_content(50'000, 1)}};

BOOST_AUTO_TEST_CASE(a_certificate_that_is_trusted_lets_the_model_through) {
  SelfSigned identity("IP:127.0.0.1");
  FaultyServer server(identity.context());
  publish(server, files);
  Target target(server.url("/model"));
  target.options.access.ca_file = identity.certificate_file();
  target.options.access.token = "t0ken";
  target.fetch_all();
  target.check_holds(files);
  for (const Ask& ask : server.asked()) BOOST_TEST(ask.authorization == "Bearer t0ken");
}

BOOST_AUTO_TEST_CASE(a_certificate_that_nobody_vouches_for_is_refused_at_once) {
  SelfSigned identity("IP:127.0.0.1");
  FaultyServer server(identity.context());
  publish(server, files);
  Target target(server.url("/model"));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::mismatch));
  BOOST_TEST(error.message().find("certificate is refused") != std::string::npos, error.message());
  BOOST_TEST(server.asked().empty());
  BOOST_TEST(target.announced.empty());  // no second attempt
}

// The list came another way, so the first file is the first to meet it; the others would meet it too.
BOOST_AUTO_TEST_CASE(a_refused_certificate_ends_the_whole_at_the_first_file) {
  SelfSigned identity("IP:127.0.0.1");
  FaultyServer server(identity.context());
  const Contents many{{"a", "1"}, {"b", "2"}, {"c", "3"}};
  Target target(server.url("/model"));
  target.write("list.json", gpu::to_json(manifest_of(many)));
  target.options.manifest_file = target.path("list.json");
  target.options.limits.connections = 1;
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(target.announced.empty(), target.announced);
}

BOOST_AUTO_TEST_CASE(another_hosts_or_an_old_certificate_is_refused) {
  SelfSigned other("DNS:example.org");
  SelfSigned old("IP:127.0.0.1", -3600);
  for (SelfSigned* identity : {&other, &old}) {
    FaultyServer server(identity->context());
    publish(server, files);
    Target target(server.url("/model"));
    target.options.access.ca_file = identity->certificate_file();
    BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
    BOOST_TEST(server.asked().empty());
  }
}

BOOST_AUTO_TEST_CASE(drops_and_stalls_inside_tls_are_survived) {
  SelfSigned identity("IP:127.0.0.1");
  FaultyServer server(identity.context());
  publish(server, files);
  server.behave([](const Ask& ask) {
    Act act;
    if (ask.path != "/model/a.safetensors" || ask.nth > 4) return act;
    act.cut_after = 5000;
    act.stalls = ask.nth == 2;
    return act;
  });
  Target target(server.url("/model"));
  target.options.access.ca_file = identity.certificate_file();
  target.fetch_all();
  target.check_holds(files);
}

BOOST_AUTO_TEST_CASE(a_redirection_out_of_tls_is_refused) {
  SelfSigned identity("IP:127.0.0.1");
  FaultyServer plain;
  plain.put("/a", files.at("a.safetensors"));
  FaultyServer server(identity.context());
  publish(server, files);
  server.behave([&](const Ask& ask) {
    Act act;
    if (ask.path != "/model/a.safetensors") return act;
    act.status = 302;
    act.fields = {{"Location", plain.url("/a")}};
    return act;
  });
  Target target(server.url("/model"));
  target.options.access.ca_file = identity.certificate_file();
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(plain.asked().empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
