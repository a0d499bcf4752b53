// The link between two nodes and what a receiver does with what comes over it: strangers, liars, cut connections, files
// that arrive in pieces and over several lives.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "gpu/weights_files/manifest.hpp"
#include "net/sync/ask_peer.hpp"
#include "net/sync/nonce_file.hpp"
#include "tests/sync/link_ends.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace tandem::net::sync::test;

BOOST_AUTO_TEST_SUITE(sync_link)

BOOST_AUTO_TEST_CASE(proofs_depend_on_the_token_the_nonces_and_the_role) {
  Transcript one{secret, {}, {}}, other = one;
  other.client[0] = std::byte{1};
  BOOST_TEST(!same_code(one.client_proof(), one.server_proof()));
  BOOST_TEST(!same_code(one.client_proof(), other.client_proof()));
  BOOST_TEST(!same_code(one.client_proof(), Transcript{secret + "x", {}, {}}.client_proof()));
  BOOST_TEST(!same_code(one.key_to_client(), one.key_to_server()));
  BOOST_TEST(same_code(one.client_proof(), Transcript{secret, {}, {}}.client_proof()));
}

BOOST_AUTO_TEST_CASE(a_token_file_that_others_can_read_or_that_is_short_is_refused) {
  const Folder folder;
  const auto file = folder.write("token", bytes_of(secret + "\n"));
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  BOOST_TEST((load_token(file).error().code == ErrorCode::bad_config));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  BOOST_TEST(*load_token(file) == secret);
  (void)folder.write("token", bytes_of("secret"));
  BOOST_TEST((load_token(file).error().code == ErrorCode::bad_config));
  BOOST_TEST((load_token(folder.path() / "absent").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_CASE(both_ends_refuse_another_token) {
  const Receiver receiver;
  BOOST_TEST((receiver.connect(std::string(32, 'x')).error().code == ErrorCode::bad_config));
  BOOST_TEST(receiver.wait_for_refusals(1));
  BOOST_TEST(receiver.server.counts().accepted == 0U);

  // A server that welcomes everybody does not know the token, and the client finds out.
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  std::thread impostor([&] {
    auto socket = acceptor.accept();
    Hello hello;
    Code proof{};
    asio::read(socket, asio::buffer(&hello, sizeof hello));
    asio::write(socket, asio::buffer(&hello, sizeof hello));
    asio::read(socket, asio::buffer(&proof, sizeof proof));
    const auto welcome = Verdict::welcome;
    asio::write(socket, asio::buffer(&welcome, sizeof welcome));
    asio::write(socket, asio::buffer(&proof, sizeof proof));  // the client's own proof, sent back
  });
  const auto fooled = Channel::connect({"127.0.0.1", acceptor.local_endpoint().port()}, secret, short_timeouts());
  impostor.join();
  BOOST_TEST((fooled.error().code == ErrorCode::bad_config));
}

BOOST_AUTO_TEST_CASE(another_version_is_told_by_both_ends) {
  const Receiver receiver;
  RawClient client(receiver.port);
  Hello hello;
  hello.version = protocol_version + 1;
  client.say_object(hello);
  BOOST_TEST(client.hear<Hello>().version == protocol_version);
  BOOST_TEST(receiver.wait_for_refusals(1));
}

BOOST_AUTO_TEST_CASE(strangers_that_say_nothing_or_stop_halfway_are_dropped_in_time) {
  const Receiver receiver;
  RawClient silent(receiver.port), halfway(receiver.port), slow(receiver.port);
  halfway.say(bytes_of("TNDM"));
  BOOST_TEST(receiver.wait_for_refusals(3));
  BOOST_TEST(receiver.connect().has_value());
}

BOOST_AUTO_TEST_CASE(frames_that_are_too_large_repeated_or_changed_end_the_connection) {
  const Receiver receiver;
  const std::string question = to_json({MessageKind::revision});
  FrameHead large = head_of(question);
  large.data_bytes = data_bytes_max + 1;
  LyingClient(receiver.port).say_frame(large, question, 0);
  BOOST_TEST(receiver.wait_for_refusals(1));

  LyingClient repeating(receiver.port);
  repeating.say_frame(head_of(question), question, 0);
  (void)repeating.hear<FrameHead>();
  repeating.say_frame(head_of(question), question, 0);  // the same frame again: its number has passed
  BOOST_TEST(receiver.wait_for_refusals(2));

  LyingClient changing(receiver.port);
  std::string changed = question;
  changed.back() = ' ';
  FrameHead head = head_of(question);
  const std::uint64_t number = 0;
  const Code code =
      authenticate(changing.transcript.key_to_server(),
                   {std::as_bytes(std::span(&number, 1)), std::as_bytes(std::span(&head, 1)), bytes_of(question)});
  changing.say_object(head);
  changing.say_object(code);
  changing.say(bytes_of(changed));
  BOOST_TEST(receiver.wait_for_refusals(3));

  LyingClient(receiver.port).say_frame(head_of("{"), "{", 0);
  BOOST_TEST(receiver.wait_for_refusals(4));
}

BOOST_AUTO_TEST_CASE(data_that_is_not_what_its_hash_says_ends_the_connection) {
  const Receiver receiver;
  LyingClient client(receiver.port);
  const std::string control = to_json({MessageKind::manifest});
  FrameHead head = head_of(control);
  head.data_bytes = 3;  // its hash stays zero
  client.say_frame(head, control, 0);
  client.say(bytes_of("abc"));
  BOOST_TEST(receiver.wait_for_refusals(1));
}

BOOST_AUTO_TEST_CASE(a_node_that_only_serves_takes_nothing) {
  const Receiver receiver(false);
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  for (const MessageKind kind : {MessageKind::offer, MessageKind::reserve, MessageKind::chunk, MessageKind::finish,
                                 MessageKind::manifest, MessageKind::end}) {
    const auto refused = (*channel)->ask(message_of(kind, "a", ""));
    BOOST_TEST((refused.error().code == ErrorCode::invalid_argument), to_string(kind));
  }
  BOOST_TEST(ask_revision(**channel)->manifest_hash.empty());
  BOOST_TEST(ask_mount(**channel).has_value());
  BOOST_TEST(std::filesystem::is_empty(receiver.folder.path()));
}

BOOST_AUTO_TEST_CASE(parts_of_files_are_compared_and_only_nonces_are_read_by_name) {
  const Receiver receiver(false);
  const Folder own;
  for (const Folder* folder : {&receiver.folder, &own}) (void)folder->write("a", bytes_of("same bytes"));
  (void)own.write("b", bytes_of("ours"));
  (void)receiver.folder.write("b", bytes_of("their"));
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  BOOST_TEST(compare_part(**channel, own.path(), {"a", 5, 5}).has_value());
  BOOST_TEST((compare_part(**channel, own.path(), {"b", 0, 4}).error().code == ErrorCode::mismatch));
  (void)receiver.folder.write("a", bytes_of("same bytes and more"));
  const auto longer = compare_part(**channel, own.path(), {"a", 5, 5});
  BOOST_REQUIRE(!longer);
  BOOST_TEST(longer.error().found == "a of 19 bytes");
  Message question{MessageKind::nonce};
  question.text = "../a";
  BOOST_TEST((*channel)->ask(question).error().found.find("nonce") != std::string::npos);
  const auto nonce = NonceFile::create(receiver.folder.path());
  question.text = nonce->name();
  BOOST_TEST((*channel)->ask_for(MessageKind::digest_is, question)->sha256 == nonce->sha256());
}

BOOST_AUTO_TEST_CASE(a_file_arrives_in_pieces_and_appears_whole) {
  const Receiver receiver;
  const std::string content(2 * chunk_bytes_min + 5, 'c');
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  BOOST_TEST((*channel)->ask_for(MessageKind::have, offer_of("sub/a", content))->state == "new");
  send_chunks(**channel, "sub/a", content, 1, 3);
  const Message finish = finish_of("sub/a", content);
  BOOST_TEST((*channel)->ask(finish).error().found.find("2 of 3 chunks") != std::string::npos);
  send_chunks(**channel, "sub/a", content, 0, 1);
  BOOST_TEST(!std::filesystem::exists(receiver.folder.path() / "sub/a"));
  BOOST_TEST((*channel)->ask_for(MessageKind::finished, finish).has_value());
  BOOST_TEST(content_of(receiver.folder.path() / "sub/a") == content);
  Message again = offer_of("sub/a", content);
  again.sha256 = sha_of(content);
  BOOST_TEST((*channel)->ask_for(MessageKind::have, again)->state == "same");
  BOOST_TEST((*channel)->ask_for(MessageKind::have, offer_of("sub/a", content))->sha256 == sha_of(content));
}

BOOST_AUTO_TEST_CASE(chunks_without_an_offer_beyond_the_end_or_of_another_size_are_refused) {
  const Receiver receiver;
  const std::string content(chunk_bytes_min + 1, 'c');
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  const auto code_of = [&](std::uint64_t index, const std::string& data) {
    return (*channel)->ask(message_of(MessageKind::chunk, "a", content, index), bytes_of(data)).error().code;
  };
  BOOST_TEST((code_of(0, content.substr(1)) == ErrorCode::unavailable), "offer it again");
  BOOST_REQUIRE((*channel)->ask_for(MessageKind::have, offer_of("a", content)));
  BOOST_TEST((code_of(2, "x") == ErrorCode::out_of_range));
  BOOST_TEST((code_of(1, "xy") == ErrorCode::out_of_range));
  Message other_size = message_of(MessageKind::chunk, "a", content);
  other_size.chunk_bytes = 2 * chunk_bytes_min;
  BOOST_TEST(((*channel)->ask(other_size, bytes_of(content)).error().code == ErrorCode::unavailable), "begun anew");
  Message zero = offer_of("b", content);
  zero.chunk_bytes = 0;
  BOOST_TEST(((*channel)->ask(zero).error().code == ErrorCode::out_of_range));
  BOOST_TEST(((*channel)->ask(offer_of("a", content + "longer")).error().code == ErrorCode::unavailable));
}

BOOST_AUTO_TEST_CASE(a_file_with_another_hash_is_thrown_away_and_the_old_one_stays) {
  const Receiver receiver;
  (void)receiver.folder.write("a", bytes_of("old"));
  const std::string content(chunk_bytes_min, 'c');
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  BOOST_REQUIRE((*channel)->ask_for(MessageKind::have, offer_of("a", content)));
  send_chunks(**channel, "a", content, 0, 1);
  Message finish = message_of(MessageKind::finish, "a", content);
  finish.sha256 = sha_of("something else");
  BOOST_TEST(((*channel)->ask(finish).error().code == ErrorCode::mismatch));
  BOOST_TEST(content_of(receiver.folder.path() / "a") == "old");
  BOOST_TEST((*channel)->ask_for(MessageKind::have, offer_of("a", content))->state == "new");
}

BOOST_AUTO_TEST_CASE(what_arrived_is_there_after_the_connection_and_after_the_receiver) {
  const std::string content(4 * chunk_bytes_min, 'c');
  Receiver receiver;
  {
    auto channel = receiver.connect();
    BOOST_REQUIRE(channel);
    BOOST_REQUIRE((*channel)->ask_for(MessageKind::have, offer_of("a", content)));
    send_chunks(**channel, "a", content, 1, 3);
  }
  receiver.server.stop();
  Answerer next({receiver.folder.path(), {}, "/proc/self/mounts", true});
  const Message offer = offer_of("a", content);
  const Message have = next.answer({offer, {}, {}, {}});
  BOOST_TEST(have.state == "part");
  BOOST_TEST(have.done == "06");
  next.connection_opened();
  next.connection_closed();  // lets go of the file
  Message touched = offer;
  ++touched.modified_ns;
  BOOST_TEST(next.answer({touched, {}, {}, {}}).state == "new", "the same size, another time");
}

BOOST_AUTO_TEST_CASE(a_manifest_is_taken_only_if_it_is_one) {
  const Receiver receiver;
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  const gpu::Manifest manifest{"r", {{"a", 1, ""}}};
  const std::string good = gpu::to_json(manifest), bad = gpu::to_json({"r", {{"../a", 1, ""}}});
  BOOST_TEST(((*channel)->ask({MessageKind::manifest}, bytes_of(bad)).error().code == ErrorCode::bad_format));
  BOOST_TEST((*channel)->ask_for(MessageKind::done, {MessageKind::manifest}, bytes_of(good)).has_value());
  BOOST_TEST(ask_revision(**channel)->manifest_hash == gpu::manifest_hash(manifest));
}

BOOST_AUTO_TEST_CASE(a_copy_that_has_no_room_is_refused_before_it_begins) {
  const Receiver receiver;
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  Message reserve{MessageKind::reserve};
  reserve.bytes = gpu::manifest_file_bytes_max;
  BOOST_TEST(((*channel)->ask(reserve).error().code == ErrorCode::resource));
  const std::string content(chunk_bytes_min, 'c');
  BOOST_REQUIRE((*channel)->ask_for(MessageKind::have, offer_of("a", content)));
  reserve.bytes = content.size();
  BOOST_TEST((*channel)->ask_for(MessageKind::done, reserve).has_value());
}

BOOST_AUTO_TEST_CASE(a_server_stops_while_somebody_is_connected) {
  Receiver receiver;
  const auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  BOOST_TEST(ask_revision(**channel).has_value());
  receiver.server.stop();
  BOOST_TEST(!ask_revision(**channel).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
