// Flags, settings and defaults turned into the options of the libraries.

#include "ops/deployment.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "gpu/backend.hpp"
#include "gpu/config.hpp"
#include "gpu/kv_record.hpp"
#include "net/http/key_file.hpp"

namespace tandem::ops {

namespace fs = std::filesystem;

namespace {

struct Flag {
  const char* names;
  const char* key;
};

// Every setting can be given in the file or the environment; these are common enough to have a flag.
constexpr Flag flags_table[] = {
    {"--model", "model.dir"},         {"--name", "model.names"},
    {"--backend", "model.backend"},   {"--device", "model.device"},
    {"--numerics", "model.numerics"}, {"--ranks", "ranks"},
    {"--transport", "transport"},     {"--threads", "threads"},
    {"--fabric-host", "fabric.host"}, {"--rdv-port", "rdv.port"},
    {"--context", "context.max"},     {"--kv-tokens", "kv.tokens"},
    {"--lanes", "lanes.max"},         {"--drafts", "draft.tokens"},
    {"--draft-lanes", "draft.lanes"}, {"--host", "api.host"},
    {"--port", "api.port"},           {"--key-file", "api.key_file"},
    {"--state-dir", "state.dir"},     {"--effort", "reasoning.default"},
};

const char* help_of(const char* key) {
  for (const SettingRow& row : setting_table())
    if (std::string_view(row.key) == key) return row.help;
  return "";
}

Error bad_setting(const Settings& settings, const char* key, std::string expected) {
  const SettingValue& value = settings.all().find(key)->second;
  return {ErrorCode::bad_config, value.origin, fmt::format("{} = {}", key, value.value), std::move(expected)};
}

bool is_address(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return host == "localhost" || !error;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

// The actors' port knows no keys: it may listen on one named address, never on every interface.
bool is_one_address(const std::string& host) {
  if (host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return !error && !address.is_unspecified() && !address.is_multicast();
}

// A file that was named must be there: a typing error must not lock everybody out with a key that nobody knows.
Result<std::vector<std::string>> keys_of(const Settings& settings) {
  const fs::path named = settings.text("api.key_file");
  if (!named.empty()) {
    if (!fs::exists(named)) return bad_setting(settings, "api.key_file", "an existing file of bearer keys");
    return net::http::load_keys(named);
  }
  if (is_loopback(settings.text("api.host"))) return std::vector<std::string>{};
  auto folder = state_folder(settings);
  if (!folder) return folder.error();
  const fs::path file = *folder / "api-keys";
  const bool is_new = !fs::exists(file);
  auto keys = net::http::load_or_create_keys(file);
  if (keys) spdlog::info("API keys: {}{}", file.string(), is_new ? " (new)" : "");
  return keys;
}

net::http::ReasoningField reasoning_field(const std::string& name) {
  if (name == "both") return net::http::ReasoningField::both;
  return name == "reasoning" ? net::http::ReasoningField::reasoning : net::http::ReasoningField::reasoning_content;
}

// "off", a word of the effort table, or 1..100.
Result<net::text::ReasoningConfig> reasoning_config(const Settings& settings) {
  net::text::ReasoningConfig config;
  const std::string& wanted = settings.text("reasoning.default");
  if (wanted == "off") {
    config.is_on_by_default = false;
    return config;
  }
  for (const auto& effort : config.efforts)
    if (effort.word == wanted) {
      config.default_effort = effort.effort;
      return config;
    }
  int number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (error != std::errc{} || end != wanted.data() + wanted.size() || number < 1 || number > 100)
    return Error{ErrorCode::bad_config, settings.all().find("reasoning.default")->second.origin,
                 fmt::format("reasoning.default = '{}'", wanted), "off, low, high, max or 1..100"};
  config.default_effort = number;
  return config;
}

}  // namespace

void add_deployment_flags(CLI::App& verb, DeploymentFlags& flags) {
  verb.add_option("--config", flags.config, "file of KEY=VALUE settings");
  for (const Flag& flag : flags_table)
    verb.add_option_function<std::string>(
        flag.names, [&flags, key = flag.key](const std::string& value) { flags.given[key] = value; },
        help_of(flag.key));
  verb.add_option_function<std::vector<std::string>>(
      "--set",
      [&flags](const std::vector<std::string>& pairs) {
        for (const auto& pair : pairs) {
          const auto equals = pair.find('=');
          if (equals == std::string::npos) throw CLI::ValidationError("--set", "'" + pair + "' is not KEY=VALUE");
          flags.given[pair.substr(0, equals)] = pair.substr(equals + 1);
        }
      },
      "any setting as KEY=VALUE");
}

namespace {

// Returns the positions of one page of the caches: whole pages of records in every layer's pool.
std::int64_t page_tokens(const gpu::ModelConfig& model) {
  std::int64_t group = 1;
  for (const gpu::LayerRole& role : model.roles)
    if (role.is_kv_source()) group = std::lcm(group, static_cast<std::int64_t>(role.ratio));
  return gpu::page_entries * group;
}

// Settings that the model decides. A folder without a readable configuration is a load error, told by the one who
// loads.
Result<void> check_with_model(const Settings& settings) {
  const std::int64_t context = settings.integer("context.max"), pool = settings.integer("kv.tokens");
  if (context == 1) return bad_setting(settings, "context.max", "0, or at least a prompt token and one of the answer");
  const auto model = gpu::ModelConfig::load(settings.text("model.dir"));
  if (!model) return {};
  if (context > model->max_positions)
    return bad_setting(settings, "context.max", fmt::format("at most the model's {}", model->max_positions));
  if (pool > 0 && pool < page_tokens(*model))
    return bad_setting(settings, "kv.tokens", fmt::format("0, or at least the {} of one page", page_tokens(*model)));
  if (const auto ranks = gpu::check_ranks(*model, static_cast<int>(settings.integer("ranks"))); !ranks)
    return bad_setting(settings, "ranks", ranks.error().message());
  return {};
}

// What single values cannot say: settings that contradict each other or the model.
Result<void> check_together(const Settings& settings) {
  const std::int64_t rows = (settings.integer("draft.tokens") + 1) * settings.integer("lanes.max");
  if (settings.integer("step.rows") < rows)
    return bad_setting(settings, "step.rows", fmt::format("at least lanes.max x (draft.tokens + 1) = {}", rows));
  if (!gpu::has_backend(settings.text("model.backend")))
    return bad_setting(settings, "model.backend", "cpu, or a build with TANDEM_CUDA=ON");
  const std::int64_t http = settings.integer("api.port"), tensors = settings.integer("rdv.port");
  if (settings.text("transport") == "tcp" && (http == tensors || http == tensors + 1))
    return bad_setting(settings, "api.port",
                       fmt::format("another port than rdv.port = {} and the next one, which the ranks use", tensors));
  if (settings.text("transport") == "tcp" && !is_one_address(settings.text("fabric.host")))
    return bad_setting(settings, "fabric.host", "the numeric address of one interface, loopback or fabric");
  return check_with_model(settings);
}

// "auto", or numbers of devices.
Result<void> read_device_options(const Settings& settings, gpu::DeviceGroupOptions& options) {
  options.exchange = gpu::parse_exchange(settings.text("fabric.exchange")).value_or(gpu::DeviceExchange::best);
  if (settings.text("model.device") == "auto") return {};
  for (const std::string& entry : settings.list("model.device")) {
    int number = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (error != std::errc{} || end != entry.data() + entry.size() || number < 0 || number > 63)
      return bad_setting(settings, "model.device", "auto, or numbers 0..63 of devices, as 0,1");
    options.devices.push_back(number);
  }
  if (options.devices.empty()) return bad_setting(settings, "model.device", "auto, or numbers of devices");
  return {};
}

void read_engram_options(const Settings& settings, gpu::EngineOptions& options) {
  // Without a state folder what is costly to derive is derived at every start.
  if (auto state = state_folder(settings)) options.cache_folder = std::move(*state);
  options.engram.packed_folder = settings.text("engram.packed_dir");
  options.engram.io_depth = static_cast<int>(settings.integer("engram.io_depth"));
  options.engram.cache_gib = static_cast<double>(settings.integer("engram.cache_gib"));
  options.announce = [](const std::string& text) { spdlog::warn("{}", text); };
}

}  // namespace

namespace {

// Ranks must run one model: its configuration decides with the settings whether they fit together.
std::string model_line(const Settings& settings) {
  std::ifstream file{fs::path(settings.text("model.dir")) / "config.json"};
  std::ostringstream text;
  text << file.rdbuf();
  return fmt::format("model.config={}\n", hash_text(text.str()));
}

}  // namespace

Result<actors::NodeOptions> node_options(const Settings& settings) {
  actors::NodeOptions options;
  options.engine.model = settings.text("model.dir");
  if (options.engine.model.empty())
    return Error{ErrorCode::bad_config, "model.dir", "no model folder", "--model DIR or model.dir=DIR in --config"};
  if (auto checked = check_together(settings); !checked) return checked.error();
  options.engine.backend = settings.text("model.backend");
  if (auto read = read_device_options(settings, options.engine.devices); !read) return read.error();
  options.engine.numerics = settings.text("model.numerics");
  options.engine.max_positions = settings.integer("context.max");
  options.engine.kv_tokens = settings.integer("kv.tokens");
  options.engine.lanes_max = static_cast<int>(settings.integer("lanes.max"));
  options.engine.chunk_rows_max = static_cast<int>(settings.integer("prefill.rows"));
  options.engine.draft = settings.integer("draft.tokens") > 0;
  read_engram_options(settings, options.engine);
  options.ranks = static_cast<int>(settings.integer("ranks"));
  options.transport = settings.text("transport") == "tcp" ? actors::Transport::tcp : actors::Transport::threads;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = static_cast<int>(settings.integer("threads"));
  options.engine.threads = threads > 0 ? threads : std::max(1, cores / options.ranks);
  options.engine.devices.may_share_device = options.transport == actors::Transport::threads;
  options.engine.devices.timeout = options.collective_timeout;
  options.fabric_host = settings.text("fabric.host");
  options.rendezvous_port = static_cast<std::uint16_t>(settings.integer("rdv.port"));
  options.build_id = build_id();
  options.settings = settings.decisive() + model_line(settings);
  options.config_hash = hash_text(options.settings);
  options.scheduler.step_rows_max = static_cast<std::uint32_t>(settings.integer("step.rows"));
  options.scheduler.run_ahead = settings.integer("step.ahead") == 1;
  options.scheduler.prefill_rows_per_request = static_cast<std::uint32_t>(settings.integer("prefill.rows"));
  options.scheduler.queue_max = static_cast<std::uint32_t>(settings.integer("queue.max"));
  options.scheduler.recovery_window = std::chrono::seconds(settings.integer("recovery.window_s"));
  options.speculation.drafts = static_cast<std::uint32_t>(settings.integer("draft.tokens"));
  options.speculation.lanes_max = static_cast<std::uint32_t>(settings.integer("draft.lanes"));
  options.memory.low_bytes = static_cast<std::uint64_t>(settings.integer("memory.low_mib")) << 20;
  options.memory.critical_bytes = static_cast<std::uint64_t>(settings.integer("memory.critical_mib")) << 20;
  return options;
}

Result<net::http::ServerOptions> server_options(const Settings& settings) {
  if (!is_address(settings.text("api.host")))
    return bad_setting(settings, "api.host", "a numeric IPv4 or IPv6 address, or localhost");
  if (settings.integer("api.bodies_bytes_max") < settings.integer("api.body_bytes_max"))
    return bad_setting(settings, "api.bodies_bytes_max", "at least api.body_bytes_max");
  auto keys = keys_of(settings);
  if (!keys) return keys.error();
  auto reasoning = reasoning_config(settings);
  if (!reasoning) return reasoning.error();
  net::http::ServerOptions options;
  options.chat.reasoning = std::move(*reasoning);
  options.limits.connections = static_cast<std::size_t>(settings.integer("api.connections_max"));
  options.limits.body_bytes = static_cast<std::size_t>(settings.integer("api.body_bytes_max"));
  options.limits.bodies_bytes = static_cast<std::size_t>(settings.integer("api.bodies_bytes_max"));
  options.host = settings.text("api.host");
  options.port = static_cast<std::uint16_t>(settings.integer("api.port"));
  options.io_threads = static_cast<int>(settings.integer("api.threads"));
  options.keys = std::move(*keys);
  options.has_open_metrics = settings.integer("metrics.open") == 1;
  options.model_names = settings.list("model.names");
  if (options.model_names.empty()) {
    const fs::path model = fs::path(settings.text("model.dir")).lexically_normal();
    options.model_names = {(model.has_filename() ? model : model.parent_path()).filename().string()};
  }
  options.cors_origins = settings.list("api.cors_origins");
  options.keepalive = std::chrono::seconds(settings.integer("api.keepalive_s"));
  options.reasoning_field = reasoning_field(settings.text("api.reasoning_field"));
  options.version = TANDEM_VERSION;
  options.build = build_id();
  options.configuration = deployment_identity(settings);
  return options;
}

Result<fs::path> state_folder(const Settings& settings) {
  fs::path folder = settings.text("state.dir");
  const char* xdg = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (folder.empty() && xdg != nullptr && *xdg != 0) folder = fs::path(xdg) / "tandem";
  if (folder.empty() && geteuid() == 0) folder = "/var/lib/tandem";
  if (folder.empty() && home != nullptr) folder = fs::path(home) / ".local" / "state" / "tandem";
  if (folder.empty())
    return Error{ErrorCode::bad_config, "state.dir", "no HOME and no state.dir", "a folder for locks and keys"};
  std::error_code error;
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return Error{ErrorCode::io, folder.string(), error.message(), "a writable folder"};
  return folder;
}

std::string deployment_identity(const Settings& settings) {
  std::error_code error;
  const fs::path model = fs::weakly_canonical(settings.text("model.dir"), error);
  return hash_text(fmt::format("model.dir={}\n{}", model.string(), settings.decisive()));
}

std::string build_id() {
  return std::string(TANDEM_VERSION) + "-p" + std::to_string(actors::protocol_version);
}

}  // namespace tandem::ops
