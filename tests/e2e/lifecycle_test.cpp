// Start and stop: exit codes, signals in any state, a second instance, a checkpoint that cannot be loaded.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/e2e/chat_client.hpp"
#include "tests/e2e/stray_exit.hpp"
#include "tests/e2e/tandem_process.hpp"

using namespace tandem::test;
namespace fs = std::filesystem;

namespace {

constexpr auto stop_limit = std::chrono::seconds(10);

std::vector<std::string> serve_on(const std::string& port, const std::string& folder,
                                  const std::string& model = tiny_model()) {
  return {"serve", "--model", model, "--ranks", "2", "--port", port, "--state-dir", folder};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lifecycle)

BOOST_AUTO_TEST_CASE(sigterm_while_loading_exits_with_0_in_time) {
  TandemProcess process{serve_on("0", make_folder())};
  BOOST_REQUIRE(process.wait_for_line("listening on"));
  process.send(SIGTERM);
  BOOST_TEST(process.wait_for_exit(stop_limit).value_or(-1) == 0, process.output());
}

BOOST_AUTO_TEST_CASE(sigterm_when_idle_exits_with_0_in_time) {
  TandemServer server{tiny_model(), {"--ranks", "2"}};
  server.process().send(SIGTERM);
  BOOST_TEST(server.process().wait_for_exit(stop_limit).value_or(-1) == 0, server.process().output());
}

BOOST_AUTO_TEST_CASE(sigterm_under_streams_tells_each_and_exits_with_0_in_time) {
  TandemServer server{tiny_model(), {"--ranks", "2"}};
  std::vector<ChatAnswer> answers(4);
  std::vector<std::thread> clients;
  for (auto& answer : answers)
    clients.emplace_back([&] {
      answer = ask(server.port(), chat_body("Tell me a story.", false,
                                            {{"stream", true}, {"ignore_eos", true}, {"max_tokens", 3900}}));
    });
  BOOST_TEST(metric_reaches(server.port(), "vllm:generation_tokens_total", 20));
  server.process().send(SIGTERM);
  BOOST_TEST(server.process().wait_for_exit(stop_limit).value_or(-1) == 0, server.process().output());
  for (auto& client : clients) client.join();
  for (const auto& answer : answers) BOOST_TEST(answer.is_done);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_supervisor_ends_the_process_with_1_in_time_or_a_stop_with_0) {
  for (const bool is_stopping : {false, true}) {
    const std::uint16_t ports = free_port_pair();
    TandemServer server{tiny_model(), {"--transport", "tcp", "--rdv-port", std::to_string(ports)}};
    ChatAnswer answer;
    std::thread client{[&] {
      answer = ask(server.port(), chat_body("Tell me a story.", false,
                                            {{"stream", true}, {"ignore_eos", true}, {"max_tokens", 3900}}));
    }};
    BOOST_TEST(metric_reaches(server.port(), "vllm:generation_tokens_total", 5));
    if (is_stopping) {
      server.process().send(SIGTERM);
      BOOST_TEST(server.process().wait_for_line("stopping").has_value());
    }
    BOOST_TEST(end_published(static_cast<std::uint16_t>(ports + 1)));
    BOOST_TEST(server.process().wait_for_exit(stop_limit).value_or(-1) == (is_stopping ? 0 : 1));
    client.join();
    BOOST_TEST(answer.is_done);
    BOOST_TEST(!answer.error.empty());
    const std::string output = server.process().output(), line = "[error] the node-supervisor actor ended: ";
    const auto at = output.find(line);
    BOOST_TEST((at != std::string::npos) == !is_stopping, output);
    if (!is_stopping) BOOST_TEST(output.find(line, at + 1) == std::string::npos, output);
  }
}

BOOST_AUTO_TEST_CASE(a_second_instance_exits_3_if_it_is_ours_and_1_with_the_owner_if_not) {
  const auto folder = make_folder();
  const auto port = std::to_string(free_port_pair());
  TandemProcess first{serve_on(port, folder)};
  BOOST_REQUIRE_MESSAGE(first.wait_for_line("ready: "), first.output());
  // The live answer decides, not the state folder.
  for (const std::string& state : {folder, make_folder()}) {
    TandemProcess again{serve_on(port, state)};
    BOOST_TEST(again.wait_for_exit(stop_limit).value_or(-1) == 3, again.output());
  }
  for (const std::string& state : {folder, make_folder()}) {
    auto arguments = serve_on(port, state);
    arguments.insert(arguments.end(), {"--lanes", "4"});  // another configuration
    TandemProcess foreign{arguments};
    BOOST_TEST(foreign.wait_for_exit(stop_limit).value_or(-1) == 1, foreign.output());
    BOOST_TEST(foreign.output().find("pid " + std::to_string(first.pid())) != std::string::npos, foreign.output());
  }
}

BOOST_AUTO_TEST_CASE(a_rank_port_that_is_taken_exits_1_and_names_its_owner) {
  const auto ports = free_port_pair();
  TandemProcess holder{serve_on(std::to_string(ports + 1), make_folder())};
  BOOST_REQUIRE_MESSAGE(holder.wait_for_line("listening on"), holder.output());
  auto arguments = serve_on("0", make_folder());
  arguments.insert(arguments.end(), {"--transport", "tcp", "--rdv-port", std::to_string(ports)});
  TandemProcess process{arguments};
  BOOST_TEST(process.wait_for_exit(stop_limit).value_or(-1) == 1, process.output());
  BOOST_TEST(process.output().find("rdv.port") != std::string::npos, process.output());
  BOOST_TEST(process.output().find("pid " + std::to_string(holder.pid())) != std::string::npos, process.output());
}

BOOST_AUTO_TEST_CASE(what_is_said_at_the_start_is_said_once_and_true) {
  TandemServer server{tiny_model(), {"--drafts", "2", "--draft-lanes", "3"}};
  const std::string output = server.process().output();
  const auto first = output.find("listening on");
  BOOST_TEST(output.find("listening on", first + 1) == std::string::npos, output);
  BOOST_TEST(output.find("2 drafts a step for up to 3 lanes") != std::string::npos, output);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_cannot_be_loaded_exits_14_and_names_the_file) {
  const auto folder = make_folder();
  const fs::path model = fs::path(folder) / "model";
  fs::copy(tiny_model(), model, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(model))
    if (entry.path().extension() == ".safetensors") {
      fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1000);
      break;
    }
  TandemProcess process{serve_on("0", folder, model.string())};
  BOOST_TEST(process.wait_for_exit(start_limit).value_or(-1) == 14, process.output());
  BOOST_TEST(process.output().find(".safetensors") != std::string::npos, process.output());
}

BOOST_AUTO_TEST_CASE(wrong_usage_exits_2_and_says_what_is_accepted) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "subcommand"},
      {{"serve"}, "--model"},
      {{"serve", "--model", tiny_model(), "--port", "70000"}, "0..65535"},
      {{"serve", "--model", tiny_model(), "--ranks", "two"}, "1..64"},
      {{"serve", "--model", tiny_model(), "--transport", "pigeon"}, "threads|tcp"},
      {{"serve", "--model", tiny_model(), "--set", "api.prot=1"}, "api.port"},
      {{"serve", "--config", "/nonexistent/x.conf"}, "x.conf"},
      {{"serve", "--model", tiny_model(), "--effort", "101"}, "1..100"},
      {{"serve", "--model", tiny_model(), "--context", "1000000"}, "context.max = 1000000"},
      {{"serve", "--model", tiny_model(), "--host", "example.org", "--port", "0"}, "api.host = example.org"},
      {{"serve", "--model", tiny_model(), "--transport", "tcp", "--port", "29501"}, "api.port = 29501"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--set", "api.bodies_bytes_max=2048"}, "api.body_bytes_max"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--ranks", "3"}, "ranks = 3"},
      {{"worker", "--rank", "1", "--model", tiny_model(), "--ranks", "2"}, "transport: threads"},
      {{"worker", "--rank", "2", "--model", tiny_model(), "--ranks", "2", "--transport", "tcp"}, "expected 1 to 1"},
      {{"trace", "--model", tiny_model(), "--ids", "x", "--out", "y", "--chunk", "0"}, "--chunk"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--kv-tokens", "1"}, "kv.tokens = 1"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--context", "1"}, "context.max = 1"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--key-file", "/nonexistent/x"}, "api.key_file"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--transport", "tcp", "--fabric-host", "0.0.0.0"},
       "fabric.host = 0.0.0.0"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--transport", "tcp", "--fabric-host", "no.invalid"},
       "fabric.host = no.invalid"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--device", "first"}, "model.device = first"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--set", "fabric.head_gid=256"}, "GID index"},
      {{"serve", "--model", tiny_model(), "--port", "0", "--set", "fabric.exchange=rdma"}, "auto|nccl|host"},
      {{"trace", "--model", tiny_model()}, "--ids"},
      {{"worker", "--model", tiny_model(), "--rank", "0"}, "rank"},
  };
  for (const auto& [arguments, text] : cases) {
    TandemProcess process{arguments};
    BOOST_TEST(process.wait_for_exit(stop_limit).value_or(-1) == 2, process.output());
    BOOST_TEST(process.output().find(text) != std::string::npos, text << " is not in: " << process.output());
  }
}

BOOST_AUTO_TEST_SUITE_END()
