// LogitEdit: one change to the logit of one token; penalties, bias and forbidden ids are lists of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gpu/sampling/sampler.hpp"

namespace tandem::gpu {

struct LogitEdit {
  enum class Kind : std::int32_t { repeated, lowered, raised, forbidden };
  TokenId token = 0;
  Kind kind = Kind::forbidden;
  float value = 0;
};

// The logit behind one edit.
constexpr float edited(const LogitEdit& edit, float logit) noexcept {
  switch (edit.kind) {
    case LogitEdit::Kind::repeated:
      return logit > 0 ? logit / edit.value : logit * edit.value;
    case LogitEdit::Kind::lowered:
      return logit - edit.value;
    case LogitEdit::Kind::raised:
      return logit + edit.value;
    case LogitEdit::Kind::forbidden:
      break;
  }
  return -std::numeric_limits<float>::infinity();
}

// What `context` does to the logits of a vocabulary of that size: sorted by token, those of one token in the order in
// which they apply (see adjusted_logits).
std::vector<LogitEdit> logit_edits(const DrawContext& context, std::size_t vocabulary);

}  // namespace tandem::gpu
