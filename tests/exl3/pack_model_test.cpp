// The quantiser of whole models on a few matrices of the tiny one: killed and continued, within its budget, refused
// when it must be, and its output loaded and run.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/exl3/native_tensors.hpp"
#include "gpu/exl3/pack_folder.hpp"
#include "gpu/exl3/pack_manifest.hpp"
#include "gpu/exl3/pack_model.hpp"
#include "gpu/numeric/bf16.hpp"
#include "gpu/trace.hpp"
#include "tests/exl3/golden_fixture.hpp"
#include "tests/exl3/pack_folder_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

// Six matrices in five groups, 1,024 tiles.
exl3::PackOptions small_job(const std::filesystem::path& out) {
  exl3::PackOptions options;
  options.model = tiny_model();
  options.out = out;
  options.only = "layers.3.attn.w";
  options.threads = 2;
  for (int s = 0; s < 2; ++s) {
    options.sequences.emplace_back();
    for (int i = 0; i < 40; ++i) options.sequences.back().push_back((i * 37 + s * 113 + 11) % 4000);
  }
  return options;
}

// Every file below a folder with its content.
std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = std::filesystem::relative(entry.path(), folder).string();
    files[name] = entry.is_regular_file() ? read_text_file(entry.path()) : "folder";
  }
  return files;
}

// The small job done once without interruption.
struct FinishedPack {
  TemporaryFolder folder;
  exl3::PackReport report;
  FinishedPack() {
    const auto done = exl3::pack_model(small_job(folder.path()));
    if (!done) throw std::runtime_error(done.error().message());
    report = *done;
  }
};
const FinishedPack& finished_pack() {
  static const FinishedPack pack;
  return pack;
}

// Runs the job in a process of its own that kills itself when the first piece of work that was left to do is done.
// Returns true if it came to the end instead.
bool run_killed(const exl3::PackOptions& options) {
  const pid_t child = ::fork();
  if (child == 0) {
    int reports = 0;
    const auto done = exl3::pack_model(options, [&](const exl3::PackProgress& now) {
      const bool leaves_something = now.step != exl3::PackProgress::Step::calibrating;
      if (leaves_something && ++reports == 2) ::kill(::getpid(), SIGKILL);
    });
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return !WIFSIGNALED(status);
}

// What a run that dies while it writes leaves behind.
void leave_half_files(const std::filesystem::path& folder) {
  write_text_file(folder / "config.json.a1B2c3.tandem-new", "");
  const auto pieces = folder / exl3::pieces_folder_name;
  if (!std::filesystem::exists(pieces)) return;
  write_text_file(pieces / "layers.3.attn.wq_a.safetensors.a1B2c3.tandem-new", "half a file");
}

void check_refused(const exl3::PackOptions& options, const std::string& why) {
  const auto done = exl3::pack_model(options);
  BOOST_REQUIRE(!done.has_value());
  BOOST_TEST(done.error().message().find(why) != std::string::npos, done.error().message());
}

std::vector<float> prompt_logits(const std::filesystem::path& model, int ranks) {
  TemporaryFolder out;
  TraceOptions options;
  options.model = model;
  for (int i = 0; i < 24; ++i) options.ids.push_back((i * 37 + 11) % 4000);
  options.ranks = ranks;
  options.threads = 2;
  options.out = out.path() / "logits.safetensors";
  const auto done = run_trace(options);
  if (!done) throw std::runtime_error(done.error().message());
  const auto bytes = SafetensorsFile::open(options.out)->read_all("logits").value();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_pack_model)

BOOST_AUTO_TEST_CASE(a_pack_that_is_killed_after_every_piece_is_the_same_bytes) {
  TemporaryFolder folder;
  auto options = small_job(folder.path());
  options.threads = 1;
  int runs = 1;
  while (!run_killed(options)) {
    ++runs;
    BOOST_REQUIRE(runs < 40);
    leave_half_files(folder.path());
  }
  BOOST_TEST(runs > 8);
  BOOST_TEST((contents(folder.path()) == contents(finished_pack().folder.path())));
}

BOOST_AUTO_TEST_CASE(a_finished_pack_is_recognised_and_left_as_it_is) {
  const auto before = contents(finished_pack().folder.path());
  const auto again = exl3::pack_model(small_job(finished_pack().folder.path()));
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST(again->resumed == again->matrices);
  BOOST_TEST(again->tiles == 0);
  BOOST_TEST((contents(finished_pack().folder.path()) == before));
}

BOOST_AUTO_TEST_CASE(the_average_of_the_bits_in_the_file_is_within_the_budget) {
  const auto file = SafetensorsFile::open(finished_pack().folder.path() / "exl3-00001.safetensors");
  BOOST_REQUIRE(file.has_value());
  double bits = 0, weights = 0;
  for (const TensorEntry& entry : file->tensors()) {
    if (!entry.name.ends_with(".trellis")) continue;
    bits += 8.0 * static_cast<double>(entry.bytes);
    weights += static_cast<double>(256 * entry.shape[0] * entry.shape[1]);
  }
  BOOST_TEST(bits / weights <= 3.0);
  BOOST_TEST(bits / weights > 2.5);
  BOOST_TEST(finished_pack().report.average_bits == bits / weights, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(bits_follow_sensitivities_that_were_measured) {
  const auto root = boost::json::parse(read_text_file(finished_pack().folder.path() / exl3::manifest_file_name));
  const auto& groups = root.at("groups").as_array();
  BOOST_TEST(groups.size() == 5U);
  for (const auto& group : groups) {
    BOOST_TEST(std::stod(std::string(group.at("sensitivity").as_string())) > 0);
    BOOST_TEST(group.at("bits").as_int64() >= 2);
  }
}

BOOST_AUTO_TEST_CASE(what_other_tools_read_says_how_each_matrix_is_stored) {
  const auto folder = finished_pack().folder.path();
  const auto config = boost::json::parse(read_text_file(folder / "config.json")).at("quantization_config");
  BOOST_TEST(config.at("quant_method").as_string() == "exl3");
  BOOST_TEST(config.at("head_bits").as_int64() == 16);  // left as it is by this pack
  BOOST_TEST(config.at("original_quantization_config").at("quant_method").as_string() == "fp8");
  const auto record = boost::json::parse(read_text_file(folder / "quantization_config.json"));
  const auto& module = record.at("tensor_storage").at("layers.3.attn.wo_a.slice.1");
  BOOST_TEST(module.at("quant_format").as_string() == "exl3");
  BOOST_TEST(module.at("mul1_multiplier").to_number<std::uint64_t>() == 0x83DCD12DU);
  const auto& trellis = module.at("stored_tensors").at("layers.3.attn.wo_a.slice.1.trellis");
  BOOST_TEST(trellis.at("dtype").as_string() == "torch.int16");
  BOOST_TEST(trellis.at("shape").at(2).as_int64() == 16 * module.at("bits_per_weight").as_int64());
}

BOOST_AUTO_TEST_CASE(a_pack_gives_nearly_the_official_logits_and_the_same_on_one_and_two_ranks) {
  const auto official = prompt_logits(tiny_model(), 1), packed = prompt_logits(finished_pack().folder.path(), 1);
  BOOST_TEST((packed == prompt_logits(finished_pack().folder.path(), 2)));
  const double difference = relative_rms(packed, official);
  BOOST_TEST_MESSAGE("relative difference of the logits " << difference);
  BOOST_TEST(difference > 0);
  BOOST_TEST(difference < 0.2);
}

BOOST_AUTO_TEST_CASE(packed_experts_stand_beside_the_official_shards) {
  TemporaryFolder folder;
  auto options = small_job(folder.path());
  options.layout = exl3::PackLayout::experts;
  options.only = "layers.3.ffn.experts.0.w2";
  BOOST_REQUIRE(exl3::pack_model(options).has_value());
  BOOST_TEST(std::filesystem::exists(folder.path() / "exl3" / "bank" / "exl3-00001.safetensors"));
  const auto plan = boost::json::parse(read_text_file(folder.path() / "exl3" / "plan" / "allocation.json"));
  BOOST_TEST(plan.at("allocation").at("layers.3.ffn.experts.0").as_string() == "bank");
  BOOST_TEST(read_text_file(folder.path() / "config.json") == read_text_file(tiny_model() / "config.json"));
  BOOST_TEST(relative_rms(prompt_logits(folder.path(), 2), prompt_logits(tiny_model(), 1)) < 0.2);
}

BOOST_AUTO_TEST_CASE(native_tensors_keep_every_value) {
  TemporaryFolder folder;
  auto options = small_job(folder.path());
  options.only.clear();
  const auto job = exl3::PackJob::open(options);
  BOOST_REQUIRE(job.has_value());
  const auto files = exl3::write_natives(*job);
  BOOST_REQUIRE(files.has_value());
  const auto natives = SafetensorsFile::open(folder.path() / files->front());
  BOOST_TEST(natives->find("layers.1.engram.embed.weight") == nullptr);
  BOOST_TEST(natives->find("layers.0.attn.wq_a.weight") == nullptr);
  std::size_t halves = 0;
  for (const TensorEntry& entry : natives->tensors()) {
    const TensorPlace* source = job->checkpoint.find(entry.name);
    BOOST_REQUIRE(source != nullptr);
    const auto kept = natives->read_all(entry.name).value(), given = source->shard->read_all(entry.name).value();
    if (entry.dtype == source->entry->dtype) {
      BOOST_TEST((kept == given), entry.name);
      continue;
    }
    ++halves;
    bool is_same = entry.dtype == DType::f16 && kept.size() == given.size();
    for (std::size_t at = 0; is_same && at < kept.size(); at += 2) {
      std::uint16_t half = 0, number = 0;
      std::memcpy(&half, kept.data() + at, 2);
      std::memcpy(&number, given.data() + at, 2);
      is_same = f16_to_float(half) == bf16_to_float(number);
    }
    BOOST_TEST(is_same, entry.name);
  }
  BOOST_TEST(halves > 0U);
}

BOOST_AUTO_TEST_CASE(a_pack_with_native_tensors_of_its_own_gives_the_same_logits) {
  PackFolder pack(exl3::PackLayout::whole);
  pack.write();
  const auto before = prompt_logits(pack.path(), 1);
  auto options = small_job(pack.path());
  options.only.clear();
  const auto job = exl3::PackJob::open(options);
  BOOST_REQUIRE(job.has_value());
  auto files = exl3::write_natives(*job).value();
  files.push_back("pack.safetensors");
  BOOST_REQUIRE(exl3::write_pack_index(pack.path(), files).has_value());
  BOOST_TEST((prompt_logits(pack.path(), 1) == before));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_packed_is_refused_with_the_reason) {
  TemporaryFolder folder;
  const auto with = [&](auto change) {
    auto options = small_job(folder.path() / "out");
    change(options);
    return options;
  };
  check_refused(with([](auto& o) { o.bits = 9; }), "1 to 8");
  check_refused(with([](auto& o) { o.bits = std::nan(""); }), "1 to 8");
  check_refused(with([](auto& o) { o.bits = 1.5; }), "at least 2.000");
  check_refused(with([](auto& o) { o.model = "/nowhere"; }), "/nowhere");
  check_refused(with([](auto& o) { o.only = "layers.77."; }), "no such matrix beginning with layers.77.");
  check_refused(with([](auto& o) { o.sequences.clear(); }), "at least one sequence");
  check_refused(with([](auto& o) { o.sequences.emplace_back(); }), "a sequence of 0 tokens");
  check_refused(with([](auto& o) { o.sequences.back().push_back(4096); }), "id 4096");
  check_refused(with([](auto& o) { o.model = finished_pack().folder.path(); }), "packed already");
}

BOOST_AUTO_TEST_CASE(a_folder_of_something_else_or_of_another_pack_is_left_alone) {
  TemporaryFolder folder;
  write_text_file(folder.path() / "letter.txt", "not ours");
  check_refused(small_job(folder.path()), "not of a pack that was begun here");
  check_refused(small_job(tiny_model()), "not of a pack that was begun here");
  auto other = small_job(finished_pack().folder.path());
  other.bits = 3.5;
  check_refused(other, "made with other options");
  other = small_job(finished_pack().folder.path());
  other.sequences.front().front() += 1;
  check_refused(other, "made with other options");
}

BOOST_AUTO_TEST_CASE(a_folder_that_another_run_works_in_is_left_to_it) {
  TemporaryFolder folder;
  const auto lock = exl3::FolderLock::take(folder.path());
  BOOST_REQUIRE(lock.has_value());
  check_refused(small_job(folder.path()), "another process packs into it");
}

BOOST_AUTO_TEST_CASE(a_stop_ends_the_work_and_a_later_run_goes_on) {
  TemporaryFolder folder;
  auto options = small_job(folder.path());
  options.only = "layers.3.attn.wkv";
  std::atomic<bool> stop{false};
  options.stop = &stop;
  const auto stopped = exl3::pack_model(options, [&](const exl3::PackProgress& now) {
    if (now.step == exl3::PackProgress::Step::packing) stop = true;
  });
  BOOST_REQUIRE(!stopped.has_value());
  BOOST_TEST((stopped.error().code == ErrorCode::cancelled));
  options.stop = nullptr;
  BOOST_TEST(exl3::pack_model(options).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
