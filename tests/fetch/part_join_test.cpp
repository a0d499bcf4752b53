// Shards in parts: which belong together, and that none goes before the whole is right.
#include "net/fetch/part_join.hpp"

#include <boost/test/unit_test.hpp>

#include "net/fetch/part_file.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_part_join)

// A shard in three parts of different sizes, and a file of its own.
struct Parted {
  std::string whole = make_content(10'000, 1);
  Contents parts{
      {"s/x.part01", whole.substr(0, 4000)}, {"s/x.part02", whole.substr(4000, 1)}, {"s/x.part03", whole.substr(4001)}};
  Contents all = parts;
  Parted() {
    all["s/x"] = whole;
    all["config.json"] = "{}";
  }
};

struct PartedServer : Parted {
  FaultyServer server;
  Target target{server.url("/model")};
  PartedServer() { publish(server, all); }
  void check_joined(bool has_parts) const {
    BOOST_TEST((target.read("s/x") == whole));
    for (const auto& [name, content] : parts) BOOST_TEST(target.has(name) == has_parts, name);
  }
  int asked_for_parts() const {
    int count = 0;
    for (const Ask& ask : server.asked()) count += ask.path.find(".part") != std::string::npos ? 1 : 0;
    return count;
  }
};

BOOST_AUTO_TEST_CASE(parts_are_found_by_name_and_put_in_order) {
  for (const char* mark : {".part", ".part-", "."}) {
    gpu::Manifest manifest{"", {{"x", 30, ""}}};
    for (int number = 1; number <= 10; ++number)
      manifest.files.push_back({std::string("x") + mark + (number < 10 ? "0" : "") + std::to_string(number), 3, ""});
    std::swap(manifest.files[1], manifest.files[7]);
    const auto joins = find_joins(manifest);
    BOOST_REQUIRE_MESSAGE(joins, mark);
    BOOST_REQUIRE(joins->size() == 1U);
    BOOST_TEST(joins->front().parts.size() == 10U);
    BOOST_TEST(joins->front().parts[9].path == std::string("x") + mark + "10");
  }
}

BOOST_AUTO_TEST_CASE(names_that_only_look_like_parts_are_files) {
  const auto joins =
      find_joins({"", {{"x", 1, ""}, {"y.part01", 1, ""}, {"x.part1", 1, ""}, {"x.part0001", 1, ""}, {"x.7", 1, ""}}});
  BOOST_REQUIRE(joins);
  BOOST_TEST(joins->empty());
}

BOOST_AUTO_TEST_CASE(parts_with_a_gap_or_a_wrong_sum_are_refused) {
  const auto code = [](gpu::Manifest manifest) { return find_joins(manifest).error().code; };
  BOOST_TEST((code({"", {{"x", 2, ""}, {"x.part01", 1, ""}, {"x.part03", 1, ""}}}) == ErrorCode::bad_format));
  BOOST_TEST((code({"", {{"x", 2, ""}, {"x.part02", 1, ""}, {"x.part03", 1, ""}}}) == ErrorCode::bad_format));
  BOOST_TEST((code({"", {{"x", 2, ""}, {"x.part01", 1, ""}, {"x.01", 1, ""}}}) == ErrorCode::bad_format));
  BOOST_TEST((code({"", {{"x", 3, ""}, {"x.part00", 1, ""}, {"x.part01", 1, ""}}}) == ErrorCode::mismatch));
}

BOOST_FIXTURE_TEST_CASE(parts_become_the_shard_and_go, PartedServer) {
  const auto report = target.fetch_all();
  BOOST_TEST(report.files == 2U);
  BOOST_TEST(report.files_joined == 1U);
  check_joined(false);
  BOOST_TEST((*gpu::read_manifest(target.folder.path()) == manifest_of({{"config.json", "{}"}, {"s/x", whole}})));
}

BOOST_FIXTURE_TEST_CASE(parts_stay_if_asked_for, PartedServer) {
  target.options.keep_parts = true;
  target.fetch_all();
  check_joined(true);
}

BOOST_FIXTURE_TEST_CASE(a_shard_that_is_there_costs_no_part, PartedServer) {
  target.write("s/x", whole);
  target.write("s/x.part02", parts["s/x.part02"]);  // left by a run that ended between the rename and the removal
  BOOST_TEST(target.fetch_all().files_joined == 0U);
  BOOST_TEST(asked_for_parts() == 0);
  check_joined(false);
}

BOOST_FIXTURE_TEST_CASE(parts_that_do_not_make_the_shard_stay_and_it_does_not_appear, PartedServer) {
  auto manifest = manifest_of(all);
  for (auto& entry : manifest.files)
    if (entry.path == "s/x") entry.sha256 = std::string(64, '0');
  server.put("/model/tandem-manifest.json", gpu::to_json(manifest));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::mismatch));
  BOOST_TEST(!target.has("s/x"));
  for (const auto& [name, content] : parts) BOOST_TEST((target.read(name) == content));
}

BOOST_FIXTURE_TEST_CASE(parts_placed_by_hand_are_joined_without_a_network, PartedServer) {
  for (const auto& [name, content] : parts) target.write(name, content);
  target.write("config.json", "{}");
  BOOST_REQUIRE(gpu::write_manifest(target.folder.path(), manifest_of(all)));
  target.options.from.clear();
  target.options.join_only = true;
  BOOST_TEST(target.fetch_all().files_joined == 1U);
  BOOST_TEST(server.asked().empty());
  check_joined(false);
  BOOST_TEST((*gpu::read_manifest(target.folder.path()) == manifest_of({{"config.json", "{}"}, {"s/x", whole}})));
}

BOOST_FIXTURE_TEST_CASE(a_damaged_part_is_named, PartedServer) {
  for (const auto& [name, content] : parts) target.write(name, content);
  target.write("s/x.part03", make_content(5999, 7));
  BOOST_REQUIRE(gpu::write_manifest(target.folder.path(), manifest_of(all)));
  target.options.join_only = true;
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::mismatch));
  BOOST_TEST(error.where.find("s/x.part03") != std::string::npos);
  BOOST_TEST(!target.has("s/x"));
}

BOOST_FIXTURE_TEST_CASE(a_shard_without_its_parts_names_the_command_that_gets_it, PartedServer) {
  target.write("s/x.part01", parts["s/x.part01"]);
  BOOST_REQUIRE(gpu::write_manifest(target.folder.path(), manifest_of(all)));
  target.options.join_only = true;
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::not_found));
  BOOST_TEST(error.message().find("s/x.part02, s/x.part03") != std::string::npos, error.message());
  BOOST_TEST(error.message().find("tandem fetch --from " + server.url("/model") + " --out " +
                                  target.folder.path().string()) != std::string::npos,
             error.message());
}

BOOST_FIXTURE_TEST_CASE(a_join_that_was_killed_starts_again_from_the_parts, PartedServer) {
  for (const auto& [name, content] : parts) target.write(name, content);
  target.write("s/" + part_path("x").string(), whole.substr(0, 5000));
  target.fetch_all();
  BOOST_TEST(asked_for_parts() == 0);
  check_joined(false);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
