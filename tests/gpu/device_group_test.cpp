// What ranks decide together before they exchange on devices, and what NCCL is told before.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "gpu/comm/device_group.hpp"
#include "gpu/comm/nccl_environment.hpp"
#include "tests/gpu/comm_ranks.hpp"
#include "tests/gpu/fake_nccl.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace std::chrono_literals;

namespace {

// Two ranks that may differ in everything they bring along.
struct TwoRanks {
  TwoRanks() : fabric(2), members(make_thread_communicators(2, 20s)) {
    for (int rank = 0; rank < 2; ++rank) {
      libraries.push_back(std::make_unique<test::FakeNccl>(fabric, rank));
      options[rank].connect_timeout = options[rank].timeout = 20s;
      seats[rank].nccl = libraries.back().get();
      seats[rank].device = rank;
      seats[rank].announce = [this, rank](const std::string& text) { told[rank] = text; };
    }
  }

  void reach() {
    test::on_all_ranks(2, [&](int rank) {
      const auto done = reach_devices(members[static_cast<std::size_t>(rank)], options[rank], seats[rank]);
      if (!done) errors[rank] = done.error();
    });
  }
  void wish(DeviceExchange exchange) { options[0].exchange = options[1].exchange = exchange; }
  bool has_reached(bool devices) const {
    return !errors[0] && !errors[1] && members[0]->reaches_devices() == devices &&
           members[1]->reaches_devices() == devices;
  }
  // Both ranks have the same error, and the group that they met in goes on.
  bool are_refused(ErrorCode code, const std::string& where) {
    std::atomic<int> wrong = 0;
    for (const auto& error : errors) {
      if (!error || error->code != code || error->where != where) ++wrong;
    }
    test::on_all_ranks(2, [&](int rank) {
      if (!test::gathers(*members[static_cast<std::size_t>(rank)], 0, 10)) ++wrong;
    });
    return wrong == 0 && fabric.begun == 0;
  }

  test::FakeFabric fabric;
  std::vector<std::unique_ptr<test::FakeNccl>> libraries;
  test::Members members;
  DeviceGroupOptions options[2];
  DeviceMember seats[2];
  std::string told[2];
  std::optional<Error> errors[2];
};

std::string value_of(const std::vector<NcclVariable>& variables, const std::string& name) {
  for (const NcclVariable& variable : variables) {
    if (variable.name == name) return variable.value;
  }
  return "absent";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(device_group)

BOOST_AUTO_TEST_CASE(ranks_with_a_device_each_reach_devices) {
  for (const auto wish : {DeviceExchange::best, DeviceExchange::nccl}) {
    TwoRanks ranks;
    ranks.wish(wish);
    ranks.reach();
    BOOST_TEST(ranks.has_reached(true));
    BOOST_TEST(ranks.told[0].empty());
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_want_host_memory_never_call_nccl) {
  TwoRanks ranks;
  ranks.wish(DeviceExchange::host);
  ranks.libraries[1]->version_code = 1;
  ranks.reach();
  BOOST_TEST(ranks.has_reached(false));
  BOOST_TEST(ranks.fabric.selected == 0);
  BOOST_TEST(ranks.told[0].empty());
}

BOOST_AUTO_TEST_CASE(a_group_of_one_stays_what_it_is) {
  auto group = make_solo_communicator();
  const Communicator* const before = group.get();
  BOOST_TEST(reach_devices(group, {}, {}).has_value());
  BOOST_TEST(group.get() == before);
}

BOOST_AUTO_TEST_CASE(other_versions_of_nccl_are_refused_on_both_ranks) {
  TwoRanks ranks;
  ranks.libraries[1]->version_code = 22703;
  ranks.reach();
  BOOST_TEST(ranks.are_refused(ErrorCode::mismatch, "rank 1"));
  BOOST_TEST(ranks.errors[0]->found == "NCCL 2.27.3");
  BOOST_TEST(ranks.errors[0]->expected == "NCCL 2.28.9 as on rank 0");
}

BOOST_AUTO_TEST_CASE(a_rank_without_a_device_is_told_to_all_whatever_they_wish) {
  for (const auto wish : {DeviceExchange::best, DeviceExchange::nccl, DeviceExchange::host}) {
    TwoRanks ranks;
    ranks.wish(wish);
    ranks.seats[1].device = -1;
    ranks.reach();
    BOOST_REQUIRE((ranks.errors[0] && ranks.errors[1]));
    BOOST_TEST((ranks.errors[0]->code == ErrorCode::resource));
    BOOST_TEST(ranks.errors[0]->where == "rank 1");
    BOOST_TEST((ranks.errors[1]->code == ErrorCode::resource));
    BOOST_TEST(ranks.errors[1]->where == "CUDA device");
  }
}

BOOST_AUTO_TEST_CASE(two_processes_on_one_device_are_refused_and_told_the_way_out) {
  TwoRanks ranks;
  ranks.libraries[1]->uuid = ranks.libraries[0]->uuid;
  ranks.reach();
  BOOST_TEST(ranks.are_refused(ErrorCode::mismatch, "rank 1"));
  BOOST_TEST(ranks.errors[1]->message().find("threads of one process") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(threads_on_one_device_go_by_way_of_host_memory_unless_nccl_is_a_must) {
  for (const auto wish : {DeviceExchange::best, DeviceExchange::nccl}) {
    TwoRanks ranks;
    ranks.wish(wish);
    ranks.options[0].may_share_device = ranks.options[1].may_share_device = true;
    ranks.libraries[1]->uuid = ranks.libraries[0]->uuid;
    ranks.reach();
    if (wish == DeviceExchange::nccl) {
      BOOST_TEST(ranks.are_refused(ErrorCode::mismatch, "rank 1"));
      continue;
    }
    BOOST_TEST(ranks.has_reached(false));
    BOOST_TEST(ranks.told[0].find("ranks 0 and 1 share a device") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_without_nccl_takes_all_to_host_memory_unless_nccl_is_a_must) {
  for (const auto wish : {DeviceExchange::best, DeviceExchange::nccl}) {
    TwoRanks ranks;
    ranks.wish(wish);
    ranks.seats[0].nccl = nullptr;
    ranks.reach();
    if (wish == DeviceExchange::nccl) {
      BOOST_TEST(ranks.are_refused(ErrorCode::mismatch, "rank 0"));
      continue;
    }
    BOOST_TEST(ranks.has_reached(false));
    BOOST_TEST(ranks.told[1].find("rank 0 has a build without NCCL") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(ranks_with_other_wishes_are_refused) {
  TwoRanks ranks;
  ranks.options[1].exchange = DeviceExchange::host;
  ranks.reach();
  BOOST_TEST(ranks.are_refused(ErrorCode::mismatch, "rank 1"));
}

BOOST_AUTO_TEST_CASE(a_device_that_cannot_be_used_is_told_on_both_ranks_in_the_owners_words_on_its_own) {
  TwoRanks ranks;
  ranks.libraries[1]->has_device = false;
  ranks.reach();
  BOOST_REQUIRE(ranks.errors[0].has_value());
  BOOST_REQUIRE(ranks.errors[1].has_value());
  BOOST_TEST((ranks.errors[0]->code == ErrorCode::resource));
  BOOST_TEST(ranks.errors[0]->where == "rank 1");
  BOOST_TEST((ranks.errors[1]->code == ErrorCode::resource));
  BOOST_TEST(ranks.errors[1]->found == "broken");
}

BOOST_AUTO_TEST_CASE(a_rank_takes_the_listed_devices_in_turn_or_its_number_modulo_the_visible_ones) {
  struct Case {
    std::vector<int> listed;
    int rank, visible, device;  // device -1: refused
  };
  const Case cases[] = {{{}, 0, 1, 0},   {{}, 1, 1, 0},    {{}, 1, 2, 1},     {{}, 5, 4, 1},      {{}, 0, 0, -1},
                        {{1}, 0, 2, 1},  {{1}, 1, 2, 1},   {{3, 1}, 0, 4, 3}, {{3, 1}, 1, 4, 1},  {{3, 1}, 2, 4, 3},
                        {{2}, 0, 2, -1}, {{-1}, 0, 2, -1}, {{0}, 0, 0, -1},   {{0, 7}, 1, 2, -1}, {{0, 7}, 0, 2, 0}};
  for (const Case& one : cases) {
    DeviceGroupOptions options;
    options.devices = one.listed;
    const auto device = device_of(options, one.rank, one.visible);
    BOOST_TEST((device ? *device : -1) == one.device, "rank " << one.rank << " of " << one.visible << " devices");
    if (!device) BOOST_TEST((device.error().code == ErrorCode::resource));
  }
}

BOOST_AUTO_TEST_CASE(exchanges_have_the_names_of_the_setting) {
  BOOST_TEST((parse_exchange("auto") == DeviceExchange::best));
  BOOST_TEST((parse_exchange("nccl") == DeviceExchange::nccl));
  BOOST_TEST((parse_exchange("host") == DeviceExchange::host));
  for (const char* name : {"", "NCCL", "hosts", "an unknown one"}) BOOST_TEST(!parse_exchange(name).has_value());
}

BOOST_AUTO_TEST_CASE(a_fabric_that_is_not_described_leaves_its_variables_alone) {
  const auto variables = nccl_environment({});
  BOOST_REQUIRE(variables.has_value());
  for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_NET"})
    BOOST_TEST(value_of(*variables, name) == "absent", name);
  for (const NcclVariable& variable : *variables) BOOST_TEST(!variable.is_wish, variable.name);
  BOOST_TEST(value_of(*variables, "NCCL_GRAPH_REGISTER") == "0");
}

BOOST_AUTO_TEST_CASE(a_described_fabric_names_exactly_what_it_says) {
  const auto variables = nccl_environment({"enp1s0f0np0", "rocep1s0f0:1,roceP2p1s0f0:1", "3"});
  BOOST_REQUIRE(variables.has_value());
  BOOST_TEST(value_of(*variables, "NCCL_SOCKET_IFNAME") == "=enp1s0f0np0");
  BOOST_TEST(value_of(*variables, "NCCL_IB_HCA") == "=rocep1s0f0:1,roceP2p1s0f0:1");
  BOOST_TEST(value_of(*variables, "NCCL_IB_GID_INDEX") == "3");
  BOOST_TEST(value_of(*variables, "NCCL_NET") == "IB");
  const auto selected = nccl_environment({"^docker", "=mlx5_1", ""});
  BOOST_REQUIRE(selected.has_value());
  BOOST_TEST(value_of(*selected, "NCCL_SOCKET_IFNAME") == "^docker");
  BOOST_TEST(value_of(*selected, "NCCL_IB_HCA") == "=mlx5_1");
}

BOOST_AUTO_TEST_CASE(a_malformed_fabric_is_refused) {
  const NcclFabric wrong[] = {{"eth0 eth1", "", ""}, {"", "mlx5_0\n", ""}, {"", "", "-1"},
                              {"", "", "256"},       {"", "", "0x3"},      {"", "", "3 "}};
  for (const NcclFabric& fabric : wrong) {
    const auto variables = nccl_environment(fabric);
    BOOST_REQUIRE(!variables.has_value());
    BOOST_TEST((variables.error().code == ErrorCode::bad_config));
  }
  BOOST_TEST(nccl_environment({"", "", "0"}).has_value());
  BOOST_TEST(nccl_environment({"", "", "255"}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
