// The whole Engram update of both layers on the recorded random stream with dead positions.
#include <boost/test/unit_test.hpp>
#include <string>

#include "gpu/model/blocks.hpp"
#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {

BOOST_AUTO_TEST_SUITE(engram_module)

BOOST_AUTO_TEST_CASE(both_layers_write_the_recorded_stream_and_leave_dead_positions_alone) {
  Rig& rig = shared_rig("s32");
  const auto keep = golden("engram", "keep").integers;
  const auto tokens = golden("engram", "tokens").integers;
  const auto rows = static_cast<std::int64_t>(tokens.size());
  const Golden row_ids = golden("engram", "row_ids"), stream = golden("engram", "stream");
  for (std::size_t table = 0; table < 2; ++table) {
    const int layer = table == 0 ? 1 : 4;
    const std::string name = "layer" + std::to_string(layer);
    const auto sequence = rig.open();
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const TokenKind kind = keep[t] == 0 ? TokenKind::image : TokenKind::text;
      BOOST_REQUIRE(sequence->append(std::span(tokens).subspan(t, 1), kind).has_value());
    }
    RowBatch batch;
    batch.add(*sequence, 0, static_cast<std::int32_t>(rows));
    Workspace workspace;
    Recorder recorder;
    const StepContext step{*rig.model, workspace, batch, &recorder, ""};
    std::vector<float> values = stream.values;
    const auto request = rig.model->engram->prefetch(batch);
    BOOST_REQUIRE(request.has_value());
    const auto done = engram_hook(step, layer, {*request}, Tensor::f32(values.data(), rows, stream.cols()));
    BOOST_REQUIRE(done.has_value());
    BOOST_TEST(relative_l2(values, golden("engram", name + ".out").values) < 1e-5, name);

    const auto& ids = recorder.seen.at("engram_ids").integers;
    const auto& gates = recorder.seen.at("engram_gate").values;
    const auto expected = golden("engram", name + ".gate_before_mask").values;
    const std::size_t columns = ids.size() / tokens.size(), mult = gates.size() / tokens.size();
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (keep[t] == 0) {
        for (std::size_t s = 0; s < mult; ++s) BOOST_TEST(gates[t * mult + s] == 0.0F);
        continue;
      }
      const auto own = std::span(ids).subspan(t * columns, columns);
      const auto wanted = std::span(row_ids.integers).subspan((t * 2 + table) * columns, columns);
      BOOST_TEST(std::equal(own.begin(), own.end(), wanted.begin()), name << " position " << t);
      const double error =
          relative_l2(std::span(gates).subspan(t * mult, mult), std::span(expected).subspan(t * mult, mult));
      BOOST_TEST(error < 1e-6, name << " position " << t << ": " << error);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
