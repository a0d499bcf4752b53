// A small writer of the text format and the list of series.
#include "net/http/metrics_text.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace tandem::net::http {
namespace {

std::string escaped(std::string_view value) {
  std::string out;
  for (char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

class Page {
 public:
  explicit Page(std::string_view model) : labels_(fmt::format("engine=\"0\",model_name=\"{}\"", escaped(model))) {}

  void head(std::string_view name, std::string_view type, std::string_view help) {
    add("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(std::string_view name, std::string_view extra_labels, double value) {
    add("{}{{{}{}{}}} {}\n", name, labels_, extra_labels.empty() ? "" : ",", extra_labels, value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    head(name, "gauge", help);
    sample(name, "", value);
  }
  void counter(std::string_view name, std::string_view help, std::uint64_t value) {
    head(name, "counter", help);
    sample(name, "", static_cast<double>(value));
  }
  void histogram(std::string_view name, std::string_view help, const actors::Histogram& values);
  std::string take() { return std::move(out_); }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }

  std::string out_;
  const std::string labels_;
};

void Page::histogram(std::string_view name, std::string_view help, const actors::Histogram& values) {
  head(name, "histogram", help);
  const std::string bucket = fmt::format("{}_bucket", name);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < values.bounds.size(); ++i) {
    below += i < values.counts.size() ? values.counts[i] : 0;
    sample(bucket, fmt::format("le=\"{}\"", values.bounds[i]), static_cast<double>(below));
  }
  sample(bucket, "le=\"+Inf\"", static_cast<double>(values.count));
  sample(fmt::format("{}_sum", name), "", values.sum);
  sample(fmt::format("{}_count", name), "", static_cast<double>(values.count));
}

void add_load(Page& page, const actors::RuntimeSnapshot& snapshot) {
  page.gauge("vllm:num_requests_running", "Requests that are being computed.", snapshot.running);
  page.gauge("vllm:num_requests_waiting", "Requests in the queue.", snapshot.waiting);
  page.gauge("vllm:kv_cache_usage_perc", "Share of the key-value pages in use, 0 to 1.", snapshot.kv_usage);
  page.head("vllm:cache_config_info", "gauge", "The key-value cache's layout.");
  page.sample(
      "vllm:cache_config_info",
      fmt::format("block_size=\"{}\",num_gpu_blocks=\"{}\"", snapshot.engine.page_tokens, snapshot.engine.pages_total),
      1);
}

void add_totals(Page& page, const actors::Counters& counters, const HttpCounts& http) {
  page.counter("vllm:prompt_tokens_total", "Prompt tokens computed.", counters.prompt_tokens);
  page.counter("vllm:generation_tokens_total", "Tokens generated.", counters.generation_tokens);
  page.head("vllm:request_success_total", "counter", "Requests that ended by themselves.");
  page.sample("vllm:request_success_total", "finished_reason=\"stop\"", static_cast<double>(counters.finished_stop));
  page.sample("vllm:request_success_total", "finished_reason=\"length\"",
              static_cast<double>(counters.finished_length));
  page.sample("vllm:request_success_total", "finished_reason=\"error\"", static_cast<double>(counters.finished_error));
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up for reuse.", http.prompt_tokens);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens that were not computed again.", http.cached_tokens);
  page.counter("vllm:num_preemptions_total", "Sequences that had to give their pages back.", counters.preemptions);
}

void add_drafts(Page& page, const actors::Counters& counters) {
  page.counter("vllm:spec_decode_num_drafts_total", "Decode steps that verified drafts.", counters.drafts);
  page.counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens verified.", counters.draft_tokens);
  page.counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.", counters.accepted_tokens);
  constexpr std::string_view name = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
  page.head(name, "counter", "Draft tokens accepted, by position in the draft.");
  for (std::size_t position = 0; position < counters.accepted_per_position.size(); ++position)
    page.sample(name, fmt::format("position=\"{}\"", position),
                static_cast<double>(counters.accepted_per_position[position]));
}

void add_distributions(Page& page, const actors::RuntimeSnapshot& snapshot, const HttpCounts& http) {
  page.histogram("vllm:time_to_first_token_seconds", "From acceptance to the first token.",
                 snapshot.time_to_first_token);
  page.histogram("vllm:inter_token_latency_seconds", "Between tokens of one request.", snapshot.inter_token_latency);
  page.histogram("vllm:time_per_output_token_seconds", "As inter_token_latency, for older dashboards.",
                 snapshot.inter_token_latency);
  page.histogram("vllm:e2e_request_latency_seconds", "From acceptance to the end.", snapshot.request_latency);
  page.histogram("vllm:request_queue_time_seconds", "In the queue.", snapshot.queue_time);
  page.histogram("vllm:request_prefill_time_seconds", "Computing the prompt.", snapshot.prefill_time);
  page.histogram("vllm:request_decode_time_seconds", "Generating.", snapshot.decode_time);
  page.histogram("vllm:request_inference_time_seconds", "Computing prompt and answer.", snapshot.inference_time);
  page.histogram("vllm:request_prompt_tokens", "Prompt length.", snapshot.prompt_length);
  page.histogram("vllm:request_generation_tokens", "Answer length.", snapshot.generation_length);
  page.histogram("vllm:request_params_max_tokens", "max_tokens as requested.", http.max_tokens);
  page.histogram("vllm:request_params_n", "n as requested.", http.choices);
  page.histogram("vllm:iteration_tokens_total", "Rows of a step.", snapshot.step_tokens);
}

void add_own(Page& page, const actors::RuntimeSnapshot& snapshot, const HttpCounts& http) {
  page.gauge("tandem:ready", "1 when the server takes requests.", snapshot.state == actors::NodeState::ready ? 1 : 0);
  page.head("tandem:rank_ready", "gauge", "1 for each rank that is ready.");
  for (const actors::RankReport& rank : snapshot.ranks)
    page.sample("tandem:rank_ready", fmt::format("rank=\"{}\"", rank.rank),
                rank.state == actors::NodeState::ready ? 1 : 0);
  page.counter("tandem:request_aborted_total", "Requests cancelled before their end.", snapshot.counters.aborted);
  page.counter("tandem:request_rejected_total", "Requests refused by the queue.", snapshot.counters.rejected);
  page.counter("tandem:rank_losses_total", "Times the rank group was lost.", snapshot.counters.rank_losses);
  page.counter("tandem:recoveries_total", "Times the rank group was brought back.", snapshot.counters.recoveries);
  page.counter("tandem:steps_total", "Steps executed.", snapshot.counters.steps);
  page.head("tandem:step_seconds_total", "counter", "Time of the steps by part; all but compute is outside the ranks.");
  for (std::size_t part = 0; part < actors::step_parts; ++part)
    page.sample("tandem:step_seconds_total",
                fmt::format("part=\"{}\"", actors::to_string(static_cast<actors::StepPart>(part))),
                snapshot.step_seconds[part]);
  const gpu::EngramUse& engram = snapshot.counters.engram;
  page.counter("tandem:engram_rows_total", "Engram rows looked up, all ranks.", engram.rows);
  page.counter("tandem:engram_cache_hits_total", "Of these, found in the row cache.", engram.cache_hits);
  page.head("tandem:engram_wait_seconds_total", "counter", "Time that steps were held up for Engram rows, all ranks.");
  page.sample("tandem:engram_wait_seconds_total", "", engram.waited_seconds);
  page.gauge("tandem:memory_available_bytes", "Memory that is left.",
             static_cast<double>(snapshot.memory.available_bytes));
  page.gauge("tandem:memory_rss_bytes", "Memory of this process.", static_cast<double>(snapshot.memory.rss_bytes));
  page.counter("tandem:http_disconnects_total", "Clients that left before their answer was complete.",
               http.disconnects);
  page.counter("tandem:http_slow_readers_total", "Clients that did not read their answer.", http.slow_readers);
  page.head("tandem:http_responses_total", "counter", "Answers by route and status.");
  for (const auto& [key, count] : http.responses)
    page.sample("tandem:http_responses_total", fmt::format("route=\"{}\",status=\"{}\"", key.first, key.second),
                static_cast<double>(count));
}

}  // namespace

std::string metrics_text(const actors::RuntimeSnapshot& snapshot, const HttpCounts& http, std::string_view model) {
  Page page{model};
  add_load(page, snapshot);
  add_totals(page, snapshot.counters, http);
  add_drafts(page, snapshot.counters);
  add_distributions(page, snapshot, http);
  add_own(page, snapshot, http);
  return page.take();
}

}  // namespace tandem::net::http
