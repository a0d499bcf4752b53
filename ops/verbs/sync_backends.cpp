// Trials in their order; what each found is printed once.
#include "ops/verbs/sync_backends.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <iostream>

#include "net/sync/ask_peer.hpp"
#include "net/sync/backend.hpp"
#include "net/sync/storage_check.hpp"
#include "net/sync/zfs.hpp"
#include "ops/verbs/token_option.hpp"

namespace tandem::ops {

namespace {

namespace json = boost::json;
using net::sync::Backend;
using net::sync::BackendTrial;

Result<std::unique_ptr<net::sync::Channel>> connect(const SyncArguments& arguments, const std::string& host) {
  const auto peer = net::sync::parse_peer_address(host);
  if (!peer) return peer.error();
  const auto token = read_token(arguments.token_file);
  if (!token) return token.error();
  return net::sync::Channel::connect(*peer, *token, arguments.timeouts());
}

using StorageCheck = Result<std::string> (*)(net::sync::Channel&, const std::filesystem::path&);

BackendTrial check_trial(Backend backend, StorageCheck check, const SyncArguments& arguments, const std::string& host) {
  return {backend, [&arguments, &host, check]() -> Result<std::string> {
            auto channel = connect(arguments, host);
            if (!channel) return channel.error();
            return check(**channel, arguments.model);
          }};
}

Result<std::string> try_zfs(const SyncArguments& arguments, const std::string& host) {
  const auto peer = net::sync::parse_peer_address(host);
  if (!peer) return peer.error();
  net::sync::ZfsRequest request;
  request.folder = arguments.model;
  request.dataset = arguments.dataset;
  request.remote_dataset = arguments.remote_dataset;
  request.login = arguments.login.empty() ? peer->host : arguments.login;
  request.snapshot = fmt::format("tandem-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr)));
  // A trial among others must not roll anything back: only who asked for zfs by name may have meant that.
  request.is_forced = arguments.is_forced && net::sync::parse_backend(arguments.backend) == Backend::zfs;
  return net::sync::send_by_zfs(request, *net::sync::make_command_runner());
}

std::vector<BackendTrial> trials_of(const SyncArguments& arguments, const std::string& host,
                                    const std::function<Result<void>()>& copy) {
  const std::vector<BackendTrial> all{
      {Backend::none, [] { return Result<std::string>("every node keeps its own files; nothing was done"); }},
      check_trial(Backend::shared, net::sync::check_shared, arguments, host),
      check_trial(Backend::nfs, net::sync::check_nfs, arguments, host),
      {Backend::zfs, [&arguments, &host] { return try_zfs(arguments, host); }},
      {Backend::copy, [&copy]() -> Result<std::string> {
         if (auto copied = copy(); !copied) return copied.error();
         return std::string("every file was compared by its hash");
       }}};
  const auto wanted = net::sync::parse_backend(arguments.backend);
  std::vector<BackendTrial> trials;
  for (const BackendTrial& trial : all) {
    // auto is never `none`: that is somebody's decision.
    if (wanted ? trial.backend == *wanted : trial.backend != Backend::none) trials.push_back(trial);
  }
  return trials;
}

void print_choice(const SyncArguments& arguments, const std::string& host, const net::sync::BackendOutcome& outcome) {
  if (arguments.json) {
    const json::value value{{"phase", "synced"},
                            {"to", host},
                            {"backend", std::string(to_string(outcome.backend))},
                            {"found", outcome.found}};
    std::cout << json::serialize(value) << std::endl;
    return;
  }
  std::cout << fmt::format("{}: {}: {}\n", host, to_string(outcome.backend), outcome.found);
}

}  // namespace

Result<void> sync_host(const SyncArguments& arguments, const std::string& host,
                       const std::function<Result<void>()>& copy) {
  const auto trials = trials_of(arguments, host, copy);
  const auto outcome = net::sync::try_backends(trials, [&](Backend backend, const Error& why) {
    std::cerr << fmt::format("tandem sync: {}: not {}: {}\n", host, to_string(backend), why.message());
  });
  if (!outcome) return outcome.error();
  print_choice(arguments, host, *outcome);
  return {};
}

}  // namespace tandem::ops
