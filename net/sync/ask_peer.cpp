// Every question is one round trip.
#include "net/sync/ask_peer.hpp"

#include <fmt/format.h>

#include <vector>

#include "engram/input_file.hpp"
#include "engram/sha256.hpp"

namespace tandem::net::sync {

Result<std::unique_ptr<Channel>> connect_peer(const PeerAddressText& peer, const Timeouts& timeouts) {
  const auto address = parse_peer_address(peer.address);
  if (!address) return address.error();
  const auto token = load_token(peer.token_file);
  if (!token) return token.error();
  return Channel::connect(*address, *token, timeouts);
}

Result<PeerRevisionAnswer> ask_revision(const PeerAddressText& peer) {
  auto channel = connect_peer(peer);
  if (!channel) return channel.error();
  return ask_revision(**channel);
}

Result<PeerRevisionAnswer> ask_revision(Channel& channel) {
  const auto answer = channel.ask_for(MessageKind::revision_is, {MessageKind::revision});
  if (!answer) return answer.error();
  return PeerRevisionAnswer{answer->sha256, answer->text};
}

Result<PeerMount> ask_mount(Channel& channel) {
  const auto answer = channel.ask_for(MessageKind::mount_is, {MessageKind::mount});
  if (!answer) return answer.error();
  auto mount = parse_mount(answer->text);
  if (!mount) return mount.error();
  return PeerMount{std::move(*mount), answer->address};
}

Result<void> compare_part(Channel& channel, const std::filesystem::path& folder, const FilePart& part) {
  const auto source = engram::open_buffered(folder / part.path);
  if (!source) return source.error();
  std::vector<std::byte> own(part.bytes);
  if (auto read = engram::read_exactly(**source, part.offset, own); !read) return read;
  Message question{MessageKind::digest};
  question.path = part.path;
  question.offset = part.offset;
  question.bytes = part.bytes;
  const auto answer = channel.ask_for(MessageKind::digest_is, question);
  if (!answer) return answer.error();
  if (answer->bytes != (*source)->size()) {
    return Error{ErrorCode::mismatch, channel.peer(), fmt::format("{} of {} bytes", part.path, answer->bytes),
                 fmt::format("{} bytes, as here", (*source)->size())};
  }
  if (answer->sha256 == engram::sha256_hex(own)) return {};
  return Error{ErrorCode::mismatch, channel.peer(), fmt::format("other bytes of {}", part.path), "the same as here"};
}

}  // namespace tandem::net::sync
