// One pass over the tensors; each file once.
#include "gpu/weights_files/index_shards.hpp"

#include <boost/json/object.hpp>
#include <set>

#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/weights_files/manifest.hpp"

namespace tandem::gpu {

namespace json = boost::json;

Result<std::vector<std::string>> shards_of_index(std::string_view text, const std::string& where) {
  const auto bad = [&](std::string found) {
    return Error{ErrorCode::bad_format, where, std::move(found), "an object with a weight_map of tensor to file"};
  };
  // Beside the tensors there are an object or two and a few numbers.
  const auto root = parse_strict_json(text, where, index_tensors_max + 1000);
  if (!root) return root.error();
  const json::value* map = root->if_contains("weight_map");
  if (map == nullptr || !map->is_object() || map->get_object().empty()) return bad("no weight_map");
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map->get_object()) {
    if (!file.is_string()) return bad("a file that is not a string");
    const std::string path(file.get_string().c_str(), file.get_string().size());
    if (auto right = check_manifest_path(path, where); !right) return right.error();
    shards.insert(path);
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

}  // namespace tandem::gpu
