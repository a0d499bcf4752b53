// Fuzzes EXL3 tensors: recognition by names, types and shapes, the cut of a part, and the decoding of what was loaded.
//
// The input is a recipe: which tensors a matrix has, of which type and shape, which part is wanted, and bytes that are
// repeated as data. From it a small checkpoint is made in memory, right or nearly right. What is accepted must have the
// sizes that its form says; loaded tiles must be those of the file; any tile must be a closed walk; weights are finite.
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gpu/checkpoint/exl3_loader.hpp"
#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/inventory.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/matrix.hpp"
#include "gpu/exl3/tile.hpp"
#include "tests/fuzz/memory_source.hpp"

namespace {

using namespace tandem;
using namespace tandem::gpu;
using fuzz::MemorySource;
using fuzz::require;

// Bytes of the input, zeros behind its end.
class Recipe {
 public:
  explicit Recipe(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t next() {
    const std::uint8_t byte = bytes_.empty() ? 0 : bytes_.front();
    if (!bytes_.empty()) bytes_ = bytes_.subspan(1);
    return byte;
  }
  std::span<const std::uint8_t> rest() const { return bytes_; }

 private:
  std::span<const std::uint8_t> bytes_;
};

struct Wanted {
  std::int64_t k = 0, n = 0;
  int bits = 0;
};

constexpr std::array types{DType::i16,  DType::f16, DType::i32, DType::f32,
                           DType::bf16, DType::u8,  DType::i8,  DType::i64};

// The right type and shape of a suffix.
StoredTensor right_tensor(std::string_view suffix, const Wanted& wanted) {
  const std::int64_t k = exl3::padded_side(wanted.k), n = exl3::padded_side(wanted.n);
  if (suffix == ".trellis") return {DType::i16, {k / 16, n / 16, 16 * wanted.bits}};
  if (suffix == ".suh") return {DType::f16, {k}};
  if (suffix == ".svh") return {DType::f16, {n}};
  if (suffix == ".su") return {DType::i16, {k / 16}};
  if (suffix == ".sv") return {DType::i16, {n / 16}};
  return {DType::i32, {}};
}

// Sometimes another type, another size, or a dimension more or less.
void spoil(StoredTensor& tensor, std::uint8_t how) {
  if ((how & 1) != 0) tensor.dtype = types[how >> 5];
  if ((how & 2) != 0 && !tensor.shape.empty())
    tensor.shape[(how >> 4) % tensor.shape.size()] += (how & 16) != 0 ? 1 : -1;
  if ((how & 4) != 0) tensor.shape.push_back(how >> 5);
  if ((how & 8) != 0 && !tensor.shape.empty()) tensor.shape.pop_back();
}

// One file of the named tensors, filled with `fill` over and over; markers hold what the codebook says unless spoilt.
class FileMaker {
 public:
  void add(const std::string& name, const StoredTensor& tensor, std::uint32_t marker) {
    std::string dims;
    for (const std::int64_t dim : tensor.shape) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    const std::size_t end = data_.size() + tensor.bytes();
    header_ += (header_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + to_string(tensor.dtype) +
               R"(","shape":[)" + dims + R"(],"data_offsets":[)" + std::to_string(data_.size()) + "," +
               std::to_string(end) + "]}";
    while (data_.size() < end) data_ += static_cast<char>(marker >> (8 * (data_.size() % 4)));
    data_.resize(end);
  }
  void fill_from(std::size_t first, std::span<const std::uint8_t> fill) {
    for (std::size_t i = first; !fill.empty() && i < data_.size(); ++i)
      data_[i] = static_cast<char>(fill[i % fill.size()]);
  }
  std::size_t size() const { return data_.size(); }
  std::string file() {
    header_ += header_.empty() ? "{}" : "}";
    std::string text;
    for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>(header_.size() >> (8 * i));
    return text + header_ + data_;
  }

 private:
  std::string header_, data_;
};

// A folder that looks like a checkpoint to those who only ask whether its file exists.
const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string name = (std::filesystem::temp_directory_path() / "fuzz-exl3-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    std::ofstream(name + "/model.safetensors") << "never read";
    std::atexit([] {
      std::error_code ec;
      std::filesystem::remove_all(folder(), ec);
    });
    return std::filesystem::path(name);
  }();
  return made;
}

std::string make_file(Recipe& recipe, const Wanted& wanted, bool in_slices) {
  FileMaker maker;
  for (const char* module : {"a.slice.0", "a.slice.1"}) {
    const std::string name = in_slices ? module : "a";
    const std::uint8_t present = recipe.next();
    for (std::size_t s = 0; s < exl3_suffixes().size(); ++s) {
      if ((present >> s & 1) == 0) continue;
      const std::string suffix = exl3_suffixes()[s];
      StoredTensor tensor = right_tensor(suffix, wanted);
      spoil(tensor, recipe.next());
      const std::size_t first = maker.size();
      maker.add(name + suffix, tensor,
                exl3::hash_of(suffix == ".mcg" ? exl3::Codebook::mcg : exl3::Codebook::mul1).multiplier);
      const bool is_marker = suffix == ".mcg" || suffix == ".mul1";
      if (!is_marker || recipe.next() == 1) maker.fill_from(first, recipe.rest());
    }
    if (!in_slices) break;
  }
  return maker.file();
}

void check_tile(std::span<const std::uint16_t> words, exl3::Form form) {
  const exl3::States states = exl3::unpack_states(words, form.bits);
  require(exl3::is_closed_walk(states, form.bits));
  std::vector<std::uint16_t> again(words.size());
  exl3::pack_states(states, form.bits, again);
  require(std::equal(words.begin(), words.end(), again.begin()));
}

std::vector<std::uint16_t> words_of(const TensorPlace& place) {
  const auto bytes = place.shard->read_all(place.entry->name);
  require(bytes.has_value());
  std::vector<std::uint16_t> words(bytes->size() / 2);
  if (!words.empty()) std::memcpy(words.data(), bytes->data(), 2 * words.size());
  return words;
}

// The loaded part against the tiles of the file: strips of 16 outputs, in each the tiles along the inputs.
void check_loaded(const Linear& linear, const Exl3Place& place, const Exl3Part& stored) {
  const std::int64_t words = place.form.tile_words(), rows = stored.inputs.count / 16, cols = stored.outputs.count / 16;
  require(linear.codes.bytes == static_cast<std::size_t>(2 * words * rows * cols));
  require(linear.scales.bytes == static_cast<std::size_t>(2 * (stored.inputs.count + stored.outputs.count)));
  exl3::PackedMatrix whole{place.form, place.k, place.n, words_of(place.trellis), {}, {}};
  exl3::PackedMatrix part{place.form, stored.inputs.count, stored.outputs.count, {}, {}, {}};
  part.trellis.resize(static_cast<std::size_t>(words * rows * cols));
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* loaded = linear.codes.as<const std::uint16_t>() + (c * rows + r) * words;
      const auto tile = whole.tile(stored.inputs.first / 16 + r, stored.outputs.first / 16 + c);
      require(std::equal(tile.begin(), tile.end(), loaded));
      std::copy(tile.begin(), tile.end(), part.trellis.begin() + (r * cols + c) * words);
    }
  }
  check_tile(part.tile(0, cols - 1), place.form);
  const auto* scales = linear.scales.as<const std::uint16_t>();
  part.suh.assign(scales, scales + part.in);
  part.svh.assign(scales + part.in, scales + part.in + part.out);
  if (part.in * part.out > 128 * 128) return;
  for (const float weight : exl3::dequantise(part)) require(std::isfinite(weight));
}

void check_matrix(Recipe& recipe, const Checkpoint& checkpoint, const Exl3Wanted& wanted) {
  const auto place = find_exl3(checkpoint, wanted);
  if (!place) return require(!place.error().where.empty());
  require(place->form.bits >= 1 && place->form.bits <= exl3::bits_max);
  require(place->k == exl3::padded_side(wanted.k) && place->n == exl3::padded_side(wanted.n));
  require(place->trellis.entry->bytes == static_cast<std::uint64_t>(place->k * place->n * place->form.bits / 8));
  const auto side = [&](std::int64_t all) {
    const std::uint8_t how = recipe.next();
    if (how < 128) return Range{0, all};
    return Range{(how & 1) * 128 + (how >> 1 & 1), (how >> 2 & 3) * 64 + (how >> 4 & 1)};
  };
  const Exl3Part part{side(wanted.n), side(wanted.k)};
  TensorStream stream(recipe.next() * 7U, nullptr);
  const auto linear = load_exl3(stream, *place, wanted, part);
  if (!linear) return require(!linear.error().where.empty());
  const auto stored = stored_part(*place, wanted, part);
  require(stored.has_value());
  check_loaded(*linear, *place, *stored);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Recipe recipe({data, size});
  const std::uint8_t shape = recipe.next();
  const bool in_slices = (shape & 1) != 0;
  const Wanted wanted{128 * (1 + (shape >> 1 & 1)) - (shape >> 2 & 1) * 32,
                      128 * (1 + (shape >> 3 & 1)) - (shape >> 4 & 1) * 48, 1 + (shape >> 5)};
  const std::string file = make_file(recipe, wanted, in_slices);
  const auto checkpoint = Checkpoint::open(folder(), [&](const auto&) -> Result<std::unique_ptr<ByteSource>> {
    return std::unique_ptr<ByteSource>(std::make_unique<MemorySource>(std::as_bytes(std::span(file))));
  });
  if (!checkpoint) return 0;
  const std::int64_t parts = in_slices ? 2 : 1;
  ExpectedTensor expected{
      "a.weight", {parts * wanted.n, wanted.k}, Storage::bf16, TensorUse::matrix, TensorGroup::layer, 0,
      false,      static_cast<int>(parts)};
  const auto storage = find_storage(*checkpoint, expected);
  bool all_found = true;
  for (const std::string& module : exl3_modules(*checkpoint, expected)) {
    const std::int64_t outputs =
        expected.shape[0] / static_cast<std::int64_t>(exl3_modules(*checkpoint, expected).size());
    all_found = all_found && find_exl3(*checkpoint, {module, outputs, wanted.k}).has_value();
    check_matrix(recipe, *checkpoint, {module, outputs, wanted.k});
  }
  require(all_found == storage.has_value());
  return 0;
}
