// Loading streams: beside what stays it holds one tensor of the rank and one piece, whatever the format and the cut.
#include <boost/test/unit_test.hpp>

#include "gpu/checkpoint/exl3_loader.hpp"
#include "gpu/checkpoint/loader.hpp"
#include "gpu/checkpoint/safetensors_writer.hpp"
#include "gpu/comm/communicator.hpp"
#include "gpu/model/model.hpp"
#include "tests/build_paths.hpp"
#include "tests/engram/temporary_folder.hpp"
#include "tests/gpu/peak_memory.hpp"

using namespace tandem;
using namespace tandem::gpu;
using test::PeakMemory;

BOOST_AUTO_TEST_SUITE(load_memory)

namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t slack = 2 * mib;  // names, stacks, what an allocator keeps; the kernel counts in batches

// As a device does: what was placed is no longer in host memory.
class Device final : public WeightPlacer {
 public:
  void place_matrix(Linear& weight) override { place_table(weight); }
  void place_table(Linear& table) override {
    note(table.codes.bytes + table.scales.bytes);
    table.codes = {};
    table.scales = {};
  }
  void place_vector(DenseF32& values) override {
    note(values.values.bytes);
    values.values = {};
  }
  std::int64_t all = 0, largest = 0;

 private:
  void note(std::size_t bytes) {
    all += static_cast<std::int64_t>(bytes);
    largest = std::max(largest, static_cast<std::int64_t>(bytes));
  }
};

struct OneMatrix {
  OneMatrix() {
    const std::vector<std::byte> plain(static_cast<std::size_t>(side * side * 2)),
        tiles(static_cast<std::size_t>(tile_rows * tile_rows * 2 * 16 * bits));
    const std::vector<std::byte> scales(static_cast<std::size_t>(2 * packed_side));
    const std::vector<TensorData> tensors{{"plain.weight", DType::bf16, {side, side}, plain},
                                          {"packed.trellis", DType::i16, {tile_rows, tile_rows, 16 * bits}, tiles},
                                          {"packed.suh", DType::f16, {packed_side}, scales},
                                          {"packed.svh", DType::f16, {packed_side}, scales}};
    BOOST_REQUIRE(write_safetensors(folder.path() / "model.safetensors", tensors));
    auto opened = Checkpoint::open(folder.path());
    BOOST_REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message()));
    checkpoint = std::move(*opened);
  }
  static constexpr std::int64_t side = 4096;                                                 // 32 MiB of BF16
  static constexpr std::int64_t packed_side = 8192, bits = 4, tile_rows = packed_side / 16;  // 32 MiB of tiles
  static constexpr std::int64_t bytes = 32 * mib, part_bytes = bytes / 4, piece = mib / 4;
  engram::test::TemporaryFolder folder;
  Checkpoint checkpoint;
};

struct Cut {
  const char* axis;
  Range rows, columns;  // of a square, in quarters
};
constexpr Cut cuts[] = {{"rows", {1, 1}, {0, 4}}, {"columns", {0, 4}, {2, 1}}};

Range scaled(Range quarters, std::int64_t side) {
  return {quarters.first * side / 4, quarters.count * side / 4};
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_on_their_way_to_a_device_lie_in_host_memory_one_at_a_time) {
  for (const char* name : {"tiny", "tiny-exl3"}) {
    for (const int ranks : {1, 2}) {
      const auto folder = source_folder() / "configs" / name;
      const auto config = ModelConfig::load(folder);
      const auto checkpoint = Checkpoint::open(folder);
      BOOST_REQUIRE(config && checkpoint);
      Device device;
      LoadRequest request;
      request.ranks = ranks;
      request.piece_bytes = 64 << 10;
      request.placer = &device;
      const PeakMemory peak;
      const auto weights = load_weights(*checkpoint, *config, request);
      const std::int64_t most = peak.most();
      BOOST_REQUIRE_MESSAGE(weights, (weights ? "" : weights.error().message()));
      const auto host_bytes = static_cast<std::int64_t>(weights->dspark.confidence.values.bytes);
      BOOST_TEST(device.all + host_bytes == static_cast<std::int64_t>(weights->bytes), "every weight was placed");
      BOOST_TEST_MESSAGE(name << ", " << ranks << " ranks: " << device.all << " bytes placed, the largest "
                              << device.largest << "; host memory grew by " << most);
      // An F16 tensor is there twice while it becomes F32: half of it more.
      if (peak.is_known()) BOOST_TEST(most <= device.largest + device.largest / 2 + slack);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loaded_model_of_the_host_holds_its_weights_once) {
  for (const char* name : {"tiny", "tiny-exl3"}) {
    const auto group = make_solo_communicator();
    ModelOptions options;
    options.folder = source_folder() / "configs" / name;
    options.max_positions = 256;
    const PeakMemory peak;
    const auto model = load_model(options, *group, {}, nullptr);
    const std::int64_t most = peak.most();
    BOOST_REQUIRE_MESSAGE(model, (model ? "" : model.error().message()));
    const auto bytes = static_cast<std::int64_t>((*model)->weights.bytes);
    BOOST_TEST_MESSAGE(name << ": weights of " << bytes << " bytes; host memory grew by " << most);
    // Beside them: headers and names, Engram tables that are looked through, rotation tables.
    if (peak.is_known()) BOOST_TEST(most <= bytes + bytes / 4 + 8 * mib);
  }
}

BOOST_AUTO_TEST_CASE(a_part_of_a_matrix_is_read_without_the_whole_on_both_axes) {
  const OneMatrix file;
  const TensorPlace& place = *file.checkpoint.find("plain.weight");
  for (const Cut& cut : cuts) {
    TensorStream stream(OneMatrix::piece, nullptr);
    const Range columns = scaled(cut.columns, OneMatrix::side);
    const PeakMemory peak;
    const auto part = stream.read(place, {1, 1, 2}, scaled(cut.rows, OneMatrix::side), {&columns, 1});
    const std::int64_t most = peak.most();
    BOOST_REQUIRE(part);
    BOOST_TEST(part->front().bytes == static_cast<std::size_t>(OneMatrix::part_bytes));
    if (peak.is_known()) BOOST_TEST(most <= OneMatrix::part_bytes + OneMatrix::piece + slack, cut.axis);
  }
}

BOOST_AUTO_TEST_CASE(a_part_of_a_packed_matrix_is_read_without_the_whole_on_both_axes) {
  const OneMatrix file;
  const Exl3Wanted wanted{"packed", OneMatrix::packed_side, OneMatrix::packed_side};
  const auto place = find_exl3(file.checkpoint, wanted);
  BOOST_REQUIRE_MESSAGE(place, (place ? "" : place.error().message()));
  for (const Cut& cut : cuts) {
    TensorStream stream(OneMatrix::piece, nullptr);
    const Exl3Part wanted_part{scaled(cut.rows, OneMatrix::packed_side), scaled(cut.columns, OneMatrix::packed_side)};
    const PeakMemory peak;
    const auto part = load_exl3(stream, *place, wanted, wanted_part);
    const std::int64_t most = peak.most();
    BOOST_REQUIRE_MESSAGE(part, (part ? "" : part.error().message()));
    BOOST_TEST(part->codes.bytes == static_cast<std::size_t>(OneMatrix::part_bytes));
    if (peak.is_known()) BOOST_TEST(most <= OneMatrix::part_bytes + OneMatrix::piece + slack, cut.axis);
  }
}

BOOST_AUTO_TEST_SUITE_END()
