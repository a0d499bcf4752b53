// A model as a server has it, and the folder that it is fetched into.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "net/fetch/fetch.hpp"
#include "tests/engram/temporary_folder.hpp"
#include "tests/fetch/faulty_server_fixture.hpp"

namespace tandem::net::fetch::test {

using Contents = std::map<std::string, std::string>;  // by path

gpu::Manifest manifest_of(const Contents& files, const std::string& revision = "r1");
// Puts the files and their manifest below /model.
void publish(FaultyServer& server, const Contents& files, const std::string& revision = "r1");

// A folder of a test's own and the options of a fetch into it, with little patience.
struct Target {
  engram::test::TemporaryFolder folder;
  FetchOptions options;
  std::string announced;  // one line each

  explicit Target(const std::string& from);
  std::filesystem::path path(const std::string& name) const { return folder.path() / name; }
  // Returns a file's bytes; empty if there is none.
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& content) const;
  bool has(const std::string& name) const { return std::filesystem::exists(path(name)); }
  // Requires success.
  FetchReport fetch_all();
  // Requires an error.
  Error fetch_fails();
  // Every file is there with its bytes, and nothing is left of the way they came.
  void check_holds(const Contents& files) const;
};

}  // namespace tandem::net::fetch::test
