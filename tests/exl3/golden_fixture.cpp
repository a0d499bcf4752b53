// Reading and rearranging only; every number comes from the files or from a seed.
#include "tests/exl3/golden_fixture.hpp"

#include <algorithm>

#include "gpu/numeric/bf16.hpp"
#include "tests/build_paths.hpp"

namespace tandem::gpu::test {
namespace {

SafetensorsFile open(const std::string& name) {
  auto file = SafetensorsFile::open(source_folder().string() + "/tests/golden/exl3/" + name + ".safetensors");
  if (!file) throw std::runtime_error(file.error().message());
  return std::move(*file);
}

}  // namespace

GoldenFile::GoldenFile(const std::string& name) : file_(open(name)) {}

const std::vector<std::int64_t>& GoldenFile::shape(const std::string& name) const {
  const TensorEntry* entry = file_.find(name);
  if (entry == nullptr) throw std::runtime_error(name);
  return entry->shape;
}

std::vector<float> GoldenFile::halves(const std::string& name) const {
  std::vector<float> result;
  for (const auto code : values<std::uint16_t>(name)) result.push_back(f16_to_float(code));
  return result;
}

exl3::PackedMatrix GoldenFile::matrix(const std::string& prefix) const {
  exl3::PackedMatrix matrix;
  const std::vector<std::int64_t>& dims = shape(prefix + ".trellis");
  matrix.in = dims.at(0) * exl3::tile_side;
  matrix.out = dims.at(1) * exl3::tile_side;
  matrix.form.bits = static_cast<std::uint8_t>(dims.at(2) / exl3::tile_side);
  matrix.form.codebook = has(prefix + ".mul1")  ? exl3::Codebook::mul1
                         : has(prefix + ".mcg") ? exl3::Codebook::mcg
                                                : exl3::Codebook::inst3;
  matrix.trellis = values<std::uint16_t>(prefix + ".trellis");
  matrix.suh = values<std::uint16_t>(prefix + ".suh");
  matrix.svh = values<std::uint16_t>(prefix + ".svh");
  return matrix;
}

exl3::PackedMatrix random_matrix(std::int64_t in, std::int64_t out, exl3::Form form, unsigned seed) {
  std::mt19937 random(seed);
  exl3::PackedMatrix matrix{form, in, out, {}, {}, {}};
  matrix.trellis.resize(static_cast<std::size_t>(in / 16 * (out / 16) * form.tile_words()));
  for (auto& word : matrix.trellis) word = static_cast<std::uint16_t>(random());
  const auto scales = [&](std::int64_t count, float size) {
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(count));
    for (auto& code : codes) {
      const float scale = size * (0.5F + static_cast<float>(random() % 1024) / 1024.0F);
      code = float_to_f16(random() % 2 == 0 ? scale : -scale);
    }
    return codes;
  };
  matrix.suh = scales(in, 0.03F);
  matrix.svh = scales(out, 1.0F);
  return matrix;
}

Linear linear_of(const exl3::PackedMatrix& matrix, std::int64_t n, std::int64_t k) {
  Linear linear;
  linear.format = WeightFormat::exl3;
  linear.n = n;
  linear.k = k;
  linear.exl3 = matrix.form;
  linear.codes = Buffer::host(matrix.trellis.size() * 2);
  auto* to = linear.codes.as<std::uint16_t>();
  for (std::int64_t col = 0; col < matrix.out / exl3::tile_side; ++col) {
    for (std::int64_t row = 0; row < matrix.in / exl3::tile_side; ++row) {
      const auto tile = matrix.tile(row, col);
      to = std::copy(tile.begin(), tile.end(), to);
    }
  }
  linear.scales = Buffer::host((matrix.suh.size() + matrix.svh.size()) * 2);
  auto* scales = std::copy(matrix.suh.begin(), matrix.suh.end(), linear.scales.as<std::uint16_t>());
  std::copy(matrix.svh.begin(), matrix.svh.end(), scales);
  return linear;
}

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace tandem::gpu::test
