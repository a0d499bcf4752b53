// Small files and questions about files: a whole answer in memory, or its head alone, with the same patience as for
// weights.
#pragma once

#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "net/fetch/client.hpp"
#include "net/fetch/progress.hpp"

namespace tandem::net::fetch {

struct SmallReply {
  Reply reply;       // the connection is given back already
  std::string body;  // empty after HEAD
};

// Asks until there is an answer of status 200 or the attempts are used up. Errors: not_found (404, 410), bad_config
// (refused), out_of_range (longer than `small_file_bytes_max`), timeout (hardly any bytes within the read limit), and
// those of Client.
Awaitable<Result<SmallReply>> ask_small(Client& client, const FetchLimits& limits, const FetchWatch& watch,
                                        Request request);

// What the longest manifest may have; an index of a hundred thousand tensors has a third of it.
inline constexpr std::size_t small_file_bytes_max = gpu::manifest_text_bytes_max;

}  // namespace tandem::net::fetch
