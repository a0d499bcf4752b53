// A shard name comes from a downloaded file: it may name a file of this folder and nothing else.
#include "gpu/checkpoint/index.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <set>

#include "gpu/checkpoint/strict_json.hpp"

namespace tandem::gpu {
namespace {

namespace json = boost::json;

bool is_plain_shard_name(std::string_view name) {
  constexpr std::string_view suffix = ".safetensors";
  return name.size() > suffix.size() && name.size() <= 255 && name.ends_with(suffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, const std::string& where) {
  const Result<json::object> root = parse_strict_json(text, where);
  if (!root) return root.error();
  const json::value* value = root->if_contains("weight_map");
  const json::object* map = value == nullptr ? nullptr : value->if_object();
  if (map == nullptr || map->empty()) {
    return Error{ErrorCode::bad_format, where + ": weight_map", value == nullptr ? "absent" : "empty or not an object",
                 "an object of tensor name to shard name"};
  }
  std::set<std::string, std::less<>> shards;
  for (const auto& [tensor, shard] : *map) {
    const json::string* name = shard.if_string();
    if (name == nullptr || !is_plain_shard_name(std::string_view(name->data(), name->size()))) {
      return Error{ErrorCode::bad_format, where + ": weight_map." + std::string(tensor), json::serialize(shard),
                   "the plain name of a .safetensors file in the same folder"};
    }
    shards.emplace(name->data(), name->size());
  }
  ShardIndex index;
  index.shards.assign(shards.begin(), shards.end());
  for (const auto& [tensor, shard] : *map) {
    const auto at = std::lower_bound(index.shards.begin(), index.shards.end(), std::string_view(shard.get_string()));
    index.tensors.emplace(tensor, static_cast<std::size_t>(at - index.shards.begin()));
  }
  return index;
}

}  // namespace tandem::gpu
