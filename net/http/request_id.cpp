// A generator a thread, seeded by the system: no lock, no guessable sequence between threads.
#include "net/http/request_id.hpp"

#include <algorithm>
#include <random>

namespace tandem::net::http {
namespace {

std::mt19937_64& generator() {
  thread_local std::mt19937_64 engine = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
    return std::mt19937_64{seed};
  }();
  return engine;
}

}  // namespace

bool is_valid_request_id(std::string_view id) noexcept {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) { return c > ' ' && c <= '~'; });
}

std::string new_request_id() {
  return new_random_id("req_");
}

std::string new_random_id(std::string_view prefix) {
  constexpr std::string_view alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::uniform_int_distribution<std::size_t> pick{0, alphabet.size() - 1};
  std::string id{prefix};
  for (int i = 0; i < 24; ++i) id += alphabet[pick(generator())];
  return id;
}

unsigned long long random_bits() {
  return generator()();
}

}  // namespace tandem::net::http
