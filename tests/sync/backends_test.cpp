// Which way is taken, and the ways that are not a copy: mounts as the table tells them, zfs as a program on PATH.
#include "net/sync/backend.hpp"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "net/sync/command.hpp"
#include "net/sync/mount.hpp"
#include "net/sync/zfs.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace std::chrono_literals;
using Folder = engram::test::TemporaryFolder;

BOOST_AUTO_TEST_SUITE(sync_backends)

namespace {

BackendTrial trial(Backend backend, Result<std::string> result, std::vector<Backend>& tried) {
  return {backend, [=, &tried] {
            tried.push_back(backend);
            return result;
          }};
}

Error no(const std::string& reason, ErrorCode code = ErrorCode::mismatch) {
  return {code, "there", reason, ""};
}

void put_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}
std::string get_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

const std::string good_nfs =
    "10.0.0.1:/models /models nfs4 "
    "ro,vers=4.2,rsize=1048576,wsize=1048576,hard,nconnect=8,proto=tcp,clientaddr=10.0.0.2,addr=10.0.0.1 0 0";

std::vector<std::string> nfs_faults(const std::string& from, const std::string& to,
                                    const std::string& own = "10.0.0.2") {
  std::string line = good_nfs;
  if (!from.empty()) line.replace(line.find(from), from.size(), to);
  return find_nfs_faults(*parse_mount(line), own);
}

// `zfs` and `ssh` on PATH that write down how they were called and answer from files.
class FakePrograms {
 public:
  FakePrograms() : old_path_(std::getenv("PATH")) {
    program("zfs", R"(
case "$*" in
  *" filesystem "*) printf 'pool\t/pool\npool/models\t%s\npool/none\tnone\n' "$FAKE/model" ;;
  *" snapshot "*) cat "$FAKE/snapshots" ;;
  *written*) cat "$FAKE/written" ;;
  snapshot*) printf '%s\tnew\n' "$2" >>"$FAKE/snapshots" ;;
  send*) echo "stream of $*" ;;
  destroy*) grep -v "$2" "$FAKE/snapshots" >"$FAKE/left"; mv "$FAKE/left" "$FAKE/snapshots" ;;
esac)");
    program("ssh", R"(
case "$*" in
  *"list -H -t snapshot"*) [ -e "$FAKE/remote" ] || { echo "does not exist" >&2; exit 1; }; cat "$FAKE/remote" ;;
  *receive*) [ ! -e "$FAKE/full" ] || { cat >/dev/null; echo "out of space" >&2; exit 1; }; cat >"$FAKE/received" ;;
esac)");
    std::filesystem::create_directories(path() / "model/deep");
    put_file(path() / "snapshots", "");
    put_file(path() / "written", "0\n");
    ::setenv("PATH", (path().string() + ":" + old_path_).c_str(), 1);
    ::setenv("FAKE", path().c_str(), 1);
    request.folder = path() / "model/deep";
    request.login = "user@spark-2";
    request.snapshot = "tandem-now";
  }
  ~FakePrograms() {
    ::setenv("PATH", old_path_.c_str(), 1);
    ::unsetenv("FAKE");
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string calls() const { return get_file(path() / "calls"); }
  Result<std::string> send() { return send_by_zfs(request, *make_command_runner()); }

  ZfsRequest request;

 private:
  void program(const std::string& name, const std::string& body) const {
    put_file(path() / name, "#!/bin/sh\necho \"" + name + " $*\" >>\"$FAKE/calls\"\n" + body + "\n");
    ::chmod((path() / name).c_str(), 0755);
  }
  Folder folder_;
  std::string old_path_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_way_that_works_is_taken_and_the_others_are_explained) {
  std::vector<Backend> tried;
  std::vector<std::string> reasons;
  const std::vector<BackendTrial> trials{
      trial(Backend::shared, no("another folder"), tried), trial(Backend::nfs, no("ext4"), tried),
      trial(Backend::zfs, std::string("sent"), tried), trial(Backend::copy, std::string("copied"), tried)};
  const auto outcome = try_backends(trials, [&](Backend backend, const Error& why) {
    reasons.push_back(std::string(to_string(backend)) + why.found);
  });
  BOOST_REQUIRE(outcome);
  BOOST_TEST((outcome->backend == Backend::zfs));
  BOOST_TEST(outcome->found == "sent");
  BOOST_TEST(tried.size() == 3U);
  BOOST_TEST(reasons == (std::vector<std::string>{"sharedanother folder", "nfsext4"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_last_ways_error_is_the_answer_and_a_stop_is_a_stop) {
  std::vector<Backend> tried;
  const auto ignore = [](Backend, const Error&) {};
  const std::vector<BackendTrial> failing{trial(Backend::nfs, no("a"), tried),
                                          trial(Backend::copy, no("b", ErrorCode::timeout), tried)};
  BOOST_TEST((try_backends(failing, ignore).error().code == ErrorCode::timeout));
  const std::vector<BackendTrial> stopped{trial(Backend::zfs, no("", ErrorCode::cancelled), tried),
                                          trial(Backend::copy, std::string(), tried)};
  tried.clear();
  BOOST_TEST((try_backends(stopped, ignore).error().code == ErrorCode::cancelled));
  BOOST_TEST(tried.size() == 1U);
  BOOST_TEST(!try_backends({}, ignore).has_value());
  for (const char* name : {"none", "shared", "nfs", "zfs", "copy"})
    BOOST_TEST(to_string(parse_backend(name).value()) == name);
  BOOST_TEST(!parse_backend("auto").has_value());
}

BOOST_AUTO_TEST_CASE(a_mount_table_is_searched_for_the_longest_mount_above_a_folder) {
  const Folder folder;
  const auto model = folder.path() / "models of all";
  std::filesystem::create_directories(model / "deep");
  std::string escaped = model.string();
  escaped.replace(escaped.find(" of "), 4, "\\040of\\040");
  put_file(folder.path() / "mounts", "/dev/a / ext4 rw 0 0\nserver:/x " + escaped +
                                         " nfs4 ro,addr=10.0.0.1 0 0\n/dev/b " +
                                         model.string().substr(0, model.string().size() - 1) + " xfs rw 0 0\n");
  const auto found = find_mount(folder.path() / "mounts", model / "deep");
  BOOST_REQUIRE_MESSAGE(found, found.error().message());
  BOOST_TEST(found->type == "nfs4");
  BOOST_TEST(found->server() == "10.0.0.1");
  BOOST_TEST(find_mount(folder.path() / "mounts", "/elsewhere")->type == "ext4");
  BOOST_TEST(!find_mount(folder.path() / "absent", model).has_value());
  put_file(folder.path() / "bad", "one two\n");
  BOOST_TEST((find_mount(folder.path() / "bad", model).error().code == ErrorCode::bad_format));
}

BOOST_AUTO_TEST_CASE(an_nfs_mount_is_right_or_every_fault_is_named) {
  BOOST_TEST(nfs_faults("", "").empty());
  const struct {
    std::string from, to, names;
  } cases[] = {{"ro,", "rw,", "read-only"},      {"vers=4.2", "vers=4.1", "4.2"},
               {"vers=4.2,", "", "4.2"},         {"rsize=1048576", "rsize=131072", "rsize"},
               {"wsize=1048576,", "", "wsize"},  {"nconnect=8,", "", "nconnect"},
               {"hard", "soft", "hard"},         {",addr=10.0.0.1", ",addr=127.0.0.1", "lo"},
               {"nfs4", "ext4", "not on an NFS"}};
  for (const auto& [from, to, names] : cases) {
    const auto faults = nfs_faults(from, to);
    BOOST_REQUIRE_MESSAGE(faults.size() == 1U, from << " -> " << to);
    BOOST_TEST(faults[0].find(names) != std::string::npos, faults[0]);
  }
  BOOST_TEST(nfs_faults("", "", "10.0.0.1").size() == 1U, "the node's own export");
  BOOST_TEST(nfs_faults("ro,vers=4.2", "rw,vers=3").size() == 2U);
  BOOST_TEST(own_address_towards("127.0.0.1") == "127.0.0.1");
  BOOST_TEST(own_address_towards("no address").empty());
}

BOOST_AUTO_TEST_CASE(a_snapshot_plan_begins_at_the_newest_that_both_have) {
  const std::vector<ZfsSnapshot> own{{"a", "1"}, {"b", "2"}, {"c", "3"}};
  BOOST_TEST(!plan_zfs({}, {}, 0, false).base.has_value());
  BOOST_TEST(!plan_zfs(own, {{"a", "9"}}, 0, false).base.has_value(), "the same name, another content");
  BOOST_TEST(plan_zfs(own, {{"x", "1"}, {"y", "2"}}, 0, false).base.value() == "b");
  BOOST_TEST(plan_zfs(own, {{"y", "2"}}, 0, false).is_needed);
  BOOST_TEST(!plan_zfs(own, {{"c", "3"}}, 0, false).is_needed);
  BOOST_TEST(plan_zfs(own, {{"c", "3"}}, 1, false).is_needed, "written since");
  BOOST_TEST(plan_zfs(own, {{"c", "3"}}, 0, true).is_needed, "forced");
}

BOOST_AUTO_TEST_CASE(lists_of_zfs_are_read_strictly) {
  BOOST_TEST(parse_snapshots("p/m@a\t1\np/m@b\t2\n", "p/m")->size() == 2U);
  BOOST_TEST(!parse_snapshots("p/m@a 1\n", "p/m").has_value());
  BOOST_TEST(!parse_snapshots("p/other@a\t1\n", "p/m").has_value());
  BOOST_TEST(*find_dataset("p\t/p\np/m\t/p/m\np/x\tlegacy\n", "/p/m/deep") == "p/m");
  BOOST_TEST(*find_dataset("p\t/p\np/m\t/p/m\n", "/p/more") == "p");
  BOOST_TEST(!find_dataset("p\tnone\n", "/p").has_value());
  for (const char* bad : {"", "-rf", "a b", "a;b", "$(x)", "a'b", "a\nb"}) BOOST_TEST(!is_plain_zfs_name(bad), bad);
  BOOST_TEST(is_plain_zfs_name("user@spark-2.local"));
}

BOOST_AUTO_TEST_CASE(the_first_send_is_whole_and_the_next_one_a_difference) {
  FakePrograms programs;
  const auto whole = programs.send();
  BOOST_REQUIRE_MESSAGE(whole, whole.error().message());
  BOOST_TEST(get_file(programs.path() / "received") == "stream of send pool/models@tandem-now\n");
  BOOST_TEST(
      programs.calls().find("ssh -o BatchMode=yes -o ConnectTimeout=10 -- user@spark-2 zfs receive pool/models\n") !=
      std::string::npos);
  put_file(programs.path() / "remote", get_file(programs.path() / "snapshots"));
  const auto unchanged = programs.send();
  BOOST_REQUIRE(unchanged);
  BOOST_TEST(unchanged->find("nothing was written since") != std::string::npos, *unchanged);
  put_file(programs.path() / "written", "4096\n");
  programs.request.snapshot = "tandem-later";
  BOOST_REQUIRE(programs.send());
  BOOST_TEST(get_file(programs.path() / "received") == "stream of send -i @tandem-now pool/models@tandem-later\n");
}

BOOST_AUTO_TEST_CASE(only_a_forced_difference_may_roll_the_other_side_back) {
  FakePrograms programs;
  programs.request.is_forced = true;
  BOOST_REQUIRE(programs.send());
  BOOST_TEST(programs.calls().find("receive -F") == std::string::npos, "a whole stream would replace another dataset");
  put_file(programs.path() / "remote", get_file(programs.path() / "snapshots"));
  programs.request.snapshot = "tandem-later";
  BOOST_REQUIRE(programs.send());
  BOOST_TEST(programs.calls().find("zfs receive -F pool/models\n") != std::string::npos, programs.calls());
}

BOOST_AUTO_TEST_CASE(a_send_that_fails_says_why_and_leaves_no_snapshot) {
  FakePrograms programs;
  put_file(programs.path() / "full", "");
  const auto failed = programs.send();
  BOOST_TEST((failed.error().code == ErrorCode::unavailable));
  BOOST_TEST(failed.error().found.find("out of space") != std::string::npos, failed.error().found);
  BOOST_TEST(get_file(programs.path() / "snapshots").empty());
  programs.request.login = "spark-2; rm -rf x";
  BOOST_TEST((programs.send().error().code == ErrorCode::bad_config));
  programs.request.login = "spark-2";
  programs.request.folder = "/";
  BOOST_TEST((programs.send().error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_CASE(commands_end_by_their_limit_and_are_no_shell) {
  const auto runner = make_command_runner();
  BOOST_TEST(*runner->run({"echo", "$HOME;", "`x`"}, 10s) == "$HOME; `x`\n");
  BOOST_TEST((runner->run({"no-such-program-anywhere"}, 10s).error().code == ErrorCode::not_found));
  const auto failed = runner->run({"sh", "-c", "echo reason >&2; exit 3"}, 10s);
  BOOST_TEST((failed.error().code == ErrorCode::unavailable));
  BOOST_TEST(failed.error().found == "exit code 3: reason");
  BOOST_TEST((runner->run({"sleep", "60"}, 1s).error().code == ErrorCode::timeout));
  BOOST_TEST((runner->run({"sh", "-c", "exec >&- 2>&-; sleep 60"}, 1s).error().code == ErrorCode::timeout));
  BOOST_TEST((runner->run({"head", "-c", "20000000", "/dev/zero"}, 30s).error().code == ErrorCode::out_of_range));
  BOOST_TEST(runner->pipe({"echo", "x"}, {"grep", "-q", "x"}, 10s).has_value());
  BOOST_TEST(!runner->pipe({"echo", "x"}, {"grep", "-q", "y"}, 10s).has_value());
  BOOST_TEST(!runner->pipe({"false"}, {"cat"}, 10s).has_value());
  BOOST_TEST((runner->pipe({"sleep", "60"}, {"cat"}, 1s).error().code == ErrorCode::timeout));
}

BOOST_AUTO_TEST_SUITE_END()
