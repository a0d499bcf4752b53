// Random inputs, copies to and from the device, and the bitwise comparison.
#include "tests/cuda/device_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu::test {

Backends& backends() {
  static Backends both = [] {
    Backends result;
    result.cpu = make_cpu_ops(4);
    auto cuda = make_cuda_ops({});
    if (cuda) {
      result.cuda = std::move(*cuda);
    } else {
      result.why = cuda.error().message();
    }
    return result;
  }();
  return both;
}

bool has_device() {
  if (backends().cuda) return true;
  BOOST_TEST_MESSAGE("no device: " << backends().why);
  BOOST_TEST(true);
  return false;
}

Floats Random::floats(std::int64_t count, float spread) {
  std::normal_distribution<float> normal(0.0F, spread);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(engine_);
  return values;
}

Floats Random::activations(std::int64_t count, float spread) {
  Floats values = floats(count, spread);
  for (float& value : values) value = round_to_bf16(value);
  return values;
}

std::vector<std::uint8_t> Random::bytes(std::int64_t count, int low, int high) {
  std::uniform_int_distribution<int> uniform(low, high);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(uniform(engine_));
  return values;
}

std::int64_t Random::below(std::int64_t bound) {
  return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(engine_);
}

namespace {

template <class T>
Buffer buffer_of(const std::vector<T>& values) {
  Buffer buffer = Buffer::host(values.size() * sizeof(T));
  std::memcpy(buffer.data.get(), values.data(), buffer.bytes);
  return buffer;
}

// e4m3 codes without the two NaNs.
std::vector<std::uint8_t> fp8_codes(Random& random, std::int64_t count) {
  std::vector<std::uint8_t> codes = random.bytes(count);
  for (std::uint8_t& code : codes) code = (code & 0x7FU) == 0x7FU ? 0x38 : code;
  return codes;
}

}  // namespace

Linear random_linear(Random& random, WeightFormat format, std::int64_t n, std::int64_t k) {
  Linear weight;
  weight.format = format;
  weight.n = n;
  weight.k = k;
  const std::int64_t groups = (k + 31) / 32;
  const float spread = 1.0F / std::sqrt(static_cast<float>(k));
  switch (format) {
    case WeightFormat::f32:
      weight.codes = buffer_of(random.floats(n * k, spread));
      break;
    case WeightFormat::bf16: {
      std::vector<std::uint16_t> codes;
      for (const float value : random.floats(n * k, spread)) codes.push_back(float_to_bf16(value));
      weight.codes = buffer_of(codes);
      break;
    }
    case WeightFormat::fp8_block32:
      weight.codes = buffer_of(fp8_codes(random, n * k));
      weight.scales = buffer_of(random.bytes((n + 31) / 32 * groups, 114, 122));
      break;
    case WeightFormat::fp4_block32:
      weight.codes = buffer_of(random.bytes((n * k + 1) / 2));
      weight.scales = buffer_of(random.bytes(n * groups, 118, 126));
      break;
    case WeightFormat::exl3:
      break;
  }
  return weight;
}

DenseF32 dense(const Floats& values, std::int64_t rows) {
  return {buffer_of(values), rows, static_cast<std::int64_t>(values.size()) / rows};
}

Buffer copy_of(const Buffer& buffer) {
  Buffer copy = Buffer::host(buffer.bytes);
  if (buffer.bytes > 0) std::memcpy(copy.data.get(), buffer.data.get(), buffer.bytes);
  return copy;
}

Linear placed(Linear weight) {
  weight.codes = copy_of(weight.codes);
  weight.scales = copy_of(weight.scales);
  backends().cuda->memory().place(weight.codes);
  backends().cuda->memory().place(weight.scales);
  return weight;
}

DenseF32 placed(const DenseF32& values) {
  DenseF32 copy = values;
  copy.values = copy_of(values.values);
  backends().cuda->memory().place(copy.values);
  return copy;
}

PartialLinear placed(PartialLinear weight) {
  for (Linear& slice : weight.slices) slice = placed(slice);
  return weight;
}

MoeWeights placed(MoeWeights weights) {
  const auto place_expert = [](ExpertWeights& expert) {
    expert.w1 = placed(expert.w1);
    expert.w3 = placed(expert.w3);
    expert.w2 = placed(expert.w2);
  };
  for (ExpertWeights& expert : weights.experts) place_expert(expert);
  place_expert(weights.shared);
  return weights;
}

DeviceMatrix::DeviceMatrix(const Floats& values, std::int64_t rows)
    : DeviceMatrix(rows, rows == 0 ? 0 : static_cast<std::int64_t>(values.size()) / rows) {
  backends().cuda->memory().upload(std::as_bytes(std::span(values)), tensor_.data);
}

DeviceMatrix::DeviceMatrix(const std::vector<std::int32_t>& values, std::int64_t rows)
    : DeviceMatrix(rows, static_cast<std::int64_t>(values.size()) / rows, DType::i32) {
  backends().cuda->memory().upload(std::as_bytes(std::span(values)), tensor_.data);
}

DeviceMatrix::DeviceMatrix(std::int64_t rows, std::int64_t cols, DType dtype)
    : memory_(backends().cuda->memory().allocate(static_cast<std::size_t>(rows * cols) * element_bytes(dtype))),
      tensor_{memory_.data.get(), dtype, rows, cols, cols} {}

std::vector<std::byte> bytes_on_host(const void* from, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  const auto ok = backends().cuda->memory().download(from, result);
  BOOST_TEST(ok.has_value(), (ok ? std::string() : ok.error().message()));
  return result;
}

namespace {

template <class T>
std::vector<T> values_on_host(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
  const std::vector<std::byte> bytes = bytes_on_host(tensor.data, values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

}  // namespace

Floats DeviceMatrix::floats() const {
  return values_on_host<float>(tensor_);
}
std::vector<std::int32_t> DeviceMatrix::ints() const {
  return values_on_host<std::int32_t>(tensor_);
}
std::vector<std::uint64_t> DeviceMatrix::words() const {
  return values_on_host<std::uint64_t>(tensor_);
}

Tensor matrix(Floats& values, std::int64_t rows) {
  return Tensor::f32(values.data(), rows, static_cast<std::int64_t>(values.size()) / rows);
}

void check_same(const std::string& what, const Floats& cpu, const Floats& cuda) {
  BOOST_REQUIRE_EQUAL(cpu.size(), cuda.size());
  std::size_t different = 0, first = 0;
  for (std::size_t i = cpu.size(); i-- > 0;) {
    if (same_bits(cpu[i], cuda[i])) continue;
    ++different;
    first = i;
  }
  BOOST_TEST(different == 0, what << ": " << different << " of " << cpu.size() << " differ, first at " << first
                                  << ": cpu " << cpu[first] << " cuda " << cuda[first]);
}

void check_near(const std::string& what, std::int64_t width, const Floats& cpu, const Floats& cuda) {
  BOOST_REQUIRE_EQUAL(cpu.size(), cuda.size());
  const auto channels = static_cast<std::size_t>(width);
  double errors = 0, squares = 0, worst = 0;
  for (std::size_t head = 0; head < cpu.size(); head += channels) {
    float largest = 0, off = 0;
    for (std::size_t i = head; i < head + channels; ++i) {
      const float difference = std::abs(cpu[i] - cuda[i]);
      largest = std::max(largest, std::abs(cpu[i]));
      off = std::isnan(difference) ? difference : std::max(off, difference);
      errors += double{difference} * difference;
      squares += double{cpu[i]} * cpu[i];
    }
    if (!(off <= 0x1p-5F * largest)) worst = largest == 0 ? 1 : double{off} / largest;
  }
  BOOST_TEST(worst == 0, what << ": a channel is off by " << worst << " of its head's largest");
  BOOST_TEST(errors <= squares * 0x1p-18, what << ": off by " << std::sqrt(errors / squares) << " as a whole");
}

}  // namespace tandem::gpu::test
