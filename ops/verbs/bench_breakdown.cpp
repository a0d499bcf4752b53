// Medians say what a step is like; sums say what share is lost. Both are printed.
#include "ops/verbs/bench_breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tandem::ops {

namespace {

using actors::StepPart;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values[values.size() * 9 / 10]};
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The seconds of each measured step, one list a column.
struct Columns {
  std::vector<double> step, outside, share, bare;
  std::array<std::vector<double>, actors::step_parts> parts;
};

Columns columns_of(const SteadyRun& run, const std::vector<SeenStep>& log, const std::vector<double>& bare) {
  Columns columns;
  for (std::size_t i = run.first; i < run.last; ++i) {
    const actors::StepTrace& trace = log[i].trace;
    const double step = seconds(log[i + 1].trace.begun - trace.begun);
    double delivered = step;
    for (std::size_t part = 0; part < actors::step_parts; ++part) {
      const bool is_last = part == static_cast<std::size_t>(StepPart::deliver);
      const double took = is_last ? delivered : seconds(trace.parts[part]);
      columns.parts[part].push_back(took);
      delivered -= took;
    }
    columns.step.push_back(step);
    columns.outside.push_back(step - seconds(trace.of(StepPart::compute)));
    columns.share.push_back(columns.outside.back() / step);
    columns.bare.push_back(bare[i]);
  }
  return columns;
}

// The roles of threads as they are named: rank workers (and their pools, which inherit the name), what runs the other
// actors, the clock of their timeouts, HTTP with text, and the clients of the bench.
struct Role {
  const char* thread;
  const char* name;
};
constexpr Role roles[] = {{"caf.actor", "ranks"},
                          {"caf.multiplexer", "actors"},
                          {"caf.clock", "timeouts"},
                          {"tandem-http", "http"},
                          {"bench-clients", "clients"}};

double microseconds_of(const Breakdown& row, const Role& role) {
  const auto time = row.cpu_per_step.find(role.thread);
  return time == row.cpu_per_step.end() ? 0 : 1e6 * seconds(time->second.ran);
}

std::string times_line(const Breakdown& row) {
  std::string line = fmt::format("{:5} {:6} | {:8.3f} {:8.3f} | {:8.3f} |", row.lanes, row.drafts, 1e3 * row.step.p50,
                                 1e3 * row.step.p90, 1e3 * row.parts[static_cast<std::size_t>(StepPart::compute)].p50);
  for (const StepPart part : {StepPart::plan, StepPart::dispatch, StepPart::collect, StepPart::deliver})
    line += fmt::format(" {:8.0f}", 1e6 * row.parts[static_cast<std::size_t>(part)].p50);
  return line + fmt::format(" | {:8.1f} {:8.1f} | {:8.3f} {:8.1f} | {:9.1f} {:6.2f}\n", 100 * row.outside_share,
                            100 * row.step_share.p90, 1e3 * row.bare.p50, 100 * row.bare_share, row.tokens_per_s,
                            row.tokens_per_step);
}

std::string cpu_line(const Breakdown& row) {
  std::string line = fmt::format("{:5} {:6} |", row.lanes, row.drafts);
  for (const Role& role : roles) line += fmt::format(" {:8.0f}", microseconds_of(row, role));
  return line + '\n';
}

}  // namespace

Result<std::vector<double>> replay(BareRanks& ranks, const std::vector<SeenStep>& log) {
  std::vector<double> computed;
  computed.reserve(log.size());
  for (const SeenStep& seen : log) {
    const auto result = ranks.step(seen.plan);
    if (!result) return result.error();
    computed.push_back(result->seconds);
  }
  return computed;
}

Breakdown break_down(const SteadyRun& run, const std::vector<SeenStep>& log, const std::vector<double>& bare) {
  const Columns columns = columns_of(run, log, bare);
  Breakdown row;
  row.lanes = static_cast<int>(log[run.first].plan.decode.size());
  row.drafts = static_cast<int>(log[run.first].plan.decode.front().drafts);
  row.steps = columns.step.size();
  row.tokens_per_step = run.tokens_per_step;
  row.tokens_per_s = run.tokens_per_step * row.lanes * static_cast<double>(row.steps) / sum_of(columns.step);
  row.step = spread_of(columns.step);
  for (std::size_t part = 0; part < actors::step_parts; ++part) row.parts[part] = spread_of(columns.parts[part]);
  row.outside = spread_of(columns.outside);
  row.outside_share = sum_of(columns.outside) / sum_of(columns.step);
  row.step_share = spread_of(columns.share);
  row.bare = spread_of(columns.bare);
  row.bare_share = 1 - sum_of(columns.bare) / sum_of(columns.step);
  row.cpu_per_step = run.cpu_per_step;
  return row;
}

std::string breakdown_table(const std::vector<Breakdown>& rows) {
  std::string table =
      "             | step, ms          | compute  | outside, us, p50                    | outside, %        | bare "
      "ranks  "
      "      | tokens\n"
      "lanes drafts |      p50      p90 |   p50 ms |     plan dispatch  collect  deliver |      all step p90 |   p50 "
      "ms  "
      "more, % |       1/s   step\n";
  for (const Breakdown& row : rows) table += times_line(row);
  table += "             | processor time of a step, us, by threads\nlanes drafts |";
  for (const Role& role : roles) table += fmt::format(" {:>8}", role.name);
  table += '\n';
  for (const Breakdown& row : rows) table += cpu_line(row);
  return table;
}

std::string breakdown_json(const Breakdown& row) {
  std::string json =
      fmt::format(R"({{"what":"served","lanes":{},"drafts":{},"steps":{},"step_ms_p50":{:.4f},"step_ms_p90":{:.4f})",
                  row.lanes, row.drafts, row.steps, 1e3 * row.step.p50, 1e3 * row.step.p90);
  for (std::size_t part = 0; part < actors::step_parts; ++part)
    json += fmt::format(R"(,"{0}_ms_p50":{1:.4f},"{0}_ms_p90":{2:.4f})", to_string(static_cast<StepPart>(part)),
                        1e3 * row.parts[part].p50, 1e3 * row.parts[part].p90);
  json += fmt::format(
      R"(,"outside_ms_p50":{:.4f},"outside_ms_p90":{:.4f},"outside_share":{:.4f},"outside_share_p50":{:.4f},)"
      R"("outside_share_p90":{:.4f},"bare_ms_p50":{:.4f},"bare_ms_p90":{:.4f},"more_than_bare_share":{:.4f},)"
      R"("tokens_per_s":{:.1f},"tokens_per_step":{:.2f},"cpu_us_per_step":{{)",
      1e3 * row.outside.p50, 1e3 * row.outside.p90, row.outside_share, row.step_share.p50, row.step_share.p90,
      1e3 * row.bare.p50, 1e3 * row.bare.p90, row.bare_share, row.tokens_per_s, row.tokens_per_step);
  for (const Role& role : roles)
    json += fmt::format(R"({}"{}":{:.1f})", &role == roles ? "" : ",", role.name, microseconds_of(row, role));
  return json + "}}\n";
}

}  // namespace tandem::ops
