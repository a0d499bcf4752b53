// A verb of the command line: one file each under ops/verbs, listed in ops/main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tandem::ops {

// Exit codes of the command line; rank processes add 12 (peer lost), 14 (load error) and others.
inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_already_running = 3;
inline constexpr int exit_peer_lost = 12;
inline constexpr int exit_load_error = 14;
inline constexpr int exit_interrupted = 130;

// Each adds its subcommand to `app`; when it is chosen, `run` is set to what it does and returns the exit code.
using Run = std::function<int()>;
void add_serve(CLI::App& app, Run& run);
void add_worker(CLI::App& app, Run& run);
void add_trace(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_pack(CLI::App& app, Run& run);
void add_quantize(CLI::App& app, Run& run);
void add_plan(CLI::App& app, Run& run);
void add_fetch(CLI::App& app, Run& run);
void add_verify_weights(CLI::App& app, Run& run);
void add_sync(CLI::App& app, Run& run);

}  // namespace tandem::ops
