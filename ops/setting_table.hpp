// The settings of a deployment: one table row a key, with its range, default and meaning.
//
// Precedence: command-line flag > file > environment > default. A file holds KEY=VALUE lines, is parsed and never
// executed; the environment name of `api.port` is TANDEM_API_PORT. Errors name file:line, flag or variable, the value
// and what is accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::ops {

enum class SettingKind : std::uint8_t { text, integer, choice, list };

struct SettingRow {
  const char* key;
  SettingKind kind;
  const char* fallback;
  std::int64_t low, high;  // integers
  const char* choices;     // "a|b|c"
  const char* help;
};

// Returns every setting in the order of documentation.
const std::vector<SettingRow>& setting_table();

// One value and where it came from.
struct SettingValue {
  std::string value;
  std::string origin;  // "flag --port", "file.conf:12", "environment TANDEM_API_PORT", "default"
};

// Returns a hash of a text as 16 hexadecimal digits, the same on every machine.
std::string hash_text(std::string_view text);

class Settings {
 public:
  // Resolves all keys. `flags` holds key -> value as given on the command line; `file` may be empty.
  // Errors: bad_config (value, unknown key with the nearest known one), io (file unreadable).
  static Result<Settings> resolve(const std::map<std::string, std::string>& flags, const std::filesystem::path& file);

  const std::string& text(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  std::vector<std::string> list(std::string_view key) const;  // comma separated, blanks around entries dropped
  const std::map<std::string, SettingValue, std::less<>>& all() const noexcept { return values_; }
  // Every value that must agree between the processes of one deployment, as KEY=VALUE lines.
  std::string decisive() const;
  // Notes for the log: a file value that shadows a different environment value. Never contains a secret.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  std::map<std::string, SettingValue, std::less<>> values_;
  std::vector<std::string> notes_;
};

}  // namespace tandem::ops
