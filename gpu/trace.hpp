// Trace: runs a prompt and writes what the model computed to one safetensors file. The instrument of all numeric
// checks; needs no tokenizer.
//
// Tensors: `logits` F32 [prompt, vocab]; with forced tokens `decode` F32 [n, vocab], row i behind forced token i; with
// `layers` the tensors of every layer of the prompt under the names of the golden files; with `spec` K > 0 `draft` I32
// [bursts, K] and `accepted` I32 [bursts]: each burst feeds the next forced token and K drafts, keeps the drafts that
// equal the forced tokens behind it and takes the others back, so that `decode` is the same with and without it.
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
  bool layers = false;          // one rank only: a rank of several sees its own heads
  int spec = 0;                 // drafts of a burst
  std::filesystem::path out;
};

// Writes options.out whole or not at all. Errors: invalid_argument (option or token id out of range), those of
// load_model and of the forward pass, io.
Result<void> run_trace(const TraceOptions& options);

// Reads token ids separated by white space. Errors: not_found, io, bad_format naming the text that is no id.
Result<std::vector<std::int32_t>> read_token_ids(const std::filesystem::path& file);

}  // namespace tandem::gpu
