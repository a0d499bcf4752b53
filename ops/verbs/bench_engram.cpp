// `tandem bench engram`: row lookups a second and their latency, as shares of what the same disk gives to plain random
// reads of the same depth in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>

#include "engram/bench/lookup_rate.hpp"
#include "engram/pack/packer.hpp"
#include "engram/packed_header.hpp"
#include "ops/verbs/bench_engram.hpp"

namespace tandem::ops {

namespace {

struct Arguments {
  std::string folder;
  double gib = 8;
  int depth = 64;
  int bulk_rows = 8192;
  int step_rows = 48;
  int rounds = 5;
  int milliseconds = 2000;
  std::string spin = "auto";
  bool json = false;
};

// The table on the disk, gone with the run. One file serves both layouts: read as a packed file it is rows of 264
// bytes; read as a checkpoint's tensors it is as many rows of 256 bytes and, behind them, as many of 8. Whose bytes a
// row gets does not matter here.
class BenchTable {
 public:
  explicit BenchTable(const Arguments& arguments)
      : file_(std::filesystem::path(arguments.folder) / "tandem-bench-engram.bin") {
    table_.layer = 1;
    table_.info.shape.head_dim = 256;
    const auto bytes = static_cast<std::int64_t>(arguments.gib * (1 << 30));
    table_.info.rows = bytes / static_cast<std::int64_t>(table_.info.shape.bytes());
    table_.info.last_row = table_.info.rows;
  }
  BenchTable(const BenchTable&) = delete;
  BenchTable& operator=(const BenchTable&) = delete;
  ~BenchTable() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }

  Result<void> write() const {
    const auto folder = file_.parent_path();
    if (auto enough = engram::check_free_space(folder, engram::packed_file_bytes(table_.info)); !enough) return enough;
    return engram::write_random_table(file_, table_);
  }

  Result<std::unique_ptr<engram::RowStore>> open(bool packed, const std::shared_ptr<engram::Storage>& storage) const {
    if (packed) return engram::open_packed_store(file_, table_, storage);
    const auto rows = static_cast<std::uint64_t>(table_.info.rows);
    const std::uint64_t first = engram::packed_header_bytes;
    return engram::open_shard_store(
        {table_.info.shape, table_.info.rows, {file_, first, rows * 256}, {file_, first + rows * 256, rows * 8}},
        storage);
  }

  const std::filesystem::path& file() const noexcept { return file_; }
  std::int64_t rows() const noexcept { return table_.info.rows; }
  std::uint64_t bytes() const noexcept { return engram::packed_file_bytes(table_.info); }

 private:
  std::filesystem::path file_;
  engram::PackedTable table_;
};

// One thing measured in every round; `limit` says which of the measurements it is a share of (itself: a limit).
struct Series {
  const char* name;
  std::size_t limit;
  std::function<Result<engram::Rate>(unsigned seed)> measure;
  std::vector<engram::Rate> rates;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments), table_(arguments) {}

  Result<void> run() {
    if (auto written = table_.write(); !written) return written;
    if (auto cold = run_mode(true); !cold) return cold;
    return run_mode(false);
  }

 private:
  // Cold: direct reads over the whole table. Warm: a part of it that was read into the page cache before.
  Result<void> run_mode(bool direct) {
    engram::StorageOptions options;
    options.direct = direct;
    options.depth = arguments_.depth;
    options.announce = [](const std::string& text) { std::cerr << "tandem bench: " << text << '\n'; };
    const auto storage = std::make_shared<engram::Storage>(options);
    for (const bool packed : {true, false}) {
      auto store = table_.open(packed, storage);
      if (!store) return store.error();
      std::vector<std::unique_ptr<engram::RowStore>> stores;
      stores.push_back(std::move(*store));
      readers_[packed ? 0 : 1] = std::make_unique<engram::Reader>(std::move(stores), reader_options());
    }
    std::vector<Series> all = series(direct);
    if (!direct) {
      // One round unmeasured, with the seed of the others, brings in the pages that they will read.
      if (auto warmed = run_round(all, 1, false); !warmed) return warmed;
    }
    for (int round = 0; round < arguments_.rounds; ++round) {
      const unsigned seed = direct ? 1 + static_cast<unsigned>(round) : 1;
      if (auto done = run_round(all, seed, true); !done) return done;
    }
    print(all, direct, storage->engine().name());
    return {};
  }

  engram::ReaderOptions reader_options() const {
    engram::ReaderOptions options;
    options.cache_rows = 0;
    constexpr unsigned many = 64;
    if (arguments_.spin != "auto") options.spin = engram::affordable_spin(arguments_.spin == "on" ? many : 1);
    return options;
  }

  static Result<void> run_round(std::vector<Series>& all, unsigned seed, bool is_kept) {
    for (Series& one : all) {
      auto rate = one.measure(seed);
      if (!rate) return rate.error();
      if (is_kept) one.rates.push_back(*rate);
    }
    return {};
  }

  std::vector<Series> series(bool direct) const {
    const auto reads = [this, direct](int together) {
      return [this, direct, together](unsigned seed) {
        engram::RandomReads plain;
        plain.file = table_.file();
        plain.last_byte = direct ? table_.bytes() / engram::page_bytes * engram::page_bytes : warm_bytes;
        plain.depth = arguments_.depth;
        plain.together = together;
        plain.direct = direct;
        plain.duration = std::chrono::milliseconds(arguments_.milliseconds);
        plain.seed = seed;
        return engram::measure_random_reads(plain);
      };
    };
    const auto lookups = [this, direct](int layout, int rows, std::size_t in_flight) {
      return [this, direct, layout, rows, in_flight](unsigned seed) {
        engram::Lookups work;
        work.rows = static_cast<std::size_t>(rows);
        work.in_flight = in_flight;
        work.last_row = direct ? table_.rows() : warm_rows;
        work.duration = std::chrono::milliseconds(arguments_.milliseconds);
        work.seed = seed;
        return engram::measure_lookups(*readers_[layout], work);
      };
    };
    return {{"disk, depth kept full", 0, reads(0), {}},
            {"packed, bulk", 0, lookups(0, arguments_.bulk_rows, 2), {}},
            {"unpacked, bulk", 0, lookups(1, arguments_.bulk_rows, 2), {}},
            {"disk, groups", 3, reads(arguments_.step_rows), {}},
            {"packed, step", 3, lookups(0, arguments_.step_rows, 1), {}},
            {"unpacked, step", 3, lookups(1, arguments_.step_rows, 1), {}}};
  }

  // The share of the limit is taken round by round: a machine that slows down slows both.
  static double share(const std::vector<Series>& all, std::size_t one) {
    std::vector<double> shares;
    for (std::size_t round = 0; round < all[one].rates.size(); ++round) {
      shares.push_back(all[one].rates[round].per_s / all[all[one].limit].rates[round].per_s);
    }
    return median(std::move(shares));
  }

  void print(const std::vector<Series>& all, bool direct, const char* engine) const {
    const char* mode = direct ? "cold" : "warm";
    if (!arguments_.json) {
      std::cout << fmt::format(
          "{}: {:.2f} GiB table, {} {}, depth {}, bulk {} rows, step {} rows, median of {} rounds of {} ms\n"
          "                        |       1/s | of limit |    p50 us |    p99 us\n",
          mode, static_cast<double>(direct ? table_.bytes() : warm_bytes) / (1 << 30), engine,
          direct ? "direct" : "buffered", arguments_.depth, arguments_.bulk_rows, arguments_.step_rows,
          arguments_.rounds, arguments_.milliseconds);
    }
    for (std::size_t one = 0; one < all.size(); ++one) {
      const auto middle = [&](double engram::Rate::*field) {
        std::vector<double> values;
        for (const engram::Rate& rate : all[one].rates) values.push_back(rate.*field);
        return median(std::move(values));
      };
      const double per_s = middle(&engram::Rate::per_s);
      const double p50 = middle(&engram::Rate::p50_us), p99 = middle(&engram::Rate::p99_us);
      std::cout << (arguments_.json
                        ? fmt::format(R"({{"mode":"{}","what":"{}","per_s":{:.0f},"share":{:.4f},)"
                                      R"("p50_us":{:.1f},"p99_us":{:.1f},"depth":{}}})",
                                      mode, all[one].name, per_s, share(all, one), p50, p99, arguments_.depth)
                        : fmt::format("  {:21} | {:9.0f} | {:6.1f} % | {:9.1f} | {:9.1f}", all[one].name, per_s,
                                      100 * share(all, one), p50, p99))
                << std::endl;
    }
  }

  static constexpr std::uint64_t warm_bytes = 64ULL << 20;  // read again and again: all of it stays in memory
  static constexpr std::int64_t warm_rows = static_cast<std::int64_t>(warm_bytes / 264);

  const Arguments& arguments_;
  BenchTable table_;
  std::unique_ptr<engram::Reader> readers_[2];  // packed, unpacked
};

int bench(const Arguments& arguments) {
  auto done = Bench(arguments).run();
  if (done) return exit_done;
  std::cerr << "tandem bench engram: " << done.error().message() << '\n';
  return exit_failed;
}

}  // namespace

void add_bench_engram(CLI::App& bench_verb, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = bench_verb.add_subcommand("engram", "measure Engram row lookups against the disk's own limit");
  verb->add_option("--dir", arguments->folder, "folder on the disk to measure; a table is written there and removed")
      ->required()
      ->check(CLI::ExistingDirectory);
  verb->add_option("--gib", arguments->gib, "size of the table")
      ->check(CLI::Range(0.125, 500.0))
      ->capture_default_str();
  verb->add_option("--depth", arguments->depth, "reads in flight")->check(CLI::Range(1, 512))->capture_default_str();
  verb->add_option("--bulk", arguments->bulk_rows, "rows of one lookup as in prefill")
      ->check(CLI::Range(1, 1 << 18))
      ->capture_default_str();
  verb->add_option("--step", arguments->step_rows, "rows of one lookup as in decoding")
      ->check(CLI::Range(1, 1 << 18))
      ->capture_default_str();
  verb->add_option("--rounds", arguments->rounds, "repetitions")->check(CLI::Range(1, 1000))->capture_default_str();
  verb->add_option("--ms", arguments->milliseconds, "length of one measurement")
      ->check(CLI::Range(10, 600'000))
      ->capture_default_str();
  verb->add_option("--spin", arguments->spin,
                   "look for news before sleeping: as serving does on this machine, or forced")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([arguments, &run] { run = [arguments] { return bench(*arguments); }; });
}

}  // namespace tandem::ops
