// What an answer to a request for a part of a file means: take the bytes, try again, or give up.
//
// Pure judgement of a head, without a socket, so that every lie of a server is a line of a test's table.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "net/fetch/client.hpp"

namespace tandem::net::fetch {

// Content-Range: "bytes FIRST-LAST/TOTAL" or "bytes */TOTAL"; TOTAL may be '*'.
struct ContentRange {
  std::optional<ByteRange> range;
  std::optional<std::uint64_t> total;
};
std::optional<ContentRange> parse_content_range(std::string_view field);

// What was asked for.
struct Wanted {
  std::string name;                // the file, for messages
  std::uint64_t file_bytes = 0;    // of the whole file
  std::optional<ByteRange> range;  // none: the whole file, without a Range field
  std::string version;             // of the bytes that are there already; empty = none, or unknown
};

struct Verdict {
  enum class Kind {
    take,       // the body holds `bytes` bytes of what was asked for, from its first byte on
    retry,      // this attempt failed; `wait` is what the server asks for
    no_ranges,  // the whole file came instead of the part: the body begins with byte 0
    changed,    // the file on the server is another version than the bytes that are there
    failed,     // no attempt can succeed
  };
  Kind kind = Kind::failed;
  std::uint64_t bytes = 0;
  Error error;  // of all but take
  std::optional<std::chrono::seconds> wait;
};

// Returns the verdict `retry`.
Verdict try_again(std::string name, std::string found, std::string expected = {});

Verdict judge(const ReplyHead& head, const Wanted& wanted);

// Returns what names this version of the file: the strong ETag, else the date of the last change, else nothing.
std::string version_of(const ReplyHead& head);

}  // namespace tandem::net::fetch
