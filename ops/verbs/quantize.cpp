// `tandem quantize`: makes an EXL3 pack of a model: sensitivities, choice of bits, calibration, packing.
//
// May be stopped and started again with the same options at any time; what is finished stays finished.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include "gpu/checkpoint/byte_source.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/pack_model.hpp"
#include "net/text/tokenizer.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

constexpr std::uint64_t calibration_bytes_max = 1'000'000'000;

struct Arguments {
  gpu::exl3::PackOptions options;
  std::string model, out, text_file, ids_file;
  std::string layout = "whole", codebook = "mul1";
  int rows = 64;   // calibration sequences
  int cols = 512;  // tokens of each
  int threads = 0;
  bool json = false;
};

int fail(const Error& error, int exit_code) {
  std::cerr << "tandem quantize: " << error.message() << '\n';
  return exit_code;
}

// Stops the work between two pieces. The handler only sets a flag.
std::atomic<bool> is_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void interrupt(int) {
  is_interrupted.store(true, std::memory_order_relaxed);
}

// ---- calibration ----

using Sequences = std::vector<std::vector<std::int32_t>>;

// Ids without meaning: they exercise every path of the model, if not the ones that texts prefer.
Sequences random_sequences(const Arguments& arguments, std::int64_t vocab_size) {
  std::mt19937 random(1);
  Sequences sequences(static_cast<std::size_t>(arguments.rows));
  for (auto& sequence : sequences) {
    for (int i = 0; i < arguments.cols; ++i) {
      sequence.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab_size)));
    }
  }
  return sequences;
}

// The text cut into sequences, spread evenly over all of it if there is more than needed.
Result<Sequences> text_sequences(const Arguments& arguments) {
  const auto text = gpu::read_text(arguments.text_file, calibration_bytes_max);
  if (!text) return text.error();
  const auto tokenizer = net::text::Tokenizer::load(std::filesystem::path(arguments.model) / "tokenizer.json");
  if (!tokenizer) return tokenizer.error();
  const std::vector<net::text::TokenId> ids = tokenizer->encode_raw(*text);
  const auto cols = static_cast<std::size_t>(arguments.cols);
  const std::size_t pieces = ids.size() / cols;
  const std::size_t rows = std::min(static_cast<std::size_t>(arguments.rows), pieces);
  if (rows == 0) {
    return Error{ErrorCode::invalid_argument, arguments.text_file, fmt::format("{} tokens", ids.size()),
                 fmt::format("at least {} (--cols)", cols)};
  }
  Sequences sequences;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(row * pieces / rows * cols);
    sequences.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(cols));
  }
  return sequences;
}

// One sequence a line, at most --rows of them; empty lines do not count.
Result<Sequences> id_sequences(const Arguments& arguments) {
  const auto text = gpu::read_text(arguments.ids_file, calibration_bytes_max);
  if (!text) return text.error();
  Sequences sequences;
  std::istringstream lines(*text);
  std::size_t number = 0;
  for (std::string line; sequences.size() < static_cast<std::size_t>(arguments.rows) && std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::vector<std::int32_t> sequence;
    for (std::int32_t id = 0; words >> id;) sequence.push_back(id);
    if (!words.eof()) {
      return Error{ErrorCode::invalid_argument, fmt::format("{}:{}", arguments.ids_file, number), "not a token id",
                   "ids separated by white space, one sequence a line"};
    }
    if (!sequence.empty()) sequences.push_back(std::move(sequence));
  }
  if (!sequences.empty()) return sequences;
  return Error{ErrorCode::invalid_argument, arguments.ids_file, "no token ids", "one sequence a line"};
}

Result<Sequences> read_sequences(const Arguments& arguments, std::int64_t vocab_size) {
  if (!arguments.text_file.empty()) return text_sequences(arguments);
  if (!arguments.ids_file.empty()) return id_sequences(arguments);
  return random_sequences(arguments, vocab_size);
}

// ---- reports ----

std::string time_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

// One line, rewritten on a terminal; JSON lines if asked for.
class Reporter {
 public:
  using Progress = gpu::exl3::PackProgress;
  explicit Reporter(bool json) : json_(json) {}

  void progress(const Progress& now) {
    const double eta_s = time_left(now);
    const char* step = step_name(now.step);
    if (json_) {
      std::cout << fmt::format(R"({{"step":"{}","what":"{}","fraction":{:.4f},"eta_s":{:.0f},"resumed":{}}})", step,
                               now.what, now.fraction, eta_s, now.resumed)
                << std::endl;
    } else if (is_terminal_) {
      const std::string left = eta_s > 0 ? fmt::format(", {} left", time_text(eta_s)) : "";
      std::cerr << fmt::format("\r{} {:5.1f} %{}: {} \033[K", step, 100 * now.fraction, left, now.what);
    }
  }

  void end(const Arguments& arguments, const gpu::exl3::PackReport& report) const {
    const double tiles_per_s = report.tile_seconds > 0 ? static_cast<double>(report.tiles) / report.tile_seconds : 0;
    if (json_) {
      std::cout << fmt::format(R"({{"step":"done","matrices":{},"resumed":{},"bits":{:.4f},"bytes":{},"tiles":{},)"
                               R"("tiles_per_s":{:.0f},"mean_proxy_error":{:.3e},"worst_proxy_error":{:.3e}}})",
                               report.matrices, report.resumed, report.average_bits, report.bytes, report.tiles,
                               tiles_per_s, report.mean_proxy_error, report.worst_proxy_error)
                << std::endl;
      return;
    }
    clear();
    std::cout << fmt::format("{}: {} matrices ({} from an earlier run), {:.3f} bits a weight, {:.1f} MB\n",
                             arguments.out, report.matrices, report.resumed, report.average_bits,
                             static_cast<double>(report.bytes) / 1e6);
    if (report.tiles == 0) return;
    std::cout << fmt::format(
        "{} tiles, {:.0f} a second on {} threads; relative error of an output {:.2e}, at most {:.2e} ({})\n",
        report.tiles, tiles_per_s, arguments.options.threads, report.mean_proxy_error, report.worst_proxy_error,
        report.worst_matrix);
  }
  void clear() const {
    if (!json_ && is_terminal_) std::cerr << "\r\033[K";
  }

 private:
  using Clock = std::chrono::steady_clock;

  static const char* step_name(Progress::Step step) noexcept {
    switch (step) {
      case Progress::Step::measuring:
        return "measuring";
      case Progress::Step::calibrating:
        return "calibrating";
      case Progress::Step::packing:
        return "packing";
      case Progress::Step::finishing:
        return "finishing";
    }
    return "";
  }

  // Of the step, from the pace of this run alone: what an earlier run did does not count. 0: not known yet.
  double time_left(const Progress& now) {
    if (now.step != step_) {
      step_ = now.step;
      first_ = now.fraction;
      begin_ = Clock::now();
    }
    if (now.fraction <= first_) return 0;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    return seconds * (1 - now.fraction) / (now.fraction - first_);
  }

  bool json_;
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
  Progress::Step step_ = Progress::Step::finishing;
  double first_ = 0;
  Clock::time_point begin_ = Clock::now();
};

// ---- the verb ----

Result<void> fill_options(Arguments& arguments, std::int64_t vocab_size) {
  gpu::exl3::PackOptions& options = arguments.options;
  options.model = arguments.model;
  options.out = arguments.out;
  options.layout = arguments.layout == "experts" ? gpu::exl3::PackLayout::experts : gpu::exl3::PackLayout::whole;
  options.codebook = gpu::exl3::parse_codebook(arguments.codebook).value_or(gpu::exl3::Codebook::mul1);
  options.threads = arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency());
  options.stop = &is_interrupted;
  auto sequences = read_sequences(arguments, vocab_size);
  if (!sequences) return sequences.error();
  options.sequences = std::move(*sequences);
  return {};
}

int exit_code_of(const Error& error) {
  constexpr int interrupted = 130;
  if (error.code == ErrorCode::cancelled) return interrupted;
  if (error.code == ErrorCode::invalid_argument) return exit_usage;
  const bool is_of_output =
      error.code == ErrorCode::io || error.code == ErrorCode::resource || error.code == ErrorCode::unavailable;
  return is_of_output ? exit_failed : exit_load_error;
}

int quantize(Arguments& arguments) {
  const auto config = gpu::ModelConfig::load(arguments.model);
  if (!config) return fail(config.error(), exit_load_error);
  if (auto ok = fill_options(arguments, config->vocab_size); !ok) return fail(ok.error(), exit_usage);
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  Reporter reporter(arguments.json);
  const auto report =
      gpu::exl3::pack_model(arguments.options, [&](const gpu::exl3::PackProgress& now) { reporter.progress(now); });
  if (!report) {
    reporter.clear();
    return fail(report.error(), exit_code_of(report.error()));
  }
  reporter.end(arguments, *report);
  return exit_done;
}

void add_calibration(CLI::App& verb, Arguments& arguments) {
  CLI::Option* text = verb.add_option("--calibrate", arguments.text_file,
                                      "text to calibrate with, special tokens spelled out; default: random tokens");
  verb.add_option("--calibrate-ids", arguments.ids_file, "token ids to calibrate with, one sequence a line")
      ->excludes(text);
  verb.add_option("--rows", arguments.rows, "calibration sequences, at most")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb.add_option("--cols", arguments.cols, "tokens of a sequence that is cut from text")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
}

}  // namespace

void add_quantize(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  gpu::exl3::PackOptions& options = arguments->options;
  CLI::App* verb = app.add_subcommand("quantize", "make an EXL3 pack of a model");
  verb->add_option("--model", arguments->model, "model folder in the official formats")->required();
  verb->add_option("--out", arguments->out, "folder of the pack: new, empty, or of the same pack in work")->required();
  verb->add_option("--bits", options.bits, "average bits of a packed weight, at most")
      ->check(CLI::Range(1.0, 8.0))
      ->capture_default_str();
  verb->add_option("--head-bits", options.widths.head, "bits of the output head; 0 = chosen like the others")
      ->check(CLI::Range(0, 8))
      ->capture_default_str();
  verb->add_option("--draft-bits", options.widths.draft, "bits of the draft network; 0 = chosen like the others")
      ->check(CLI::Range(0, 8))
      ->capture_default_str();
  verb->add_option("--layout", arguments->layout, "whole: all matrices; experts: a bank beside official shards")
      ->check(CLI::IsMember({"whole", "experts"}))
      ->capture_default_str();
  verb->add_option("--codebook", arguments->codebook, "mul1, mcg or 3inst")
      ->check(CLI::IsMember({"mul1", "mcg", "3inst"}))
      ->capture_default_str();
  verb->add_flag("--packed-only", options.packed_only, "leave native tensors in the model folder and refer to it");
  verb->add_option("--only", options.only, "pack only matrices whose names begin like this; implies --packed-only");
  add_calibration(*verb, *arguments);
  verb->add_option("--threads", arguments->threads, "compute threads; 0 = all cores")->check(CLI::Range(0, 1024));
  verb->add_flag("--json", arguments->json, "progress and result as JSON lines");
  verb->callback([arguments, &run] { run = [arguments] { return quantize(*arguments); }; });
}

}  // namespace tandem::ops
