// Look-ups in a document; objects are small, so a linear search is the fast one.
#include "net/text/json/value.hpp"

#include <array>

namespace tandem::net::text {

const Json* Json::find(std::string_view key) const noexcept {
  const JsonObject* object = if_object();
  if (object == nullptr) return nullptr;
  for (const JsonMember& member : *object) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

const Json* Json::find_given(std::string_view key) const noexcept {
  const Json* value = find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

std::string_view Json::type_name() const noexcept {
  static constexpr std::array<std::string_view, 6> names = {"null", "boolean", "number", "string", "array", "object"};
  return names[value_.index()];
}

}  // namespace tandem::net::text
