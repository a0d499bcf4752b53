// Everything here looks at names and two small JSON files; no header of a shard is read.
#include "gpu/checkpoint/layers.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <system_error>

#include "gpu/checkpoint/strict_json.hpp"

namespace tandem::gpu {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t folders_max = 8;
constexpr std::uint64_t overlay_bytes_max = 65'536;
constexpr std::uint64_t plan_bytes_max = 64'000'000;

// A link that leads nowhere or in circles is there: opening it says what is wrong.
bool is_there(const fs::path& path) {
  std::error_code ec;
  return fs::symlink_status(path, ec).type() != fs::file_type::not_found;
}

Result<fs::path> read_base(const fs::path& file, const OpenSource& open) {
  const Result<std::string> text = read_text(file, overlay_bytes_max, open);
  if (!text) return text.error();
  const Result<json::object> root = parse_strict_json(*text, file.string());
  if (!root) return root.error();
  const json::value* base = root->if_contains("base");
  if (base == nullptr || !base->is_string() || base->get_string().empty() || root->size() != 1) {
    return Error{ErrorCode::bad_format, file.string(), json::serialize(*root).substr(0, 80), R"({"base": "FOLDER"})"};
  }
  fs::path folder = (file.parent_path() / std::string(base->get_string())).lexically_normal();
  std::error_code ec;
  if (fs::is_directory(folder, ec)) return folder;
  return Error{ErrorCode::not_found, file.string() + ": base", folder.string(), "an existing folder"};
}

// Entries of a folder, ascending, so that nothing depends on the file system's order.
Result<std::vector<fs::path>> list(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) entries.push_back(at->path());
  if (ec) return Error{ErrorCode::io, folder.string(), ec.message(), "a readable folder"};
  std::sort(entries.begin(), entries.end());
  return entries;
}

Result<ExpertBank> read_bank(const std::string& name, const fs::path& folder) {
  const auto entries = list(folder);
  if (!entries) return entries.error();
  ExpertBank bank{name, {}};
  for (const fs::path& entry : *entries) {
    if (entry.extension() == ".safetensors") bank.files.push_back(entry);
  }
  if (!bank.files.empty()) return bank;
  return Error{ErrorCode::not_found, folder.string(), "no .safetensors file", "the shards of expert bank " + name};
}

// Reads one plan.
class PlanReader {
 public:
  PlanReader(ExpertBanks& banks, fs::path file) : banks_(banks) { banks_.plan = std::move(file); }

  Result<void> read(const json::object& root) {
    if (const json::value* value = root.if_contains("banks")) {
      if (auto ok = read_banks(*value); !ok) return ok;
    }
    const json::value* allocation = root.if_contains("allocation");
    if (allocation == nullptr || !allocation->is_object()) {
      return fault("allocation", "absent or not an object", "an object of expert to bank name");
    }
    for (const auto& [key, value] : allocation->get_object()) {
      if (auto ok = read_entry(std::string(key), value); !ok) return ok;
    }
    return {};
  }

 private:
  Error fault(const std::string& where, std::string found, std::string expected) const {
    return {ErrorCode::bad_format, banks_.plan.string() + ": " + where, std::move(found), std::move(expected)};
  }

  Result<void> read_banks(const json::value& value) {
    const json::object* object = value.if_object();
    if (object == nullptr) return fault("banks", "not an object", "an object of bank name to folder");
    for (const auto& [key, folder] : *object) {
      if (!folder.is_string()) return fault("banks." + std::string(key), json::serialize(folder), "a folder");
      auto bank = read_bank(std::string(key), banks_.plan.parent_path() / std::string(folder.get_string()));
      if (!bank) return bank.error();
      std::erase_if(banks_.banks, [&](const ExpertBank& other) { return other.name == bank->name; });
      banks_.banks.push_back(std::move(*bank));
    }
    std::sort(banks_.banks.begin(), banks_.banks.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return {};
  }

  Result<void> read_entry(const std::string& key, const json::value& value) {
    if (value.is_string()) return choose(key, std::string(value.get_string()));
    if (!value.is_object()) return fault("allocation." + key, json::serialize(value).substr(0, 80), "a bank name");
    for (const auto& [expert, bank] : value.get_object()) {
      if (!bank.is_string()) return fault("allocation." + key + "." + std::string(expert), "no string", "a bank name");
      const std::string name = "layers." + key + ".ffn.experts." + std::string(expert);
      if (auto ok = choose(name, std::string(bank.get_string())); !ok) return ok;
    }
    return {};
  }

  Result<void> choose(const std::string& module, std::string bank) {
    const bool known = std::any_of(banks_.banks.begin(), banks_.banks.end(),
                                   [&](const ExpertBank& other) { return other.name == bank; });
    if (!known) {
      return Error{ErrorCode::mismatch, banks_.plan.string() + ": allocation." + module, "bank " + bank,
                   "one of the banks beside the plan"};
    }
    banks_.allocation[module] = std::move(bank);
    return {};
  }

  ExpertBanks& banks_;
};

Result<void> read_plan(ExpertBanks& banks, const fs::path& folder, const OpenSource& open) {
  const auto entries = list(folder);
  if (!entries) return entries.error();
  std::vector<fs::path> plans;
  for (const fs::path& entry : *entries) {
    if (entry.extension() == ".json") plans.push_back(entry);
  }
  if (plans.empty()) return {};
  if (plans.size() > 1) {
    return Error{ErrorCode::mismatch, folder.string(),
                 plans[0].filename().string() + " and " + plans[1].filename().string(), "one plan"};
  }
  const Result<std::string> text = read_text(plans.front(), plan_bytes_max, open);
  if (!text) return text.error();
  const Result<json::object> root = parse_strict_json(*text, plans.front().string());
  if (!root) return root.error();
  return PlanReader(banks, plans.front()).read(*root);
}

}  // namespace

Result<std::vector<fs::path>> find_layers(const fs::path& folder, const OpenSource& open) {
  std::vector<fs::path> layers{folder};
  while (is_there(layers.front() / overlay_file_name)) {
    if (layers.size() == folders_max) {
      return Error{ErrorCode::out_of_range, folder.string(), "more than eight folders over each other", "no circle"};
    }
    auto base = read_base(layers.front() / overlay_file_name, open);
    if (!base) return base.error();
    layers.insert(layers.begin(), std::move(*base));
  }
  return layers;
}

const std::string* ExpertBanks::choice(std::string_view module) const {
  auto at = allocation.find(module);
  if (at == allocation.end()) at = allocation.find(module.substr(0, module.rfind('.')));
  return at == allocation.end() ? nullptr : &at->second;
}

Result<ExpertBanks> find_banks(const fs::path& folder, const OpenSource& open) {
  ExpertBanks banks;
  const fs::path root = folder / "exl3";
  if (!is_there(root)) return banks;
  const auto entries = list(root);
  if (!entries) return entries.error();
  for (const fs::path& entry : *entries) {
    std::error_code ec;
    if (entry.filename() == "plan" || !fs::is_directory(entry, ec)) continue;
    auto bank = read_bank(entry.filename().string(), entry);
    if (!bank) return bank.error();
    banks.banks.push_back(std::move(*bank));
  }
  if (is_there(root / "plan")) {
    if (auto ok = read_plan(banks, root / "plan", open); !ok) return ok.error();
  }
  return banks;
}

}  // namespace tandem::gpu
