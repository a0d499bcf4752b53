// Tables of malformed checkpoints: each case starts from a folder that loads, spoils one thing, and says which error a
// rank must report and what its message must name.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/checkpoint_fixture.hpp"

namespace tandem::gpu::test {

using Change = std::function<void(CheckpointFolder&)>;

struct MalformedCase {
  const char* name;
  Change change;
  ErrorCode code;
  std::vector<std::string> told;  // parts that the message must contain
};

inline const std::string shard1 = "model-00001-of-00002.safetensors";
inline const std::string shard2 = "model-00002-of-00002.safetensors";
inline const std::string index_name = "model.safetensors.index.json";

// What a rank would report when it starts on this folder, or what verification finds if the weights load.
Result<void> start_on(const std::filesystem::path& folder);

// Each case's folder, changed before it is written, is refused as the case says.
void check_refused_content(const std::vector<MalformedCase>& cases);
// The same for changes of the files of a written folder.
void check_refused_files(const std::vector<MalformedCase>& cases);

// Changes of the content.
Change set_text(const char* key, boost::json::value value);
Change erase_tensor(const char* tensor);
Change add_tensor(const char* tensor);
// Another type and shape, zeros inside.
Change retype(const char* tensor, DType dtype, std::vector<std::int64_t> shape);
Change poke(const char* tensor, std::size_t at, std::vector<std::uint8_t> bytes);

// Changes of the files.
Change set_header_length(std::uint64_t length);  // of the first shard: its first eight bytes
Change cut_first_shard(std::function<std::uintmax_t(std::uintmax_t)> new_size);
Change edit_first_header(std::string from, std::string to);
Change edit_index(std::string from, std::string to);

}  // namespace tandem::gpu::test
