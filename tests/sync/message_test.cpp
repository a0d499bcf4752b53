// What two nodes say to each other: every message survives the wire, nothing else is understood. And the bookkeeping of
// a copy, which is arithmetic on chunks.
#include "net/sync/message.hpp"

#include <boost/test/unit_test.hpp>

#include "net/sync/copy_files.hpp"
#include "net/sync/peer_address.hpp"

using namespace tandem;
using namespace tandem::net::sync;

BOOST_AUTO_TEST_SUITE(sync_messages)

namespace {

Message offer_of(const std::string& path) {
  Message message{MessageKind::offer};
  message.path = path;
  message.bytes = 12;
  message.modified_ns = 1'796'000'000'000'000'000;
  message.chunk_bytes = chunk_bytes_default;
  message.sha256 = std::string(64, 'a');
  message.forced = true;
  return message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from << " in " << text);
  return text.replace(at, from.size(), to);
}

CopyFile copy_file(const std::string& path, std::uint64_t bytes) {
  CopyFile file;
  file.path = path;
  file.bytes = bytes;
  file.shape = {bytes, chunk_bytes_min};
  return file;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_kind_of_message_is_read_as_it_was_written) {
  for (int kind = 0; kind <= static_cast<int>(MessageKind::refused); ++kind) {
    Message message{static_cast<MessageKind>(kind)};
    if (to_json(message).find("\"path\"") != std::string::npos) message.path = "exl3/a.safetensors";
    const auto read = parse_message(to_json(message));
    BOOST_REQUIRE_MESSAGE(read, to_json(message) << ": " << read.error().message());
    BOOST_CHECK(*read == message);
  }
  const auto offer = parse_message(to_json(offer_of("a b/\"c\".json")));
  BOOST_REQUIRE(offer);
  BOOST_CHECK(*offer == offer_of("a b/\"c\".json"));
}

BOOST_AUTO_TEST_CASE(messages_that_leave_the_folder_or_the_limits_are_refused) {
  const std::string good = to_json(offer_of("file"));
  for (const std::string& bad :
       {replaced(good, "\"file\"", "\"../file\""), replaced(good, "\"file\"", "\"/etc/passwd\""),
        replaced(good, "\"file\"", "\".tandem-sync/x\""), replaced(good, "\"file\"", "7"),
        replaced(good, "\"bytes\":12", "\"bytes\":-1"), replaced(good, "\"bytes\":12", "\"bytes\":1.5"),
        replaced(good, "\"bytes\":12", "\"bytes\":18446744073709551615"), replaced(good, "\"bytes\":12,", ""),
        replaced(good, "\"bytes\":12", "\"bytes\":12,\"more\":1"), replaced(good, "true", "1"),
        replaced(good, "aaaa", "AAAA"), replaced(good, "aaaa", "aaa"), replaced(good, "\"offer\"", "\"Offer\""),
        std::string("{}"), std::string("[]"), std::string("7"), std::string()}) {
    BOOST_TEST(!parse_message(bad).has_value(), bad);
  }
  for (std::size_t length = 0; length < good.size(); ++length) BOOST_TEST(!parse_message(good.substr(0, length)));
}

BOOST_AUTO_TEST_CASE(heads_that_announce_too_much_are_refused_before_room_is_made) {
  FrameHead head;
  head.control_bytes = control_bytes_max;
  head.data_bytes = data_bytes_max;
  BOOST_TEST(check_head(head).has_value());
  for (const auto& change : {+[](FrameHead& h) { ++h.control_bytes; }, +[](FrameHead& h) { ++h.data_bytes; },
                             +[](FrameHead& h) { h.control_bytes = 0; }, +[](FrameHead& h) { h.magic ^= 1U; },
                             +[](FrameHead& h) { h.reserved = 1; }}) {
    FrameHead bad = head;
    change(bad);
    BOOST_TEST(!check_head(bad).has_value());
  }
}

BOOST_AUTO_TEST_CASE(an_error_arrives_with_its_code_and_its_words) {
  const Error error{ErrorCode::resource, "/model", "10 bytes free", "20"};
  const Error there = error_of(refusal(error), "the other node");
  BOOST_TEST((there.code == ErrorCode::resource));
  BOOST_TEST(there.found == error.message());
  BOOST_TEST((error_of({MessageKind::refused}, "x").code == ErrorCode::internal), "a code that nobody knows");
}

BOOST_AUTO_TEST_CASE(sets_of_chunks_are_read_as_they_were_written_whatever_their_number) {
  for (const std::uint64_t count : {0, 1, 7, 8, 9, 16, 17, 1000}) {
    const ChunkShape shape{count * chunk_bytes_min, chunk_bytes_min};
    ChunkSet set(shape);
    for (std::uint64_t i = 0; i < count; i += 3) set.add(i);
    const auto read = ChunkSet::parse(shape, set.to_text());
    BOOST_REQUIRE(read);
    BOOST_TEST(read->to_text() == set.to_text());
    BOOST_TEST(read->count() == (count + 2) / 3);
    BOOST_TEST(read->is_complete() == (count <= 1));
  }
  const ChunkShape nine{9 * chunk_bytes_min, chunk_bytes_min};
  for (const char* text : {"ff", "ff02", "ffff", "fg01", "FF01", "ff0101"})
    BOOST_TEST(!ChunkSet::parse(nine, text).has_value(), text);
  BOOST_TEST(ChunkSet::parse(nine, "ff01")->is_complete());
}

BOOST_AUTO_TEST_CASE(chunks_cover_a_file_exactly_and_grow_with_it) {
  const ChunkShape shape{2 * chunk_bytes_min + 1, chunk_bytes_min};
  BOOST_TEST(shape.count() == 3U);
  BOOST_TEST(shape.bytes(0) == chunk_bytes_min);
  BOOST_TEST(shape.bytes(2) == 1U);
  BOOST_TEST(make_chunk_shape(0, 1)->count() == 0U);
  BOOST_TEST(make_chunk_shape(chunks_max * chunk_bytes_min, chunk_bytes_min)->chunk_bytes == chunk_bytes_min);
  BOOST_TEST(make_chunk_shape(chunks_max * chunk_bytes_min + 1, chunk_bytes_min)->chunk_bytes == 2 * chunk_bytes_min);
  BOOST_TEST(!make_chunk_shape(chunks_max * chunk_bytes_max + 1, 1).has_value());
  for (const ChunkShape bad : {ChunkShape{1, 0}, ChunkShape{1, chunk_bytes_min - 1}, ChunkShape{1, chunk_bytes_max + 1},
                               ChunkShape{(chunks_max + 1) * chunk_bytes_min, chunk_bytes_min}}) {
    // A chunk of no bytes must be refused before anybody divides by it.
    if (bad.chunk_bytes > 0) BOOST_TEST(!check_chunk_shape(bad).has_value());
  }
}

BOOST_AUTO_TEST_CASE(work_is_handed_out_once_and_whole_files_are_compared_first) {
  CopyFiles files({copy_file("a", 2 * chunk_bytes_min), copy_file("b", 1), copy_file("c", 0)});
  files.begin_round();
  for (std::size_t i = 0; i < 3; ++i) files.note_there(i, ChunkSet(files.files()[i].shape));
  BOOST_TEST(files.bytes_missing() == 2 * chunk_bytes_min + 1);
  const auto empty = files.next();  // the empty file has no chunks: it is complete at once
  BOOST_REQUIRE(empty);
  BOOST_TEST(empty->file == 2U);
  BOOST_TEST(!empty->chunk.has_value());
  files.note_finished(2);
  const auto first = files.next(), second = files.next();
  BOOST_TEST(first->chunk.value_or(9) == 0U);
  BOOST_TEST(second->chunk.value_or(9) == 1U);
  files.note_stored(*second);
  files.note_stored(*first);
  const auto whole = files.next();
  BOOST_TEST(whole->file == 0U);
  BOOST_TEST(!whole->chunk.has_value());
  files.note_finished(0);
  BOOST_TEST(files.next()->file == 1U);
  BOOST_TEST(!files.next().has_value());
  BOOST_TEST(!files.is_done());
  files.begin_round();  // the connection was lost: b is offered again, a and c are not
  BOOST_TEST((files.files()[0].state == CopyState::done));
  BOOST_TEST((files.files()[1].state == CopyState::waiting));
  BOOST_TEST(files.bytes_missing() == 1U);
}

BOOST_AUTO_TEST_CASE(chunks_that_are_there_are_not_handed_out) {
  CopyFiles files({copy_file("a", 3 * chunk_bytes_min)});
  files.begin_round();
  ChunkSet there(files.files()[0].shape);
  there.add(1);
  files.note_there(0, there);
  BOOST_TEST(files.next()->chunk.value_or(9) == 0U);
  BOOST_TEST(files.next()->chunk.value_or(9) == 2U);
  BOOST_TEST(!files.next().has_value());
}

BOOST_AUTO_TEST_CASE(chunks_are_sent_in_the_size_of_those_that_are_there) {
  CopyFiles files({copy_file("a", 4 * chunk_bytes_min)});
  files.begin_round();
  ChunkSet there({4 * chunk_bytes_min, 2 * chunk_bytes_min});
  there.add(0);
  files.note_there(0, there);
  BOOST_TEST(files.bytes_missing() == 2 * chunk_bytes_min);
  const auto work = files.next();
  BOOST_TEST(work->chunk.value_or(9) == 1U);
  BOOST_TEST(!files.next().has_value());
  files.note_stored(*work);
  BOOST_TEST(!files.next()->chunk.has_value(), "the whole is compared");
  BOOST_TEST(files.bytes_missing() == 0U);
}

BOOST_AUTO_TEST_CASE(an_answer_to_an_offer_is_believed_only_if_its_hash_is_ours) {
  CopyFile file = copy_file("a", 1);
  Message have{MessageKind::have};
  have.state = "same";
  have.sha256 = std::string(64, 'a');
  BOOST_TEST(!judge_offer(file, have).has_value(), "we know no hash");
  file.sha256 = std::string(64, 'b');
  BOOST_TEST(!judge_offer(file, have).has_value(), "another hash");
  file.sha256 = have.sha256;
  BOOST_TEST((*judge_offer(file, have) == OfferOutcome::same));
  have.state = "new";
  BOOST_TEST(!judge_offer(file, have).has_value(), "in chunks of no bytes");
  have.chunk_bytes = chunk_bytes_min;
  BOOST_TEST((*judge_offer(file, have) == OfferOutcome::send));
  have.state = "exists";
  BOOST_TEST(!judge_offer(file, have).has_value());
  file.sha256.clear();
  BOOST_TEST((*judge_offer(file, have) == OfferOutcome::compare_hashes));
}

BOOST_AUTO_TEST_CASE(addresses_are_read_as_people_write_them) {
  const auto text = [](const char* from) {
    const auto address = parse_peer_address(from);
    return address ? address->text() : std::string("refused");
  };
  BOOST_TEST(text("10.0.0.2") == "10.0.0.2:29510");
  BOOST_TEST(text("spark-2:7000") == "spark-2:7000");
  BOOST_TEST(text("fe80::1") == "[fe80::1]:29510");
  BOOST_TEST(text("[fe80::1]:7000") == "[fe80::1]:7000");
  for (const char* bad : {"", ":7000", "host:", "host:0", "host:65536", "host:7x", "[::1", "[::1]7", "a b", "u@h"})
    BOOST_TEST(text(bad) == "refused", bad);
}

BOOST_AUTO_TEST_CASE(one_listens_on_one_address_and_never_on_all) {
  BOOST_TEST(parse_listen_address("127.0.0.1:0").has_value());
  BOOST_TEST(parse_listen_address("localhost")->host == "127.0.0.1");
  BOOST_TEST(parse_listen_address("[::ffff:127.0.0.1]:0").has_value());
  for (const char* bad : {"0.0.0.0", "0.0.0.0:7000", "[::]:7000", "::", "[::ffff:0.0.0.0]", "::ffff:0.0.0.0",
                          "[0:0:0:0:0:ffff:0:0]:7000", "spark-2:7000", ""})
    BOOST_TEST(!parse_listen_address(bad).has_value(), bad);
}

BOOST_AUTO_TEST_SUITE_END()
