// Names are matched to the last character: a file that somebody called nearly the same is theirs.
#include "net/sync/leftovers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "engram/durable_file.hpp"
#include "gpu/weights_files/receipts.hpp"
#include "net/sync/incoming_file.hpp"
#include "net/sync/nonce_file.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;

template <class Matches>
std::vector<fs::path> find_files(const fs::path& folder, Matches matches) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (matches(at->path().filename().string())) found.push_back(at->path());
  }
  return found;
}

// What cannot be removed is no reason to do anything else.
void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  const fs::path parts = folder / parts_folder_name;
  engram::remove_stale_temporaries(parts, [](std::string_view name) { return name.ends_with(".journal"); });
  fs::remove(parts, ignored);  // stays where something unfinished is in it
  remove_old_leftovers(folder);
}

}  // namespace

void remove_old_leftovers(const fs::path& folder) {
  engram::remove_stale_temporaries(
      folder, [](std::string_view name) { return is_nonce_file_name(name) || name == gpu::receipt_file_name; });
  const auto limit = fs::file_time_type::clock::now() - leftover_age;
  for (const fs::path& file : find_files(folder, is_nonce_file_name)) {
    std::error_code failed;
    const auto written = fs::last_write_time(file, failed);
    if (!failed && written < limit) fs::remove(file, failed);
  }
}

ReceiverLock::ReceiverLock(const fs::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) return;
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) remove_leftovers(folder);
  ::flock(descriptor_, LOCK_SH);  // whoever tidies has it for a moment
}

ReceiverLock::~ReceiverLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace tandem::net::sync
