// A scheduler of a few lines: prefill in chunks, then decode, all requests at once.
#include "tests/model/engine_fixture.hpp"

#include <algorithm>
#include <numeric>

#include "tests/build_paths.hpp"
#include "tests/model/ranks.hpp"

namespace tandem::gpu::test {
namespace {

std::unique_ptr<Engine> load(const std::filesystem::path& model, Communicator& communicator, int lanes_max) {
  EngineOptions options;
  options.model = model;
  options.max_positions = 512;
  options.kv_tokens = 2048;
  options.lanes_max = lanes_max;
  options.chunk_rows_max = 64;
  options.threads = communicator.size() > 1 ? 1 : 2;
  auto engine = load_engine(options, communicator, {}, nullptr);
  if (!engine) demand(false, engine.error().message());
  return std::move(*engine);
}

// One request on its way.
struct Running {
  const Request& request;
  SequenceId id = 0;
  std::uint32_t fed = 0;
  Reply reply;
  bool is_closed = false;
  bool is_done() const { return reply.tokens.size() >= request.generate; }
};

SequenceOpen opening(const Running& running) {
  const Request& request = running.request;
  SequenceOpen open;
  open.id = running.id;
  open.sampling = request.sampling;
  open.max_tokens_total = static_cast<std::uint32_t>(request.prompt.size()) + request.generate + 8;
  open.replayed = request.replayed;
  open.prompt_tokens = request.tell_prompt_length ? static_cast<std::uint32_t>(request.prompt.size()) : 0;
  return open;
}

void add_work(StepPlan& plan, const Running& running) {
  const Request& request = running.request;
  const auto length = static_cast<std::uint32_t>(request.prompt.size());
  if (running.fed == length) {
    plan.decode.push_back({running.id, request.drafts, request.drafts});
    return;
  }
  PrefillWork work;
  work.id = running.id;
  work.start = running.fed;
  const std::uint32_t count = std::min(request.chunk, length - running.fed);
  work.tokens.assign(request.prompt.begin() + running.fed, request.prompt.begin() + running.fed + count);
  work.sample = running.fed + count == length;
  work.next_drafts = request.drafts;
  plan.prefill.push_back(std::move(work));
}

void take_result(Running& running, const LaneResult& lane) {
  demand(lane.error.empty(), lane.error);
  running.fed = std::min<std::uint32_t>(lane.length, static_cast<std::uint32_t>(running.request.prompt.size()));
  running.reply.tokens.insert(running.reply.tokens.end(), lane.emitted.begin(), lane.emitted.end());
  running.reply.drafted += lane.drafted;
  running.reply.accepted += lane.accepted;
  ++running.reply.steps;
  demand(lane.emitted.size() <= lane.drafted + 1U, "more tokens than rows");
}

}  // namespace

std::filesystem::path golden_checkpoint() {
  return golden_model_folder() / "ckpt";
}

std::filesystem::path trained_checkpoint() {
  return source_folder() / "configs/tiny";
}

std::vector<TokenId> Reply::ids() const {
  std::vector<TokenId> result;
  for (const SampledToken& token : tokens) result.push_back(token.id);
  return result;
}

EngineDriver::EngineDriver(const std::filesystem::path& model, int lanes_max)
    : own_(make_solo_communicator()), engine_(load(model, *own_, lanes_max)) {}

EngineDriver::EngineDriver(const std::filesystem::path& model, Communicator& communicator)
    : engine_(load(model, communicator, 4)) {}

Result<StepResult> EngineDriver::step(StepPlan plan) {
  plan.step = step_++;
  return engine_->step(plan);
}

std::vector<Reply> EngineDriver::run(const std::vector<Request>& requests) {
  std::vector<Running> all;
  for (const Request& request : requests) all.push_back({request, next_id_++, 0, {}});
  for (std::uint32_t steps = 0;
       std::any_of(all.begin(), all.end(), [](const Running& running) { return !running.is_closed; }); ++steps) {
    StepPlan plan;
    for (Running& running : all) {
      if (steps == running.request.joins) plan.open.push_back(opening(running));
      if (steps >= running.request.joins && !running.is_done()) add_work(plan, running);
      if (running.is_closed || !running.is_done()) continue;
      plan.close.push_back(running.id);
      running.is_closed = true;
    }
    const auto result = step(plan);
    if (!result) demand(false, result.error().message());
    for (const LaneResult& lane : result->lanes) {
      take_result(*std::find_if(all.begin(), all.end(), [&](const Running& running) { return running.id == lane.id; }),
                  lane);
    }
  }
  std::vector<Reply> replies;
  for (Running& running : all) {
    running.reply.tokens.resize(running.request.generate);
    replies.push_back(std::move(running.reply));
  }
  return replies;
}

}  // namespace tandem::gpu::test
