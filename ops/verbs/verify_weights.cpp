// `tandem verify-weights`: is this folder the model that it should be? Eight named checks, each with what it saw.
//
// W1 to W5 read headers and take seconds. W6 reads every byte that no receipt vouches for, when asked to.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <iostream>
#include <memory>

#include "gpu/weights_files/byte_count.hpp"
#include "gpu/weights_files/hash_check.hpp"
#include "gpu/weights_files/header_checks.hpp"
#include "gpu/weights_files/packed_table_check.hpp"
#include "net/sync/ask_peer.hpp"
#include "ops/deployment.hpp"
#include "ops/verb.hpp"
#include "ops/verbs/token_option.hpp"

namespace tandem::ops {

namespace {

namespace json = boost::json;

struct Arguments {
  std::string model;
  std::string packed_dir;  // empty = the model folder
  std::string state_dir;
  int ranks = 1;
  int threads = 4;
  bool wants_hashes = false;
  bool wants_all_hashes = false;
  bool writes_manifest = false;
  std::string revision;
  std::string peer_hash;
  net::sync::PeerAddressText peer;
  bool json = false;
};

// One line, rewritten on a terminal; nothing elsewhere.
bool show_progress(const gpu::HashProgress& now) {
  if (::isatty(STDERR_FILENO) == 0) return true;
  std::cerr << fmt::format("\rhashing: {} of {} files, {} of {}, {:.0f} MB/s, {:.0f} s left \033[K", now.files_done,
                           now.files_total, gpu::bytes_text(now.bytes_done), gpu::bytes_text(now.bytes_total),
                           now.bytes_per_s / 1e6, now.eta_s);
  if (now.files_done == now.files_total) std::cerr << "\r\033[K";
  return true;
}

gpu::HashCheckOptions hash_options(const Arguments& arguments) {
  gpu::HashCheckOptions options;
  options.depth = arguments.wants_all_hashes ? gpu::HashDepth::all
                  : arguments.wants_hashes   ? gpu::HashDepth::unverified
                                             : gpu::HashDepth::changed;
  std::map<std::string, std::string> flags;
  if (!arguments.state_dir.empty()) flags["state.dir"] = arguments.state_dir;
  const auto settings = Settings::resolve(flags, {});
  const auto folder = settings ? state_folder(*settings) : settings.error();
  if (folder) options.state_folder = *folder;
  options.hash.threads = arguments.threads;
  options.hash.progress = show_progress;
  return options;
}

gpu::PeerRevision peer_revision(const Arguments& arguments) {
  if (!arguments.peer_hash.empty()) return {arguments.peer_hash, "", {}};
  if (arguments.peer.address.empty())
    return {std::nullopt, "no other node was named (--peer, --peer-manifest-hash)", {}};
  const auto revision = net::sync::ask_revision(arguments.peer);
  if (!revision) return {std::nullopt, "", revision.error()};
  if (revision->manifest_hash.empty()) return {std::nullopt, "the other node has no manifest", {}};
  return {revision->manifest_hash, "", {}};
}

std::vector<gpu::WeightCheck> run_checks(const Arguments& arguments) {
  std::vector<gpu::WeightCheck> checks;
  gpu::FilesCheck files = gpu::check_files(arguments.model);
  const gpu::WeightHeaders& headers = files.headers;
  checks.push_back(std::move(files.verdict));
  checks.push_back(gpu::check_counts(headers));
  checks.push_back(gpu::check_tensors(headers));
  checks.push_back(gpu::check_packed_matrices(headers));
  checks.push_back(gpu::check_tables(headers));
  checks.push_back(gpu::check_hashes(arguments.model, hash_options(arguments)));
  checks.push_back(gpu::check_revision(arguments.model, peer_revision(arguments)));
  const std::string& packed = arguments.packed_dir.empty() ? arguments.model : arguments.packed_dir;
  checks.push_back(gpu::check_packed_tables(headers, packed, arguments.ranks));
  return checks;
}

// A model that cannot be loaded is a load error; anything else that is not as it should be, a failure.
int exit_code_of(const std::vector<gpu::WeightCheck>& checks) {
  int code = exit_done;
  for (const gpu::WeightCheck& check : checks) {
    if (check.verdict != gpu::CheckVerdict::fail) continue;
    if (check.stops_loading) return exit_load_error;
    code = exit_failed;
  }
  return code;
}

json::value json_of(const gpu::WeightCheck& check) {
  json::array faults;
  for (const Error& fault : check.faults) {
    faults.push_back({{"code", to_string(fault.code)},
                      {"where", fault.where},
                      {"found", fault.found},
                      {"expected", fault.expected}});
  }
  return {{"id", check.id},
          {"what", check.what},
          {"verdict", std::string(to_string(check.verdict))},
          {"detail", check.detail},
          {"faults", std::move(faults)}};
}

void print_json(const Arguments& arguments, const std::vector<gpu::WeightCheck>& checks, int exit_code) {
  json::array list;
  for (const gpu::WeightCheck& check : checks) list.push_back(json_of(check));
  std::cout << json::serialize(json::value{{"model", arguments.model}, {"checks", list}, {"exit_code", exit_code}})
            << '\n';
}

void print_text(const std::vector<gpu::WeightCheck>& checks) {
  for (const gpu::WeightCheck& check : checks) {
    std::cout << fmt::format("{} {:8}{}{}{}\n", check.id, to_string(check.verdict), check.what,
                             check.detail.empty() ? "" : ": ", check.detail);
    for (const Error& fault : check.faults) std::cout << "     " << fault.message() << '\n';
  }
}

int write_manifest_file(const Arguments& arguments) {
  const auto manifest = gpu::make_manifest(arguments.model, arguments.revision, [&] {
    gpu::HashCheckOptions options = hash_options(arguments);
    if (options.depth == gpu::HashDepth::changed) options.depth = gpu::HashDepth::unverified;
    return options;
  }());
  const auto written = manifest ? gpu::write_manifest(arguments.model, *manifest) : manifest.error();
  if (!written) {
    std::cerr << "tandem verify-weights: " << written.error().message() << '\n';
    return exit_failed;
  }
  std::cerr << fmt::format("{} files are in {}, revision {:.16}...\n", manifest->files.size(), gpu::manifest_file_name,
                           gpu::manifest_hash(*manifest));
  return exit_done;
}

// What is wrong with the options is told before hundreds of gigabytes are hashed.
Result<void> check_peer_options(const Arguments& arguments) {
  const net::sync::PeerAddressText& peer = arguments.peer;
  if (peer.address.empty() && peer.token_file.empty()) return {};
  if (const auto token = read_token(peer.token_file); !token) return token.error();
  if (peer.address.empty()) return {};
  const auto address = net::sync::parse_peer_address(peer.address);
  if (address) return {};
  Error error = address.error();
  error.where = "--peer " + error.where;
  return error;
}

int verify_weights(const Arguments& arguments) {
  if (auto ok = check_peer_options(arguments); !ok) {
    std::cerr << "tandem verify-weights: " << ok.error().message() << '\n';
    return ok.error().code == ErrorCode::io ? exit_failed : exit_usage;
  }
  if (arguments.writes_manifest) {
    if (const int failed = write_manifest_file(arguments); failed != exit_done) return failed;
  }
  const auto checks = run_checks(arguments);
  const int code = exit_code_of(checks);
  if (arguments.json) {
    print_json(arguments, checks, code);
  } else {
    print_text(checks);
  }
  return code;
}

}  // namespace

void add_verify_weights(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("verify-weights", "is a folder the model that it should be: checks W1 to W8");
  verb->add_option("--model", arguments->model, "model folder")->required()->check(CLI::ExistingDirectory);
  verb->add_option("--packed-dir", arguments->packed_dir, "folder of packed Engram files; default: the model folder");
  verb->add_option("--ranks", arguments->ranks, "ranks of the deployment, for the packed files")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_flag("--hashes", arguments->wants_hashes, "hash every file that no receipt vouches for; needs a manifest");
  verb->add_flag("--rehash,--full", arguments->wants_all_hashes, "hash every file, whatever the receipts say");
  verb->add_flag("--write-manifest", arguments->writes_manifest,
                 "list what lies in the folder in tandem-manifest.json");
  verb->add_option("--revision", arguments->revision, "name of the revision in a written manifest");
  verb->add_option("--peer-manifest-hash", arguments->peer_hash, "revision that the other node holds")
      ->check([](const std::string& hash) {
        const bool is_hash = hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
        return is_hash ? std::string{} : std::string("64 lower-case hexadecimal digits are wanted");
      });
  verb->add_option("--peer", arguments->peer.address, "ask the other node, HOST[:PORT] of its tandem sync --serve");
  verb->add_option("--token-file", arguments->peer.token_file, "shared secret of the two nodes, mode 600");
  verb->add_option("--threads", arguments->threads, "files hashed at the same time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_option("--state-dir", arguments->state_dir, "where receipts go if the model folder cannot be written");
  verb->add_flag("--json", arguments->json, "one JSON object");
  verb->callback([arguments, &run] { run = [arguments] { return verify_weights(*arguments); }; });
}

}  // namespace tandem::ops
