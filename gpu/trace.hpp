// Trace: runs a prompt and writes what the model computed to one safetensors file. The instrument of all numeric
// checks; needs no tokenizer.
//
// Tensors: `logits` F32 [prompt, vocab]; with forced tokens `decode` F32 [n, vocab], row i behind forced token i; with
// `layers` the tensors of every layer of the prompt under the names of the golden files; with `spec` K > 0 `draft` I32
// [bursts, K] and `accepted` I32 [bursts]: each burst feeds the next forced token and K drafts, keeps the drafts that
// equal the forced tokens behind it and takes the others back, so that `decode` is the same with and without it.
// Neither chunks nor the number of ranks change the names, shapes or types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

struct TraceOptions {
  std::filesystem::path model;
  std::vector<std::int32_t> ids;   // prompt, at least one
  std::vector<std::int32_t> then;  // forced tokens
  std::string numerics = "serve";
  std::string backend = "cpu";  // see gpu/backend.hpp
  int chunk = 0;                // rows of a prefill step; 0 = the whole prompt at once
  int ranks = 1;                // threads of this process, one a rank
  int threads = 0;              // compute threads of all ranks together; 0 = all cores
  bool layers = false;
  int spec = 0;  // drafts of a burst
  std::filesystem::path out;
};

// How far a trace came before it failed.
enum class TraceStage : std::uint8_t {
  options,  // an option is wrong, by itself or for this model
  load,     // the model folder cannot be loaded
  run,      // the forward pass failed
  write,    // the file cannot be written
};

struct TraceError {
  TraceStage stage = TraceStage::run;
  Error cause;
  std::string message() const { return cause.message(); }
};

// Called by boost::system::result when value() is taken from an error: a defect, reported as std::logic_error.
[[noreturn]] void throw_exception_from_error(const TraceError& error, const boost::source_location& location);

template <class T>
using TraceResult = boost::system::result<T, TraceError>;

// Writes options.out whole or not at all. Options are checked before any weight is read.
TraceResult<void> run_trace(const TraceOptions& options);

// Reads token ids separated by white space. Errors: not_found, io, bad_format naming the text that is no id.
Result<std::vector<std::int32_t>> read_token_ids(const std::filesystem::path& file);

}  // namespace tandem::gpu
