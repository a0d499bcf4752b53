// `tandem pack` and what a server makes of packed Engram rows: the same text, or a reason.
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>

#include "tests/e2e/chat_client.hpp"
#include "tests/e2e/file_size_limit.hpp"
#include "tests/e2e/folder_contents.hpp"
#include "tests/e2e/tandem_process.hpp"

namespace fs = std::filesystem;
using namespace tandem::test;

BOOST_AUTO_TEST_SUITE(pack)

namespace {

constexpr auto limit = std::chrono::minutes(2);
const std::vector<std::string> packed_names = {"engram-l1-r0of2.bin", "engram-l1-r1of2.bin", "engram-l4-r0of2.bin",
                                               "engram-l4-r1of2.bin"};

std::vector<std::string> pack_into(const std::string& folder) {
  return {"pack", "--model", tiny_model(), "--out", folder, "--ranks", "2", "--json"};
}

std::string packed_folder() {
  const std::string folder = make_folder();
  TandemProcess process(pack_into(folder));
  BOOST_REQUIRE_MESSAGE(process.wait_for_exit(limit) == 0, process.output());
  return folder;
}

std::vector<std::string> texts_of(TandemServer& server) {
  std::vector<std::string> texts;
  for (const char* question : {"What is 17*19? Reply with the integer only.", "What is Tandem?", "Tell me a story.",
                               "Count from 3 to 12.", "List three colours."}) {
    const auto answer = ask(server.port(), chat_body(question, false, {{"max_tokens", 60}}));
    BOOST_TEST(answer.status == 200, answer.error);
    texts.push_back(answer.content);
  }
  return texts;
}

const std::vector<std::string>& texts_from_shards() {
  static const std::vector<std::string> texts = [] {
    TandemServer server{tiny_model(), {"--ranks", "2"}};
    return texts_of(server);
  }();
  return texts;
}

std::vector<std::string> with_packed(const std::string& folder) {
  return {"--ranks", "2", "--set", "engram.packed_dir=" + folder};
}

// Turns one bit of a file over.
void damage(const fs::path& file, std::streamoff offset) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(offset);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(offset);
  stream.put(byte);
}

// Starts a server that cannot load; returns what it said.
std::string refused_start(const std::string& folder) {
  std::vector<std::string> arguments{"serve", "--model", tiny_model(), "--port", "0", "--state-dir", make_folder()};
  for (const std::string& more : with_packed(folder)) arguments.push_back(more);
  TandemProcess process(std::move(arguments));
  BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 14);
  return process.output();
}

}  // namespace

BOOST_AUTO_TEST_CASE(packed_rows_give_the_text_of_the_shards_and_a_damaged_one_stops_the_start) {
  const std::string folder = packed_folder();
  {
    TandemServer server{tiny_model(), with_packed(folder)};
    BOOST_TEST(texts_of(server) == texts_from_shards(), boost::test_tools::per_element());
  }
  damage(fs::path(folder) / packed_names[2], 4096 + 33 * 100);
  const std::string said = refused_start(folder);
  BOOST_TEST(said.find(packed_names[2]) != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_file_that_was_cut_stops_the_start) {
  const std::string folder = packed_folder();
  const fs::path cut = fs::path(folder) / packed_names[1];
  fs::resize_file(cut, fs::file_size(cut) - 1);
  const std::string said = refused_start(folder);
  BOOST_TEST(said.find(packed_names[1]) != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(rows_that_cannot_be_read_while_serving_end_the_stream_and_then_the_server) {
  const std::string folder = packed_folder();
  auto arguments = with_packed(folder);
  arguments.insert(arguments.end(), {"--set", "recovery.window_s=2"});
  TandemServer server{tiny_model(), arguments};
  BOOST_TEST(ask(server.port(), chat_body("What is Tandem?", false, {{"max_tokens", 4}})).status == 200);
  for (const std::string& name : packed_names) fs::resize_file(fs::path(folder) / name, 4096);
  const auto answer = ask(server.port(), chat_body("Tell me a story.", false, {{"stream", true}, {"max_tokens", 60}}));
  BOOST_TEST(answer.content.empty(), answer.content);  // the first rows were gone already: no token came of them
  BOOST_TEST(answer.error.find("rank_lost") != std::string::npos, answer.error);
  TandemProcess& process = server.process();
  BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 14, process.output());
  BOOST_TEST(process.output().find("engram-l1-r") != std::string::npos, process.output());
}

BOOST_AUTO_TEST_CASE(the_file_of_another_rank_is_named_and_the_shards_are_read) {
  const std::string folder = packed_folder();
  fs::copy_file(fs::path(folder) / packed_names[1], fs::path(folder) / packed_names[0],
                fs::copy_options::overwrite_existing);
  TandemServer server{tiny_model(), with_packed(folder)};
  BOOST_TEST(texts_of(server) == texts_from_shards(), boost::test_tools::per_element());
  const std::string said = server.process().output();
  BOOST_TEST(said.find(packed_names[0]) != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_row_cache_keeps_the_text_and_tells_how_often_it_helped) {
  TandemServer server{tiny_model(), {"--ranks", "2", "--set", "engram.cache_gib=1"}};
  BOOST_TEST(texts_of(server) == texts_from_shards(), boost::test_tools::per_element());
  const double rows = metric(server.port(), "tandem:engram_rows_total");
  const double hits = metric(server.port(), "tandem:engram_cache_hits_total");
  BOOST_TEST(rows > 1000);
  BOOST_TEST(hits > 0);
  BOOST_TEST(hits < rows);
  texts_of(server);
  const double again = metric(server.port(), "tandem:engram_rows_total") - rows;
  BOOST_TEST(again > 1000);
  BOOST_TEST(metric(server.port(), "tandem:engram_cache_hits_total") - hits > 0.9 * again);
}

BOOST_AUTO_TEST_CASE(packing_that_is_killed_is_gone_on_with_and_leaves_no_half_file_under_a_name) {
  const auto expected = folder_contents(packed_folder());
  const std::string folder = make_folder();
  for (const std::string& name : packed_names) {
    TandemProcess process(pack_into(folder));
    process.wait_for_line(name + R"(","phase":"copying")", limit);
    process.send(SIGKILL);
    process.wait_for_exit(limit);
    for (const std::string& there : packed_names) {
      const fs::path file = fs::path(folder) / there;
      if (fs::exists(file)) BOOST_TEST((file_bytes(file) == expected.at(there)), there);
    }
  }
  TandemProcess process(pack_into(folder));
  BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 0);
  auto there = folder_contents(folder);
  for (const std::string& name : packed_names) BOOST_TEST((there[name] == expected.at(name)), name);
  for (const auto& [name, bytes] : there) BOOST_TEST(name.find(".part") == std::string::npos, name);
}

BOOST_AUTO_TEST_CASE(a_disk_that_fills_up_is_named_and_packing_ends_when_there_is_room) {
  const std::string folder = make_folder();
  {
    const FileSizeLimit full{100'000};
    TandemProcess process(pack_into(folder));
    BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 1);
    BOOST_TEST(process.output().find(packed_names[0]) != std::string::npos, process.output());
  }
  for (const std::string& name : packed_names) BOOST_TEST(!fs::exists(fs::path(folder) / name), name);
  TandemProcess process(pack_into(folder));
  BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 0);
  for (const std::string& name : packed_names) BOOST_TEST(fs::exists(fs::path(folder) / name), name);
}

BOOST_AUTO_TEST_CASE(wrong_usage_ends_with_2_wrong_files_with_14_and_a_place_that_is_no_folder_with_1) {
  const std::string folder = make_folder();
  const auto code_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "pack");
    return TandemProcess(std::move(arguments)).wait_for_exit(limit).value_or(-1);
  };
  BOOST_TEST(code_of({"--out", folder}) == 2);
  BOOST_TEST(code_of({"--model", tiny_model(), "--out", folder, "--rank", "1"}) == 2);
  BOOST_TEST(code_of({"--model", tiny_model(), "--out", folder, "--ranks", "7"}) == 2);  // of 12 columns
  BOOST_TEST(code_of({"--model", folder + "/none", "--out", folder}) == 14);
  BOOST_TEST(folder_contents(folder).empty());
  std::ofstream{folder + "/letters.txt"} << "mine";
  BOOST_TEST(code_of({"--model", tiny_model(), "--out", folder + "/letters.txt"}) == 1);
  BOOST_TEST(folder_contents(folder).size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
