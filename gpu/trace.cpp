// The ranks of a trace as threads, and the file.
#include "gpu/trace.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "gpu/checkpoint/safetensors_writer.hpp"
#include "gpu/comm/communicator.hpp"
#include "gpu/trace_check.hpp"
#include "gpu/trace_rank.hpp"

namespace tandem::gpu {
namespace {

// A rank that waits longer than this for another one has lost it.
constexpr std::chrono::minutes rank_timeout{10};

TraceResult<TraceTensors> run_rank(const TraceOptions& options, Communicator& communicator) {
  auto rank = TraceRank::load(options, communicator);
  if (!rank) return TraceError{TraceStage::load, rank.error()};
  auto tensors = (*rank)->run();
  if (!tensors) return TraceError{TraceStage::run, tensors.error()};
  return std::move(*tensors);
}

// Runs every rank in a thread of its own; the first error wakes the others.
TraceResult<TraceTensors> run_ranks(const TraceOptions& options) {
  if (options.ranks == 1) return run_rank(options, *make_solo_communicator());
  const auto communicators = make_thread_communicators(options.ranks, rank_timeout);
  std::vector<TraceResult<TraceTensors>> results(communicators.size(), TraceError{});
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        results[rank] = run_rank(options, *communicators[rank]);
      } catch (const std::exception& failure) {
        results[rank] = TraceError{
            TraceStage::run, {ErrorCode::resource, "rank " + std::to_string(rank), failure.what(), "enough memory"}};
      }
      if (!results[rank]) communicators[rank]->abort(results[rank].error().message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<TraceTensors> parts;
  for (auto& result : results) {
    if (!result && result.error().cause.code != ErrorCode::cancelled) return result.error();
    if (result) parts.push_back(std::move(*result));
  }
  if (parts.size() < results.size()) return results.front() ? results.back().error() : results.front().error();
  return join_ranks(std::move(parts));
}

// A model whose numbers overflow has no logits to compare with anything.
Result<void> check_finite(const TraceTensors& tensors) {
  for (const char* name : {"logits", "decode"}) {
    const auto at = tensors.find(name);
    if (at == tensors.end()) continue;
    const auto vocab = static_cast<std::size_t>(at->second.shape.back());
    for (std::size_t i = 0; i < at->second.bytes.size() / sizeof(float); ++i) {
      float value = 0;
      std::memcpy(&value, at->second.bytes.data() + i * sizeof value, sizeof value);
      if (std::isfinite(value)) continue;
      return Error{ErrorCode::corrupt, name, fmt::format("{} in row {}, token {}", value, i / vocab, i % vocab),
                   "finite numbers"};
    }
  }
  return {};
}

Result<void> write_tensors(const std::filesystem::path& path, const TraceTensors& tensors) {
  std::vector<TensorData> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
  return write_safetensors(path, list);
}

}  // namespace

void throw_exception_from_error(const TraceError& error, const boost::source_location& location) {
  tandem::throw_exception_from_error(error.cause, location);
}

TraceResult<void> run_trace(const TraceOptions& options) {
  if (auto ok = check_trace(options); !ok) return ok;
  const auto tensors = run_ranks(options);
  if (!tensors) return tensors.error();
  if (auto finite = check_finite(*tensors); !finite) return TraceError{TraceStage::run, finite.error()};
  if (auto written = write_tensors(options.out, *tensors); !written)
    return TraceError{TraceStage::write, written.error()};
  return {};
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
