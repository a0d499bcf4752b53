// Resolution of settings: flag, file, environment, default. See setting_table.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "ops/setting_table.hpp"

namespace tandem::ops {

namespace {

const SettingRow* find_row(std::string_view key) {
  const auto& table = setting_table();
  const auto it = std::find_if(table.begin(), table.end(), [key](const SettingRow& row) { return key == row.key; });
  return it == table.end() ? nullptr : &*it;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string nearest_key(std::string_view key) {
  const auto& table = setting_table();
  return std::min_element(table.begin(), table.end(),
                          [key](const SettingRow& a, const SettingRow& b) {
                            return edit_distance(key, a.key) < edit_distance(key, b.key);
                          })
      ->key;
}

std::string environment_name(std::string_view key) {
  std::string name = "TANDEM_";
  for (const char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty() || text[0] == '-') return std::nullopt;
  return value;
}

Result<void> check(const SettingRow& row, const SettingValue& value) {
  if (row.kind == SettingKind::integer) {
    const auto number = parse_integer(value.value);
    if (number && *number >= row.low && *number <= row.high) return {};
    return Error{ErrorCode::bad_config, value.origin, fmt::format("{} = '{}'", row.key, value.value),
                 fmt::format("an integer {}..{}", row.low, row.high)};
  }
  if (row.kind != SettingKind::choice) return {};
  const std::string choices = fmt::format("|{}|", row.choices);
  if (!value.value.empty() && choices.find("|" + value.value + "|") != std::string::npos) return {};
  return Error{ErrorCode::bad_config, value.origin, fmt::format("{} = '{}'", row.key, value.value),
               fmt::format("one of {}", row.choices)};
}

Error unknown_key(const std::string& origin, const std::string& key) {
  return {ErrorCode::bad_config, origin, fmt::format("unknown key '{}'", key),
          fmt::format("a known one such as {}", nearest_key(key))};
}

using FileValues = std::map<std::string, SettingValue>;

// KEY=VALUE; `#` starts a comment line; a value with blanks at its ends or a # needs quotes.
Result<void> read_line(const std::string& line, const std::string& origin, FileValues& values) {
  const std::string text = trim(line);
  if (text.empty() || text[0] == '#') return {};
  const auto equals = text.find('=');
  if (equals == std::string::npos) return Error{ErrorCode::bad_config, origin, "'" + text + "'", "KEY=VALUE"};
  const std::string key = trim(text.substr(0, equals));
  std::string value = trim(text.substr(equals + 1));
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  if (find_row(key) == nullptr) return unknown_key(origin, key);
  if (!values.emplace(key, SettingValue{value, origin}).second)
    return Error{ErrorCode::bad_config, origin, fmt::format("key '{}' a second time", key), "each key once"};
  return {};
}

Result<FileValues> read_file(const std::filesystem::path& path) {
  FileValues values;
  if (path.empty()) return values;
  std::ifstream file{path};
  if (!file) return Error{ErrorCode::io, path.string(), "cannot be read", "a configuration file"};
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (auto read = read_line(line, fmt::format("{}:{}", path.string(), number), values); !read) return read.error();
  }
  if (file.bad()) return Error{ErrorCode::io, path.string(), "a read error", "a readable file"};
  return values;
}

}  // namespace

Result<Settings> Settings::resolve(const std::map<std::string, std::string>& flags, const std::filesystem::path& file) {
  auto in_file = read_file(file);
  if (!in_file) return in_file.error();
  for (const auto& [key, value] : flags)
    if (find_row(key) == nullptr) return unknown_key("command line", key);
  Settings settings;
  for (const SettingRow& row : setting_table()) {
    const std::string variable = environment_name(row.key);
    const char* environment = std::getenv(variable.c_str());
    SettingValue value{row.fallback, "default"};
    if (environment != nullptr) value = {environment, "environment " + variable};
    if (auto it = in_file->find(row.key); it != in_file->end()) {
      if (environment != nullptr && it->second.value != environment)
        settings.notes_.push_back(
            fmt::format("{} comes from {}, not from the environment", row.key, it->second.origin));
      value = it->second;
    }
    if (auto it = flags.find(row.key); it != flags.end()) value = {it->second, "command line"};
    if (auto checked = check(row, value); !checked) return checked.error();
    settings.values_.emplace(row.key, std::move(value));
  }
  return settings;
}

const std::string& Settings::text(std::string_view key) const {
  return values_.find(key)->second.value;
}

std::int64_t Settings::integer(std::string_view key) const {
  return parse_integer(text(key)).value_or(0);
}

std::vector<std::string> Settings::list(std::string_view key) const {
  std::vector<std::string> entries;
  std::string_view rest = text(key);
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    if (auto entry = trim(rest.substr(0, comma)); !entry.empty()) entries.push_back(std::move(entry));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return entries;
}

std::string Settings::decisive() const {
  // What decides the numbers and the shapes; addresses and limits of the front end may differ.
  std::string lines;
  for (const char* key : {"model.backend", "model.numerics", "ranks", "context.max", "kv.tokens", "lanes.max",
                          "step.rows", "prefill.rows", "draft.tokens"})
    lines += fmt::format("{}={}\n", key, text(key));
  return lines;
}

std::string hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash);
}

}  // namespace tandem::ops
