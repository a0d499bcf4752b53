// The steps from an address to a whole folder, in their order; each leaves a folder from which the next run goes on.
#include "net/fetch/fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "engram/text_file.hpp"
#include "net/fetch/disk_space.hpp"
#include "net/fetch/downloader.hpp"
#include "net/fetch/folder_lists.hpp"
#include "net/fetch/listing.hpp"
#include "net/fetch/part_join.hpp"
#include "net/fetch/stray_parts.hpp"
#include "net/http/key_file.hpp"

namespace tandem::net::fetch {
namespace {

// Begins with ".tandem": no manifest may list it. Holds the address of the last fetch.
constexpr const char* lock_name = ".tandem-fetch.lock";
constexpr std::uint64_t source_bytes_max = 64 << 10;

class Fetching {
 public:
  explicit Fetching(const FetchOptions& options) : options_(options), session_(options.stop) {}

  Result<FetchReport> run() {
    if (!options_.from.empty()) {
      auto url = Url::parse(options_.from);
      if (!url) return url.error();
      listing_.base = std::move(*url);
    }
    if (auto locked = lock_folder(); !locked) return locked.error();
    if (auto listed = list(); !listed) return listed.error();
    verified_ = std::make_unique<VerifiedFiles>(options_.folder, lists_->is_all_of(listing_.manifest.revision));
    if (auto sorted = sort_out(); !sorted) return sorted.error();
    remove_stray_parts(options_.folder, lists_->all(), listing_.manifest);
    if (auto checked = check_space(); !checked) return checked.error();
    if (auto begun = lists_->begin(listing_.manifest); !begun) return begun.error();
    if (auto noted = note_source(); !noted) return noted.error();
    if (auto fetched = fetch_files(); !fetched) return fetched.error();
    if (auto joined = join_shards(); !joined) return joined.error();
    return finish();
  }

 private:
  Result<void> lock_folder();
  Result<void> list();
  Result<void> list_from_server();
  Result<void> sort_out();
  Result<void> check_space() const;
  Result<void> note_source();
  Result<void> fetch_files();
  Result<void> join_shards();
  Result<FetchReport> finish();
  std::string command() const;

  const FetchOptions& options_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Session session_;
  std::optional<engram::OutputFile> lock_;
  std::optional<FolderLists> lists_;
  std::unique_ptr<Client> client_;  // goes before the session, whose context its sockets use
  std::string source_;              // address of the last fetch that began here, or of this one
  Listing listing_;
  std::unique_ptr<VerifiedFiles> verified_;
  std::vector<Join> joins_;
  std::vector<gpu::ManifestEntry> wanted_;  // files that come over the network, if they are not there
  FetchReport report_;
};

Result<void> Fetching::lock_folder() {
  std::error_code failed;
  std::filesystem::create_directories(options_.folder, failed);
  if (failed) return Error{ErrorCode::io, options_.folder.string(), "make the folder: " + failed.message(), ""};
  const auto path = options_.folder / lock_name;
  auto lock = engram::OutputFile::open(path);
  if (!lock && lock.error().code == ErrorCode::unavailable)
    return Error{ErrorCode::unavailable, options_.folder.string(), "another fetch works on this folder", ""};
  if (!lock) return lock.error();
  lock_.emplace(std::move(*lock));
  lists_ = FolderLists::open(options_.folder);
  if (auto text = engram::read_text(path, source_bytes_max)) source_ = *text;
  return {};
}

// After the list: an address is that of the lists' revision, never of one that a later fetch only asked about.
Result<void> Fetching::note_source() {
  if (options_.from.empty()) return {};
  source_ = options_.from.substr(0, options_.from.find('?'));
  if (auto emptied = lock_->resize(0); !emptied) return emptied;
  return lock_->write_at(0, std::as_bytes(std::span(source_)));
}

std::string Fetching::command() const {
  return fmt::format("tandem fetch --from {} --out {}", source_.empty() ? "URL" : source_, options_.folder.string());
}

Result<void> Fetching::list() {
  if (options_.join_only && options_.manifest_file.empty()) {
    auto manifest = lists_->latest();
    if (!manifest) return manifest.error();
    listing_.manifest = std::move(*manifest);
  } else if (!options_.manifest_file.empty()) {
    const auto text = engram::read_text(options_.manifest_file, gpu::manifest_text_bytes_max);
    if (!text) return text.error();
    auto manifest = gpu::parse_manifest(*text, options_.manifest_file.string());
    if (!manifest) return manifest.error();
    listing_.manifest = std::move(*manifest);
  }
  if (options_.join_only) return check_revision(listing_.manifest, options_.revision);
  if (options_.from.empty()) return Error{ErrorCode::bad_config, "--from", "no address", "where the files are"};
  auto client = Client::create(listing_.base, options_.limits, options_.access);
  if (!client) return client.error();
  client_ = std::move(*client);
  if (options_.manifest_file.empty()) return list_from_server();
  if (auto right = check_revision(listing_.manifest, options_.revision); !right) return right;
  auto base = session_.run(pin_base(*client_, options_.limits, options_.watch, listing_));
  if (!base) return base.error();
  listing_.base = std::move(*base);
  return {};
}

Result<void> Fetching::list_from_server() {
  ListingPlan plan{listing_.base, options_.revision, "", source_};
  const auto recorded = lists_->latest();
  if (recorded) plan.recorded = recorded->revision;
  auto listing = session_.run(list_files(*client_, options_.limits, options_.watch, std::move(plan)));
  if (!listing) return listing.error();
  if (recorded && recorded->revision != listing->manifest.revision) {
    options_.watch.say(fmt::format("{} held revision {}; it becomes {}", options_.folder.string(), recorded->revision,
                                   listing->manifest.revision));
  }
  listing_ = std::move(*listing);
  return {};
}

// What is fetched, what is joined. Parts of a shard that is whole and right are neither fetched nor joined.
Result<void> Fetching::sort_out() {
  auto joins = find_joins(listing_.manifest);
  if (!joins) return joins.error();
  std::vector<std::string> left_out;
  for (Join& join : *joins) {
    left_out.push_back(join.whole.path);
    const auto present = verified_->look_at(join.whole, options_.stop);
    if (!present) return present.error();
    if (present->state == PresentFile::State::right || options_.join_only) {
      for (const auto& part : join.parts) left_out.push_back(part.path);
    }
    joins_.push_back(std::move(join));
  }
  std::ranges::sort(left_out);
  if (options_.join_only) return {};
  for (const gpu::ManifestEntry& entry : listing_.manifest.files)
    if (!std::ranges::binary_search(left_out, entry.path)) wanted_.push_back(entry);
  return {};
}

Result<void> Fetching::check_space() const {
  std::error_code failed;
  const auto space = std::filesystem::space(options_.folder, failed);
  if (failed) return Error{ErrorCode::io, options_.folder.string(), "free space: " + failed.message(), ""};
  const SpaceVerdict verdict =
      judge_space(space_need(options_.folder, wanted_, joins_, options_.keep_parts), space.available);
  if (verdict.fits || options_.is_forced) {
    if (!verdict.warning.empty()) options_.watch.say("warning: " + verdict.warning);
    return {};
  }
  return Error{ErrorCode::resource, options_.folder.string(), verdict.warning, "enough of it (--force tries anyway)"};
}

Result<void> Fetching::fetch_files() {
  if (wanted_.empty()) return {};
  std::vector<FileJob> jobs;
  for (const gpu::ManifestEntry& entry : wanted_) {
    jobs.push_back({listing_.base.child(entry.path), options_.folder / entry.path, entry, listing_.manifest.revision});
  }
  const auto done = download({session_, *client_, *verified_, options_.limits, options_.watch}, std::move(jobs));
  if (!done) return done.error();
  report_.files_present = done->files_present;
  report_.files_fetched = done->files_fetched;
  report_.bytes_received = done->bytes_received;
  report_.bytes_resumed = done->bytes_resumed;
  report_.retries = done->retries;
  for (std::size_t i = 0; i < wanted_.size(); ++i) wanted_[i].sha256 = done->hashes[i];
  return {};
}

Result<void> Fetching::join_shards() {
  for (Join& join : joins_) {
    const JoinOptions how{options_.keep_parts, command(), options_.watch.announce, options_.stop};
    auto joined = join_parts(options_.folder, join, *verified_, how);
    if (!joined) return joined.error();
    ++(joined->was_there ? report_.files_present : report_.files_joined);
    join.whole.sha256 = joined->sha256;
  }
  return {};
}

// The manifest that stays lists what the folder now holds: whole shards, no parts, and every hash.
Result<FetchReport> Fetching::finish() {
  gpu::Manifest& manifest = listing_.manifest;
  if (!options_.join_only) manifest.files = wanted_;
  for (const Join& join : joins_) {
    const auto belongs_to = [&](const gpu::ManifestEntry& entry) {
      const auto is_same = [&](const gpu::ManifestEntry& part) { return part.path == entry.path; };
      return is_same(join.whole) || std::ranges::any_of(join.parts, is_same);
    };
    std::erase_if(manifest.files, belongs_to);
    manifest.files.push_back(join.whole);
  }
  if (auto written = lists_->end(manifest); !written) return written.error();
  report_.revision = manifest.revision;
  report_.manifest_hash = gpu::manifest_hash(manifest);
  report_.files = manifest.files.size();
  report_.bytes = manifest.bytes_all();
  report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  return report_;
}

}  // namespace

Result<FetchReport> fetch(const FetchOptions& options) {
  Fetching fetching(options);
  return fetching.run();
}

Result<std::string> find_token(const std::filesystem::path& token_file) {
  if (token_file.empty()) {
    const char* token = std::getenv("TANDEM_FETCH_TOKEN");
    return std::string(token == nullptr ? "" : token);
  }
  auto tokens = net::http::load_keys(token_file);
  if (!tokens) return tokens.error();
  return std::move(tokens->front());
}

}  // namespace tandem::net::fetch
