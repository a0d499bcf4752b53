// Hubs: which commit, whose hashes, which files.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_hub)

// A hub answers a branch with the commit that it is, and big files with a redirection that tells size and hash.
struct Hub {
  const std::string commit = std::string(39, 'a') + "1", other_commit = std::string(39, 'b') + "2";
  const std::string index =
      R"({"metadata": {}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}})";
  Contents files{{"m-1.safetensors", make_content(40'000, 1)},
                 {"m-2.safetensors", make_content(3'000, 2)},
                 {"model.safetensors.index.json", index},
                 {"config.json", "{}"},
                 {"tokenizer.json", "{ }"}};
  FaultyServer server, store;
  bool knows_commit = true;

  Hub() {
    for (const auto& [path, content] : files) {
      for (const std::string& revision : {std::string("main"), commit})
        server.put("/o/n/resolve/" + revision + "/" + path, content, "\"git-" + path + "\"");
      server.put("/o/other/resolve/main/" + path, content, "\"git-" + path + "\"");
      server.put("/o/other/resolve/" + other_commit + "/" + path, content, "\"git-" + path + "\"");
      store.put("/" + path, content);
    }
    server.behave([this](const Ask& ask) { return answer(ask); });
  }

  Act answer(const Ask& ask) const {
    Act act;
    if (knows_commit) act.fields = {{"X-Repo-Commit", ask.path.starts_with("/o/n/") ? commit : other_commit}};
    const std::string name = ask.path.substr(ask.path.rfind('/') + 1);
    if (!name.starts_with("m-") || !files.contains(name)) return act;
    act.status = 302;
    act.fields.emplace_back("Location", store.url("/" + name));
    act.fields.emplace_back("X-Linked-Size", std::to_string(files.at(name).size()));
    act.fields.emplace_back("X-Linked-Etag", '"' + manifest_of({{"x", files.at(name)}}).files.front().sha256 + '"');
    return act;
  }
};

BOOST_FIXTURE_TEST_CASE(a_hubs_branch_is_resolved_once_and_recorded, Hub) {
  Target target(server.url("/o/n/resolve/main"));
  const auto report = target.fetch_all();
  BOOST_TEST(report.revision == commit);
  target.check_holds(files);
  for (const Ask& ask : server.asked()) {
    const bool is_first_question = ask.path.find("/main/tandem-manifest.json") != std::string::npos ||
                                   ask.path.find("/main/model.safetensors.index.json") != std::string::npos;
    BOOST_TEST((is_first_question || ask.path.find(commit) != std::string::npos), ask.path);
  }
  server.forget_asked();
  target.fetch_all();
  for (const Ask& ask : server.asked()) BOOST_TEST(ask.path.find("/main/") == std::string::npos, ask.path);
}

BOOST_FIXTURE_TEST_CASE(a_branch_that_may_move_is_refused, Hub) {
  knows_commit = false;
  Target target(server.url("/o/n/resolve/main"));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::bad_config));
  BOOST_TEST(error.message().find("full commit hash") != std::string::npos);
  Target pinned(server.url("/o/n/resolve/" + commit));
  BOOST_TEST(pinned.fetch_all().revision == commit);
}

BOOST_FIXTURE_TEST_CASE(a_hubs_hash_is_checked, Hub) {
  store.put("/m-2.safetensors", make_content(3'000, 3));
  Target target(server.url("/o/n/resolve/" + commit));
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(!target.has("m-2.safetensors"));
}

// The commit of the one is none of the other, even after a question to the other that failed.
BOOST_FIXTURE_TEST_CASE(a_recorded_commit_is_not_looked_for_in_another_repository, Hub) {
  Target target(server.url("/o/n/resolve/main"));
  target.fetch_all();
  target.options.from = server.url("/o/missing/resolve/main");
  target.fetch_fails();
  target.options.from = server.url("/o/other/resolve/main");
  BOOST_TEST(target.fetch_all().revision == other_commit);
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_list_from_elsewhere_is_fetched_from_one_commit, Hub) {
  const auto asks_a_branch = [&] {
    const auto asked = server.asked();
    return std::ranges::count_if(asked, [](const Ask& ask) { return ask.path.find("/main/") != std::string::npos; });
  };
  gpu::Manifest list = manifest_of(files, commit);
  list.files.front().sha256.clear();
  Target named(server.url("/o/n/resolve/main")), asked(server.url("/o/n/resolve/main"));
  named.options.manifest_file = asked.options.manifest_file = named.path("list.json");
  named.write("list.json", gpu::to_json(list));
  named.fetch_all();
  BOOST_TEST(asks_a_branch() == 0);
  list.revision = "v1";
  named.write("list.json", gpu::to_json(list));
  asked.fetch_all();
  BOOST_TEST(asks_a_branch() == 1);
  knows_commit = false;
  Target unknown(server.url("/o/n/resolve/main"));
  unknown.options.manifest_file = named.options.manifest_file;
  BOOST_TEST((unknown.fetch_fails().code == ErrorCode::bad_config));
}

BOOST_FIXTURE_TEST_CASE(an_index_whose_files_make_no_list_is_refused_before_they_are_asked_for, Hub) {
  for (const char* file : {"config.json", "tokenizer.json/x"}) {
    server.put("/o/n/resolve/" + commit + "/model.safetensors.index.json",
               std::string(R"({"weight_map": {"a": ")") + file + "\"}}");
    server.forget_asked();
    Target target(server.url("/o/n/resolve/" + commit));
    const Error error = target.fetch_fails();
    BOOST_TEST((error.code == ErrorCode::bad_format), error.message());
    BOOST_TEST(error.message().find("index.json") != std::string::npos, error.message());
    BOOST_TEST(server.asked().size() == 2U);  // manifest, index
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
