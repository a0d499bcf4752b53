// Every file appears complete or not at all, so a run that was killed here is simply finished by the next one.
#include "gpu/exl3/pack_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <utility>

#include "engram/durable_file.hpp"
#include "gpu/checkpoint/layers.hpp"
#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/pack_manifest.hpp"
#include "gpu/exl3/pack_record.hpp"
#include "gpu/exl3/pack_shard.hpp"

namespace tandem::gpu::exl3 {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t small_file_bytes_max = 256'000'000;
constexpr const char* bank_name = "bank";

bool is_leftover(const fs::path& path) {
  return !engram::replaced_name(path.filename().string()).empty();
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) found.push_back(at->path());
  return found;
}

Result<void> make_folder(const fs::path& folder) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return Error{ErrorCode::io, folder.string(), ec.message(), "a folder to write to"};
  return {};
}

Result<void> copy_companions(const PackJob& job) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "engram_token_map.i32"}) {
    std::error_code ec;
    if (!fs::exists(job.options.model / name, ec)) continue;
    const auto content = read_text(job.options.model / name, small_file_bytes_max);
    if (!content) return content.error();
    if (auto ok = write_text(job.options.out / name, *content); !ok) return ok;
  }
  return {};
}

// A bank keeps the source's configuration: what is beside it is official.
Result<void> write_configuration(const PackJob& job, const std::vector<std::string>& shards) {
  const fs::path from = job.options.model / "config.json", to = job.options.out / "config.json";
  const auto text = read_text(from, small_file_bytes_max);
  if (!text) return text.error();
  if (job.options.layout == PackLayout::experts) return write_text(to, *text);
  auto root = parse_strict_json(*text, from.string());
  if (!root) return root.error();
  auto quantization = quantization_config(job, shards);
  if (!quantization) return quantization.error();
  if (const json::value* original = root->if_contains("quantization_config")) {
    (*quantization)["original_quantization_config"] = *original;
  }
  (*root)["quantization_config"] = std::move(*quantization);
  return write_text(to, json::serialize(*root) + "\n");
}

Result<void> write_reference(const PackJob& job) {
  if (!job.refers_natives() && job.config.engram.layers.empty()) return {};
  std::error_code ec;
  fs::path base = fs::relative(job.options.model, job.options.out, ec);
  if (ec || base.empty()) base = fs::absolute(job.options.model);
  const json::object overlay{{"base", base.string()}};
  return write_text(job.options.out / overlay_file_name, json::serialize(overlay) + "\n");
}

// Says for every expert that the one bank has it.
Result<void> write_allocation(const PackJob& job) {
  json::object allocation;
  for (const PackMatrix& matrix : job.plan.matrices) {
    allocation[matrix.module.substr(0, matrix.module.rfind('.'))] = bank_name;
  }
  const fs::path folder = job.options.out / "exl3" / "plan";
  if (auto ok = make_folder(folder); !ok) return ok;
  return write_text(folder / "allocation.json",
                    json::serialize(json::object{{"allocation", std::move(allocation)}}) + "\n");
}

}  // namespace

Result<FolderLock> FolderLock::take(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return Error{ErrorCode::io, folder.string(), std::generic_category().message(errno), "a folder"};
  FolderLock lock(descriptor);
  // File systems that cannot lock a folder leave it to the user to start one run only.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return lock;
  return Error{ErrorCode::unavailable, folder.string(), "another process packs into it", "one at a time"};
}

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

fs::path shard_folder(const PackJob& job) {
  return job.options.layout == PackLayout::whole ? job.options.out : job.options.out / "exl3" / bank_name;
}

std::string shard_name(std::size_t shard) {
  return fmt::format("exl3-{:05}.safetensors", shard + 1);
}

Result<void> prepare_pack_folder(const PackJob& job) {
  std::error_code ec;
  const fs::path& out = job.options.out;
  if (!fs::exists(out / manifest_file_name, ec)) {
    for (const fs::path& entry : entries(out)) {
      if (is_leftover(entry)) continue;
      return Error{ErrorCode::invalid_argument, entry.string(), "not of a pack that was begun here",
                   "an empty folder, or one where the same pack was begun"};
    }
  }
  return make_folder(out);
}

void remove_leftovers(const PackJob& job) {
  const fs::path& out = job.options.out;
  for (const fs::path& folder : {out, out / pieces_folder_name, out / "exl3" / bank_name, out / "exl3" / "plan"}) {
    engram::remove_stale_temporaries(folder, [](std::string_view) { return true; });
  }
}

Result<void> finish_pack_folder(const PackJob& job, const std::vector<std::string>& shards) {
  if (auto ok = copy_companions(job); !ok) return ok;
  if (auto ok = write_reference(job); !ok) return ok;
  if (auto ok = write_configuration(job, shards); !ok) return ok;
  if (job.options.layout == PackLayout::experts) return write_allocation(job);
  if (auto ok = write_storage_record(job, shards); !ok) return ok;
  return write_pack_index(job.options.out, shards);
}

}  // namespace tandem::gpu::exl3
