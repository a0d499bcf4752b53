// Builders of the known table and the failing file.
#include "tests/engram/table_fixture.hpp"

#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <random>

namespace tandem::engram::test {
namespace {

class FailingFile final : public InputFile {
 public:
  FailingFile(std::unique_ptr<InputFile> file, std::shared_ptr<FaultPlan> plan)
      : file_(std::move(file)), plan_(std::move(plan)) {}
  const std::string& name() const noexcept override { return file_->name(); }
  std::uint64_t size() const noexcept override { return file_->size(); }
  std::size_t alignment() const noexcept override { return file_->alignment(); }
  int descriptor() const noexcept override { return -1; }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!plan_->strikes()) return file_->read_at(offset, out);
    switch (plan_->kind) {
      case FaultPlan::Kind::error:
        return Error{ErrorCode::io, name(), "injected failure", ""};
      case FaultPlan::Kind::short_read:
        return file_->read_at(offset, out.first(out.size() / 2));
      case FaultPlan::Kind::end_of_file:
        return std::size_t{0};
      case FaultPlan::Kind::kill:
        ::kill(::getpid(), SIGKILL);
    }
    return std::size_t{0};
  }

 private:
  std::unique_ptr<InputFile> file_;
  std::shared_ptr<FaultPlan> plan_;
};

void append(std::vector<std::byte>& to, const std::vector<std::byte>& from, std::size_t first, std::size_t count) {
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first),
            from.begin() + static_cast<std::ptrdiff_t>(first + count));
}

}  // namespace

KnownTable::KnownTable(std::int64_t row_count, int head_dim, unsigned seed) : shape{head_dim}, rows(row_count) {
  std::mt19937 random(seed);
  codes.resize(static_cast<std::size_t>(rows * head_dim));
  scales.resize(static_cast<std::size_t>(rows * shape.scales()));
  for (auto& code : codes) {
    unsigned byte = random() & 255U;
    if ((byte & 127U) == 127U) byte ^= 1U;
    code = static_cast<std::byte>(byte);
  }
  for (auto& scale : scales) scale = static_cast<std::byte>(118 + random() % 4);
}

ShardTable KnownTable::write_shard(const TemporaryFolder& folder, std::size_t gap) const {
  const std::vector<std::byte> filler(gap, std::byte{0x5A});
  std::vector<std::byte> file = filler;
  file.insert(file.end(), codes.begin(), codes.end());
  file.insert(file.end(), filler.begin(), filler.end());
  const std::uint64_t scales_at = file.size();
  file.insert(file.end(), scales.begin(), scales.end());
  file.insert(file.end(), filler.begin(), filler.end());
  const auto path = folder.write("shard.bin", file);
  return {shape, rows, {path, gap, codes.size()}, {path, scales_at, scales.size()}};
}

std::filesystem::path KnownTable::write_packed(const TemporaryFolder& folder, std::int64_t first, std::int64_t last,
                                               PackedTable& table, int layer) const {
  table = {layer, {shape, rows, first, last}};
  std::vector<std::byte> file = encode_packed_header(table);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const auto groups = static_cast<std::size_t>(shape.scales());
  for (auto row = static_cast<std::size_t>(first); row < static_cast<std::size_t>(last); ++row) {
    append(file, codes, row * head_dim, head_dim);
    append(file, scales, row * groups, groups);
  }
  return folder.write("packed.bin", file);
}

Result<void> read_and_compare(RowStore& store, const KnownTable& table, const std::vector<RowId>& ids) {
  const auto head_dim = static_cast<std::size_t>(table.shape.head_dim);
  const auto groups = static_cast<std::size_t>(table.shape.scales());
  std::vector<E4m3> codes(ids.size() * head_dim, E4m3{0xA5});
  std::vector<E8m0> scales(ids.size() * groups, E8m0{0xA5});
  if (auto read = store.read(ids, {codes, scales}); !read) return read;
  const auto code_at = [&](std::size_t i) { return std::as_bytes(std::span(codes)).subspan(i * head_dim, head_dim); };
  const auto scale_at = [&](std::size_t i) { return std::as_bytes(std::span(scales)).subspan(i * groups, groups); };
  const auto same = [](std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::equal(a.begin(), a.end(), b.begin());
  };
  const std::vector<std::byte> zeros(head_dim);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::size_t>(std::max<std::int64_t>(index_of(ids[i]), 0));
    const bool is_empty = ids[i] == no_row;
    const bool right = same(code_at(i), is_empty ? std::span<const std::byte>(zeros)
                                                 : std::span(table.codes).subspan(row * head_dim, head_dim)) &&
                       same(scale_at(i), is_empty ? std::span<const std::byte>(zeros).first(groups)
                                                  : std::span(table.scales).subspan(row * groups, groups));
    BOOST_REQUIRE_MESSAGE(right, "row " << index_of(ids[i]) << " at place " << i);
  }
  return {};
}

bool FaultPlan::strikes() {
  const std::lock_guard lock(mutex);
  const bool now = operations++ == fail_at;
  fired = fired || now;
  return now;
}

FileOpener failing_opener(std::shared_ptr<FaultPlan> plan) {
  return [plan](const std::filesystem::path& path) -> Result<std::unique_ptr<InputFile>> {
    if (plan->strikes()) {
      if (plan->kind == FaultPlan::Kind::kill) ::kill(::getpid(), SIGKILL);
      return Error{ErrorCode::io, path.string(), "injected failure", ""};
    }
    auto file = open_buffered(path);
    if (!file) return file.error();
    return std::unique_ptr<InputFile>(std::make_unique<FailingFile>(std::move(*file), plan));
  };
}

}  // namespace tandem::engram::test
