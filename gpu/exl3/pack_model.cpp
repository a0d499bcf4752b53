// The model is loaded only while something is left to be measured.
#include "gpu/exl3/pack_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engram/pack/packer.hpp"
#include "gpu/exl3/matrix_packer.hpp"
#include "gpu/exl3/model_study.hpp"
#include "gpu/exl3/native_tensors.hpp"
#include "gpu/exl3/pack_folder.hpp"
#include "gpu/exl3/pack_manifest.hpp"
#include "gpu/exl3/pack_shard.hpp"

namespace tandem::gpu::exl3 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t moment_bytes_max = std::uint64_t{2} << 30;

std::uint64_t packed_bytes(const PackMatrix& matrix, double bits) {
  return static_cast<std::uint64_t>(static_cast<double>(matrix.n * matrix.k) * bits / 8) +
         2 * static_cast<std::uint64_t>(matrix.n + matrix.k) + 4;
}

class Packer {
 public:
  Packer(PackJob job, const OnPackProgress& progress)
      : job_(std::move(job)), progress_(progress), packer_(job_), pieces_(job_.options.out / pieces_folder_name) {}

  Result<PackReport> run() {
    if (auto ok = look_around(); !ok) return ok.error();
    if (auto ok = choose_bits(); !ok) return ok.error();
    if (auto ok = make_folders(); !ok) return ok.error();
    for (const PackMatrix& matrix : job_.plan.matrices) weights_all_ += matrix.n * matrix.k;
    for (std::size_t shard = 0; shard < job_.plan.shards; ++shard) {
      if (auto ok = pack_shard(shard); !ok) return ok.error();
    }
    if (auto ok = finish(); !ok) return ok.error();
    if (weights_packed_ > 0) report_.mean_proxy_error /= static_cast<double>(weights_packed_);
    return report_;
  }

 private:
  void tell(PackProgress::Step step, std::string what, double fraction) const {
    if (progress_) progress_({step, std::move(what), fraction, report_.resumed});
  }

  fs::path shard_path(std::size_t shard) const { return shard_folder(job_) / shard_name(shard); }
  fs::path piece_path(const PackMatrix& matrix) const { return pieces_ / (matrix.module + ".safetensors"); }

  // ---- what is there ----

  // Finds the shards and pieces of earlier runs, then whether the disk has room for the rest.
  Result<void> look_around() {
    std::uint64_t missing = job_.refers_natives() ? 0 : list_natives(job_).bytes;
    for (std::size_t shard = 0; shard < job_.plan.shards; ++shard) {
      const auto done = is_pack_shard_of(shard_path(shard), job_.identity);
      if (!done) return done.error();
      shard_done_.push_back(*done);
    }
    for (const PackMatrix& matrix : job_.plan.matrices) {
      const auto piece = is_pack_shard_of(piece_path(matrix), job_.identity);
      if (!piece) return piece.error();
      matrix_done_.push_back(shard_done_[matrix.shard] || *piece);
      if (!matrix_done_.back()) missing += packed_bytes(matrix, job_.options.bits);
    }
    return engram::check_free_space(job_.options.out, missing);
  }

  // Made after the manifest: without one a folder that is not empty is refused.
  Result<void> make_folders() const {
    for (const fs::path& folder : {shard_folder(job_), pieces_}) {
      std::error_code ec;
      fs::create_directories(folder, ec);
      if (ec) return Error{ErrorCode::io, folder.string(), ec.message(), "a folder to write to"};
    }
    return {};
  }

  Result<ModelStudy*> study() {
    if (study_ == nullptr) {
      const PackOptions& options = job_.options;
      auto opened = ModelStudy::open({options.model, options.threads, options.sequences, 1024, options.stop});
      if (!opened) return opened.error();
      study_ = std::move(*opened);
    }
    return study_.get();
  }

  // ---- bits ----

  Result<void> choose_bits() {
    auto manifest = PackManifest::read(job_);
    if (!manifest) return manifest.error();
    if (manifest->bits.empty()) {
      if (auto ok = check_budget(); !ok) return ok;
      if (auto ok = measure(*manifest); !ok) return ok;
    }
    bits_ = std::move(manifest->bits);
    return {};
  }

  // A budget that cannot be met is told before hours of measuring.
  Result<void> check_budget() const {
    const auto bits = allocate_bits(job_.plan.groups, {job_.options.bits, job_.options.codebook});
    return bits ? Result<void>{} : bits.error();
  }

  Result<void> measure(PackManifest& manifest) {
    std::vector<BitGroup>& groups = job_.plan.groups;
    const auto usual = static_cast<std::uint8_t>(std::clamp(std::floor(job_.options.bits), 1.0, 8.0));
    const double noise = expected_error({usual, job_.options.codebook});
    if (auto ok = manifest.write(job_); !ok) return ok;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!manifest.sensitivities[g] && groups[g].bits_min < groups[g].bits_max) {
        if (job_.is_stopped()) return job_.stopped();
        tell(PackProgress::Step::measuring, groups[g].name,
             static_cast<double>(g) / static_cast<double>(groups.size()));
        auto model = study();
        if (!model) return model.error();
        const auto divergence = (*model)->divergence(job_.plan.members[g], noise);
        if (!divergence) return divergence.error();
        manifest.sensitivities[g] = kept_digits(*divergence / noise);
        if (auto ok = manifest.write(job_); !ok) return ok;
      }
      groups[g].sensitivity = manifest.sensitivities[g].value_or(0);
    }
    auto bits = allocate_bits(groups, {job_.options.bits, job_.options.codebook});
    if (!bits) return bits.error();
    manifest.bits = std::move(*bits);
    return manifest.write(job_);
  }

  // ---- moments ----

  // Measures the inputs of matrix `first` and of as many missing ones behind it as may be kept at once.
  Result<void> measure_moments(std::size_t first) {
    moments_.clear();
    std::uint64_t bytes = 0;
    for (moments_end_ = first; moments_end_ < job_.plan.matrices.size(); ++moments_end_) {
      if (matrix_done_[moments_end_]) continue;
      const PackMatrix& matrix = job_.plan.matrices[moments_end_];
      const std::string name = moments_name(matrix.module);
      if (moments_.contains(name)) continue;
      const auto more = static_cast<std::uint64_t>(matrix.k) * static_cast<std::uint64_t>(matrix.k) * sizeof(float);
      if (bytes > 0 && bytes + more > moment_bytes_max) break;
      bytes += more;
      moments_.emplace(name, Moments(matrix.k));
    }
    tell(PackProgress::Step::calibrating, fmt::format("{} inputs", moments_.size()), fraction_packed());
    auto model = study();
    if (!model) return model.error();
    return (*model)->measure_moments(moments_);
  }

  // ---- matrices ----

  double fraction_packed() const {
    return static_cast<double>(weights_done_) / static_cast<double>(std::max<std::int64_t>(weights_all_, 1));
  }

  Result<void> pack_shard(std::size_t shard) {
    std::vector<NamedMatrix> packed;
    for (std::size_t m = 0; m < job_.plan.matrices.size(); ++m) {
      const PackMatrix& matrix = job_.plan.matrices[m];
      if (matrix.shard != shard) continue;
      if (!matrix_done_[m]) {
        if (auto ok = pack_piece(m); !ok) return ok;
      } else {
        ++report_.resumed;
      }
      count(matrix);
      if (shard_done_[shard]) continue;
      auto piece = read_pack_shard(piece_path(matrix), matrix.module);
      if (!piece) return piece.error();
      packed.push_back(std::move(*piece));
    }
    if (!shard_done_[shard]) {
      tell(PackProgress::Step::packing, shard_name(shard), fraction_packed());
      if (auto ok = write_pack_shard(shard_path(shard), packed, job_.identity); !ok) return ok;
    }
    remove_pieces(shard);
    return {};
  }

  Result<void> pack_piece(std::size_t m) {
    const PackMatrix& matrix = job_.plan.matrices[m];
    if (m >= moments_end_) {
      if (auto ok = measure_moments(m); !ok) return ok;
    }
    if (job_.is_stopped()) return job_.stopped();
    const int bits = bits_[matrix.group];
    tell(PackProgress::Step::packing, fmt::format("{} at {} bits", matrix.module, bits), fraction_packed());
    const auto begin = std::chrono::steady_clock::now();
    const auto result = packer_.pack(matrix, bits, moments_);
    if (!result) return result.error();
    report_.tile_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    note(matrix, *result);
    return write_pack_shard(piece_path(matrix), {{matrix.module, result->matrix}}, job_.identity);
  }

  void note(const PackMatrix& matrix, const Quantised& result) {
    const std::int64_t weights = matrix.n * matrix.k;
    report_.tiles += weights / tile_weights;
    weights_packed_ += weights;
    report_.mean_proxy_error += result.proxy_error * static_cast<double>(weights);
    if (result.proxy_error <= report_.worst_proxy_error) return;
    report_.worst_proxy_error = result.proxy_error;
    report_.worst_matrix = matrix.module;
  }

  void count(const PackMatrix& matrix) {
    ++report_.matrices;
    const std::int64_t weights = matrix.n * matrix.k;
    const int bits = bits_[matrix.group];
    weights_done_ += weights;
    bits_done_ += static_cast<double>(weights) * bits;
    report_.average_bits = bits_done_ / static_cast<double>(weights_done_);
    report_.bytes += packed_bytes(matrix, bits);
  }

  void remove_pieces(std::size_t shard) const {
    for (const PackMatrix& matrix : job_.plan.matrices) {
      std::error_code ec;
      if (matrix.shard == shard) fs::remove(piece_path(matrix), ec);
    }
  }

  Result<void> finish() {
    tell(PackProgress::Step::finishing, "native tensors and configuration", 0);
    std::vector<std::string> files;
    for (std::size_t shard = 0; shard < job_.plan.shards; ++shard) files.push_back(shard_name(shard));
    if (!job_.refers_natives()) {
      auto natives = write_natives(job_);
      if (!natives) return natives.error();
      files.insert(files.end(), natives->begin(), natives->end());
    }
    std::error_code ec;
    fs::remove(pieces_, ec);
    return finish_pack_folder(job_, files);
  }

  PackJob job_;
  const OnPackProgress& progress_;
  MatrixPacker packer_;
  fs::path pieces_;
  std::vector<bool> shard_done_, matrix_done_;
  std::vector<int> bits_;  // by group
  std::unique_ptr<ModelStudy> study_;
  MomentTable moments_;
  std::size_t moments_end_ = 0;  // matrices before it that are not done have their moments
  std::int64_t weights_all_ = 0, weights_done_ = 0, weights_packed_ = 0;
  double bits_done_ = 0;
  PackReport report_;
};

}  // namespace

Result<PackReport> pack_model(const PackOptions& options, const OnPackProgress& progress) {
  auto job = PackJob::open(options);
  if (!job) return job.error();
  if (auto ok = prepare_pack_folder(*job); !ok) return ok.error();
  const auto lock = FolderLock::take(options.out);
  if (!lock) return lock.error();
  remove_leftovers(*job);
  Packer packer(std::move(*job), progress);
  return packer.run();
}

}  // namespace tandem::gpu::exl3
