// Values judged by a schema: the first violation, depth first. See json_schema.hpp for what is enforced.
#include "net/text/json/number.hpp"
#include "net/text/json_schema.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::net::text {
namespace {

using Violation = std::optional<std::string>;

// References that lead back to themselves without consuming any of the value end here, and so do choices of choices.
constexpr int depth_max = 512;
constexpr int steps_max = 1'000'000;

bool is_whole(const JsonNumber& number) {
  return to_integer(number) || number.text.find_first_of(".eE") == std::string::npos;
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "integer") return value.if_number() != nullptr && is_whole(*value.if_number());
  return value.type_name() == type;
}

bool equal(const Json& left, const Json& right);

bool equal(const JsonObject& left, const Json& right) {
  return std::all_of(left.begin(), left.end(), [&](const JsonMember& member) {
    const Json* other = right.find(member.key);
    return other != nullptr && equal(member.value, *other);
  });
}

// As JSON means it: members in any order, numbers by value.
bool equal(const Json& left, const Json& right) {
  if (left.type_name() != right.type_name()) return false;
  if (left.if_bool() != nullptr) return *left.if_bool() == *right.if_bool();
  if (left.if_string() != nullptr) return *left.if_string() == *right.if_string();
  if (left.if_number() != nullptr)
    return left.if_number()->text == right.if_number()->text ||
           (to_double(*left.if_number()) && to_double(*left.if_number()) == to_double(*right.if_number()));
  if (const JsonArray* elements = left.if_array())
    return std::equal(elements->begin(), elements->end(), right.if_array()->begin(), right.if_array()->end(),
                      [](const Json& a, const Json& b) { return equal(a, b); });
  if (left.if_object() != nullptr)
    return left.if_object()->size() == right.if_object()->size() && equal(*left.if_object(), right);
  return true;  // both null
}

std::optional<double> limit_of(const Json& node, std::string_view keyword) {
  const Json* value = node.find_given(keyword);
  return value == nullptr || value->if_number() == nullptr ? std::nullopt : to_double(*value->if_number());
}

double characters(const std::string& text) {
  return static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

class Matcher {
 public:
  explicit Matcher(const JsonSchema& schema) : schema_(schema) {}

  Violation match(const Json& node, const Json& value, const std::string& at) {
    if (const bool* is_allowed = node.if_bool())
      return *is_allowed ? std::nullopt : broken(at, "is not allowed by the schema");
    if (depth_ == depth_max || steps_ == steps_max) return broken(at, "is judged by references that lead nowhere");
    ++depth_;
    ++steps_;
    Violation found = match_object(node, value, at);
    --depth_;
    return found;
  }

 private:
  static Violation broken(const std::string& at, std::string_view what) {
    return fmt::format("{} {}", at.empty() ? "/" : at, what);
  }

  Violation match_object(const Json& node, const Json& value, const std::string& at) {
    const Json* nullable = node.find_given("nullable");
    if (value.is_null() && nullable != nullptr && nullable->if_bool() != nullptr && *nullable->if_bool())
      return std::nullopt;
    if (auto found = match_value(node, value, at)) return found;
    if (auto found = match_range(node, value, at)) return found;
    if (value.if_object() != nullptr)
      if (auto found = match_members(node, value, at)) return found;
    if (value.if_array() != nullptr)
      if (auto found = match_elements(node, *value.if_array(), at)) return found;
    return match_combined(node, value, at);
  }

  static Violation match_value(const Json& node, const Json& value, const std::string& at) {
    if (const Json* type = node.find_given("type")) {
      const std::string* one = type->if_string();
      const JsonArray* many = type->if_array();
      const auto fits = [&](const Json& t) { return t.if_string() != nullptr && has_type(value, *t.if_string()); };
      if (one != nullptr && !has_type(value, *one)) return broken(at, fmt::format("must be of type {}", *one));
      if (many != nullptr && std::none_of(many->begin(), many->end(), fits)) return broken(at, "has another type");
    }
    if (const Json* only = node.find("const"); only != nullptr && !equal(*only, value))
      return broken(at, "must be the constant");
    const Json* choices = node.find_given("enum");
    if (choices == nullptr || choices->if_array() == nullptr) return std::nullopt;
    const auto& list = *choices->if_array();
    const bool is_listed = std::any_of(list.begin(), list.end(), [&](const Json& c) { return equal(c, value); });
    return is_listed ? std::nullopt : broken(at, "is none of the enum");
  }

  static Violation match_range(const Json& node, const Json& value, const std::string& at) {
    const auto check = [&](double size, const char* low, const char* high) -> Violation {
      if (const auto limit = limit_of(node, low); limit && size < *limit)
        return broken(at, fmt::format("is below {}", low));
      if (const auto limit = limit_of(node, high); limit && size > *limit)
        return broken(at, fmt::format("is above {}", high));
      return std::nullopt;
    };
    if (value.if_string() != nullptr) return check(characters(*value.if_string()), "minLength", "maxLength");
    if (value.if_array() != nullptr)
      return check(static_cast<double>(value.if_array()->size()), "minItems", "maxItems");
    if (value.if_number() == nullptr) return std::nullopt;
    const auto number = to_double(*value.if_number());
    if (!number) return std::nullopt;  // beyond every limit that a double can state
    if (const auto low = limit_of(node, "exclusiveMinimum"); low && *number <= *low)
      return broken(at, "is not above exclusiveMinimum");
    if (const auto high = limit_of(node, "exclusiveMaximum"); high && *number >= *high)
      return broken(at, "is not below exclusiveMaximum");
    return check(*number, "minimum", "maximum");
  }

  Violation match_members(const Json& node, const Json& value, const std::string& at) {
    const Json* required = node.find_given("required");
    if (required != nullptr && required->if_array() != nullptr)
      for (const Json& name : *required->if_array())
        if (name.if_string() != nullptr && value.find(*name.if_string()) == nullptr)
          return broken(at, fmt::format("lacks the member \"{}\"", *name.if_string()));
    const Json* properties = node.find_given("properties");
    const Json* others = node.find_given("additionalProperties");
    const bool is_closed = schema_.is_strict && others == nullptr && properties != nullptr;
    for (const JsonMember& member : *value.if_object()) {
      const std::string place = at + "/" + member.key;
      const Json* known = properties != nullptr ? properties->find(member.key) : nullptr;
      if (known == nullptr && is_closed) return broken(place, "is not in the schema");
      const Json* judge = known != nullptr ? known : others;
      if (judge == nullptr) continue;
      if (auto found = match(*judge, member.value, place)) return found;
    }
    return std::nullopt;
  }

  Violation match_elements(const Json& node, const JsonArray& elements, const std::string& at) {
    const Json* first = node.find_given("prefixItems");
    const Json* rest = node.find_given("items");
    const std::size_t fixed = first != nullptr && first->if_array() != nullptr ? first->if_array()->size() : 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Json* judge = i < fixed ? &(*first->if_array())[i] : rest;
      if (judge == nullptr) continue;
      if (auto found = match(*judge, elements[i], fmt::format("{}/{}", at, i))) return found;
    }
    return std::nullopt;
  }

  Violation match_combined(const Json& node, const Json& value, const std::string& at) {
    if (const Json* reference = node.find_given("$ref"))
      if (auto found = match(*resolve_reference(schema_, *reference->if_string()), value, at)) return found;
    if (const Json* all = node.find_given("allOf"))
      for (const Json& one : *all->if_array())
        if (auto found = match(one, value, at)) return found;
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const Json* any = node.find_given(keyword);
      if (any == nullptr) continue;
      const auto& list = *any->if_array();
      if (std::none_of(list.begin(), list.end(), [&](const Json& one) { return !match(one, value, at); }))
        return broken(at, fmt::format("conforms to none of {}", keyword));
    }
    return std::nullopt;
  }

  const JsonSchema& schema_;
  int depth_ = 0;
  int steps_ = 0;
};

}  // namespace

std::optional<std::string> find_violation(const JsonSchema& schema, const Json& value) {
  return Matcher(schema).match(schema.root, value, "");
}

}  // namespace tandem::net::text
