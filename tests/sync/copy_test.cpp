// Sender and receiver in one process: what a copy leaves on both sides, and what ends it.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <future>

#include "gpu/weights_files/manifest.hpp"
#include "net/sync/sender.hpp"
#include "tests/sync/link_ends.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace tandem::net::sync::test;

BOOST_AUTO_TEST_SUITE(sync_copies)

namespace {

struct Nodes {
  Nodes() {
    put(source, "large", std::string(40 * chunk_bytes_min + 7, 'l'));
    std::filesystem::create_directories(source.path() / "exl3/qn");
    put(source, "exl3/qn/bank", std::string(3 * chunk_bytes_min, 'b'));
    put(source, "empty", "");
    options.folder = source.path();
    options.peer = {"127.0.0.1", port};
    options.token = secret;
    options.connections = 4;
    options.chunk_bytes = chunk_bytes_min;
    options.patience = 20s;  // a busy machine's
  }
  static void put(const Folder& folder, const std::string& name, const std::string& text) {
    (void)folder.write(name, std::as_bytes(std::span(text)));
  }
  static std::string get(const Folder& folder, const std::string& name) {
    std::ifstream stream(folder.path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  bool is_equal() const {
    for (const char* name : {"large", "exl3/qn/bank", "empty", gpu::manifest_file_name}) {
      if (!std::filesystem::exists(target.path() / name) || get(target, name) != get(source, name)) return false;
    }
    return true;
  }

  Folder source, target;
  Answerer answerer{{.folder = target.path(), .state_folder = {}, .takes_files = true}};
  SyncServer server{{{"127.0.0.1", 0}, secret, {}, {}, {}}, answerer};
  std::uint16_t port = server.start().value();
  CopyOptions options;
};

// At most so many descriptors more than are open now, as long as the object lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(std::size_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    const rlimit now{static_cast<rlim_t>(open) + more, before_.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Says "another token" to so many connections, as anybody between two nodes can; then the port is free again.
void refuse_falsely(asio::ip::tcp::acceptor& acceptor, int times) {
  for (int i = 0; i < times; ++i) {
    auto socket = acceptor.accept();
    Hello hello;
    Code proof{};
    const auto verdict = Verdict::wrong_token;
    asio::read(socket, asio::buffer(&hello, sizeof hello));
    asio::write(socket, asio::buffer(&hello, sizeof hello));
    asio::read(socket, asio::buffer(&proof, sizeof proof));
    asio::write(socket, asio::buffer(&verdict, sizeof verdict));
  }
  acceptor.close();
}

// Flips a byte of the largest unfinished file at the receiver, once it has some.
bool spoil_part(const Folder& target) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(target.path() / parts_folder_name, absent)) {
    if (entry.path().extension() != ".part" || entry.file_size() < 10 * chunk_bytes_min) continue;
    std::fstream(entry.path(), std::ios::binary | std::ios::in | std::ios::out).put('X');
    return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_copy_leaves_equal_files_and_one_manifest_on_both_sides) {
  Nodes nodes;
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->files == 3U);
  BOOST_TEST(done->bytes_sent == 43 * chunk_bytes_min + 7);
  BOOST_TEST(done->manifest_hash == gpu::manifest_hash(*gpu::read_manifest(nodes.target.path())));
  const auto again = copy_model(nodes.options);
  BOOST_REQUIRE(again);
  BOOST_TEST(again->files_same == 3U);
  BOOST_TEST(again->bytes_sent == 0U);
  BOOST_TEST(nodes.answerer.counts().chunks == 44U);
}

BOOST_AUTO_TEST_CASE(files_that_are_there_are_compared_by_hashes_that_nobody_knew_before) {
  Nodes nodes;
  std::filesystem::copy(nodes.source.path() / "large", nodes.target.path() / "large");
  std::string other(3 * chunk_bytes_min, 'b');
  other.back() = 'x';
  std::filesystem::create_directories(nodes.target.path() / "exl3/qn");
  Nodes::put(nodes.target, "exl3/qn/bank", other);
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->bytes_sent == 3 * chunk_bytes_min);
}

BOOST_AUTO_TEST_CASE(what_the_manifest_here_does_not_say_is_not_brought_anywhere) {
  Nodes nodes;
  gpu::Manifest manifest{"r", {{"large", 1, ""}}};
  BOOST_REQUIRE(gpu::write_manifest(nodes.source.path(), manifest).has_value());
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::mismatch), "another size");
  BOOST_TEST(std::filesystem::is_empty(nodes.target.path()));
  manifest.files = {{"large", 40 * chunk_bytes_min + 7, std::string(64, 'a')}};
  BOOST_REQUIRE(gpu::write_manifest(nodes.source.path(), manifest).has_value());
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::mismatch), "another hash");
  BOOST_TEST(!std::filesystem::exists(nodes.target.path() / "large"));
  std::filesystem::remove(nodes.source.path() / "large");
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::mismatch), "a missing file");
}

BOOST_AUTO_TEST_CASE(a_copy_ends_when_it_is_told_to_and_goes_on_later) {
  Nodes nodes;
  nodes.options.bytes_per_s_max = 100'000;
  nodes.options.progress = [](const CopyProgress& now) { return now.bytes_done < 3 * chunk_bytes_min; };
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::cancelled));
  BOOST_TEST(!nodes.is_equal());
  nodes.options.bytes_per_s_max = 0;
  nodes.options.progress = {};
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->bytes_resumed >= 3 * chunk_bytes_min);
}

BOOST_AUTO_TEST_CASE(a_copy_goes_on_with_chunks_of_another_size_and_keeps_those_that_are_there) {
  Nodes nodes;
  nodes.options.bytes_per_s_max = 100'000;
  nodes.options.progress = [](const CopyProgress& now) { return now.bytes_done < 3 * chunk_bytes_min; };
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::cancelled));
  nodes.options.bytes_per_s_max = 0;
  nodes.options.progress = {};
  nodes.options.chunk_bytes = 8 * chunk_bytes_min;
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->bytes_resumed >= 3 * chunk_bytes_min);
  BOOST_TEST(done->bytes_resumed + done->bytes_sent <= 43 * chunk_bytes_min + 7);
}

BOOST_AUTO_TEST_CASE(two_senders_of_one_model_both_end_well) {
  for (const bool is_forced : {false, true}) {
    Nodes nodes;
    for (int i = 0; i < 20; ++i)
      Nodes::put(nodes.source, "f" + std::to_string(i), std::string(9 * chunk_bytes_min, 'f'));
    nodes.options.is_forced = is_forced;
    std::vector<std::future<Result<CopyOutcome>>> senders;
    for (int i = 0; i < 2; ++i)
      senders.push_back(std::async(std::launch::async, [&] { return copy_model(nodes.options); }));
    for (auto& sender : senders) {
      const auto done = sender.get();
      BOOST_TEST(done.has_value(), (done ? "" : done.error().message()));
    }
    BOOST_TEST(nodes.is_equal());
    for (int i = 0; i < 20; ++i)
      BOOST_TEST(Nodes::get(nodes.target, "f" + std::to_string(i)).size() == 9 * chunk_bytes_min);
    BOOST_TEST(!std::filesystem::exists(nodes.target.path() / parts_folder_name));
  }
}

// Which of them is last is chance; no file may be of both.
BOOST_AUTO_TEST_CASE(two_senders_of_different_files_under_one_name_both_end_well_and_every_file_is_one_of_theirs) {
  Nodes nodes;
  const Folder other;
  const std::vector<std::string> names{"a", "b", "large"};
  for (const std::string& name : names) {
    Nodes::put(nodes.source, name, std::string(60 * chunk_bytes_min, '1'));
    Nodes::put(other, name, std::string(60 * chunk_bytes_min, '2'));
  }
  CopyOptions second = nodes.options;
  second.folder = other.path();
  std::vector<std::future<Result<CopyOutcome>>> senders;
  for (const CopyOptions* options : {&nodes.options, &second, &nodes.options})
    senders.push_back(std::async(std::launch::async, [options] { return copy_model(*options); }));
  for (auto& sender : senders) {
    const auto done = sender.get();
    BOOST_TEST(done.has_value(), (done ? "" : done.error().message()));
  }
  for (const std::string& name : names) {
    const std::string content = Nodes::get(nodes.target, name);
    BOOST_TEST((content == Nodes::get(nodes.source, name) || content == Nodes::get(other, name)), name);
  }
}

BOOST_AUTO_TEST_CASE(hundreds_of_files_are_copied_with_few_descriptors) {
  Nodes nodes;
  for (int i = 0; i < 500; ++i) Nodes::put(nodes.source, "f" + std::to_string(i), std::to_string(i));
  const DescriptorLimit limit(60);
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(done->files == 503U);
  BOOST_TEST(done->rounds == 1);
  BOOST_TEST(nodes.is_equal());
  for (int i = 0; i < 500; ++i) BOOST_REQUIRE(Nodes::get(nodes.target, "f" + std::to_string(i)) == std::to_string(i));
}

BOOST_AUTO_TEST_CASE(what_the_manifest_lists_is_copied_though_a_folders_listing_leaves_it_out) {
  Nodes nodes;
  const std::vector<std::string> listed{".gitattributes", "X.part", "engram-l1-r0of2.bin", "large"};
  gpu::Manifest manifest{"r", {}};
  for (const std::string& name : listed) {
    if (name != "large") Nodes::put(nodes.source, name, name);
    manifest.files.push_back({name, std::filesystem::file_size(nodes.source.path() / name), ""});
  }
  Nodes::put(nodes.source, ".gitignore", "not listed");
  BOOST_REQUIRE(gpu::write_manifest(nodes.source.path(), manifest).has_value());
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  for (const std::string& name : listed) BOOST_TEST(Nodes::get(nodes.target, name) == Nodes::get(nodes.source, name));
  BOOST_TEST(!std::filesystem::exists(nodes.target.path() / ".gitignore"));
  BOOST_TEST(done->files == 6U);
}

BOOST_AUTO_TEST_CASE(a_file_that_was_spoilt_at_the_receiver_is_sent_again) {
  Nodes nodes;
  nodes.options.bytes_per_s_max = 100'000;
  bool is_spoilt = false;
  nodes.options.progress = [&](const CopyProgress& now) {
    if (!is_spoilt && now.bytes_done >= 8 * chunk_bytes_min) is_spoilt = spoil_part(nodes.target);
    return true;
  };
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(is_spoilt);
  BOOST_TEST(done->rounds == 2);
  BOOST_TEST(nodes.is_equal());
}

BOOST_AUTO_TEST_CASE(another_token_is_believed_when_it_was_said_several_times) {
  Nodes nodes;
  nodes.options.token = std::string(32, 'x');
  std::vector<std::string> told;
  nodes.options.announce = [&](const std::string& text) { told.push_back(text); };
  const auto refused = copy_model(nodes.options);
  BOOST_TEST((refused.error().code == ErrorCode::bad_config));
  BOOST_TEST(refused.error().found == "another token");
  BOOST_TEST(told.size() == 2U);
  BOOST_TEST(std::filesystem::is_empty(nodes.target.path()));
}

BOOST_AUTO_TEST_CASE(somebody_on_the_way_who_says_another_token_does_not_end_a_copy) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  Nodes nodes;
  nodes.options.peer.port = acceptor.local_endpoint().port();
  SyncServer server({nodes.options.peer, secret, {}, {}, {}}, nodes.answerer);
  bool has_started = false;
  std::thread liar([&] {
    refuse_falsely(acceptor, 2);
    has_started = server.start().has_value();
  });
  const auto done = copy_model(nodes.options);
  liar.join();
  BOOST_TEST(has_started);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(done->rounds >= 3);
  BOOST_TEST(nodes.is_equal());
}

BOOST_AUTO_TEST_CASE(a_node_that_is_gone_is_waited_for_as_long_as_patience_lasts) {
  Nodes nodes;
  nodes.server.stop();
  nodes.options.patience = 1s;
  std::vector<std::string> told;
  nodes.options.announce = [&](const std::string& text) { told.push_back(text); };
  const auto failed = copy_model(nodes.options);
  BOOST_TEST((failed.error().code == ErrorCode::unavailable));
  BOOST_TEST(failed.error().found.find("nothing was gained") != std::string::npos, failed.error().found);
  BOOST_TEST(told.size() >= 2U);
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_not_there_is_an_error_at_once) {
  Nodes nodes;
  nodes.options.folder /= "absent";
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()
