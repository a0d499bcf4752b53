// Cards are gathered over the group that is there, then judged by every rank for itself.
#include "gpu/comm/device_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::gpu {
namespace {

// What a rank shows of itself, as it travels.
struct Card {
  std::int32_t exchange = 0;  // a DeviceExchange
  std::int32_t version = 0;   // of NCCL; 0: it has none
  std::int32_t device = 0;
  std::int32_t is_usable = 1;
  std::int32_t may_share = 0;
  DeviceUuid uuid{};
};

// What the ranks do. `why` says why not NCCL, where it was not ruled out by a setting.
struct Choice {
  bool is_nccl = false;
  std::string why;
};

Error refused(std::size_t rank, std::string found, std::string expected) {
  return {ErrorCode::mismatch, fmt::format("rank {}", rank), std::move(found), std::move(expected)};
}

std::string_view name_of(std::int32_t exchange) {
  constexpr std::string_view names[] = {"auto", "nccl", "host"};
  return exchange >= 0 && exchange < 3 ? names[exchange] : "an unknown one";
}

std::string describe_version(std::int32_t version) {
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<void> check_wishes(const std::vector<Card>& cards) {
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].exchange == cards[0].exchange) continue;
    return refused(rank, fmt::format("exchange of devices: {}", name_of(cards[rank].exchange)),
                   fmt::format("{} as on rank 0", name_of(cards[0].exchange)));
  }
  return {};
}

Result<void> check_devices(const std::vector<Card>& cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].is_usable != 0) continue;
    return Error{ErrorCode::resource, fmt::format("rank {}", rank), "its CUDA device cannot be used",
                 "a usable device"};
  }
  return {};
}

Result<void> check_versions(const std::vector<Card>& cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].version != cards[0].version)
      return refused(rank, describe_version(cards[rank].version),
                     fmt::format("{} as on rank 0", describe_version(cards[0].version)));
  }
  return {};
}

// Returns the second of two ranks on one device and its device's first rank, or nothing.
std::optional<std::pair<std::size_t, std::size_t>> sharers(const std::vector<Card>& cards) {
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      if (cards[rank].uuid == cards[other].uuid) return std::pair(rank, other);
    }
  }
  return std::nullopt;
}

Result<Choice> choose(const std::vector<Card>& cards) {
  if (auto same = check_wishes(cards); !same) return same.error();
  if (auto usable = check_devices(cards); !usable) return usable.error();
  const auto wish = static_cast<DeviceExchange>(cards.front().exchange);
  if (wish == DeviceExchange::host) return Choice{};
  const auto without = std::find_if(cards.begin(), cards.end(), [](const Card& card) { return card.version == 0; });
  if (without != cards.end()) {
    const auto rank = static_cast<std::size_t>(without - cards.begin());
    if (wish == DeviceExchange::nccl) return refused(rank, "a build without NCCL", "NCCL on every rank");
    return Choice{false, fmt::format("rank {} has a build without NCCL", rank)};
  }
  if (auto fit = check_versions(cards); !fit) return fit.error();
  const auto shared = sharers(cards);
  if (!shared) return Choice{true, {}};
  const auto [rank, other] = *shared;
  const bool may_share = std::all_of(cards.begin(), cards.end(), [](const Card& card) { return card.may_share != 0; });
  if (wish == DeviceExchange::best && may_share)
    return Choice{false, fmt::format("ranks {} and {} share a device", other, rank)};
  return refused(
      rank,
      fmt::format("the device of rank {} (CUDA device {} there, {} here)", other, cards[other].device,
                  cards[rank].device),
      "a device of its own: NCCL needs one a rank, only ranks that are threads of one process may share one");
}

Card card_of(const DeviceGroupOptions& options, const DeviceMember& member, std::optional<Error>& own) {
  Card card;
  card.exchange = static_cast<std::int32_t>(options.exchange);
  card.device = member.device;
  card.may_share = options.may_share_device ? 1 : 0;
  // A rank without a device comes as well, with a number below 0: else the others would wait for it.
  if (member.device < 0) own = Error{ErrorCode::resource, "CUDA device", "none that can be used", "a usable device"};
  card.is_usable = own ? 0 : 1;
  if (own || member.nccl == nullptr || options.exchange == DeviceExchange::host) return card;
  card.version = member.nccl->version();
  const auto uuid = member.nccl->select(member.device);
  if (uuid)
    card.uuid = *uuid;
  else
    own = uuid.error();
  card.is_usable = uuid ? 1 : 0;
  return card;
}

}  // namespace

std::optional<DeviceExchange> parse_exchange(std::string_view name) noexcept {
  for (const auto exchange : {DeviceExchange::best, DeviceExchange::nccl, DeviceExchange::host}) {
    if (name == name_of(static_cast<std::int32_t>(exchange))) return exchange;
  }
  return std::nullopt;
}

Result<int> device_of(const DeviceGroupOptions& options, int rank, int visible) {
  const std::size_t listed = options.devices.size();
  const int device =
      listed == 0 ? rank % std::max(visible, 1) : options.devices[static_cast<std::size_t>(rank) % listed];
  if (device >= 0 && device < visible) return device;
  return Error{ErrorCode::resource, fmt::format("CUDA device {} of rank {}", device, rank),
               visible == 0 ? "no visible device" : fmt::format("{} visible devices", visible), "one of them"};
}

Result<void> reach_devices(std::unique_ptr<Communicator>& group, const DeviceGroupOptions& options,
                           const DeviceMember& member) {
  if (group->size() == 1) return {};
  std::optional<Error> own;
  const Card card = card_of(options, member, own);
  std::vector<Card> cards(static_cast<std::size_t>(group->size()));
  const auto met = group->all_gather(std::as_bytes(std::span(&card, 1)), std::as_writable_bytes(std::span(cards)));
  if (!met) return met;
  const auto choice = choose(cards);
  if (!choice) return own ? *own : choice.error();
  if (!choice->is_nccl) {
    if (!choice->why.empty() && member.announce)
      member.announce("the ranks exchange device memory by way of host memory: " + choice->why);
    return {};
  }
  auto made = make_nccl_communicator(*member.nccl, group,
                                     {member.device, options.connect_timeout, options.timeout, member.stop});
  if (!made) return made.error();
  group = std::move(*made);
  return {};
}

}  // namespace tandem::gpu
