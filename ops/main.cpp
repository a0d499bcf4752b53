// The `tandem` executable: one binary, one verb a subcommand. Exit codes are in verb.hpp.
#include <exception>
#include <iostream>
#include <string_view>

#include <spdlog/spdlog.h>

#include "ops/process_signals.hpp"
#include "ops/verb.hpp"

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "serve" || verb == "worker") tandem::ops::ProcessSignals::block();
  spdlog::default_logger();  // the registry is made while there is one thread
  CLI::App app{"Tandem: serves DeepSeek-V4.1-Flash from one native runtime of actors"};
  app.require_subcommand(1);
  app.set_version_flag("--version", TANDEM_VERSION);
  tandem::ops::Run run;
  tandem::ops::add_serve(app, run);
  tandem::ops::add_worker(app, run);
  tandem::ops::add_trace(app, run);
  tandem::ops::add_bench(app, run);
  tandem::ops::add_pack(app, run);
  tandem::ops::add_quantize(app, run);
  tandem::ops::add_plan(app, run);
  tandem::ops::add_fetch(app, run);
  tandem::ops::add_verify_weights(app, run);
  tandem::ops::add_sync(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tandem::ops::exit_done : tandem::ops::exit_usage;
  }
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "tandem: internal error: " << error.what() << '\n';
    return tandem::ops::exit_failed;
  }
}
