// Reads the plain golden lists under tests/golden/engram: "name count" followed by that many whole numbers.
#pragma once

#include "tests/build_paths.hpp"

#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::engram::test {

using Numbers = std::map<std::string, std::vector<std::int64_t>>;

inline Numbers read_numbers(const std::string& name) {
  std::ifstream file(source_folder().string() + "/tests/golden/engram/" + name);
  if (!file) throw std::runtime_error("cannot open golden " + name);
  Numbers numbers;
  std::string list;
  std::size_t count = 0;
  while (file >> list >> count) {
    auto& values = numbers[list];
    values.resize(count);
    for (auto& value : values) file >> value;
  }
  return numbers;
}

template <class To, class From>
std::vector<To> convert(const std::vector<From>& values) {
  return std::vector<To>(values.begin(), values.end());
}

}  // namespace tandem::engram::test
