// A manifest if there is one, else the index and the hub's answers.
#include "net/fetch/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "gpu/weights_files/index_shards.hpp"
#include "net/fetch/small_file.hpp"

namespace tandem::net::fetch {
namespace {

constexpr const char* index_name = "model.safetensors.index.json";
// Without these two nothing can be served; the others are taken where a repository has them.
constexpr const char* needed_names[] = {"config.json", "tokenizer.json"};
constexpr const char* optional_names[] = {"tokenizer_config.json",    "generation_config.json",
                                          "quantization_config.json", "engram_token_map.i32",
                                          "preprocessor_config.json", "overlay.json"};

bool is_sha256(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 64 && std::ranges::all_of(text, is_digit);
}

// The hash in the ETag of a file that the hub stores by content; other ETags are no hashes of the bytes.
std::string linked_hash(const Reply& reply) {
  std::string tag = reply.first_field("X-Linked-Etag");
  std::erase(tag, '"');
  return is_sha256(tag) ? tag : std::string();
}

Result<std::uint64_t> linked_size(const Reply& reply, const std::string& path) {
  const std::string field = reply.first_field("X-Linked-Size");
  std::uint64_t bytes = 0;
  const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), bytes);
  if (failed == std::errc() && end == field.data() + field.size()) return bytes;
  if (reply.head.content_length) return *reply.head.content_length;
  return Error{ErrorCode::bad_format, path, "an answer without a size", "Content-Length"};
}

bool is_of_same_repository(const std::string& address, const HubAddress& hub) {
  const auto url = Url::parse(address);
  if (!url) return false;
  const auto other = HubAddress::parse(*url);
  return other && other->repository.has_origin_of(hub.repository) && other->repository.target == hub.repository.target;
}

Error unpinned(const Url& base, const HubAddress& hub) {
  return {ErrorCode::bad_config, base.text_without_query(), fmt::format("revision {}, which may move", hub.revision),
          "a full commit hash"};
}

class Lister {
 public:
  Lister(Client& client, const FetchLimits& limits, const FetchWatch& watch, ListingPlan plan)
      : client_(client), limits_(limits), watch_(watch), plan_(std::move(plan)), listing_{{}, plan_.base} {
    if (auto hub = HubAddress::parse(plan_.base)) hub_ = *hub;
  }

  Awaitable<Result<Listing>> run() {
    if (hub_) use_recorded_revision();
    auto text = co_await get(gpu::manifest_file_name);
    if (text) {
      auto manifest =
          gpu::parse_manifest(text->body, listing_.base.child(gpu::manifest_file_name).text_without_query());
      if (!manifest) co_return manifest.error();
      listing_.manifest = std::move(*manifest);
      if (auto pinned = pin(text->reply); !pinned) co_return pinned.error();
    } else if (text.error().code != ErrorCode::not_found || !hub_) {
      co_return text.error();
    } else if (auto listed = co_await list_by_index(); !listed) {
      co_return listed.error();
    }
    if (auto right = check_revision(listing_.manifest, plan_.revision); !right) co_return right.error();
    co_return listing_;
  }

 private:
  Awaitable<Result<SmallReply>> get(std::string_view path) {
    return ask_small(client_, limits_, watch_, {listing_.base.child(path), false, std::nullopt, ""});
  }

  void use_recorded_revision() {
    const HubAddress recorded{hub_->repository, plan_.recorded};
    if (hub_->is_pinned() || !recorded.is_pinned() || !is_of_same_repository(plan_.recorded_from, *hub_)) return;
    watch_.say(fmt::format("revision {} was resolved to {} by an earlier run", hub_->revision, plan_.recorded));
    hub_ = recorded;
    listing_.base = hub_->at(hub_->revision);
  }

  // From here on everything comes from one commit.
  Result<void> pin(const Reply& reply) {
    if (!hub_) return {};
    if (!hub_->is_pinned()) {
      const HubAddress commit{hub_->repository, reply.first_field("X-Repo-Commit")};
      if (!commit.is_pinned()) return unpinned(listing_.base, *hub_);
      watch_.say(fmt::format("revision {} is {}", hub_->revision, commit.revision));
      hub_ = commit;
      listing_.base = hub_->at(hub_->revision);
    }
    listing_.manifest.revision = hub_->revision;
    return {};
  }

  Awaitable<Result<void>> list_by_index() {
    const auto index = co_await get(index_name);
    if (!index) co_return index.error();
    if (auto pinned = pin(index->reply); !pinned) co_return pinned.error();
    auto names = gpu::shards_of_index(index->body, listing_.base.child(index_name).text_without_query());
    if (!names) co_return names.error();
    names->emplace_back(index_name);
    names->insert(names->end(), std::begin(needed_names), std::end(needed_names));
    if (auto right = check_names(*names); !right) co_return right.error();
    for (const std::string& name : *names) {
      if (auto added = co_await add(name); !added) co_return added.error();
    }
    for (const char* name : optional_names) {
      const auto added = co_await add(name);
      if (!added && added.error().code != ErrorCode::not_found) co_return added.error();
    }
    std::ranges::sort(listing_.manifest.files, {}, &gpu::ManifestEntry::path);
    co_return Result<void>{};
  }

  // An index names whatever it likes: the list must be one that a manifest can be, before the first question.
  Result<void> check_names(const std::vector<std::string>& names) const {
    gpu::Manifest list;
    for (const std::string& name : names) list.files.push_back({name, 0, ""});
    for (const char* name : optional_names) list.files.push_back({name, 0, ""});
    return gpu::check_manifest(list, listing_.base.child(index_name).text_without_query());
  }

  Awaitable<Result<void>> add(std::string path) {
    Request request{listing_.base.child(path), true, std::nullopt, ""};
    const auto answer = co_await ask_small(client_, limits_, watch_, std::move(request));
    if (!answer) co_return answer.error();
    const auto bytes = linked_size(answer->reply, path);
    if (!bytes) co_return bytes.error();
    listing_.manifest.files.push_back({std::move(path), *bytes, linked_hash(answer->reply)});
    co_return Result<void>{};
  }

  Client& client_;
  const FetchLimits& limits_;
  const FetchWatch& watch_;
  ListingPlan plan_;
  Listing listing_;
  std::optional<HubAddress> hub_;
};

}  // namespace

Awaitable<Result<Listing>> list_files(Client& client, const FetchLimits& limits, const FetchWatch& watch,
                                      ListingPlan plan) {
  Lister lister(client, limits, watch, std::move(plan));
  co_return co_await lister.run();
}

Awaitable<Result<Url>> pin_base(Client& client, const FetchLimits& limits, const FetchWatch& watch,
                                const Listing& listing) {
  const auto hub = HubAddress::parse(listing.base);
  if (!hub || hub->is_pinned() || listing.manifest.files.empty()) co_return listing.base;
  const HubAddress named{hub->repository, listing.manifest.revision};
  if (named.is_pinned()) co_return hub->at(named.revision);
  Request question{listing.base.child(listing.manifest.files.front().path), true, std::nullopt, ""};
  const auto answer = co_await ask_small(client, limits, watch, std::move(question));
  if (!answer) co_return answer.error();
  const HubAddress commit{hub->repository, answer->reply.first_field("X-Repo-Commit")};
  if (commit.is_pinned()) co_return hub->at(commit.revision);
  const auto has_no_hash = [](const gpu::ManifestEntry& entry) { return entry.sha256.empty(); };
  if (std::ranges::any_of(listing.manifest.files, has_no_hash)) co_return unpinned(listing.base, *hub);
  co_return listing.base;
}

Result<void> check_revision(const gpu::Manifest& manifest, const std::string& wanted) {
  if (wanted.empty() || manifest.revision == wanted) return {};
  return Error{ErrorCode::mismatch, gpu::manifest_file_name, "revision " + manifest.revision, wanted};
}

}  // namespace tandem::net::fetch
