// The error type of the whole project: errors are values that name the thing, what was found and what was expected.
//
// It lives in the lowest layer so that every folder can return it. A Result<T> carries either a T or an Error; nothing
// throws across a module's border (boost::system::result throws only if value() is called on an error, which is a
// programming error).
#pragma once

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <string>

namespace tandem {

enum class ErrorCode {
  io,                // the operating system refused or failed: open, read, write, short read
  not_found,         // a file, tensor, key or entry that must exist does not
  bad_format,        // the bytes do not follow their format: JSON, safetensors header, packed file
  bad_config,        // a configuration value is missing, of the wrong type or out of its range
  mismatch,          // two things that must agree do not: shape, dtype, name set, hash, version
  out_of_range,      // an index or length beyond its limit
  corrupt,           // well-formed bytes whose content is impossible: NaN scales, checksum
  resource,          // memory, descriptors or another bounded resource is exhausted
  timeout,           // a wait reached its deadline
  cancelled,         // the caller or the peer gave up
  unavailable,       // the peer or service is not (or no longer) there
  invalid_argument,  // the caller broke the function's contract
  internal,          // a defect of Tandem itself
};

// Returns the code's name as written in logs and JSON, e.g. "bad_format".
const char* to_string(ErrorCode code) noexcept;

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string where;     // the file, tensor, field, rank or address concerned
  std::string found;     // what was there
  std::string expected;  // what should have been there; may be empty

  // Returns one sentence: "where: found X, expected Y".
  std::string message() const;
};

template <class T>
using Result = boost::system::result<T, Error>;

// Called by boost::system::result when value() is taken from an error: a defect, reported as std::logic_error.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location& location);

}  // namespace tandem
