// The pack's file list comes from the same plan that `tandem quantize` follows.
#include "tests/exl3/pack_folder_fixture.hpp"

#include <stdlib.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "gpu/checkpoint/inventory.hpp"
#include "tests/build_paths.hpp"
#include "tests/exl3/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

void must(const Result<void>& done) {
  if (!done) throw std::runtime_error(done.error().message());
}

}  // namespace

std::filesystem::path tiny_model() {
  return source_folder() / "configs" / "tiny";
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "exl3-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
}

PackFolder::PackFolder(exl3::PackLayout layout) : layout_(layout) {
  const auto config = ModelConfig::load(tiny_model());
  if (!config) throw std::runtime_error(config.error().message());
  plan = exl3::make_pack_plan(make_inventory(*config), layout, {});
  unsigned seed = 0;
  for (const exl3::PackMatrix& matrix : plan.matrices) {
    ++seed;
    const exl3::Form form{static_cast<std::uint8_t>(2 + seed % 4),
                          seed % 5 == 0 ? exl3::Codebook::mcg : exl3::Codebook::mul1};
    matrices.emplace(matrix.module, random_matrix(matrix.k, matrix.n, form, seed));
  }
}

void PackFolder::write_shard(const std::filesystem::path& file,
                             const std::map<std::string, exl3::PackedMatrix>& matrices) {
  std::filesystem::create_directories(file.parent_path());
  std::vector<exl3::NamedMatrix> named;
  for (const auto& [module, matrix] : matrices) named.push_back({module, matrix});
  must(exl3::write_pack_shard(file, named, "test"));
}

std::filesystem::path PackFolder::shard() const {
  return layout_ == exl3::PackLayout::whole ? path() / "pack.safetensors" : bank("one") / "bank.safetensors";
}

void PackFolder::write() const {
  write_shard(shard(), matrices);
  if (layout_ == exl3::PackLayout::whole) must(exl3::write_pack_index(path(), {"pack.safetensors"}));
  auto config = boost::json::parse(read_text_file(tiny_model() / "config.json")).as_object();
  if (layout_ == exl3::PackLayout::whole) {
    config["quantization_config"] = {{"quant_method", "exl3"}, {"bits", 3.5}};
  }
  write_text_file(path() / "config.json", boost::json::serialize(config));
  write_text_file(path() / "overlay.json",
                  boost::json::serialize(boost::json::object{{"base", tiny_model().string()}}));
  std::filesystem::copy_file(tiny_model() / "engram_token_map.i32", path() / "engram_token_map.i32");
}

exl3::PackedMatrix cut(const exl3::PackedMatrix& matrix, const Cut& part) {
  exl3::PackedMatrix result{matrix.form, part.in, part.out, {}, {}, {}};
  for (std::int64_t row = 0; row < part.in / 16; ++row) {
    for (std::int64_t col = 0; col < part.out / 16; ++col) {
      const auto tile = matrix.tile(part.in_first / 16 + row, part.out_first / 16 + col);
      result.trellis.insert(result.trellis.end(), tile.begin(), tile.end());
    }
  }
  const auto slice = [](const std::vector<std::uint16_t>& all, std::int64_t first, std::int64_t count) {
    return std::vector<std::uint16_t>(all.begin() + first, all.begin() + first + count);
  };
  result.suh = slice(matrix.suh, part.in_first, part.in);
  result.svh = slice(matrix.svh, part.out_first, part.out);
  return result;
}

std::string read_text_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_text_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error(path.string());
}

}  // namespace tandem::gpu::test
