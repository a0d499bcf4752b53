// The name is random too: two nodes that test at once do not read each other's.
#include "net/sync/nonce_file.hpp"

#include <system_error>
#include <utility>

#include "engram/durable_file.hpp"
#include "engram/sha256.hpp"
#include "net/sync/handshake.hpp"
#include "net/sync/leftovers.hpp"

namespace tandem::net::sync {
namespace {

constexpr std::string_view nonce_name_prefix = ".tandem-nonce-";
constexpr std::size_t nonce_name_digits = 32;

}  // namespace

bool is_nonce_file_name(std::string_view name) noexcept {
  if (!name.starts_with(nonce_name_prefix)) return false;
  name.remove_prefix(nonce_name_prefix.size());
  return name.size() == nonce_name_digits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<NonceFile> NonceFile::create(const std::filesystem::path& folder) {
  const auto label = random_nonce(), content = random_nonce();
  if (!label) return label.error();
  if (!content) return content.error();
  remove_old_leftovers(folder);
  NonceFile nonce;
  nonce.name_ = std::string(nonce_name_prefix) + engram::sha256_hex(*label).substr(0, nonce_name_digits);
  nonce.sha256_ = engram::sha256_hex(*content);
  auto file = engram::DurableFile::create(folder / nonce.name_);
  if (!file) return file.error();
  if (auto written = file->append(*content); !written) return written.error();
  if (auto committed = file->commit(); !committed) return committed.error();
  nonce.path_ = folder / nonce.name_;
  return nonce;
}

NonceFile::NonceFile(NonceFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), name_(std::move(other.name_)), sha256_(std::move(other.sha256_)) {}

NonceFile::~NonceFile() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

}  // namespace tandem::net::sync
