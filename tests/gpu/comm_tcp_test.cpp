// TCP groups: who is let in, who is refused, and what happens when bytes or peers are not what they should be.
#include <boost/test/unit_test.hpp>
#include <optional>

#include "gpu/comm/socket.hpp"
#include "gpu/comm/tcp_communicator.hpp"
#include "gpu/comm/wire.hpp"
#include "tests/gpu/comm_ranks.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace std::chrono_literals;

namespace {

using Made = Result<std::unique_ptr<Communicator>>;

// Rank 0 runs with `host`, a peer with `peer`; returns what the peer got. Rank 0 is stopped by its own deadline.
std::pair<std::optional<Error>, std::optional<Error>> meet(const TcpGroup& host, const TcpGroup& peer) {
  std::pair<std::optional<Error>, std::optional<Error>> errors;
  std::jthread rank0([&] {
    if (const Made made = make_tcp_communicator(host); !made) errors.first = made.error();
  });
  if (const Made made = make_tcp_communicator(peer); !made) errors.second = made.error();
  rank0.join();
  return errors;
}

// A peer that speaks by hand: connected and welcomed as rank 1 of 2, together with the real rank 0.
struct ManualPeer {
  explicit ManualPeer(std::chrono::milliseconds timeout = 20s) {
    const std::uint16_t port = test::free_port();
    std::jthread host([&] {
      TcpGroup group = test::tcp_group(0, 2, port);
      group.timeout = timeout;
      if (auto made = make_tcp_communicator(group)) rank0 = std::move(*made);
    });
    auto connected = comm::connect_to("127.0.0.1", port, soon());
    if (!connected) return;
    socket = std::move(*connected);
    const comm::Hello hello = comm::make_hello(1, 2, "run 7");
    comm::Answer answer = comm::Answer::wrong_protocol;
    // Byte by byte: a hello may arrive in any pieces.
    for (const std::byte& one : comm::bytes_of(hello)) (void)socket.send_all({&one, 1}, soon());
    (void)socket.receive_all(comm::writable_bytes_of(answer), soon());
    is_welcome = answer == comm::Answer::welcome;
  }

  static comm::Deadline soon() { return comm::deadline_after(20s); }

  Result<void> gather_on_rank0(std::size_t bytes) {
    std::vector<std::byte> local(bytes), all(2 * bytes);
    return rank0->all_gather(local, all);
  }

  std::unique_ptr<Communicator> rank0;
  comm::Socket socket;
  bool is_welcome = false;
};

comm::FrameHeader block_header(std::uint64_t sequence, std::uint64_t bytes) {
  comm::FrameHeader header;
  header.source = 1;
  header.sequence = sequence;
  header.bytes = bytes;
  return header;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(comm_tcp)

BOOST_AUTO_TEST_CASE(peers_of_another_run_size_or_rank_are_refused_by_name) {
  struct Case {
    const char* found;
    void (*spoil)(TcpGroup&);
  };
  const Case cases[] = {
      {"another run", [](TcpGroup& g) { g.token = "run 8"; }},
      {"number of ranks", [](TcpGroup& g) { g.size = 3; }},
      {"another run", [](TcpGroup& g) { g.token = ""; }},
  };
  for (const Case& item : cases) {
    const std::uint16_t port = test::free_port();
    TcpGroup host = test::tcp_group(0, 2, port), peer = test::tcp_group(1, 2, port);
    host.connect_timeout = 300ms;
    item.spoil(peer);
    const auto [at_host, at_peer] = meet(host, peer);
    BOOST_REQUIRE((at_host && at_peer));
    BOOST_TEST((at_peer->code == ErrorCode::mismatch));
    BOOST_TEST(at_peer->found.find(item.found) != std::string::npos);
    BOOST_TEST((at_host->code == ErrorCode::timeout));
    BOOST_TEST(at_host->found.find("rank 1") != std::string::npos);
    BOOST_TEST(at_host->found.find("refused") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_second_process_with_the_same_rank_is_refused_and_the_group_still_forms) {
  const std::uint16_t port = test::free_port();
  std::vector<std::optional<Error>> errors(4);
  test::Members members(4);
  test::on_all_ranks(4, [&](int i) {
    const int rank = i == 3 ? 1 : i;  // two processes claim rank 1; rank 2 comes when one of them was refused
    TcpGroup group = test::tcp_group(rank, 3, port);
    if (i == 2) return;
    auto made = make_tcp_communicator(group);
    if (made) members[static_cast<std::size_t>(i)] = std::move(*made);
    if (!made) {
      errors[static_cast<std::size_t>(i)] = made.error();
      auto last = make_tcp_communicator(test::tcp_group(2, 3, port));
      if (last) members[2] = std::move(*last);
    }
  });
  BOOST_TEST((members[0] != nullptr));
  BOOST_TEST((members[2] != nullptr));
  BOOST_TEST(((members[1] == nullptr) != (members[3] == nullptr)));
  const auto& refused = errors[1] ? errors[1] : errors[3];
  BOOST_REQUIRE(refused.has_value());
  BOOST_TEST((refused->code == ErrorCode::mismatch));
}

BOOST_AUTO_TEST_CASE(strangers_on_the_port_do_not_keep_the_group_from_forming) {
  const std::uint16_t port = test::free_port();
  test::Members members(2);
  std::jthread rank0([&] {
    if (auto made = make_tcp_communicator(test::tcp_group(0, 2, port))) members[0] = std::move(*made);
  });
  auto silent = comm::connect_to("127.0.0.1", port, ManualPeer::soon());
  auto noisy = comm::connect_to("127.0.0.1", port, ManualPeer::soon());
  auto fleeting = comm::connect_to("127.0.0.1", port, ManualPeer::soon());
  BOOST_REQUIRE((silent.has_value() && noisy.has_value() && fleeting.has_value()));
  fleeting->close();
  const std::string request = "GET / HTTP/1.1\r\nHost: somebody\r\nAccept: everything-and-more\r\n\r\n";
  BOOST_TEST(noisy->send_all(std::as_bytes(std::span(request)), ManualPeer::soon()).has_value());
  comm::Answer answer = comm::Answer::welcome;
  (void)noisy->receive_all(comm::writable_bytes_of(answer), ManualPeer::soon());
  if (auto made = make_tcp_communicator(test::tcp_group(1, 2, port))) members[1] = std::move(*made);
  rank0.join();
  BOOST_TEST((members[0] && members[1]));
  BOOST_TEST((answer == comm::Answer::wrong_protocol));
}

BOOST_AUTO_TEST_CASE(nobody_to_meet_is_a_timeout_on_either_side) {
  TcpGroup group = test::tcp_group(0, 3, test::free_port());
  group.connect_timeout = 50ms;
  const Made host = make_tcp_communicator(group);
  BOOST_REQUIRE(!host);
  BOOST_TEST((host.error().code == ErrorCode::timeout));
  BOOST_TEST(host.error().found.find("rank 1 2") != std::string::npos);
  group.rank = 2;
  const Made peer = make_tcp_communicator(group);
  BOOST_REQUIRE(!peer);
  BOOST_TEST((peer.error().code == ErrorCode::timeout));
}

BOOST_AUTO_TEST_CASE(impossible_groups_and_hosts_are_refused) {
  const auto code_of = [](int rank, int size, const char* host) {
    TcpGroup group = test::tcp_group(rank, size, 0);
    group.host = host;
    group.connect_timeout = 50ms;
    return make_tcp_communicator(group).error().code;
  };
  BOOST_TEST((code_of(2, 2, "127.0.0.1") == ErrorCode::invalid_argument));
  BOOST_TEST((code_of(-1, 2, "127.0.0.1") == ErrorCode::invalid_argument));
  BOOST_TEST((code_of(0, 0, "127.0.0.1") == ErrorCode::invalid_argument));
  BOOST_TEST((code_of(0, 2, "not an address") == ErrorCode::unavailable));
  BOOST_TEST((code_of(0, 2, "192.0.2.1") == ErrorCode::unavailable));  // documentation address: not ours to listen on
  BOOST_TEST(make_tcp_communicator(test::tcp_group(0, 1, 0)).has_value());
}

BOOST_AUTO_TEST_CASE(blocks_may_arrive_in_any_pieces) {
  ManualPeer peer;
  BOOST_REQUIRE((peer.is_welcome && peer.rank0));
  std::optional<Error> failed;
  std::vector<std::byte> all(2 * 5);
  std::jthread rank0([&] {
    const std::vector<std::byte> local(5, std::byte{9});
    if (auto done = peer.rank0->all_gather(local, all); !done) failed = done.error();
  });
  const auto header = block_header(0, 5);
  std::vector<std::byte> frame(comm::bytes_of(header).begin(), comm::bytes_of(header).end());
  for (int i = 0; i < 5; ++i) frame.push_back(static_cast<std::byte>(i));
  for (const std::byte& one : frame) BOOST_TEST(peer.socket.send_all({&one, 1}, ManualPeer::soon()).has_value());
  rank0.join();
  BOOST_TEST(!failed);
  BOOST_TEST(std::to_integer<int>(all[4]) == 9);
  BOOST_TEST(std::to_integer<int>(all[9]) == 4);
}

BOOST_AUTO_TEST_CASE(a_peer_that_vanishes_inside_a_block_is_unavailable_and_named) {
  ManualPeer peer;
  BOOST_REQUIRE((peer.is_welcome && peer.rank0));
  const auto header = block_header(0, 1000);
  BOOST_TEST(peer.socket.send_all(comm::bytes_of(header), ManualPeer::soon()).has_value());
  peer.socket.close();
  const auto done = peer.gather_on_rank0(1000);
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().code == ErrorCode::unavailable));
  BOOST_TEST(done.error().where == "rank 1");
}

BOOST_AUTO_TEST_CASE(frames_that_are_not_due_end_the_group) {
  struct Case {
    ErrorCode code;
    void (*spoil)(comm::FrameHeader&);
  };
  const Case cases[] = {
      {ErrorCode::bad_format, [](comm::FrameHeader& h) { h.magic = 0; }},
      {ErrorCode::bad_format, [](comm::FrameHeader& h) { h.source = 0; }},
      {ErrorCode::bad_format, [](comm::FrameHeader& h) { h.source = 77; }},
      {ErrorCode::bad_format, [](comm::FrameHeader& h) { h.kind = comm::FrameKind{9}; }},
      {ErrorCode::bad_format,
       [](comm::FrameHeader& h) {
         h.kind = comm::FrameKind::failure;
         h.bytes = 1 << 30;
       }},
      {ErrorCode::mismatch, [](comm::FrameHeader& h) { h.sequence = 1; }},
      {ErrorCode::mismatch, [](comm::FrameHeader& h) { h.bytes = 9; }},
      {ErrorCode::unavailable,
       [](comm::FrameHeader& h) {
         h.kind = comm::FrameKind::failure;
         h.code = 999;
         h.bytes = 0;
       }},
  };
  for (const Case& item : cases) {
    ManualPeer peer;
    BOOST_REQUIRE((peer.is_welcome && peer.rank0));
    auto header = block_header(0, 8);
    item.spoil(header);
    BOOST_TEST(peer.socket.send_all(comm::bytes_of(header), ManualPeer::soon()).has_value());
    const auto done = peer.gather_on_rank0(8);
    BOOST_REQUIRE(!done);
    BOOST_TEST((done.error().code == item.code));
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_does_not_read_is_a_timeout) {
  ManualPeer peer(100ms);
  BOOST_REQUIRE((peer.is_welcome && peer.rank0));
  constexpr std::size_t bytes = 64 << 20;  // more than socket buffers hold
  const auto header = block_header(0, bytes);
  BOOST_TEST(peer.socket.send_all(comm::bytes_of(header), ManualPeer::soon()).has_value());
  const auto done = peer.gather_on_rank0(bytes);
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().code == ErrorCode::timeout));
  BOOST_TEST(done.error().found.find("rank 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_rank_that_waits_for_its_group_gives_up_when_it_is_told_to) {
  for (const int rank : {0, 1}) {
    std::atomic<bool> stop{false};
    const TcpGroup group = test::tcp_group(rank, 2, test::free_port());
    std::jthread stopper([&stop] { stop = true; });
    const auto made = make_tcp_communicator(group, stop);
    BOOST_REQUIRE(made.has_error());
    BOOST_TEST((made.error().code == ErrorCode::cancelled));
  }
}

BOOST_AUTO_TEST_SUITE_END()
