// `tandem sync`: brings the weights of this node to others, or answers another node that does so.
//
// The head runs it with --to; the other node has `tandem sync --receive` (or --serve, if it only answers questions)
// listening on its fabric address. Both have the same token file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <iostream>
#include <memory>

#include "gpu/checkpoint/layers.hpp"
#include "net/sync/answerer.hpp"
#include "net/sync/ask_peer.hpp"
#include "net/sync/sender.hpp"
#include "net/sync/server.hpp"
#include "ops/deployment.hpp"
#include "ops/process_signals.hpp"
#include "ops/verb.hpp"
#include "ops/verbs/sync_backends.hpp"
#include "ops/verbs/token_option.hpp"

namespace tandem::ops {

namespace {

namespace json = boost::json;
using Millis = std::chrono::milliseconds;

int fail(const Error& error) {
  std::cerr << "tandem sync: " << error.message() << '\n';
  const bool is_usage = error.code == ErrorCode::bad_config || error.code == ErrorCode::invalid_argument;
  return is_usage ? exit_usage : exit_failed;
}

void announce(const std::string& text) {
  std::cerr << "tandem sync: " << text << '\n';
}

// Command line, configuration file, environment, in this order. Returns the state folder.
Result<std::filesystem::path> take_settings(SyncArguments& arguments) {
  std::erase_if(arguments.given, [](const auto& setting) { return setting.second.empty(); });
  const auto settings = Settings::resolve(arguments.given, arguments.config);
  if (!settings) return settings.error();
  for (const std::string& note : settings->notes()) announce(note);
  arguments.model = settings->text("model.dir");
  arguments.backend = settings->text("weights.sync");
  if (arguments.model.empty())
    return Error{ErrorCode::bad_config, "--model", "no folder", "the model folder (or model.dir)"};
  return state_folder(*settings);
}

// ---- the node that answers ----

int answer_others(const SyncArguments& arguments, const std::filesystem::path& state) {
  const auto listen = net::sync::parse_listen_address(arguments.listen);
  if (!listen) return fail(listen.error());
  const auto token = read_token(arguments.token_file);
  if (!token) return fail(token.error());
  std::error_code failed;
  if (arguments.receives) std::filesystem::create_directories(arguments.model, failed);
  if (!std::filesystem::is_directory(arguments.model, failed))
    return fail({ErrorCode::not_found, arguments.model, "no folder", "a model folder"});

  ProcessSignals signals;
  net::sync::Answerer answerer({arguments.model, state, arguments.mounts, arguments.receives});
  net::sync::ServerOptions options{*listen, *token, arguments.timeouts(), announce, {}};
  if (arguments.is_once) options.on_session_end = [&signals] { signals.post({exit_done, "a copy is complete"}); };
  net::sync::SyncServer server(options, answerer);
  const auto port = server.start();
  if (!port) return fail(port.error());
  std::cout << fmt::format("listening on {}", net::sync::PeerAddress{listen->host, *port}.text()) << std::endl;
  const auto event = signals.wait();
  server.stop();
  const auto counts = server.counts();
  const auto taken = answerer.counts();
  std::cout << fmt::format("{} connections, {} refused, {} lost; {} files taken, {} chunks of {} bytes\n",
                           counts.accepted, counts.refused, counts.broken, taken.files, taken.chunks,
                           taken.chunk_bytes);
  return event ? event->exit_code : exit_done;
}

// ---- the node that sends ----

class CopyReporter {
 public:
  CopyReporter(const SyncArguments& arguments, std::string peer) : arguments_(arguments), peer_(std::move(peer)) {}

  bool progress(const net::sync::CopyProgress& now) const {
    if (arguments_.json) {
      print({{"phase", "copying"},
             {"to", peer_},
             {"bytes_done", now.bytes_done},
             {"bytes_total", now.bytes_total},
             {"files_done", now.files_done},
             {"files_total", now.files_total},
             {"bytes_per_s", now.bytes_per_s},
             {"eta_s", now.eta_s}});
    } else if (is_terminal_) {
      std::cerr << fmt::format("\r{}: {} of {} files, {:.2f} of {:.2f} GiB, {:.0f} MB/s, {:.0f} s left \033[K", peer_,
                               now.files_done, now.files_total, static_cast<double>(now.bytes_done) / (1 << 30),
                               static_cast<double>(now.bytes_total) / (1 << 30), now.bytes_per_s / 1e6, now.eta_s);
    }
    return true;
  }

  void outcome(const net::sync::CopyOutcome& done) const {
    if (arguments_.json) {
      return print({{"phase", "done"},
                    {"to", peer_},
                    {"backend", "copy"},
                    {"files", done.files},
                    {"files_same", done.files_same},
                    {"bytes_sent", done.bytes_sent},
                    {"bytes_resumed", done.bytes_resumed},
                    {"rounds", done.rounds},
                    {"seconds", done.seconds},
                    {"manifest_hash", done.manifest_hash}});
    }
    if (is_terminal_) std::cerr << "\r\033[K";
    std::cout << fmt::format(
        "{}: {} files, {} of them were there; {} bytes sent in {:.1f} s, {} there from an earlier run; revision "
        "{:.16}\n",
        peer_, done.files, done.files_same, done.bytes_sent, done.seconds, done.bytes_resumed, done.manifest_hash);
  }

 private:
  static void print(const json::value& value) { std::cout << json::serialize(value) << std::endl; }

  const SyncArguments& arguments_;
  std::string peer_;
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
};

Result<void> copy_to(const SyncArguments& arguments, const std::string& host, const std::filesystem::path& state) {
  const auto peer = net::sync::parse_peer_address(host);
  if (!peer) return peer.error();
  const auto token = read_token(arguments.token_file);
  if (!token) return token.error();
  std::error_code unknown;
  if (std::filesystem::exists(std::filesystem::path(arguments.model) / gpu::overlay_file_name, unknown))
    announce("this folder stands on another one, which is not copied along: sync that one too");
  const CopyReporter reporter(arguments, peer->text());
  net::sync::CopyOptions options;
  options.folder = arguments.model;
  options.state_folder = state;
  options.peer = *peer;
  options.token = *token;
  options.timeouts = arguments.timeouts();
  options.patience = Millis(1000 * arguments.patience_s);
  options.connections = arguments.connections;
  options.chunk_bytes = static_cast<std::uint64_t>(arguments.chunk_kib) << 10;
  options.bytes_per_s_max = static_cast<std::uint64_t>(arguments.limit_mb_s) * 1'000'000;
  options.is_forced = arguments.is_forced;
  options.progress = [&](const net::sync::CopyProgress& now) { return reporter.progress(now); };
  options.announce = announce;
  const auto done = net::sync::copy_model(options);
  if (!done) return done.error();
  reporter.outcome(*done);
  return {};
}

int sync_with(const SyncArguments& arguments, const std::filesystem::path& state) {
  // A node that cannot be reached does not keep the others from getting theirs.
  int code = exit_done;
  for (const std::string& host : arguments.to) {
    const auto copy = [&] { return copy_to(arguments, host, state); };
    if (auto synced = sync_host(arguments, host, copy); !synced) code = std::max(code, fail(synced.error()));
  }
  return code;
}

int run_sync(SyncArguments arguments) {
  const bool answers = arguments.serves || arguments.receives;
  if (answers != arguments.to.empty() || (arguments.serves && arguments.receives)) {
    return fail({ErrorCode::invalid_argument, "--to, --serve, --receive", "none or several of them", "one"});
  }
  // A file that is named has to be there, whatever way is taken in the end.
  if (!arguments.token_file.empty()) {
    if (const auto token = read_token(arguments.token_file); !token) return fail(token.error());
  }
  const auto state = take_settings(arguments);
  if (!state) return fail(state.error());
  return answers ? answer_others(arguments, *state) : sync_with(arguments, *state);
}

void add_sending(CLI::App& verb, SyncArguments& arguments) {
  verb.add_option("--to", arguments.to, "nodes to bring the weights to, HOST[:PORT]");
  verb.add_option("--backend", arguments.given["weights.sync"], "how; default: weights.sync, which is auto if not set")
      ->check(CLI::IsMember({"auto", "none", "shared", "nfs", "zfs", "copy"}));
  verb.add_option("--connections", arguments.connections, "copy: connections at the same time")
      ->check(CLI::Range(1, net::sync::senders_max))
      ->capture_default_str();
  verb.add_option("--chunk-kib", arguments.chunk_kib, "copy: size of the pieces that are sent and resumed")
      ->check(CLI::Range(4, 65'536))
      ->capture_default_str();
  verb.add_option("--limit-mb-s", arguments.limit_mb_s, "copy: at most so many MB/s; 0 = no limit")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  verb.add_option("--patience", arguments.patience_s, "seconds without gain after which it gives up")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  verb.add_flag("--force", arguments.is_forced, "send what the other node has as well");
  verb.add_option("--dataset", arguments.dataset, "zfs: the dataset that holds the model folder; default: found out");
  verb.add_option("--remote-dataset", arguments.remote_dataset,
                  "zfs: the dataset on the other node; default: the same");
  verb.add_option("--login", arguments.login, "zfs: USER@HOST for ssh without questions; default: the host");
}

void add_answering(CLI::App& verb, SyncArguments& arguments) {
  verb.add_flag("--serve", arguments.serves, "answer questions about the model folder");
  verb.add_flag("--receive", arguments.receives, "answer questions and take files into the model folder");
  verb.add_option("--listen", arguments.listen, "ADDRESS[:PORT] of the fabric interface")->capture_default_str();
  verb.add_flag("--once", arguments.is_once, "end after one complete copy");
  verb.add_option("--mounts", arguments.mounts, "mount table")->capture_default_str()->group("");
}

}  // namespace

void add_sync(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<SyncArguments>();
  CLI::App* verb = app.add_subcommand("sync", "bring the weights to the other nodes of a deployment");
  verb->add_option("--model", arguments->given["model.dir"], "model folder; default: model.dir");
  verb->add_option("--config", arguments->config, "file of settings: model.dir, weights.sync, state.dir");
  verb->add_option("--token-file", arguments->token_file, "shared secret of the nodes, mode 600");
  verb->add_option("--state-dir", arguments->given["state.dir"],
                   "where receipts go if the model folder cannot be written");
  verb->add_option("--timeout", arguments->timeout_s, "seconds without a byte after which a connection is given up")
      ->check(CLI::Range(1, 3'600))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  add_sending(*verb, *arguments);
  add_answering(*verb, *arguments);
  verb->callback([arguments, &run] { run = [arguments] { return run_sync(*arguments); }; });
}

}  // namespace tandem::ops
