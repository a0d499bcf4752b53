// The fixed part keeps NCCL's pinned memory small (of the memory that the model lies in, on machines where both are
// one) and leaves out what two machines with one device each never use.
#include "gpu/comm/nccl_environment.hpp"

#include <algorithm>
#include <charconv>

namespace tandem::gpu {
namespace {

// One word of printable characters: it goes into the environment as it is.
bool is_word(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

bool is_gid_index(const std::string& text) {
  int index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc{} && end == text.data() + text.size() && index >= 0 && index <= 255;
}

// NCCL takes a name for the beginning of names unless it is told otherwise; mlx5_1 is not mlx5_10.
std::string exactly(const std::string& names) {
  return names.front() == '=' || names.front() == '^' ? names : "=" + names;
}

Result<void> check(const NcclFabric& fabric) {
  if (!is_word(fabric.interface))
    return Error{ErrorCode::bad_config, "interface of the fabric", "'" + fabric.interface + "'", "a name of one word"};
  if (!is_word(fabric.hca))
    return Error{ErrorCode::bad_config, "RDMA devices of the fabric", "'" + fabric.hca + "'", "name:port,name:port"};
  if (!fabric.gid.empty() && !is_gid_index(fabric.gid))
    return Error{ErrorCode::bad_config, "GID index of the fabric", "'" + fabric.gid + "'", "an integer 0..255"};
  return {};
}

}  // namespace

Result<std::vector<NcclVariable>> nccl_environment(const NcclFabric& fabric) {
  if (auto ok = check(fabric); !ok) return ok.error();
  std::vector<NcclVariable> variables = {
      {"NCCL_BUFFSIZE", "1048576", false},
      {"NCCL_LL128_BUFFSIZE", "262144", false},
      {"NCCL_PROTO", "^LL128", false},
      {"NCCL_NVLS_ENABLE", "0", false},
      {"NCCL_CUMEM_HOST_ENABLE", "0", false},
      // Ranks need not capture the same step at the same time: a captured exchange must be one like any other.
      {"NCCL_GRAPH_REGISTER", "0", false},
      {"NCCL_SOCKET_FAMILY", "AF_INET", false},
  };
  if (!fabric.interface.empty()) variables.push_back({"NCCL_SOCKET_IFNAME", exactly(fabric.interface), true});
  if (!fabric.hca.empty()) {
    variables.push_back({"NCCL_NET", "IB", false});
    variables.push_back({"NCCL_IB_HCA", exactly(fabric.hca), true});
    variables.push_back({"NCCL_IB_ROCE_VERSION_NUM", "2", false});
    variables.push_back({"NCCL_IB_ADDR_FAMILY", "AF_INET", false});
  }
  if (!fabric.gid.empty()) variables.push_back({"NCCL_IB_GID_INDEX", fabric.gid, true});
  return variables;
}

}  // namespace tandem::gpu
