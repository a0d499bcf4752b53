// Relations between fields of a ModelConfig that no single field can check. Used by ModelConfig::parse.
#pragma once

#include <string>

#include "gpu/config.hpp"

namespace tandem::gpu {

// Returns bad_config naming the first key whose value does not fit the others; `where` names the file.
Result<void> check_relations(const ModelConfig& config, const std::string& where);

}  // namespace tandem::gpu
