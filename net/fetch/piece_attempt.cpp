// A server may stop early, say one length and send another, or send more than was asked for: no byte beyond the piece
// is written, and none of an answer that was too long counts.
#include "net/fetch/piece_attempt.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::net::fetch {
namespace {

using Kind = Verdict::Kind;

Verdict verdict_of(const Error& error) {
  return {is_transient(error) ? Kind::retry : Kind::failed, 0, error, {}};
}

// The same, said of the file.
Verdict verdict_of(const std::string& name, const Error& error) {
  return verdict_of(Error{error.code, name, error.message(), ""});
}

// A signed address expires; the one that led to it does not.
bool may_have_expired(int status) {
  return status == 400 || status == 401 || status == 403 || status == 404 || status == 410;
}

Request request_for(const FileTask& file, const Piece& piece) {
  Request request{file.address(), false, std::nullopt, ""};
  if (!file.is_whole) {
    request.range = ByteRange{piece.at, piece.end - 1};
    request.if_range = file.version;
  }
  return request;
}

}  // namespace

Awaitable<Verdict> PieceAttempt::run(FileTask& file, Piece& piece) {
  if (file.is_whole) file.take_back(piece, 0);
  const Request request = request_for(file, piece);
  const bool was_resolved = file.resolved.has_value();
  auto reply = co_await client_.ask(request);
  if (!reply) {
    file.resolved.reset();
    co_return verdict_of(reply.error());
  }
  if (was_resolved && may_have_expired(reply->head.status)) {
    file.resolved.reset();
    co_return try_again(file.job.entry.path, "the address expired");
  }
  // The version is that of now: another piece may have been the first while this one waited for its answer.
  const Wanted wanted{file.job.entry.path, file.job.entry.bytes, request.range, file.is_whole ? "" : file.version};
  const Verdict verdict = judge(reply->head, wanted);
  if (verdict.kind != Kind::take || !file.is_current(piece)) co_return verdict;
  file.has_parts = file.has_parts || reply->head.status == 206;
  if (!reply->url.has_origin_of(file.job.url) || reply->url.target != file.job.url.target) file.resolved = reply->url;
  if (auto noted = co_await note_version(file, version_of(reply->head)); !noted) co_return verdict_of(noted.error());
  co_return co_await receive(file, piece, std::move(*reply), verdict.bytes);
}

// The first answer says which version all others must be of.
Awaitable<Result<void>> PieceAttempt::note_version(FileTask& file, std::string version) {
  if (file.has_version) co_return Result<void>{};
  file.has_version = true;
  file.version = version;
  const auto begin = [&] { return file.part->begin(version); };
  co_return co_await run_on(session_.disk(), begin);
}

Awaitable<Verdict> PieceAttempt::receive(FileTask& file, Piece& piece, Reply reply, std::uint64_t bytes) {
  const std::string& name = file.job.entry.path;
  const std::uint64_t first = piece.at;
  const std::uint64_t end = piece.at + bytes;
  window_ = {std::chrono::steady_clock::now(), 0};
  while (piece.at < end) {
    const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(block_.size(), end - piece.at));
    const auto got = co_await reply.connection->read_some(std::span(block_).first(room));
    if (!file.is_current(piece)) co_return Verdict{};
    if (!got) co_return verdict_of(name, got.error());
    if (*got == 0)
      co_return try_again(name, fmt::format("an answer of {} bytes", piece.at - first), fmt::format("{} bytes", bytes));
    if (auto written = file.part->write_at(piece.at, std::span(block_).first(*got)); !written)
      co_return verdict_of(written.error());
    piece.at += *got;
    file.received += *got;
    received_(*got);
    if (trickles(*got) && piece.at < end) co_return try_again(name, "hardly any bytes within the limit");
  }
  if (co_await has_more(reply)) {
    file.take_back(piece, first);
    co_return try_again(name, "more bytes than announced");
  }
  client_.give_back(std::move(reply));
  Verdict taken;
  taken.kind = Kind::take;
  taken.bytes = bytes;
  co_return taken;
}

// A server that sends a byte now and then is never silent, and would never end.
bool PieceAttempt::trickles(std::uint64_t got) {
  window_.bytes += got;
  const auto now = std::chrono::steady_clock::now();
  if (now - window_.begin < limits_.read) return false;
  const bool is_trickle = window_.bytes < limits_.trickle_bytes;
  window_ = {now, 0};
  return is_trickle;
}

// An error here costs the connection, not the bytes.
Awaitable<bool> PieceAttempt::has_more(Reply& reply) {
  const auto got = co_await reply.connection->read_some(std::span(block_).first(1));
  co_return got&&* got > 0;
}

}  // namespace tandem::net::fetch
