// `tandem sync --backend copy` between two processes: equal bytes in the end, whatever dies in between.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/e2e/sync_folders.hpp"

using namespace tandem::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(sync_copy)

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// Sends bytes to a receiver as somebody who knows nothing would, and hangs up.
void send_raw(const std::string& address, const std::string& bytes) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BOOST_REQUIRE(::connect(descriptor, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) == 0);
  (void)::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::close(descriptor);
}

// `zfs` and `ssh` first on PATH: one snapshot that both nodes have, and bytes written since.
class FakePrograms {
 public:
  explicit FakePrograms(const SyncFolders& folders) : folder_(folders.state() + "-programs") {
    const std::string lists = R"(
case "$*" in
  *filesystem*) printf 'pool/models\t%s\n' ")" +
                              folders.source().string() + R"(" ;;
  *"-t snapshot"*) printf 'pool/models@common\t1\n' ;;
  *written*) echo 4096 ;;
  *receive*) cat >/dev/null ;;
esac)";
    for (const std::string name : {"zfs", "ssh"}) {
      put_content(folder_ / name, "#!/bin/sh\necho \"" + name + " $*\" >>" + calls().string() + lists + "\n");
      ::chmod((folder_ / name).c_str(), 0755);
    }
    ::setenv("PATH", (folder_.string() + ":" + old_path_).c_str(), 1);
  }
  FakePrograms(const FakePrograms&) = delete;
  FakePrograms& operator=(const FakePrograms&) = delete;
  ~FakePrograms() { ::setenv("PATH", old_path_.c_str(), 1); }
  std::filesystem::path calls() const { return folder_ / "calls"; }

 private:
  std::filesystem::path folder_;
  std::string old_path_ = std::getenv("PATH");
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_copy_is_equal_and_the_next_one_sends_only_what_changed) {
  const SyncFolders folders(6 * mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(receiver);
  TandemProcess first(folders.send(address));
  BOOST_TEST(first.wait_for_exit(60s).value_or(-1) == 0, first.output());
  BOOST_TEST(folders.is_equal());
  BOOST_TEST(!std::filesystem::exists(folders.target() / ".tandem-sync"));
  BOOST_TEST(number_in(first.output(), "bytes_sent") == static_cast<std::int64_t>(folders.bytes()));

  TandemProcess again(folders.send(address));
  BOOST_TEST(again.wait_for_exit(60s).value_or(-1) == 0, again.output());
  BOOST_TEST(number_in(again.output(), "bytes_sent") == 0);
  BOOST_TEST(number_in(again.output(), "files_same") == 4);

  std::filesystem::remove(folders.source() / "tandem-manifest.json");
  put_content(folders.source() / "config.json", "[]");
  TandemProcess changed(folders.send(address));
  BOOST_TEST(changed.wait_for_exit(60s).value_or(-1) == 0, changed.output());
  BOOST_TEST(number_in(changed.output(), "bytes_sent") == 2);
  BOOST_TEST(folders.is_equal());

  TandemProcess forced(folders.send(address, {"--force"}));
  BOOST_TEST(forced.wait_for_exit(60s).value_or(-1) == 0, forced.output());
  BOOST_TEST(number_in(forced.output(), "bytes_sent") == static_cast<std::int64_t>(folders.bytes()));
}

BOOST_AUTO_TEST_CASE(a_file_that_changed_there_is_put_right) {
  const SyncFolders folders(mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(receiver);
  TandemProcess first(folders.send(address));
  BOOST_TEST(first.wait_for_exit(60s).value_or(-1) == 0, first.output());
  std::string wrong = file_bytes(folders.target() / "large.safetensors");
  wrong[mib / 2] = static_cast<char>(wrong[mib / 2] ^ 1);
  put_content(folders.target() / "large.safetensors", wrong);
  TandemProcess second(folders.send(address));
  BOOST_TEST(second.wait_for_exit(60s).value_or(-1) == 0, second.output());
  BOOST_TEST(folders.is_equal());
  BOOST_TEST(number_in(second.output(), "bytes_sent") == static_cast<std::int64_t>(mib));
}

BOOST_AUTO_TEST_CASE(a_sender_that_dies_leaves_chunks_that_are_not_sent_again) {
  const SyncFolders folders(12 * mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(receiver);
  {
    TandemProcess sender(folders.send(address, {"--limit-mb-s", "8"}));
    BOOST_REQUIRE(wait_for_bytes(sender, 4 * mib));
    sender.send(SIGKILL);
    BOOST_TEST(sender.wait_for_exit(10s).has_value());
  }
  BOOST_TEST(folders.has_only_whole_files());
  const std::int64_t whole = folders.whole_bytes();
  TandemProcess again(folders.send(address));
  BOOST_TEST(again.wait_for_exit(60s).value_or(-1) == 0, again.output());
  BOOST_TEST(folders.is_equal());
  const std::int64_t resumed = number_in(again.output(), "bytes_resumed");
  // Of what it had said to be there: small files may be whole by now and count as such, chunks may not be full.
  BOOST_TEST(whole + resumed >= static_cast<std::int64_t>(3 * mib));
  // Small files may have been whole before the end; of the others every byte was sent once.
  const std::int64_t sent = number_in(again.output(), "bytes_sent");
  BOOST_TEST(sent + resumed <= static_cast<std::int64_t>(folders.bytes()));
  BOOST_TEST(sent + resumed >= static_cast<std::int64_t>(12 * mib));
}

BOOST_AUTO_TEST_CASE(a_receiver_that_dies_and_comes_back_is_gone_on_with) {
  const SyncFolders folders(12 * mib);
  auto receiver = std::make_unique<TandemProcess>(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(*receiver);
  TandemProcess sender(folders.send(address, {"--limit-mb-s", "6"}));
  BOOST_REQUIRE(wait_for_bytes(sender, 9 * mib));
  receiver->send(SIGKILL);
  BOOST_TEST(receiver->wait_for_exit(10s).has_value());
  const std::int64_t done = number_in(sender.output(), "bytes_done");
  BOOST_TEST(folders.has_only_whole_files());
  receiver = std::make_unique<TandemProcess>(folders.receive(address));
  BOOST_TEST(sender.wait_for_exit(60s).value_or(-1) == 0, sender.output());
  BOOST_TEST(folders.is_equal());
  // What the last second brought may have been lost with the receiver, not all of it.
  BOOST_TEST(number_in(sender.output(), "bytes_sent") < static_cast<std::int64_t>(folders.bytes()) + done);
  BOOST_TEST(number_in(sender.output(), "rounds") > 1);
}

BOOST_AUTO_TEST_CASE(whoever_dies_at_whatever_moment_the_bytes_are_equal_in_the_end) {
  const SyncFolders folders(8 * mib);
  const unsigned seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  auto receiver = std::make_unique<TandemProcess>(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(*receiver);
  const std::vector<std::string> slow{"--limit-mb-s", "12"};
  auto sender = std::make_unique<TandemProcess>(folders.send(address, slow));
  for (int death = 0; death < 6; ++death) {
    // Ends sooner only if the copy is complete.
    if (sender->wait_for_exit(std::chrono::milliseconds(random() % 700))) break;
    if (random() % 2 == 0) {
      sender->send(SIGKILL);
      BOOST_TEST(sender->wait_for_exit(10s).has_value());
      sender = std::make_unique<TandemProcess>(folders.send(address, slow));
    } else {
      receiver->send(SIGKILL);
      BOOST_TEST(receiver->wait_for_exit(10s).has_value());
      receiver = std::make_unique<TandemProcess>(folders.receive(address));
    }
    BOOST_TEST(folders.has_only_whole_files());
  }
  BOOST_TEST(sender->wait_for_exit(60s).value_or(-1) == 0, sender->output());
  BOOST_TEST(folders.is_equal());
}

BOOST_AUTO_TEST_CASE(another_token_is_refused_on_both_sides_before_anything_is_said) {
  const SyncFolders folders(mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(receiver);
  folders.write_token("token", "ffffffffffffffffffffffffffffffff");
  TandemProcess stranger(folders.send(address));
  BOOST_TEST(stranger.wait_for_exit(30s).value_or(-1) == 2, stranger.output());
  BOOST_TEST(stranger.output().find("another token") != std::string::npos, stranger.output());
  BOOST_TEST(std::filesystem::is_empty(folders.target()));
  receiver.send(SIGTERM);
  BOOST_TEST(receiver.wait_for_exit(10s).value_or(-1) == 0);
  // A single verdict is proved by nothing: it was asked for again.
  BOOST_TEST(receiver.output().find("0 connections, 3 refused") != std::string::npos, receiver.output());
}

BOOST_AUTO_TEST_CASE(strangers_are_dropped_and_the_copy_goes_on) {
  const SyncFolders folders(mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0", {"--once"}));
  const std::string address = address_of(receiver);
  for (const std::string& bytes : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\xFF'),
                                   std::string("TNDMSYNC\1\0\0\0", 12)}) {
    send_raw(address, bytes);
  }
  TandemProcess sender(folders.send(address));
  BOOST_TEST(sender.wait_for_exit(60s).value_or(-1) == 0, sender.output());
  BOOST_TEST(folders.is_equal());
  BOOST_TEST(receiver.wait_for_exit(20s).value_or(-1) == 0, receiver.output());
}

BOOST_AUTO_TEST_CASE(the_way_comes_from_the_file_of_settings_and_the_command_line_comes_first) {
  const SyncFolders folders(mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0", {"--once"}));
  const std::string address = address_of(receiver);
  const std::string config = folders.token("sync.conf");
  put_content(config, "model.dir=" + folders.source().string() + "\nweights.sync=none\n");
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"sync", "--config", config, "--to", address, "--token-file", folders.token()};
    all.insert(all.end(), more.begin(), more.end());
    TandemProcess process(std::move(all));
    BOOST_TEST(process.wait_for_exit(60s).value_or(-1) == 0, process.output());
  };
  run({});
  BOOST_TEST(std::filesystem::is_empty(folders.target()));
  run({"--backend", "copy", "--state-dir", folders.state()});
  BOOST_TEST(folders.is_equal());
}

BOOST_AUTO_TEST_CASE(wrong_usage_ends_with_code_2_and_a_node_that_is_not_there_with_1) {
  const SyncFolders folders(mib);
  folders.write_token("open", "0123456789abcdef0123456789abcdef", 0644);
  const auto code_of = [](std::vector<std::string> arguments) {
    TandemProcess process(std::move(arguments));
    return process.wait_for_exit(30s).value_or(-1);
  };
  const std::string model = folders.source().string();
  BOOST_TEST(code_of({"sync", "--model", model}) == 2);
  BOOST_TEST(code_of({"sync", "--model", model, "--to", "127.0.0.1:1", "--serve"}) == 2);
  BOOST_TEST(code_of({"sync", "--model", model, "--to", "127.0.0.1:1", "--backend", "rsync"}) == 2);
  BOOST_TEST(code_of(folders.receive("0.0.0.0:0")) == 2);
  BOOST_TEST(code_of(folders.receive("[::]:0")) == 2);
  BOOST_TEST(code_of({"sync", "--receive", "--model", model, "--token-file", folders.token("open")}) == 2);
  for (const char* way : {"auto", "shared", "copy"}) {
    TandemProcess absent({"sync", "--model", model, "--to", "127.0.0.1:1", "--backend", way, "--token-file",
                          folders.token("absent"), "--state-dir", folders.state()});
    BOOST_TEST(absent.wait_for_exit(30s).value_or(-1) == 2, absent.output());
    BOOST_TEST(absent.output().find("--token-file " + folders.token("absent")) != std::string::npos, absent.output());
  }
  TandemProcess none({"sync", "--receive", "--model", model, "--state-dir", folders.state()});
  BOOST_TEST(none.wait_for_exit(30s).value_or(-1) == 2, none.output());
  BOOST_TEST(none.output().find("--token-file: none") != std::string::npos, none.output());
  BOOST_TEST(code_of({"sync", "--model", model, "--backend", "none", "--to", "127.0.0.1:1"}) == 0);
  BOOST_TEST(code_of({"sync", "--model", model, "--backend", "copy", "--to", "127.0.0.1:1", "--token-file",
                      folders.token(), "--patience", "1", "--state-dir", folders.state()}) == 1);
}

BOOST_AUTO_TEST_CASE(automatic_choice_sees_shared_storage_and_says_why_not_otherwise) {
  const SyncFolders folders(mib);
  TandemProcess server({"sync", "--serve", "--model", folders.source().string(), "--token-file", folders.token(),
                        "--state-dir", folders.state(), "--listen", "127.0.0.1:0"});
  const std::string address = address_of(server);
  const auto sync = [&](const std::filesystem::path& model) {
    return std::vector<std::string>{"sync", "--model", model.string(), "--token-file",  folders.token(),
                                    "--to", address,   "--state-dir",  folders.state(), "--patience",
                                    "1"};
  };
  TandemProcess same(sync(folders.source()));
  BOOST_TEST(same.wait_for_exit(30s).value_or(-1) == 0, same.output());
  BOOST_TEST(same.output().find("shared: a file written here was read there") != std::string::npos, same.output());
  put_content(folders.target() / "config.json", "{}");
  TandemProcess other(sync(folders.target()));
  BOOST_TEST(other.wait_for_exit(30s).value_or(-1) == 2, other.output());  // the last way is refused: it only serves
  for (const char* reason : {"not shared: ", "not nfs: ", "not zfs: ", "takes no files"})
    BOOST_TEST(other.output().find(reason) != std::string::npos, reason << " in " << other.output());
}

BOOST_AUTO_TEST_CASE(a_right_nfs_mount_is_taken_and_a_wrong_one_named) {
  const SyncFolders folders(mib);
  const std::string mounts = folders.state() + "-mounts";
  const auto mounted_as = [&](const std::string& options) {
    put_content(mounts, "10.77.77.1:/models " + tiny_model() + " nfs4 " + options + ",addr=10.77.77.1 0 0\n");
    TandemProcess server({"sync", "--serve", "--model", tiny_model(), "--token-file", folders.token(), "--state-dir",
                          folders.state(), "--listen", "127.0.0.1:0", "--mounts", mounts});
    TandemProcess head({"sync", "--model", tiny_model(), "--token-file", folders.token(), "--to", address_of(server),
                        "--backend", "nfs", "--state-dir", folders.state()});
    BOOST_TEST(head.wait_for_exit(30s).has_value());
    return std::pair(head.wait_for_exit(0s).value_or(-1), head.output());
  };
  const auto right = mounted_as("ro,vers=4.2,rsize=1048576,wsize=1048576,hard,nconnect=8");
  BOOST_TEST(right.first == 0, right.second);
  BOOST_TEST(right.second.find("it reads the configuration and a page of an Engram table") != std::string::npos);
  const auto wrong = mounted_as("rw,vers=3,rsize=1048576,wsize=1048576,hard,nconnect=8");
  BOOST_TEST(wrong.first == 1, wrong.second);
  BOOST_TEST(wrong.second.find("version 3, not 4.2; not mounted read-only") != std::string::npos, wrong.second);
}

BOOST_AUTO_TEST_CASE(force_rolls_a_dataset_back_only_where_zfs_was_asked_for_by_name) {
  const SyncFolders folders(mib);
  const FakePrograms programs(folders);
  const auto calls_of = [&](const std::string& backend) {
    put_content(programs.calls(), "");
    TandemProcess sync({"sync", "--force", "--model", folders.source().string(), "--to", "127.0.0.1:1", "--backend",
                        backend, "--token-file", folders.token(), "--patience", "1", "--state-dir", folders.state()});
    BOOST_TEST(sync.wait_for_exit(30s).value_or(-1) == 0, sync.output());
    return file_bytes(programs.calls());
  };
  const std::string by_itself = calls_of("auto"), by_name = calls_of("zfs");
  BOOST_TEST(by_itself.find("zfs receive pool/models") != std::string::npos, by_itself);
  BOOST_TEST(by_name.find("zfs receive -F pool/models") != std::string::npos, by_name);
}

BOOST_AUTO_TEST_CASE(several_nodes_get_theirs_though_one_of_them_is_not_there) {
  const SyncFolders folders(mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0"));
  TandemProcess sender(folders.send("127.0.0.1:1", {"--to", address_of(receiver), "--patience", "1"}));
  BOOST_TEST(sender.wait_for_exit(60s).value_or(-1) == 1, sender.output());
  BOOST_TEST(folders.is_equal());
}

BOOST_AUTO_TEST_CASE(the_other_nodes_revision_is_asked_for_by_verify_weights) {
  const SyncFolders folders(mib);
  TandemProcess receiver(folders.receive("127.0.0.1:0"));
  const std::string address = address_of(receiver);
  TandemProcess sender(folders.send(address));
  BOOST_REQUIRE_MESSAGE(sender.wait_for_exit(60s).value_or(-1) == 0, sender.output());
  const std::vector<std::string> verify{"verify-weights", "--model",       folders.source().string(),
                                        "--state-dir",    folders.state(), "--peer",
                                        address,          "--token-file",  folders.token()};
  TandemProcess equal(verify);
  BOOST_TEST(equal.wait_for_exit(30s).value_or(-1) == 14, equal.output());  // no model, only files
  BOOST_TEST(equal.output().find("W7 pass") != std::string::npos, equal.output());
  std::string manifest = file_bytes(folders.target() / "tandem-manifest.json");
  manifest.replace(manifest.find("config.json"), 11, "Config.json");
  put_content(folders.target() / "tandem-manifest.json", manifest);
  TandemProcess different(verify);
  BOOST_TEST(different.wait_for_exit(30s).has_value());
  BOOST_TEST(different.output().find("W7 fail") != std::string::npos, different.output());
}

BOOST_AUTO_TEST_SUITE_END()
