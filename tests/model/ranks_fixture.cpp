// A failing rank aborts the group, so that no other one waits for it.
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "tests/model/ranks.hpp"

namespace tandem::gpu::test {

void on_each_rank(int ranks, const std::function<void(Communicator& member)>& body) {
  const auto members = make_thread_communicators(ranks, std::chrono::seconds(60));
  std::vector<std::exception_ptr> failures(members.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*members[rank]);
      } catch (...) {
        failures[rank] = std::current_exception();
        members[rank]->abort("a rank of the test failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace tandem::gpu::test
