// Manifests are computed from what is served; a folder is checked name by name.
#include "tests/fetch/model_folder_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <span>

#include "engram/sha256.hpp"
#include "tests/e2e/tandem_process.hpp"

namespace tandem::net::fetch::test {

gpu::Manifest manifest_of(const Contents& files, const std::string& revision) {
  gpu::Manifest manifest{revision, {}};
  for (const auto& [path, content] : files)
    manifest.files.push_back({path, content.size(), engram::sha256_hex(std::as_bytes(std::span(content)))});
  return manifest;
}

void publish(FaultyServer& server, const Contents& files, const std::string& revision) {
  for (const auto& [path, content] : files) server.put("/model/" + path, content);
  server.put("/model/tandem-manifest.json", gpu::to_json(manifest_of(files, revision)));
}

Target::Target(const std::string& from) {
  options.from = from;
  options.folder = folder.path();
  options.limits.segment_bytes = 16 << 10;
  options.limits.connect = std::chrono::milliseconds(2000);
  options.limits.read = std::chrono::milliseconds(tandem::test::is_sanitized ? 2000 : 400);
  options.limits.attempts = 4;
  options.limits.backoff_first = std::chrono::milliseconds(1);
  options.limits.backoff_max = std::chrono::milliseconds(4);
  options.watch.announce = [this](const std::string& text) { announced += text + '\n'; };
}

std::string Target::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Target::write(const std::string& name, const std::string& content) const {
  std::filesystem::create_directories(path(name).parent_path());
  std::ofstream(path(name), std::ios::binary) << content;
}

FetchReport Target::fetch_all() {
  const auto report = fetch(options);
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message() + "\n" + announced));
  return *report;
}

Error Target::fetch_fails() {
  const auto report = fetch(options);
  BOOST_REQUIRE(!report);
  return report.error();
}

void Target::check_holds(const Contents& files) const {
  for (const auto& [name, content] : files) BOOST_TEST((read(name) == content), name << " has other bytes");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    BOOST_TEST(name.find(".part") == std::string::npos, name << " is left over");
  }
}

}  // namespace tandem::net::fetch::test
