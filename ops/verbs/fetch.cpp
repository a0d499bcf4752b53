// `tandem fetch`: a model folder from a server: resumable, hashed, joined from parts where it is published so.
//
// May be stopped and started again at any time; what is finished stays finished.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <iostream>
#include <memory>
#include <stop_token>
#include <thread>

#include "gpu/weights_files/byte_count.hpp"
#include "net/fetch/fetch.hpp"
#include "ops/process_signals.hpp"
#include "ops/setting_table.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

namespace fetching = net::fetch;
using gpu::bytes_text;

struct FetchArguments {
  fetching::FetchOptions options;
  std::map<std::string, std::string> given;  // settings of the command line, by key
  std::string config;
  bool keep_parts = false;
  std::string token_file;
  std::int64_t segment_kib = 32 << 10;
  double connect_limit_s = 30;
  double read_limit_s = 120;
  bool json = false;
};

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

// One line that is rewritten on a terminal; JSON lines if asked for; otherwise only what is worth a line.
class FetchReporter {
 public:
  explicit FetchReporter(bool json) : json_(json) {}

  void progress(const fetching::FetchProgress& now) const {
    if (json_) {
      std::cout << fmt::format(
                       R"({{"phase":"fetching","files_done":{},"files_total":{},"bytes_done":{},"bytes_total":{},)"
                       R"("bytes_per_s":{:.0f},"eta_s":{:.0f}}})",
                       now.files_done, now.files_total, now.bytes_done, now.bytes_total, now.bytes_per_s, now.eta_s)
                << std::endl;
      return;
    }
    if (!is_terminal_) return;
    const double share =
        now.bytes_total == 0 ? 1 : static_cast<double>(now.bytes_done) / static_cast<double>(now.bytes_total);
    std::cerr << fmt::format("\r{} of {} files, {:5.1f} % of {}, {:.1f} MB/s, {} left \033[K", now.files_done,
                             now.files_total, 100 * share, bytes_text(now.bytes_total), now.bytes_per_s / 1e6,
                             now.bytes_per_s > 0 ? duration_text(now.eta_s) : "?");
  }

  void announce(const std::string& text) const {
    if (is_terminal_ && !json_) std::cerr << "\r\033[K";
    std::cerr << "tandem fetch: " << text << '\n';
  }

  void outcome(const fetching::FetchReport& done) const {
    if (json_) {
      const std::string revision = boost::json::serialize(boost::json::string(done.revision));
      std::cout << fmt::format(
                       R"({{"phase":"done","revision":{},"manifest_hash":"{}","files":{},"files_present":{},)"
                       R"("files_fetched":{},"files_joined":{},"bytes":{},"bytes_received":{},"bytes_resumed":{},)"
                       R"("retries":{},"seconds":{:.3f}}})",
                       revision, done.manifest_hash, done.files, done.files_present, done.files_fetched,
                       done.files_joined, done.bytes, done.bytes_received, done.bytes_resumed, done.retries,
                       done.seconds)
                << std::endl;
      return;
    }
    if (is_terminal_) std::cerr << "\r\033[K";
    std::cout << fmt::format(
        "{} files, {}, revision {}: {} were there, {} fetched, {} joined; {} received in {}, {} taken over from "
        "earlier runs\n",
        done.files, bytes_text(done.bytes), done.revision.empty() ? "unnamed" : done.revision, done.files_present,
        done.files_fetched, done.files_joined, bytes_text(done.bytes_received), duration_text(done.seconds),
        bytes_text(done.bytes_resumed));
  }

 private:
  bool json_;
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
};

// Runs the fetch on a thread of its own while this one waits for its end or a signal.
Result<fetching::FetchReport> fetch_until_signal(fetching::FetchOptions options) {
  ProcessSignals signals;
  std::stop_source stop;
  options.stop = stop.get_token();
  Result<fetching::FetchReport> result = Error{ErrorCode::internal, "fetch", "no result", ""};
  std::jthread worker([&] {
    result = fetching::fetch(options);
    signals.post({exit_done, "the fetch has ended"});
  });
  if (!signals.wait()) stop.request_stop();
  worker.join();
  return result;
}

int exit_code_of(const Error& error) {
  if (error.code == ErrorCode::cancelled) return exit_interrupted;
  return error.code == ErrorCode::bad_config || error.code == ErrorCode::invalid_argument ? exit_usage : exit_failed;
}

int fail_fetch(const Error& error) {
  const int code = exit_code_of(error);
  if (code == exit_interrupted) {
    std::cerr << "tandem fetch: stopped; the same command goes on where it was\n";
  } else {
    std::cerr << "tandem fetch: " << error.message() << '\n';
  }
  return code;
}

// Command line, configuration file, environment, in this order.
Result<void> take_settings(FetchArguments& arguments) {
  if (arguments.keep_parts) arguments.given["weights.keep_parts"] = "1";
  const auto settings = Settings::resolve(arguments.given, arguments.config);
  if (!settings) return settings.error();
  for (const std::string& note : settings->notes()) std::cerr << "tandem fetch: " << note << '\n';
  arguments.options.folder = settings->text("model.dir");
  arguments.options.revision = settings->text("weights.revision");
  arguments.options.keep_parts = settings->integer("weights.keep_parts") != 0;
  if (!arguments.options.folder.empty()) return {};
  return Error{ErrorCode::bad_config, "--out", "no folder", "where the model goes (or model.dir)"};
}

int fetch_model(FetchArguments arguments) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  auto& options = arguments.options;
  if (auto taken = take_settings(arguments); !taken) return fail_fetch(taken.error());
  options.limits.segment_bytes = static_cast<std::uint64_t>(arguments.segment_kib) << 10;
  options.limits.connect = milliseconds(arguments.connect_limit_s);
  options.limits.read = milliseconds(arguments.read_limit_s);
  auto token = fetching::find_token(arguments.token_file);
  if (!token) return fail_fetch({ErrorCode::bad_config, "--token-file", token.error().message(), ""});
  options.access.token = std::move(*token);
  const FetchReporter reporter(arguments.json);
  options.watch.progress = [&](const fetching::FetchProgress& now) { reporter.progress(now); };
  options.watch.announce = [&](const std::string& text) { reporter.announce(text); };
  const auto done = fetch_until_signal(options);
  if (!done) return fail_fetch(done.error());
  reporter.outcome(*done);
  return exit_done;
}

}  // namespace

void add_fetch(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<FetchArguments>();
  auto& options = arguments->options;
  CLI::App* verb = app.add_subcommand("fetch", "get a model's files from a server; goes on where it was stopped");
  auto* from =
      verb->add_option("--from", options.from,
                       "address of a folder with a tandem-manifest.json, or https://HOST/OWNER/NAME/resolve/REVISION");
  verb->add_option("--out", arguments->given["model.dir"], "folder of the model; made if missing; default: model.dir");
  verb->add_option("--config", arguments->config, "file of settings: model.dir, weights.revision, weights.keep_parts");
  verb->add_option("--manifest", options.manifest_file, "list of the files, instead of the server's");
  verb->add_option("--revision", arguments->given["weights.revision"], "revision that it must be");
  verb->add_option("--connections", options.limits.connections, "connections at the same time")
      ->check(CLI::Range(1, fetching::connections_max))
      ->capture_default_str();
  verb->add_option("--segment-kib", arguments->segment_kib, "what one request asks for")
      ->check(CLI::Range(4, 4 << 20))
      ->capture_default_str();
  verb->add_option("--attempts", options.limits.attempts, "attempts of one request that get no further")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--connect-limit", arguments->connect_limit_s, "seconds for a connection")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  verb->add_option("--read-limit", arguments->read_limit_s, "seconds of silence")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  verb->add_option("--token-file", arguments->token_file,
                   "file (mode 600) with a bearer token; default: the environment's TANDEM_FETCH_TOKEN");
  verb->add_option("--ca-file", options.access.ca_file, "certificates to trust instead of the system's");
  verb->add_flag("--keep-parts", arguments->keep_parts, "keep the parts of shards that were joined");
  auto* join_only = verb->add_flag("--join-only", options.join_only, "only join parts that are there; no network");
  verb->add_flag("--force", options.is_forced, "try it on a disk that seems too small");
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([=, &run] {
    if (from->count() == 0 && join_only->count() == 0) throw CLI::RequiredError("--from or --join-only");
    std::erase_if(arguments->given, [](const auto& setting) { return setting.second.empty(); });
    run = [arguments] { return fetch_model(*arguments); };
  });
}

}  // namespace tandem::ops
