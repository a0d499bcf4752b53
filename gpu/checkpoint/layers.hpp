// CheckpointLayers: the folders and expert banks that one checkpoint is read from, lowest first.
//
// A folder may stand on another one: its `overlay.json`, {"base": "../other"}, names the folder that has everything it
// does not bring itself (a packed model beside its official tables, single repacked matrices over a whole pack). A
// matrix of an upper layer replaces all tensors of that matrix below, whatever their format. Configuration and
// tokenizer are never taken from a base.
//
// A folder may also have expert banks: `exl3/BANK/*.safetensors`, each with some or all routed experts in EXL3, and
// `exl3/plan/NAME.json` that chooses a bank for each expert found in more than one:
//   {"banks": {"qn": "../qn"}, "allocation": {"layers.0.ffn.experts.5": "qn", "layers.0.ffn.experts.6.w2": "q31"}}
// `banks` is optional and says where banks lie that are not beside the plan. Nested {"0": {"5": "qn"}} (layer, expert)
// is read as well.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "gpu/checkpoint/byte_source.hpp"

namespace tandem::gpu {

inline constexpr const char* overlay_file_name = "overlay.json";

// Returns `folder` and the folders below it, lowest first. Errors: io, bad_format (overlay.json), not_found (a base
// that is no folder), out_of_range (more than eight layers: most likely a circle).
Result<std::vector<std::filesystem::path>> find_layers(const std::filesystem::path& folder,
                                                       const OpenSource& open = open_file);

struct ExpertBank {
  std::string name;
  std::vector<std::filesystem::path> files;  // ascending
};

struct ExpertBanks {
  std::vector<ExpertBank> banks;                               // ascending by name
  std::map<std::string, std::string, std::less<>> allocation;  // module or expert -> bank name
  std::filesystem::path plan;                                  // empty if there is none

  // Returns the bank that the plan names for a module ("layers.0.ffn.experts.5.w1"), or null.
  const std::string* choice(std::string_view module) const;
};

// Returns the banks of a folder; none if it has no `exl3` folder. Errors: io, bad_format, mismatch (two plans, an
// allocation to an unknown bank).
Result<ExpertBanks> find_banks(const std::filesystem::path& folder, const OpenSource& open = open_file);

}  // namespace tandem::gpu
