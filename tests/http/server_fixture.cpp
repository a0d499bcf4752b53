// Loading the tokenizer once; small readers of JSON for assertions.
#include "tests/http/server_fixture.hpp"

#include "tests/build_paths.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>

namespace tandem::net::http::test {

using namespace std::chrono_literals;

const text::Tokenizer& tokenizer() {
  static const auto loaded = text::Tokenizer::load(source_folder().string() + "/configs/tiny/tokenizer.json");
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), "the tiny model's tokenizer loads");
  return *loaded;
}

std::vector<gpu::SampledToken> tokens_of(std::string_view text) {
  std::vector<gpu::SampledToken> tokens;
  for (const text::TokenId id : tokenizer().encode_raw(text))
    tokens.push_back({static_cast<gpu::TokenId>(id), -0.5F, {}});
  return tokens;
}

std::vector<gpu::SampledToken> end_of_turn() {
  return {{static_cast<gpu::TokenId>(*tokenizer().id(text::Markup::eos)), -0.25F, {}}};
}

Script answer_script(const std::vector<std::string>& texts) {
  Script script;
  for (const std::string& text : texts) script.steps.push_back(tokens_of(text));
  script.steps.push_back(end_of_turn());
  return script;
}

std::string chat_body(std::string_view more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + std::string(more) + "}";
}

text::Json json_of(std::string_view text) {
  auto json = text::parse_json(text);
  BOOST_REQUIRE_MESSAGE(json.has_value(), "not JSON: " << text);
  return *json;
}

text::Json at(const text::Json& json, std::string_view path) {
  const text::Json* here = &json;
  while (here != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string key{path.substr(0, dot)};
    path.remove_prefix(std::min(dot + 1, path.size()));
    if (const text::JsonArray* list = here->if_array()) {
      const std::size_t index = std::strtoul(key.c_str(), nullptr, 10);
      here = index < list->size() ? &(*list)[index] : nullptr;
    } else {
      here = here->find(key);
    }
  }
  return here == nullptr ? text::Json{} : *here;
}

std::string string_at(const text::Json& json, std::string_view path) {
  const text::Json value = at(json, path);
  return value.if_string() == nullptr ? "(" + std::string(value.type_name()) + ")" : *value.if_string();
}

std::string number_at(const text::Json& json, std::string_view path) {
  const text::Json value = at(json, path);
  return value.if_number() == nullptr ? "(" + std::string(value.type_name()) + ")" : value.if_number()->text;
}

ServerOptions ServerFixture::default_options() {
  ServerOptions options;
  options.port = 0;
  options.io_threads = 1;
  options.encode_threads = 1;
  options.model_names = {"tandem", "alias/one"};
  options.build = "test";
  options.limits.linger = 200ms;
  return options;
}

ServerFixture::ServerFixture(ServerOptions options) : server(door, tokenizer(), std::move(options)) {
  const auto started = server.start();
  BOOST_REQUIRE_MESSAGE(started.has_value(), "the server starts");
  port = *started;
}

}  // namespace tandem::net::http::test
