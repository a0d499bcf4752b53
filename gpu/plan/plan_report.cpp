// Formats; no figure is computed here but sums over lines.
#include "gpu/plan/plan_report.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>

namespace tandem::gpu {
namespace {

namespace json = boost::json;

double in_gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1U << 30);
}

std::string line_text(std::string_view name, std::uint64_t bytes, std::string_view reason) {
  return fmt::format("  {:18} {:9.3f}  {}\n", name, in_gib(bytes), reason);
}

std::string head_text(const MemoryPlan& plan) {
  const PlanRequest& request = plan.request;
  std::string text = fmt::format("{}: {}, {} tensors in {} files", request.model.string(), plan.layout, plan.tensors,
                                 plan.files.size());
  if (plan.packed_matrices > 0)
    text += fmt::format(", {} packed matrices of {:.3f} bits a weight", plan.packed_matrices, plan.packed_bits);
  const double sequences = static_cast<double>(plan.kv_tokens) / static_cast<double>(request.step.context);
  text += fmt::format("\nrank 0 of {} ({} on this machine), backend {}, steps of {} rows\n", request.ranks,
                      request.ranks_here, request.backend, plan.step_rows);
  text +=
      fmt::format("context {}, {} lanes, caches for {} positions ({:.1f} sequences of that length) of {:.0f} bytes\n",
                  request.step.context, request.step.lanes, plan.kv_tokens, sequences, plan.kv_bytes_per_token());
  return text;
}

json::object part_json(const MemoryPlan& plan, PlanPart part) {
  json::object lines;
  for (const PlanLine& line : plan.lines) {
    if (line.part == part) lines[line.name] = line.bytes;
  }
  return {{"total", plan.bytes_of(part)}, {"lines", std::move(lines)}};
}

json::array files_json(const MemoryPlan& plan) {
  json::array files;
  for (const PlanFile& file : plan.files) {
    files.push_back(json::object{{"path", file.path.string()}, {"bytes", file.bytes}, {"tensors", file.tensors}});
  }
  return files;
}

}  // namespace

std::string plan_verdict(const MemoryPlan& plan) {
  const StepLimits& step = plan.request.step;
  if (plan.fits()) return fmt::format("fits: sequences of up to {} tokens can be prefilled", plan.largest_context);
  const std::string wanted = fmt::format("refused: a sequence of {} tokens cannot be prefilled", step.context);
  if (step.context > plan.kv_tokens && plan.bytes_left() >= 0)
    return fmt::format("{}: the caches hold {} positions; the largest context is {}", wanted, plan.kv_tokens,
                       plan.largest_context);
  const double missing = in_gib(static_cast<std::uint64_t>(std::max<std::int64_t>(0, -plan.bytes_left())));
  const std::string what = fmt::format("{}: {:.3f} GiB are missing", wanted, missing);
  if (plan.largest_context == 0) return what + "; no context fits";
  return fmt::format("{}; the largest context is {}", what, plan.largest_context);
}

std::string to_text(const MemoryPlan& plan) {
  std::string text = head_text(plan);
  for (std::size_t i = 0; i < plan_parts; ++i) {
    const auto part = static_cast<PlanPart>(i);
    if (plan.bytes_of(part) == 0) continue;
    text += fmt::format("\n{:20} {:9.3f}  GiB a rank\n", to_string(part), in_gib(plan.bytes_of(part)));
    for (const PlanLine& line : plan.lines) {
      if (line.part == part) text += line_text(line.name, line.bytes, line.reason);
    }
  }
  if (plan.table_bytes > 0)
    text += fmt::format("\nEngram tables       {:10.3f}  GiB stay in their files\n", in_gib(plan.table_bytes));
  text += fmt::format("\n{:20} {:9.3f}  GiB a rank, {:.3f} on this machine\n", "together", in_gib(plan.rank_bytes()),
                      in_gib(plan.machine_bytes()));
  text += fmt::format("{:20} {:9.3f}  GiB, {:.3f} of it to be left alone\n", "available",
                      in_gib(plan.request.available_bytes), in_gib(plan.request.margin_bytes));
  const std::int64_t left = plan.bytes_left();
  text += fmt::format("{:20} {:9.3f}  GiB\n", left < 0 ? "missing" : "left",
                      in_gib(static_cast<std::uint64_t>(left < 0 ? -left : left)));
  return text + plan_verdict(plan) + "\n";
}

json::object to_json(const MemoryPlan& plan) {
  const PlanRequest& request = plan.request;
  json::object parts;
  for (std::size_t i = 0; i < plan_parts; ++i) {
    const auto part = static_cast<PlanPart>(i);
    parts[to_string(part)] = part_json(plan, part);
  }
  return {{"model", request.model.string()},
          {"layout", plan.layout},
          {"tensors", plan.tensors},
          {"packed_matrices", plan.packed_matrices},
          {"packed_bits", plan.packed_bits},
          {"backend", request.backend},
          {"ranks", request.ranks},
          {"ranks_here", request.ranks_here},
          {"context", request.step.context},
          {"lanes", request.step.lanes},
          {"step_rows", plan.step_rows},
          {"kv",
           {{"tokens", plan.kv_tokens},
            {"bytes", plan.kv_pool_bytes},
            {"bytes_per_token", plan.kv_bytes_per_token()},
            {"page_tokens", plan.page_tokens}}},
          {"parts", std::move(parts)},
          {"engram_table_bytes", plan.table_bytes},
          {"rank_bytes", plan.rank_bytes()},
          {"machine_bytes", plan.machine_bytes()},
          {"available_bytes", request.available_bytes},
          {"margin_bytes", request.margin_bytes},
          {"left_bytes", plan.bytes_left()},
          {"largest_context", plan.largest_context},
          {"fits", plan.fits()},
          {"verdict", plan_verdict(plan)},
          {"files", files_json(plan)}};
}

}  // namespace tandem::gpu
