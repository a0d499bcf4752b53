// Reading golden files and running the tiny model.
#include "tests/model/golden_fixture.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>

#include "gpu/checkpoint/safetensors.hpp"
#include "tests/build_paths.hpp"
#include "tests/model/ranks.hpp"

namespace tandem::gpu::test {
namespace {

std::filesystem::path golden_folder() {
  return golden_model_folder();
}

const SafetensorsFile& golden_file(const std::string& file) {
  static std::mutex mutex;  // ranks read golden files side by side
  static std::map<std::string, SafetensorsFile> files;
  const std::lock_guard lock(mutex);
  auto found = files.find(file);
  if (found == files.end()) {
    auto opened = SafetensorsFile::open(golden_folder() / (file + ".safetensors"));
    demand(opened.has_value(), file + " cannot be opened");
    found = files.emplace(file, std::move(*opened)).first;
  }
  return found->second;
}

template <class T>
std::vector<T> read_as(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

}  // namespace

bool has_golden(const std::string& file, const std::string& name) {
  return golden_file(file).find(name) != nullptr;
}

Golden golden(const std::string& file, const std::string& name) {
  const TensorEntry* entry = golden_file(file).find(name);
  demand(entry != nullptr, file + " has no " + name);
  const auto bytes = golden_file(file).read_all(name);
  demand(bytes.has_value(), file + " cannot be read");
  Golden tensor;
  tensor.shape = entry->shape;
  if (entry->dtype == DType::f32) tensor.values = read_as<float>(*bytes);
  if (entry->dtype == DType::i32) tensor.integers = read_as<std::int32_t>(*bytes);
  if (entry->dtype == DType::bf16) {
    for (const std::uint16_t bits : read_as<std::uint16_t>(*bytes)) tensor.values.push_back(from_bf16(bits));
  }
  if (entry->dtype == DType::u8) {
    for (const std::uint8_t value : read_as<std::uint8_t>(*bytes)) tensor.integers.push_back(value);
  }
  return tensor;
}

std::vector<std::int32_t> tokens_of(const std::string& name) {
  return golden("inputs", name == "continuation" ? name : "prompt." + name).integers;
}

double relative_l2(std::span<const float> a, std::span<const float> b) {
  demand(a.size() == b.size(), "tensors of different sizes");
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isinf(b[i]) && a[i] == b[i]) continue;  // an entry that both do not see
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

double mean_kl(std::span<const float> a, std::span<const float> b, std::int64_t cols) {
  const auto log_sum = [&](std::span<const float> row) {
    const double top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row) sum += std::exp(value - top);
    return top + std::log(sum);
  };
  double total = 0;
  const auto width = static_cast<std::size_t>(cols);
  for (std::size_t row = 0; row < a.size(); row += width) {
    const double la = log_sum(a.subspan(row, width));
    const double lb = log_sum(b.subspan(row, width));
    for (std::size_t i = row; i < row + width; ++i) total += std::exp(b[i] - lb) * ((b[i] - lb) - (a[i] - la));
  }
  return total / static_cast<double>(a.size() / width);
}

double same_top1(std::span<const float> a, std::span<const float> b, std::int64_t cols) {
  const auto width = static_cast<std::size_t>(cols);
  double same = 0;
  for (std::size_t row = 0; row < a.size(); row += width) {
    const auto top = [&](std::span<const float> x) {
      const auto part = x.subspan(row, width);
      return std::max_element(part.begin(), part.end()) - part.begin();
    };
    same += top(a) == top(b) ? 1 : 0;
  }
  return same / static_cast<double>(a.size() / width);
}

void Recorder::record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) {
  Golden& kept = seen[name];
  kept = {};
  kept.shape = shape;
  for (std::int64_t row = 0; row < value.rows; ++row) {
    for (std::int64_t col = 0; col < value.cols; ++col) {
      if (value.dtype == DType::f32) kept.values.push_back(value.row<float>(row)[col]);
      if (value.dtype == DType::i32) kept.integers.push_back(value.row<std::int32_t>(row)[col]);
      if (value.dtype == DType::u8) kept.integers.push_back(value.row<std::uint8_t>(row)[col]);
    }
  }
}

Rig::Rig(const std::string& numerics, Communicator& communicator, int chunk_rows_max) {
  ModelOptions options;
  options.folder = golden_folder() / "ckpt";
  options.numerics = numerics;
  options.max_positions = 1024;
  options.threads = communicator.size() > 1 ? 1 : 2;
  auto loaded = load_model(options, communicator, {}, nullptr);
  if (!loaded) demand(false, loaded.error().message());
  model = std::move(*loaded);
  CacheLimits limits;
  limits.max_positions = 1024;
  limits.kv_tokens = 4096;
  limits.lanes_max = 4;
  limits.chunk_rows_max = chunk_rows_max;
  auto layout = plan_caches(model->config, model->numerics, limits);
  demand(layout.has_value(), "no cache layout");
  pools = std::make_unique<CachePools>(std::move(*layout));
  forward = std::make_unique<ForwardPass>(*model);
  drafts = std::make_unique<DraftNetwork>(*model, forward->workspace());
}

std::unique_ptr<Rig> Rig::solo(const std::string& numerics, int chunk_rows_max) {
  auto communicator = make_solo_communicator();
  auto rig = std::make_unique<Rig>(numerics, *communicator, chunk_rows_max);
  rig->owned_ = std::move(communicator);
  return rig;
}

std::unique_ptr<SequenceState> Rig::open(std::int64_t max_tokens) {
  auto sequence = pools->open(max_tokens);
  if (!sequence) demand(false, sequence.error().message());
  return std::move(*sequence);
}

Logits Rig::feed(SequenceState& sequence, std::span<const std::int32_t> tokens, Probe* probe) {
  const std::int64_t first = sequence.length();
  demand(sequence.append(tokens).has_value(), "tokens do not fit");
  RowBatch rows;
  rows.add(sequence, first, static_cast<std::int32_t>(tokens.size()));
  auto result = forward->run(rows, {true, probe, {}});
  if (!result) demand(false, result.error().message());
  last = std::move(*result);
  std::vector<std::int32_t> numbers(tokens.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto logits = forward->logits(last, numbers, probe);
  if (!logits) demand(false, logits.error().message());
  const auto* values = static_cast<const float*>(logits->data);
  return {values, values + logits->rows * logits->cols};
}

Logits Rig::prefill(SequenceState& sequence, std::span<const std::int32_t> tokens, std::size_t chunk) {
  Logits all;
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const Logits part = feed(sequence, tokens.subspan(first, std::min(chunk, tokens.size() - first)));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void Rig::insert_context(SequenceState& sequence, std::int32_t rows, Probe* probe) {
  RowBatch committed;
  committed.add(sequence, sequence.length() - rows, rows);
  const Tensor features = last.taps.slice_rows(last.taps.rows - rows, rows);
  demand(drafts->insert(committed, features, probe).has_value(), "no draft context");
}

Rig& shared_rig(const std::string& numerics) {
  static std::map<std::string, std::unique_ptr<Rig>> rigs;
  std::unique_ptr<Rig>& rig = rigs[numerics];
  if (!rig) rig = Rig::solo(numerics);
  return *rig;
}

Logits on_ranks(int ranks, const std::string& numerics, const std::function<Logits(Rig&)>& body) {
  std::vector<Logits> results(static_cast<std::size_t>(ranks));
  on_each_rank(ranks, [&](Communicator& member) {
    Rig rig(numerics, member);
    results[static_cast<std::size_t>(member.rank())] = body(rig);
  });
  for (const Logits& result : results) BOOST_TEST((result == results.front()), "ranks disagree");
  return results.front();
}

}  // namespace tandem::gpu::test
