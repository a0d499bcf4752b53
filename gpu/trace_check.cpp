// The limits of the options, and those that the model's configuration sets.
#include "gpu/trace_check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "gpu/config.hpp"
#include "gpu/numerics.hpp"

namespace tandem::gpu {
namespace {

TraceError wrong(const char* option, std::string found, std::string expected) {
  return {TraceStage::options, {ErrorCode::invalid_argument, option, std::move(found), std::move(expected)}};
}

TraceResult<void> check_alone(const TraceOptions& options) {
  if (options.ids.empty()) return wrong("ids", "none", "at least one token id");
  if (options.chunk < 0) return wrong("chunk", std::to_string(options.chunk), "0 or more");
  if (options.threads < 0) return wrong("threads", std::to_string(options.threads), "0 or more");
  if (options.ranks < 1) return wrong("ranks", std::to_string(options.ranks), "1 or more");
  if (options.spec < 0) return wrong("spec", std::to_string(options.spec), "0 or more");
  if (const auto mode = parse_numerics(options.numerics, true); !mode)
    return TraceError{TraceStage::options, mode.error()};
  return {};
}

TraceResult<void> check_tokens(const std::vector<std::int32_t>& tokens, std::int64_t vocab_size, const char* what) {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocab_size)
      return wrong(what, std::to_string(token), fmt::format("0 to {}", vocab_size - 1));
  }
  return {};
}

TraceResult<void> check_for_model(const TraceOptions& options, const ModelConfig& config) {
  if (auto ok = check_tokens(options.ids, config.vocab_size, "ids"); !ok) return ok;
  if (auto ok = check_tokens(options.then, config.vocab_size, "then"); !ok) return ok;
  const auto positions = static_cast<std::int64_t>(options.ids.size() + options.then.size());
  if (positions > config.max_positions) {
    return wrong(options.then.empty() ? "ids" : "ids and then", fmt::format("{} token ids", positions),
                 fmt::format("at most {}, the model's context", config.max_positions));
  }
  if (auto ok = check_ranks(config, options.ranks); !ok) return TraceError{TraceStage::options, ok.error()};
  const int drafts = config.dspark.stages > 0 ? config.dspark.block_size : 0;
  if (options.spec > drafts) return wrong("spec", std::to_string(options.spec), fmt::format("at most {}", drafts));
  return {};
}

// Whether a file can appear there is found out before hours of computing, not after.
TraceResult<void> check_place(const std::filesystem::path& out) {
  const auto refuse = [&](std::string found, std::string expected) -> TraceResult<void> {
    return TraceError{TraceStage::write, {ErrorCode::io, out.string(), std::move(found), std::move(expected)}};
  };
  std::error_code failed;
  const std::filesystem::path folder = out.has_parent_path() ? out.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, failed)) return refuse("no such folder", "a folder to write to");
  if (std::filesystem::is_directory(out, failed)) return refuse("a folder", "the name of a file to write");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return refuse(std::generic_category().message(errno), "a folder to write to");
  return {};
}

}  // namespace

TraceResult<void> check_trace(const TraceOptions& options) {
  if (auto ok = check_alone(options); !ok) return ok;
  const auto config = ModelConfig::load(options.model);
  if (!config) return TraceError{TraceStage::load, config.error()};
  if (auto ok = check_for_model(options, *config); !ok) return ok;
  return check_place(options.out);
}

}  // namespace tandem::gpu
