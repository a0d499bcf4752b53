// {"job": "0123456789abcdef", "layout": "whole", "bits": "3", "groups": [{"name": .., "sensitivity": "1.2e-3", "bits":
// 4}]}
#include "gpu/exl3/pack_manifest.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/exl3/pack_shard.hpp"

namespace tandem::gpu::exl3 {
namespace {

namespace json = boost::json;

constexpr std::uint64_t manifest_bytes_max = 64'000'000;

std::string number_text(double value) {
  return fmt::format("{:.6e}", value);
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !(value >= 0)) return std::nullopt;
  return value;
}

// Reads the entries of the groups into a manifest.
class GroupReader {
 public:
  GroupReader(const PackJob& job, std::string file) : job_(job), file_(std::move(file)) {}

  Result<PackManifest> read(const json::value* groups) {
    const std::vector<BitGroup>& expected = job_.plan.groups;
    if (groups == nullptr || !groups->is_array() || groups->get_array().size() != expected.size()) {
      return fault("groups", fmt::format("a list of {} groups", expected.size()));
    }
    manifest_.sensitivities.resize(expected.size());
    for (std::size_t g = 0; g < expected.size(); ++g) {
      const json::object* entry = groups->get_array()[g].if_object();
      if (entry == nullptr) return fault(expected[g].name, "an object");
      if (auto ok = read_group(g, *entry); !ok) return ok.error();
    }
    if (!manifest_.bits.empty() && manifest_.bits.size() != expected.size()) {
      return fault("groups", "bits for all groups or for none");
    }
    return std::move(manifest_);
  }

 private:
  Error fault(const std::string& where, std::string expected) const {
    return {ErrorCode::bad_format, file_ + ": " + where, "something else", std::move(expected)};
  }

  Result<void> read_group(std::size_t g, const json::object& entry) {
    const BitGroup& expected = job_.plan.groups[g];
    const json::value* name = entry.if_contains("name");
    if (name == nullptr || *name != json::value(expected.name)) return fault(expected.name, "this group's name");
    if (const json::value* value = entry.if_contains("sensitivity")) {
      if (value->is_string()) manifest_.sensitivities[g] = parse_number(std::string_view(value->get_string()));
      if (!manifest_.sensitivities[g]) return fault(expected.name, "a sensitivity of at least 0");
    }
    if (const json::value* value = entry.if_contains("bits")) {
      if (!value->is_int64() || value->get_int64() < expected.bits_min || value->get_int64() > expected.bits_max) {
        return fault(expected.name, fmt::format("{} to {} bits", expected.bits_min, expected.bits_max));
      }
      manifest_.bits.push_back(static_cast<int>(value->get_int64()));
    }
    return {};
  }

  const PackJob& job_;
  std::string file_;
  PackManifest manifest_;
};

}  // namespace

double kept_digits(double value) {
  return parse_number(number_text(value)).value_or(0);
}

Result<PackManifest> PackManifest::read(const PackJob& job) {
  const std::filesystem::path file = job.options.out / manifest_file_name;
  std::error_code ec;
  if (!std::filesystem::exists(file, ec)) {
    return PackManifest{std::vector<std::optional<double>>(job.plan.groups.size()), {}};
  }
  const auto text = read_text(file, manifest_bytes_max);
  if (!text) return text.error();
  const auto root = parse_strict_json(*text, file.string());
  if (!root) return root.error();
  const json::value* identity = root->if_contains("job");
  if (identity == nullptr || *identity != json::value(job.identity)) {
    return Error{ErrorCode::invalid_argument, file.string(), "a pack of another model or made with other options",
                 "an empty folder, or one where the same pack was begun"};
  }
  return GroupReader(job, file.string()).read(root->if_contains("groups"));
}

Result<void> PackManifest::write(const PackJob& job) const {
  json::array groups;
  for (std::size_t g = 0; g < job.plan.groups.size(); ++g) {
    json::object group{{"name", job.plan.groups[g].name}};
    if (sensitivities[g]) group["sensitivity"] = number_text(*sensitivities[g]);
    if (!bits.empty()) group["bits"] = bits[g];
    groups.push_back(std::move(group));
  }
  const char* layout = job.options.layout == PackLayout::whole ? "whole" : "experts";
  const json::object root{{"job", job.identity},
                          {"layout", layout},
                          {"bits", fmt::format("{}", job.options.bits)},
                          {"groups", std::move(groups)}};
  return write_text(job.options.out / manifest_file_name, json::serialize(root) + "\n");
}

}  // namespace tandem::gpu::exl3
