// `tandem pack`: writes a rank's Engram rows into files of their own, so that a lookup is one read instead of two.
//
// May be stopped and started again at any time; what is finished stays finished.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "engram/pack/open_table.hpp"
#include "engram/pack/packer.hpp"
#include "gpu/model/engram_sources.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

struct Arguments {
  std::string model;
  std::string out;  // empty = the model folder
  int ranks = 1;
  int rank = -1;  // -1 = every rank
  int threads = 4;
  bool is_forced = false;
  bool json = false;
};

int fail(const Error& error, int exit_code) {
  std::cerr << "tandem pack: " << error.message() << '\n';
  return exit_code;
}

// The packed files that the arguments ask for: every Engram layer of every chosen rank.
Result<std::vector<engram::PackJob>> make_jobs(const Arguments& arguments) {
  const auto config = gpu::ModelConfig::load(arguments.model);
  if (!config) return config.error();
  const auto checkpoint = gpu::Checkpoint::open(arguments.model);
  if (!checkpoint) return checkpoint.error();
  const auto sources = gpu::find_engram_sources(*config, *checkpoint);
  if (!sources) return sources.error();
  const auto geometry = gpu::make_engram_geometry(config->engram, 0);
  if (!geometry) return geometry.error();
  const std::filesystem::path folder = arguments.out.empty() ? arguments.model : arguments.out;
  const int first = arguments.rank < 0 ? 0 : arguments.rank;
  const int last = arguments.rank < 0 ? arguments.ranks : arguments.rank + 1;
  std::vector<engram::PackJob> jobs;
  for (int rank = first; rank < last; ++rank) {
    for (std::size_t table = 0; table < sources->size(); ++table) {
      const auto owned = geometry->owned(table, rank, arguments.ranks);
      if (!owned) return owned.error();
      const engram::ShardTable& source = (*sources)[table];
      const int layer = geometry->layers[table].layer;
      jobs.push_back({source,
                      {layer, {source.shape, source.rows, owned->first_row, owned->last_row}},
                      folder / engram::packed_file_name(layer, rank, arguments.ranks)});
    }
  }
  return jobs;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

// What one file's packing says while it runs: one line, rewritten on a terminal; JSON lines if asked for.
class Reporter {
 public:
  Reporter(const Arguments& arguments, const engram::PackJob& job) : arguments_(arguments), job_(job) {}

  void progress(const engram::PackProgress& now) {
    const bool is_copying = now.phase == engram::PackProgress::Phase::copying;
    const char* phase = is_copying ? "copying" : "verifying";
    if (arguments_.json) {
      line(fmt::format(R"({{"file":"{}","phase":"{}","bytes_done":{},"bytes_total":{},"eta_s":{:.0f}}})", name(), phase,
                       now.bytes_done, now.bytes_total, now.eta_s));
      return;
    }
    if (!is_terminal_) return;
    std::cerr << fmt::format("\r{}: {} {:5.1f} % of {:.2f} GiB, {:.0f} MB/s, {} left \033[K", name(), phase,
                             100.0 * static_cast<double>(now.bytes_done) / static_cast<double>(now.bytes_total),
                             static_cast<double>(now.bytes_total) / (1 << 30), now.bytes_per_s / 1e6,
                             time_text(now.eta_s));
  }

  void outcome(const engram::PackOutcome& done) {
    if (arguments_.json) {
      line(
          fmt::format(R"({{"file":"{}","phase":"done","was_there":{},"bytes":{},"bytes_resumed":{},"seconds":{:.3f}}})",
                      name(), done.was_there, done.bytes, done.bytes_resumed, done.seconds));
      return;
    }
    if (is_terminal_) std::cerr << "\r\033[K";
    const auto& info = job_.table.info;
    line(fmt::format("{}: layer {}, rows {} to {}: {}", job_.out.string(), job_.table.layer, info.first_row,
                     info.last_row - 1,
                     done.was_there ? "was packed already"
                                    : fmt::format("{} bytes, {} of them from an earlier run, {}", done.bytes,
                                                  done.bytes_resumed, time_text(done.seconds))));
  }

 private:
  std::string name() const { return job_.out.filename().string(); }
  static void line(const std::string& text) { std::cout << text << std::endl; }

  const Arguments& arguments_;
  const engram::PackJob& job_;
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
};

Result<void> pack_one(const Arguments& arguments, const engram::PackJob& job,
                      const std::shared_ptr<engram::Storage>& storage) {
  Reporter reporter(arguments, job);
  engram::PackOptions options;
  options.threads = arguments.threads;
  options.is_forced = arguments.is_forced;
  options.progress = [&](const engram::PackProgress& now) {
    reporter.progress(now);
    return true;
  };
  options.announce = [](const std::string& text) { std::cerr << "tandem pack: " << text << '\n'; };
  auto done = engram::pack_table(job, options, storage);
  if (!done) return done.error();
  reporter.outcome(*done);
  return {};
}

int pack(const Arguments& arguments) {
  if (arguments.rank >= arguments.ranks) {
    return fail({ErrorCode::invalid_argument, "--rank", std::to_string(arguments.rank),
                 fmt::format("below --ranks {}", arguments.ranks)},
                exit_usage);
  }
  const auto jobs = make_jobs(arguments);
  if (!jobs) {
    const bool is_usage = jobs.error().code == ErrorCode::invalid_argument;  // ranks that the tables cannot be cut for
    return fail(jobs.error(), is_usage ? exit_usage : exit_load_error);
  }
  if (jobs->empty())
    return fail({ErrorCode::bad_config, arguments.model, "a model without Engram tables", ""}, exit_usage);
  const auto folder = jobs->front().out.parent_path();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return fail({ErrorCode::io, folder.string(), failed.message(), ""}, exit_failed);
  std::uint64_t bytes = 0;
  for (const engram::PackJob& job : *jobs) bytes += engram::bytes_missing(job);
  if (auto enough = engram::check_free_space(folder, bytes); !enough) return fail(enough.error(), exit_failed);

  engram::StorageOptions options;
  options.announce = [](const std::string& text) { std::cerr << "tandem pack: " << text << '\n'; };
  const auto storage = std::make_shared<engram::Storage>(options);
  for (const engram::PackJob& job : *jobs) {
    if (auto done = pack_one(arguments, job, storage); !done) return fail(done.error(), exit_failed);
  }
  return exit_done;
}

}  // namespace

void add_pack(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("pack", "write Engram rows into files that need one read a lookup");
  verb->add_option("--model", arguments->model, "model folder")->required();
  verb->add_option("--out", arguments->out, "folder of the packed files, on a local drive; default: the model folder");
  verb->add_option("--ranks", arguments->ranks, "ranks of the deployment")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_option("--rank", arguments->rank, "only this rank's rows; default: every rank's")->check(CLI::Range(0, 63));
  verb->add_option("--threads", arguments->threads, "blocks copied at the same time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_flag("--force", arguments->is_forced, "pack again what is packed and right");
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([arguments, &run] { run = [arguments] { return pack(*arguments); }; });
}

}  // namespace tandem::ops
