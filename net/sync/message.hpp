// Message: one thing that the two ends of a connection say to each other, as JSON of a fixed set of fields; and the
// head of the frame that carries it, with the data that belongs to it.
//
//   asked                              answered
//   revision                           revision_is sha256 text     of the manifest; empty: no manifest
//   mount                              mount_is text address       the line of the mount table; own address towards
//                                                                  the server it names
//   digest path offset bytes           digest_is sha256 bytes      of that part of a file; bytes: of the whole file
//   nonce text                         digest_is sha256 bytes      of a file that the other node just wrote
//   offer path bytes modified_ns       have state sha256 done      what is there already, in chunks of which size:
//         chunk_bytes sha256 forced         chunk_bytes            the one offered, unless some are there
//   reserve bytes                      done                        so much will come: is there room
//   chunk path bytes modified_ns       stored                      of the file that was offered like this
//         chunk_bytes sha256 index,
//         with data
//   finish path bytes modified_ns      working ..., finished       the whole file was read back and compared
//         sha256
//   manifest, with data                done
//   end                                done
//   anything                           refused code text           unavailable: offer the file again
//   working                            (nothing)                   the asker is alive
//
// The receiver only ever answers. Every field is checked when it is read: a message that parses names a file inside the
// folder and numbers within their limits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engram/error.hpp"
#include "net/sync/limits.hpp"

namespace tandem::net::sync {

enum class MessageKind : std::uint8_t {
  revision,
  revision_is,
  mount,
  mount_is,
  digest,
  nonce,
  digest_is,
  offer,
  have,
  reserve,
  chunk,
  stored,
  finish,
  working,
  finished,
  manifest,
  end,
  done,
  refused
};

// The fields that a kind has are listed in its row above; the others stay empty and do not travel.
struct Message {
  MessageKind kind = MessageKind::done;
  std::string path = {};     // of a file of the model, relative
  std::string sha256 = {};   // 64 digits or empty
  std::string text = {};     // a reason, a revision's name, a mount
  std::string address = {};  // numeric, or empty
  std::string code = {};     // of an Error
  std::string state = {};    // of a file at the receiver: "same", "exists", "part", "new"
  std::string done = {};     // chunks that are there, see ChunkSet
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t index = 0;  // of a chunk
  std::uint64_t chunk_bytes = 0;
  std::uint64_t modified_ns = 0;
  bool forced = false;  // do not look at what is there
  bool operator==(const Message&) const = default;
};

std::string_view to_string(MessageKind kind) noexcept;
std::string to_json(const Message& message);
// Errors: bad_format naming the field; never more than a few times the text's size of memory.
Result<Message> parse_message(std::string_view json);

// A refusal carries an error to the other side and back into an Error there.
Message refusal(const Error& error);
Error error_of(const Message& refused, const std::string& peer);

// A frame: this head, the message, a code over both and the frame's number, the data, whose SHA-256 the code covers.
struct FrameHead {
  std::uint32_t magic = 0x4E595354;  // "TSYN"
  std::uint32_t control_bytes = 0;
  std::uint32_t data_bytes = 0;
  std::uint32_t reserved = 0;
  std::array<std::byte, 32> data_sha256{};
};
static_assert(sizeof(FrameHead) == 48);

// Refuses a head before anything is allocated for what it announces. Errors: bad_format.
Result<void> check_head(const FrameHead& head);

}  // namespace tandem::net::sync
