// Which backend brings the weights to one node, and the ones that are not a copy.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "net/sync/limits.hpp"

namespace tandem::ops {

struct SyncArguments {
  std::map<std::string, std::string> given;  // settings that the command line names
  std::string config;                        // file of settings
  std::string model;
  std::string token_file;
  std::vector<std::string> to;
  std::string backend;  // setting weights.sync
  bool serves = false, receives = false;
  std::string listen = "127.0.0.1";
  bool is_once = false;
  std::string mounts = "/proc/self/mounts";
  int connections = 8;
  int chunk_kib = 4096;
  int limit_mb_s = 0;
  int patience_s = 300;
  int timeout_s = 30;
  bool is_forced = false;
  std::string dataset, remote_dataset, login;
  bool json = false;

  net::sync::Timeouts timeouts() const {
    net::sync::Timeouts timeouts;
    timeouts.idle = std::chrono::seconds(timeout_s);
    timeouts.connect = std::min<std::chrono::milliseconds>(timeouts.connect, timeouts.idle);
    return timeouts;
  }
};

// Brings the model to `host` by the backend that the arguments name, or, for auto, by the first of shared, nfs, zfs and
// copy that works; says why the others were passed over. `copy` does the copy. Errors: those of the backend.
Result<void> sync_host(const SyncArguments& arguments, const std::string& host,
                       const std::function<Result<void>()>& copy);

}  // namespace tandem::ops
