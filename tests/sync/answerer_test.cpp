// What one connection asks does not hold up the others, and what belongs to nobody is cleared away.
#include "net/sync/answerer.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>
#include <system_error>

#include "engram/durable_file.hpp"
#include "net/sync/leftovers.hpp"
#include "net/sync/nonce_file.hpp"
#include "tests/sync/link_ends.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace tandem::net::sync::test;

BOOST_AUTO_TEST_SUITE(sync_answerer)

namespace {

AnswererOptions receiving(const Folder& folder) {
  return {.folder = folder.path(), .state_folder = {}, .takes_files = true, .says_working_every = 0ms};
}

Message ask(Answerer& answerer, const Message& message, const std::string& data = {}) {
  return answerer.answer({message, bytes_of(data), {}, {}});
}

Message reserve_of(std::uint64_t bytes) {
  Message reserve{MessageKind::reserve};
  reserve.bytes = bytes;
  return reserve;
}

void make_old(const std::filesystem::path& file) {
  const auto old = std::filesystem::file_time_type::clock::now() - 2 * leftover_age;
  std::filesystem::last_write_time(file, old);
}

}  // namespace

BOOST_AUTO_TEST_CASE(other_connections_are_answered_while_a_file_is_hashed) {
  const Folder folder;
  Answerer answerer(receiving(folder));
  const std::string content(chunk_bytes_min, 'c');
  answerer.connection_opened();
  BOOST_REQUIRE((ask(answerer, offer_of("a", content)).kind == MessageKind::have));
  BOOST_REQUIRE((ask(answerer, message_of(MessageKind::chunk, "a", content), content).kind == MessageKind::stored));
  std::promise<void> reached, may_go_on;
  const Message finish = finish_of("a", content);
  auto finished = std::async(std::launch::async, [&] {
    return answerer.answer({finish, {}, {}, [&] {
                              reached.set_value();
                              may_go_on.get_future().wait();
                              return true;
                            }});
  });
  reached.get_future().wait();
  auto others = std::async(std::launch::async, [&] {
    for (int i = 0; i < 2; ++i) {
      answerer.connection_opened();
      answerer.connection_closed();
    }
    return std::vector{ask(answerer, offer_of("a", content)).kind, ask(answerer, offer_of("b", content)).kind,
                       ask(answerer, reserve_of(content.size())).kind,
                       ask(answerer, message_of(MessageKind::chunk, "b", content), content).kind,
                       ask(answerer, {MessageKind::revision}).kind};
  });
  const bool are_answered = others.wait_for(20s) == std::future_status::ready;
  may_go_on.set_value();
  BOOST_TEST(are_answered);
  const std::vector expected{MessageKind::have, MessageKind::have, MessageKind::done, MessageKind::stored,
                             MessageKind::revision_is};
  BOOST_TEST((others.get() == expected));
  BOOST_TEST((finished.get().kind == MessageKind::finished));
  BOOST_TEST(content_of(folder.path() / "a") == content);
}

BOOST_AUTO_TEST_CASE(room_is_asked_for_all_that_is_being_received_and_none_is_taken_if_it_lacks) {
  const Folder folder;
  Answerer answerer(receiving(folder));
  const std::uint64_t most = std::filesystem::space(folder.path()).available / 10 * 6;
  for (const char* path : {"a", "b"}) {
    Message offer = offer_of(path, "");
    offer.bytes = most;
    offer.chunk_bytes = chunk_bytes_max;
    BOOST_REQUIRE((ask(answerer, offer).kind == MessageKind::have));
  }
  const Message refused = ask(answerer, reserve_of(most));  // one of them would fit
  BOOST_REQUIRE((refused.kind == MessageKind::refused));
  BOOST_TEST(refused.code == to_string(ErrorCode::resource));
  BOOST_TEST(refused.text.find("missing of the model") != std::string::npos, refused.text);
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_gone_is_to_be_offered_again) {
  const Folder folder;
  Answerer answerer(receiving(folder));
  const std::string content(chunk_bytes_min, 'c');
  Message forced = offer_of("a", content);
  forced.forced = true;
  const auto receive = [&] {
    BOOST_TEST(ask(answerer, forced).state == "new");
    BOOST_TEST((ask(answerer, message_of(MessageKind::chunk, "a", content), content).kind == MessageKind::stored));
    BOOST_TEST((ask(answerer, finish_of("a", content)).kind == MessageKind::finished));
  };
  receive();
  for (const Message& late : {message_of(MessageKind::chunk, "a", content), finish_of("a", content)}) {
    const Message refused = ask(answerer, late, late.kind == MessageKind::chunk ? content : "");
    BOOST_TEST(refused.code == to_string(ErrorCode::unavailable));
  }
  receive();
  BOOST_TEST(answerer.counts().files == 2U);
}

BOOST_AUTO_TEST_CASE(of_two_files_under_one_name_the_second_waits_and_nothing_of_the_first_comes_into_it) {
  const Folder folder;
  Answerer answerer(receiving(folder));
  const std::string first(2 * chunk_bytes_min, '1'), second(2 * chunk_bytes_min, '2');
  const auto later = [](Message message) {
    message.modified_ns += 1;
    return message;
  };
  const auto send = [&](const Message& chunk, const std::string& content) {
    return ask(answerer, chunk, content.substr(chunk.index * chunk_bytes_min, chunk_bytes_min));
  };
  Message second_offer = later(offer_of("a", second));
  second_offer.sha256 = sha_of(second);
  BOOST_TEST(ask(answerer, offer_of("a", first)).state == "new");
  BOOST_TEST(ask(answerer, second_offer).code == to_string(ErrorCode::unavailable), "it waits");
  for (const std::uint64_t index : {0, 1})
    BOOST_TEST((send(message_of(MessageKind::chunk, "a", first, index), first).kind == MessageKind::stored));
  BOOST_TEST((ask(answerer, finish_of("a", first)).kind == MessageKind::finished));

  BOOST_TEST(ask(answerer, second_offer).state == "new");
  // Whoever still sends the first file does not know yet that it is whole.
  BOOST_TEST(send(message_of(MessageKind::chunk, "a", first), first).code == to_string(ErrorCode::unavailable));
  BOOST_TEST(ask(answerer, finish_of("a", first)).code == to_string(ErrorCode::unavailable));
  for (const std::uint64_t index : {0, 1})
    BOOST_TEST((send(later(message_of(MessageKind::chunk, "a", second, index)), second).kind == MessageKind::stored));
  BOOST_TEST(ask(answerer, finish_of("a", first)).code == to_string(ErrorCode::unavailable), "nor throws it away");
  BOOST_TEST((ask(answerer, later(finish_of("a", second))).kind == MessageKind::finished));
  BOOST_TEST(content_of(folder.path() / "a") == second);
}

BOOST_AUTO_TEST_CASE(a_part_goes_when_its_file_came_another_way) {
  const Folder folder;
  Answerer answerer(receiving(folder));
  const std::string content(2 * chunk_bytes_min, 'c');
  answerer.connection_opened();
  BOOST_REQUIRE((ask(answerer, offer_of("a", content)).kind == MessageKind::have));
  BOOST_REQUIRE((ask(answerer, message_of(MessageKind::chunk, "a", content), content.substr(0, chunk_bytes_min)).kind ==
                 MessageKind::stored));
  answerer.connection_closed();
  BOOST_TEST(!std::filesystem::is_empty(folder.path() / parts_folder_name));
  (void)folder.write("a", bytes_of(content));
  Message offer = offer_of("a", content);
  offer.sha256 = sha_of(content);
  BOOST_TEST(ask(answerer, offer).state == "same");
  BOOST_TEST((ask(answerer, {MessageKind::end}).kind == MessageKind::done));
  BOOST_TEST(!std::filesystem::exists(folder.path() / parts_folder_name));
}

BOOST_AUTO_TEST_CASE(a_complete_copy_leaves_no_parts_of_other_versions_but_those_that_are_being_sent) {
  const Folder folder;
  Answerer answerer(receiving(folder));
  const std::string content(2 * chunk_bytes_min, 'c');
  const auto begin = [&](const std::string& path) {
    BOOST_REQUIRE((ask(answerer, offer_of(path, content)).kind == MessageKind::have));
    BOOST_REQUIRE(
        (ask(answerer, message_of(MessageKind::chunk, path, content), content.substr(0, chunk_bytes_min)).kind ==
         MessageKind::stored));
  };
  answerer.connection_opened();
  begin("of another version");
  answerer.connection_closed();
  answerer.connection_opened();
  begin("sent by somebody else");
  BOOST_TEST((ask(answerer, {MessageKind::end}).kind == MessageKind::done));
  answerer.connection_closed();
  BOOST_TEST(ask(answerer, offer_of("sent by somebody else", content)).state == "part");
  Answerer later(receiving(folder));
  BOOST_TEST((ask(later, {MessageKind::end}).kind == MessageKind::done));
  BOOST_TEST(!std::filesystem::exists(folder.path() / parts_folder_name));
}

BOOST_AUTO_TEST_CASE(the_first_receiver_of_a_folder_removes_what_killed_ones_left) {
  const Folder folder;
  std::filesystem::create_directories(folder.path() / parts_folder_name);
  const std::string journal = std::string(parts_folder_name) + "/0123.journal.aBc123.tandem-new";
  const std::string part = std::string(parts_folder_name) + "/0123.part";
  (void)folder.write(journal, bytes_of("cut"));
  (void)folder.write(part, bytes_of("unfinished"));
  const auto exists = [&](const std::string& name) { return std::filesystem::exists(folder.path() / name); };
  {
    const Answerer answers({.folder = folder.path(), .state_folder = {}});
    BOOST_TEST(exists(journal), "who takes no files clears nothing away");
  }
  const Answerer first(receiving(folder));
  BOOST_TEST(!exists(journal));
  BOOST_TEST(exists(part));
  const auto file = engram::DurableFile::create(folder.path() / parts_folder_name / "0123.journal");
  BOOST_REQUIRE(file);
  const Answerer second(receiving(folder));
  BOOST_TEST(std::filesystem::exists(file->temporary()), "the first one writes it");
}

BOOST_AUTO_TEST_CASE(
    nonces_of_killed_processes_go_when_they_are_old_their_temporary_files_at_once_and_nothing_else_does) {
  const Folder folder;
  const std::string nonce = ".tandem-nonce-" + std::string(32, 'a');
  const std::vector<std::string> temporaries{nonce + ".aBc123.tandem-new", ".tandem-receipt.json.aBc123.tandem-new"};
  const std::vector<std::string> others{"tandem-manifest.json.backup", ".tandem-receipt.json", nonce + "-1",
                                        ".tandem-receipt.json.aBc1234.tandem-new", "config.json"};
  (void)folder.write(nonce, bytes_of("x"));
  for (const auto* names : {&temporaries, &others}) {
    for (const std::string& name : *names) (void)folder.write(name, bytes_of("x"));
  }
  const auto count = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  { const Answerer first(receiving(folder)); }
  BOOST_TEST(count() == 6, "the nonce may be another process's");
  make_old(folder.path() / nonce);
  for (const std::string& name : others) make_old(folder.path() / name);
  BOOST_REQUIRE(NonceFile::create(folder.path()));
  BOOST_TEST(count() == 5);
  for (const std::string& name : others) BOOST_TEST(std::filesystem::exists(folder.path() / name), name);
}

BOOST_AUTO_TEST_SUITE_END()
