// The two configurations that have published numbers: the released model's and the tiny golden model's.
#pragma once

#include "engram/geometry.hpp"

namespace tandem::engram::test {

// DeepSeek-V4.1-Flash, config.json.
inline GeometrySpec released_spec() {
  GeometrySpec spec;
  spec.layers = {1, 14};
  spec.rows = {384'006'168, 384'016'682};
  spec.compressed_vocab_size = 99'092;
  return spec;
}

// tests/golden/model/ckpt/config.json.
inline GeometrySpec tiny_spec() {
  GeometrySpec spec;
  spec.layers = {1, 4};
  spec.rows = {1092, 1854};
  spec.heads = 4;
  spec.head_dim = 32;
  spec.vocab_size = 64;
  spec.compressed_vocab_size = 192;
  return spec;
}

}  // namespace tandem::engram::test
