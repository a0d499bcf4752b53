// The files of engram/input_file.hpp, read exactly.
#include "gpu/checkpoint/byte_source.hpp"

#include <utility>

#include "engram/input_file.hpp"

namespace tandem::gpu {
namespace {

class FileSource final : public ByteSource {
 public:
  explicit FileSource(std::unique_ptr<engram::InputFile> file) : file_(std::move(file)) {}

  std::uint64_t size() const noexcept override { return file_->size(); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
    return engram::read_exactly(*file_, offset, into);
  }

 private:
  std::unique_ptr<engram::InputFile> file_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path) {
  auto file = engram::open_buffered(path);
  if (!file) return file.error();
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(std::move(*file)));
}

Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t bytes_max, const OpenSource& open) {
  Result<std::unique_ptr<ByteSource>> source = open(path);
  if (!source) return source.error();
  const std::uint64_t bytes = (*source)->size();
  if (bytes > bytes_max) {
    return Error{ErrorCode::out_of_range, path.string(), std::to_string(bytes) + " bytes",
                 "at most " + std::to_string(bytes_max)};
  }
  std::string text(bytes, '\0');
  if (auto read = (*source)->read(0, std::as_writable_bytes(std::span(text))); !read) return read.error();
  return text;
}

}  // namespace tandem::gpu
