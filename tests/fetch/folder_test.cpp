// The folder as a whole: who may fill it, with which revision, and whether it has room.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <optional>

#include "net/fetch/disk_space.hpp"
#include "net/fetch/part_file.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_folder)

struct Published {
  Contents files{{"a.safetensors", make_content(50'000, 1)}, {"config.json", "{}"}};
  FaultyServer server;
  Target target{server.url("/model")};
  Published() { publish(server, files); }

  // A fetch that is stopped when the server has sent so many bytes; the next one may take as long as it likes.
  void stop_after(std::uint64_t bytes) {
    server.allow(bytes);
    std::stop_source stop;
    target.options.stop = stop.get_token();
    bool was_spent = false;
    std::thread stopper([&] {
      was_spent = server.wait_until_spent();
      stop.request_stop();
    });
    BOOST_TEST((target.fetch_fails().code == ErrorCode::cancelled));
    stopper.join();
    BOOST_TEST(was_spent);
    target.options.stop = {};
    server.allow(1'000'000);
  }
};

BOOST_FIXTURE_TEST_CASE(a_second_fetch_into_the_folder_is_refused, Published) {
  server.allow(20'000);
  Target other(server.url("/model"));
  other.options.folder = target.folder.path();
  bool was_spent = false;
  std::optional<Error> refusal;
  std::thread second([&] {
    was_spent = server.wait_until_spent();
    const auto report = fetch(other.options);
    if (!report) refusal = report.error();
    server.allow(1'000'000);
  });
  target.options.limits.read = std::chrono::milliseconds(5000);
  target.fetch_all();
  second.join();
  BOOST_TEST(was_spent);
  BOOST_REQUIRE(refusal.has_value());
  BOOST_TEST((refusal->code == ErrorCode::unavailable));
  BOOST_TEST(refusal->message().find("another fetch") != std::string::npos, refusal->message());
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_stopped_fetch_says_so_and_goes_on_later, Published) {
  stop_after(30'000);
  BOOST_TEST(!target.has("a.safetensors"));
  target.fetch_all();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(another_revision_than_wanted_is_refused_before_the_first_file, Published) {
  target.options.revision = "r2";
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(server.asked().size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(a_folder_without_a_manifest_is_no_model, Published) {
  target.options.from = server.url("/other");
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::not_found));
  BOOST_TEST(error.message().find("tandem-manifest.json") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_manifest_that_leaves_the_folder_is_refused, Published) {
  server.put("/model/tandem-manifest.json",
             R"({"format": 1, "revision": "r", "files": [{"path": "../x", "bytes": 1, "sha256": ""}]})");
  BOOST_TEST((target.fetch_fails().code == ErrorCode::bad_format));
}

BOOST_FIXTURE_TEST_CASE(an_address_with_a_password_and_a_token_in_the_clear_are_refused, Published) {
  target.options.from = "http://me:secret@127.0.0.1/model";
  const Error password = target.fetch_fails();
  BOOST_TEST((password.code == ErrorCode::bad_config));
  BOOST_TEST(password.message().find("secret") == std::string::npos);
  target.options.access.token = "t0ken";
  for (const char* from : {"http://example.org/model", "http://127.example.org/model"}) {
    target.options.from = from;
    const Error token = target.fetch_fails();
    BOOST_TEST((token.code == ErrorCode::bad_config), from);
    BOOST_TEST(token.message().find("t0ken") == std::string::npos);
  }
}

// Without a hash two versions of the same size look the same: a flag or a number of a configuration.
BOOST_FIXTURE_TEST_CASE(a_file_without_a_hash_is_fetched_again_for_another_revision, Published) {
  for (const std::string revision : {"a", "b"}) {
    const std::string content = "{\"v\": \"" + revision + "\"}";
    server.put("/model/config.json", content, '"' + revision + '"');
    server.put("/model/tandem-manifest.json", gpu::to_json({revision, {{"config.json", content.size(), ""}}}));
    BOOST_TEST(target.fetch_all().files_fetched == 1U, revision);
    BOOST_TEST(target.read("config.json") == content);
    BOOST_TEST(target.fetch_all().files_present == 1U, revision);
  }
}

// Neither fetch ends; what the first one brought has the right size for the second one.
BOOST_FIXTURE_TEST_CASE(a_file_of_a_fetch_that_was_not_ended_never_passes_for_another_revisions, Published) {
  target.options.limits.connections = 1;
  const auto offer = [&](const std::string& revision) {
    server.put("/model/config.json", "{\"v\": \"" + revision + "\"}", '"' + revision + '"');
    server.put("/model/tandem-manifest.json",
               gpu::to_json({revision, {{"config.json", 10, ""}, {"z.safetensors", 50'000, ""}}}));
  };
  offer("a");
  target.fetch_fails();  // there is no z.safetensors
  BOOST_TEST(target.read("config.json") == R"({"v": "a"})");
  offer("b");
  Act is_gone;
  is_gone.status = 404;
  server.behave([=](const Ask& ask) { return ask.path.ends_with("manifest.json") ? Act{} : is_gone; });
  target.fetch_fails();
  server.behave({});
  server.put("/model/z.safetensors", make_content(50'000, 1));
  target.fetch_all();
  BOOST_TEST(target.read("config.json") == R"({"v": "b"})");
}

BOOST_FIXTURE_TEST_CASE(files_of_other_people_are_left_alone, Published) {
  target.write("tandem-manifest.json.backup", "keep");
  target.write(".tandem-fetch.manifest.a1b2c3.tandem-new", "a killed fetch");
  target.fetch_all();
  BOOST_TEST(target.read("tandem-manifest.json.backup") == "keep");
  BOOST_TEST(!target.has(".tandem-fetch.manifest.a1b2c3.tandem-new"));
}

// Whoever may write into the folder would choose what else this process overwrites.
BOOST_FIXTURE_TEST_CASE(a_link_in_the_place_of_a_part_is_refused_and_its_target_left_alone, Published) {
  target.write("precious", "keep");
  for (const std::string name : {".tandem-fetch.lock", ".tandem-a.safetensors.part"}) {
    std::filesystem::create_symlink(target.path("precious"), target.path(name));
    BOOST_TEST((target.fetch_fails().code == ErrorCode::io), name);
    BOOST_TEST(target.read("precious") == "keep", name);
    std::filesystem::remove(target.path(name));
  }
  target.fetch_all();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(parts_of_files_that_left_the_list_or_came_another_way_are_removed, Published) {
  files["sub/b.safetensors"] = make_content(50'000, 2);
  publish(server, files);
  stop_after(50'000);
  const auto leave_part = [&](const std::string& path) {
    auto part = PartFile::open({target.path(path), 50'000, 4096, "whose"});
    BOOST_REQUIRE(part);
    BOOST_REQUIRE(part->begin("v"));
  };
  leave_part("sub/b.safetensors");
  files.erase("sub/b.safetensors");
  publish(server, files, "r2");
  leave_part("a.safetensors");
  target.write("a.safetensors", files.at("a.safetensors"));
  target.fetch_all();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(what_a_refused_fetch_wanted_is_not_what_the_folder_holds, Published) {
  target.fetch_all();
  const std::uint64_t too_much = gpu::manifest_file_bytes_max;
  server.put("/model/tandem-manifest.json", gpu::to_json({"huge", {{"b.safetensors", too_much, ""}}}));
  BOOST_TEST((target.fetch_fails().code == ErrorCode::resource));
  BOOST_TEST((*gpu::read_manifest(target.folder.path()) == manifest_of(files)));
}

BOOST_FIXTURE_TEST_CASE(a_list_that_trickles_is_given_up, Published) {
  server.behave([](const Ask&) {
    Act act;
    act.trickles = true;
    return act;
  });
  target.options.limits.attempts = 1;
  BOOST_TEST((target.fetch_fails().code == ErrorCode::timeout));
}

BOOST_AUTO_TEST_CASE(room_is_needed_for_what_is_missing_and_for_the_largest_join) {
  const engram::test::TemporaryFolder folder;
  const std::string ten(10, 'x');
  folder.write("there", std::as_bytes(std::span(ten)));
  const std::vector<gpu::ManifestEntry> missing{{"there", 10, ""}, {"a", 100, ""}, {"b", 7, ""}};
  const std::vector<Join> joins{{{"x", 50, ""}, {}}, {{"y", 60, ""}, {}}};
  BOOST_TEST(space_need(folder.path(), missing, joins, false).fetching == 107U);
  BOOST_TEST(space_need(folder.path(), missing, joins, false).joining == 60U);
  BOOST_TEST(space_need(folder.path(), missing, joins, true).joining == 110U);
}

BOOST_AUTO_TEST_CASE(room_that_is_just_enough_gets_a_warning_and_less_is_refused) {
  BOOST_TEST(judge_space({900, 100}, 2000).warning.empty());
  BOOST_TEST(judge_space({900, 100}, 1000).fits);
  BOOST_TEST(!judge_space({900, 100}, 1000).warning.empty());
  BOOST_TEST(!judge_space({900, 100}, 999).fits);
  BOOST_TEST(judge_space({0, 0}, 0).fits);
  BOOST_TEST(judge_space({900, 100}, 999).warning ==
             "999 bytes free, 1000 bytes needed (100 bytes of it while parts are joined)");
}

BOOST_AUTO_TEST_CASE(sizes_whose_sum_is_beyond_counting_do_not_fit) {
  const engram::test::TemporaryFolder folder;
  std::vector<gpu::ManifestEntry> files;
  for (int i = 0; i < 1 << 14; ++i) files.push_back({std::to_string(i), gpu::manifest_file_bytes_max, ""});
  for (const bool keep_parts : {false, true}) {
    const SpaceVerdict verdict = judge_space(space_need(folder.path(), files, {{files[0], {}}}, keep_parts), 1 << 30);
    BOOST_TEST(!verdict.fits);
    BOOST_TEST(!verdict.warning.empty());
  }
}

BOOST_FIXTURE_TEST_CASE(a_model_beyond_the_disk_is_refused_before_the_first_byte, Published) {
  auto manifest = manifest_of(files);
  manifest.files.push_back({"huge", std::uint64_t{1} << 50, ""});
  server.put("/model/tandem-manifest.json", gpu::to_json(manifest));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::resource));
  BOOST_TEST(error.message().find("--force") != std::string::npos);
  BOOST_TEST(server.asked().size() == 1U);
}

// As on a full disk: a file cannot grow beyond the limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

BOOST_FIXTURE_TEST_CASE(a_disk_that_becomes_full_ends_the_fetch_and_keeps_what_is_there, Published) {
  {
    const FileSizeLimit full(30'000);
    BOOST_TEST((target.fetch_fails().code == ErrorCode::resource));
  }
  BOOST_TEST(!target.has("a.safetensors"));
  target.fetch_all();
  target.check_holds(files);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
