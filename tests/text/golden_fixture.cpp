// Golden files are read once and kept.
#include "tests/text/golden_fixture.hpp"

#include "net/text/json/number.hpp"
#include "net/text/json/parse.hpp"
#include "tests/build_paths.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <sstream>

namespace tandem::net::text::test {

const Json& golden(const std::string& name) {
  static std::map<std::string, Json> files;
  const auto known = files.find(name);
  if (known != files.end()) return known->second;
  std::ifstream stream(source_folder().string() + "/tests/golden/chat/" + name, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(stream.good(), "golden file " << name);
  std::ostringstream text;
  text << stream.rdbuf();
  return files[name] = json(text.str());
}

const JsonArray& golden_cases(const std::string& name, std::string_view key) {
  return array_of(golden(name), key);
}

const std::string& text_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  BOOST_REQUIRE_MESSAGE(value != nullptr && value->if_string() != nullptr, "a string " << key);
  return *value->if_string();
}

const JsonArray& array_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  BOOST_REQUIRE_MESSAGE(value != nullptr && value->if_array() != nullptr, "an array " << key);
  return *value->if_array();
}

std::vector<std::uint32_t> ids_of(const Json& object, std::string_view key) {
  std::vector<std::uint32_t> ids;
  for (const Json& id : array_of(object, key)) ids.push_back(static_cast<std::uint32_t>(*to_integer(*id.if_number())));
  return ids;
}

Json json(std::string_view text) {
  auto parsed = parse_json(text);
  BOOST_REQUIRE_MESSAGE(parsed.has_value(), "valid JSON: " << text.substr(0, 80));
  return std::move(*parsed);
}

}  // namespace tandem::net::text::test
