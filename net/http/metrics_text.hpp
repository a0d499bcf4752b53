// The Prometheus page. Names as dashboards for vLLM know them; our own under "tandem:".
#pragma once

#include "actors/runtime_snapshot.hpp"
#include "net/http/http_counters.hpp"

#include <string>
#include <string_view>

namespace tandem::net::http {

// Returns text format 0.0.4. Every series is there from the start. An aborted request appears in
// tandem:request_aborted_total, never in vllm:request_success_total.
std::string metrics_text(const actors::RuntimeSnapshot& snapshot, const HttpCounts& http, std::string_view model);

}  // namespace tandem::net::http
