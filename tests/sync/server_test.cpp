// A server whose connections end in every way, and the client's side of what was changed on the way.
#include "net/sync/server.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <new>
#include <stdexcept>

#include "net/sync/ask_peer.hpp"
#include "net/sync/rate_limit.hpp"
#include "tests/sync/link_ends.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace tandem::net::sync::test;

BOOST_AUTO_TEST_SUITE(sync_server)

BOOST_AUTO_TEST_CASE(a_listener_that_throws_leaves_no_file_open_and_no_connection_behind) {
  Receiver receiver(true, [] { throw std::runtime_error("nobody listens"); });
  const std::string content(2 * chunk_bytes_min, 'c');
  {
    auto channel = receiver.connect();
    BOOST_REQUIRE(channel);
    BOOST_REQUIRE((*channel)->ask_for(MessageKind::have, offer_of("a", content)));
    send_chunks(**channel, "a", content, 0, 1);
    BOOST_TEST((*channel)->ask_for(MessageKind::done, {MessageKind::end}).has_value());
    BOOST_TEST(!(*channel)->ask({MessageKind::revision}).has_value());
  }
  BOOST_TEST(receiver.wait_for_refusals(1), "a connection that broke");
  Answerer next({.folder = receiver.folder.path(), .state_folder = {}, .takes_files = true});
  const Message offer = offer_of("a", content);
  BOOST_TEST(next.answer({offer, {}, {}, {}}).done == "01", "what arrived was written down");
  const Message chunk = message_of(MessageKind::chunk, "a", content, 1);
  const Message stored = next.answer({chunk, bytes_of(content).subspan(chunk_bytes_min), {}, {}});
  BOOST_TEST((stored.kind == MessageKind::stored), stored.text);
  receiver.server.stop();
}

namespace {

// A server that answers questions and tells `on_connection` of every connection.
struct ToldServer {
  explicit ToldServer(std::function<void()> on_connection)
      : answerer({.folder = folder.path(), .state_folder = {}}), server(options(std::move(on_connection)), answerer) {}
  ServerOptions options(std::function<void()> on_connection) {
    ServerOptions told{{"127.0.0.1", 0}, secret, short_timeouts(), [this](const auto& text) { log += text; }, {}};
    told.on_connection = std::move(on_connection);
    return told;
  }
  Folder folder;
  Answerer answerer;
  std::string log;  // to be read when the server has stopped
  SyncServer server;
};

}  // namespace

BOOST_AUTO_TEST_CASE(memory_that_runs_out_while_accepting_costs_one_connection) {
  std::atomic<int> connections{0};
  ToldServer told([&] {
    if (++connections == 1) throw std::bad_alloc();
  });
  const std::uint16_t port = told.server.start().value();
  const auto connect = [port] { return Channel::connect({"127.0.0.1", port}, secret, short_timeouts()); };
  BOOST_TEST(!connect().has_value());
  {
    const auto channel = connect();
    BOOST_REQUIRE_MESSAGE(channel, (channel ? "" : channel.error().message()));
    BOOST_TEST(ask_revision(**channel).has_value());
  }
  told.server.stop();
  BOOST_TEST(told.server.counts().refused == 1U);
  BOOST_TEST(told.server.counts().accepted == 1U);
  BOOST_TEST(told.log.find("bad_alloc") != std::string::npos, told.log);
}

BOOST_AUTO_TEST_CASE(a_connection_that_was_accepted_while_the_server_stops_does_not_keep_it) {
  std::promise<void> reached, may_go_on;
  std::atomic<int> connections{0};
  ToldServer told([&] {
    if (++connections > 1) return;
    reached.set_value();
    may_go_on.get_future().wait();
  });
  const std::uint16_t port = told.server.start().value();
  const RawClient first(port);
  reached.get_future().wait();
  const RawClient second(port);  // is accepted at once when the first one is done with, behind the order to stop
  auto stopped = std::async(std::launch::async, [&] { told.server.stop(); });
  BOOST_TEST((stopped.wait_for(100ms) == std::future_status::timeout));
  may_go_on.set_value();
  BOOST_TEST((stopped.wait_for(20s) == std::future_status::ready));
}

BOOST_AUTO_TEST_CASE(a_connection_that_ends_within_a_frame_is_broken_and_one_between_two_is_not) {
  const Receiver receiver;
  {
    const auto polite = receiver.connect();
    BOOST_REQUIRE(polite);
    BOOST_TEST((*polite)->ask({MessageKind::revision}).has_value());
  }
  const std::string question = to_json({MessageKind::revision});
  const FrameHead head = head_of(question);
  { LyingClient(receiver.port).say(std::as_bytes(std::span(&head, 1)).first(20)); }
  BOOST_TEST(receiver.wait_for_refusals(1));
  { LyingClient(receiver.port).say_object(head); }  // the whole head, and nothing of the rest
  BOOST_TEST(receiver.wait_for_refusals(2));
  BOOST_TEST(receiver.server.counts().broken == 2U);
  BOOST_TEST(receiver.server.counts().accepted == 3U);
}

BOOST_AUTO_TEST_CASE(a_frame_that_was_changed_on_the_way_is_told_from_what_the_other_node_says) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  std::thread server([&] {
    for (const bool is_head_wrong : {true, false}) {
      auto socket = acceptor.accept();
      const auto say = [&](const auto& value) { asio::write(socket, asio::buffer(&value, sizeof value)); };
      const auto hear = [&](auto value) {
        asio::read(socket, asio::buffer(&value, sizeof value));
        return value;
      };
      const Transcript transcript{secret, hear(Hello{}).nonce, Hello{}.nonce};
      say(Hello{});
      (void)hear(Code{});
      say(Verdict::welcome);
      say(transcript.server_proof());
      FrameHead head = head_of("{}");
      if (is_head_wrong) head.reserved = 1;
      say(head);
      say(Code{});
      asio::write(socket, asio::buffer("{}", 2));
    }
  });
  for (int i = 0; i < 2; ++i) {
    auto channel = Channel::connect({"127.0.0.1", acceptor.local_endpoint().port()}, secret, short_timeouts());
    BOOST_REQUIRE(channel);
    BOOST_TEST(((*channel)->receive().error().code == ErrorCode::corrupt));
  }
  server.join();
}

BOOST_AUTO_TEST_CASE(who_waits_for_the_rate_says_so_meanwhile) {
  RateLimit rate(1000);
  rate.take(2'500);  // at once; the next one is 2.5 s later
  int told = 0;
  rate.take(1, [&told] { ++told; });
  BOOST_TEST(told >= 1);
  BOOST_TEST(told <= 2);
  rate.stop();
  rate.take(1'000'000, [&told] { told = 100; });
  BOOST_TEST(told < 100);
}

BOOST_AUTO_TEST_SUITE_END()
