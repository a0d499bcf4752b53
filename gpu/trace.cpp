// The ranks of a trace as threads, and the file.
#include "gpu/trace.hpp"

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "gpu/checkpoint/safetensors_writer.hpp"
#include "gpu/comm/communicator.hpp"
#include "gpu/trace_rank.hpp"

namespace tandem::gpu {
namespace {

// A rank that waits longer than this for another one has lost it.
constexpr std::chrono::minutes rank_timeout{10};

Result<void> check_options(const TraceOptions& options) {
  const auto refuse = [](const char* option, const std::string& found, const char* expected) -> Result<void> {
    return Error{ErrorCode::invalid_argument, option, found, expected};
  };
  if (options.ids.empty()) return refuse("ids", "none", "at least one token id");
  if (options.chunk < 0) return refuse("chunk", std::to_string(options.chunk), "0 or more");
  if (options.ranks < 1) return refuse("ranks", std::to_string(options.ranks), "1 or more");
  if (options.spec < 0) return refuse("spec", std::to_string(options.spec), "0 or more");
  if (options.layers && options.ranks > 1)
    return refuse("ranks", std::to_string(options.ranks), "1 together with layers");
  if (options.layers && options.chunk > 0)
    return refuse("chunk", std::to_string(options.chunk), "0 together with layers");
  return {};
}

Result<TraceTensors> run_rank(const TraceOptions& options, Communicator& communicator) {
  auto rank = TraceRank::load(options, communicator);
  if (!rank) return rank.error();
  return (*rank)->run();
}

// Runs every rank in a thread of its own; the first error wakes the others.
Result<TraceTensors> run_ranks(const TraceOptions& options) {
  if (options.ranks == 1) return run_rank(options, *make_solo_communicator());
  const auto communicators = make_thread_communicators(options.ranks, rank_timeout);
  std::vector<Result<TraceTensors>> results(communicators.size(), Error{});
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        results[rank] = run_rank(options, *communicators[rank]);
      } catch (const std::exception& failure) {
        results[rank] = Error{ErrorCode::resource, "rank " + std::to_string(rank), failure.what(), "enough memory"};
      }
      if (!results[rank]) communicators[rank]->abort(results[rank].error().message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    if (!result && result.error().code != ErrorCode::cancelled) return result.error();
  }
  return std::move(results.front());
}

Result<void> write_tensors(const std::filesystem::path& path, const TraceTensors& tensors) {
  std::vector<TensorData> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
  return write_safetensors(path, list);
}

}  // namespace

Result<void> run_trace(const TraceOptions& options) {
  if (auto ok = check_options(options); !ok) return ok;
  const auto tensors = run_ranks(options);
  if (!tensors) return tensors.error();
  return write_tensors(options.out, *tensors);
}

Result<std::vector<std::int32_t>> read_token_ids(const std::filesystem::path& file) {
  std::error_code missing;
  if (!std::filesystem::exists(file, missing))
    return Error{ErrorCode::not_found, file.string(), "no such file", "token ids"};
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::int32_t> ids;
  for (std::string word; stream >> word;) {
    std::int32_t id = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (failure != std::errc{} || end != word.data() + word.size() || id < 0) {
      return Error{ErrorCode::bad_format, file.string(), fmt::format("'{}'", word.substr(0, 40)),
                   "token ids separated by white space"};
    }
    ids.push_back(id);
  }
  if (stream.bad() || !stream.eof()) return Error{ErrorCode::io, file.string(), "read failed", "the whole file"};
  return ids;
}

}  // namespace tandem::gpu
