// Fibers, barriers and asynchronous copies.
//
// A fiber begins once, on a stack of its own (makecontext), and then runs one thread of every block. Switches are jumps
// between stacks, which unwind nothing: swapcontext would ask the kernel for the signal mask each time.
#include "tests/cuda/emulation/device.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace tandem::gpu::emulation {
namespace {

constexpr std::size_t stack_bytes = std::size_t{128} << 10;
constexpr std::size_t threads_max = 1024;
constexpr int cluster_max = 8;
constexpr std::size_t shared_most = std::size_t{227} << 10;  // of one block on the devices that we serve

struct Fiber {
  ucontext_t context{};
  jmp_buf place{};
  bool has_begun = false;
  std::unique_ptr<unsigned char[]> stack;
  Wait state = Wait::nothing;
  Thread thread;
};

struct Device {
  jmp_buf scheduler{};
  std::vector<std::unique_ptr<Fiber>> fibers;
  Fiber* running = nullptr;
  Launch launch;
  uint3 block{};  // of rank 0
  const std::function<void()>* body = nullptr;
  Slot boards[cluster_max][2][threads_max] = {};
  int predicate = 0;
  std::vector<uint4> shared[cluster_max];
};

Device& device() {
  static Device only;
  return only;
}

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "emulated kernel: %s\n", why);
  std::abort();
}

void run_threads() {
  for (;;) {
    (*device().body)();
    wait(Wait::end);
  }
}

std::unique_ptr<Fiber> make_fiber() {
  auto fiber = std::make_unique<Fiber>();
  fiber->stack = std::make_unique_for_overwrite<unsigned char[]>(stack_bytes);
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = stack_bytes;
  makecontext(&fiber->context, &run_threads, 0);
  return fiber;
}

void begin_thread(Fiber& fiber, int rank, int index) {
  fiber.state = Wait::nothing;
  fiber.thread = {};
  fiber.thread.rank = rank;
  fiber.thread.index = index;
  fiber.thread.number.x = static_cast<unsigned>(index);
}

// Lets the fiber run until it waits.
void enter(Fiber& fiber) {
  device().running = &fiber;
  if (_setjmp(device().scheduler) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}

// Runs the threads [first, last) that may run. Returns whether any did.
bool run_ready(int first, int last) {
  bool ran = false;
  for (int i = first; i < last; ++i) {
    Fiber& fiber = *device().fibers[static_cast<std::size_t>(i)];
    if (fiber.state != Wait::nothing) continue;
    enter(fiber);
    ran = true;
  }
  return ran;
}

// Lets threads [first, last) go on if all that have not ended wait for `what`. Returns whether they do.
bool release(int first, int last, Wait what) {
  bool is_any = false;
  for (int i = first; i < last; ++i) {
    const Wait state = device().fibers[static_cast<std::size_t>(i)]->state;
    if (state != what && state != Wait::end) return false;
    is_any = is_any || state == what;
  }
  for (int i = first; i < last; ++i) {
    Wait& state = device().fibers[static_cast<std::size_t>(i)]->state;
    if (state == what) state = Wait::nothing;
  }
  return is_any;
}

bool has_ended(int threads) {
  return std::all_of(device().fibers.begin(), device().fibers.begin() + threads,
                     [](const auto& fiber) { return fiber->state == Wait::end; });
}

// Lets threads pass the cluster's barrier that every thread has come to. Returns whether any do.
bool release_cluster(int threads) {
  const auto begin = device().fibers.begin(), end = begin + threads;
  unsigned least = ~0U;
  std::for_each(begin, end, [&](const auto& fiber) {
    if (fiber->state != Wait::end) least = std::min(least, fiber->thread.arrivals);
  });
  bool is_any = false;
  std::for_each(begin, end, [&](const auto& fiber) {
    if (fiber->state != Wait::cluster || fiber->thread.arrivals > least) return;
    fiber->state = Wait::nothing;
    is_any = true;
  });
  return is_any;
}

// Runs the warps of a block until none can go on by itself. Returns whether any did.
bool run_warps(int first, int end) {
  bool moved = false;
  for (; first < end; first += lanes_of_warp) {
    const int last = std::min(first + lanes_of_warp, end);
    do moved = run_ready(first, last) || moved;
    while (release(first, last, Wait::warp));
  }
  return moved;
}

void run_cluster(int blocks, int threads) {
  for (int rank = 0; rank < blocks; ++rank) {
    // All bits set: a NaN, so that a value read before it was written shows.
    auto& shared = device().shared[rank];
    shared.assign(device().launch.shared_bytes / sizeof(uint4) + 1, uint4{~0U, ~0U, ~0U, ~0U});
    for (int i = 0; i < threads; ++i) {
      begin_thread(*device().fibers[static_cast<std::size_t>(rank * threads + i)], rank, i);
    }
  }
  while (!has_ended(blocks * threads)) {
    bool moved = false;
    for (int rank = 0; rank < blocks; ++rank) {
      const int first = rank * threads;
      moved = run_warps(first, first + threads) || moved;
      moved = release(first, first + threads, Wait::block) || moved;
    }
    if (!release_cluster(blocks * threads) && !moved) stop("its threads wait for each other");
  }
}

}  // namespace

Thread& thread() noexcept {
  return device().running->thread;
}
uint3 block_number() noexcept {
  uint3 number = device().block;
  number.x += static_cast<unsigned>(thread().rank);
  return number;
}
const Launch& launch_shape() noexcept {
  return device().launch;
}
void* shared_memory() noexcept {
  return device().shared[thread().rank].data();
}
void* of_rank(const void* local, int rank) noexcept {
  const auto offset = static_cast<const unsigned char*>(local) - static_cast<unsigned char*>(shared_memory());
  return reinterpret_cast<unsigned char*>(device().shared[rank].data()) + offset;
}
Slot* board(unsigned number) noexcept {
  return device().boards[thread().rank][number];
}

float half_value(unsigned bits) noexcept {
  static const std::vector<float> values = [] {
    std::vector<float> all(std::size_t{1} << 16);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = __half2float(__half(__half_raw{static_cast<unsigned short>(i)}));
    }
    return all;
  }();
  return values[bits & 0xffffU];
}

void wait(Wait what) {
  Fiber& own = *device().running;
  own.state = what;
  if (_setjmp(own.place) == 0) _longjmp(device().scheduler, 1);
}

void run(const Launch& launch, const std::function<void()>& body) {
  Device& on = device();
  const dim3 grid = launch.grid;
  const bool is_possible = grid.x > 0 && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535 &&
                           launch.block.x > 0 && launch.block.x <= threads_max && launch.shared_bytes <= shared_most &&
                           launch.cluster > 0 && launch.cluster <= cluster_max &&
                           grid.x % static_cast<unsigned>(launch.cluster) == 0;
  if (!is_possible) stop("a launch that no device accepts");
  const auto blocks = static_cast<unsigned>(launch.cluster);
  while (on.fibers.size() < std::size_t{launch.block.x} * blocks) on.fibers.push_back(make_fiber());
  on.launch = launch;
  on.body = &body;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; x += blocks) {
        on.block = {x, y, z};
        run_cluster(launch.cluster, static_cast<int>(launch.block.x));
      }
    }
  }
}

void copy_async(void* to, const void* from, std::size_t bytes) {
  const auto is_aligned = [bytes](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % bytes == 0; };
  if (!is_aligned(to) || !is_aligned(from)) stop("an asynchronous copy that is not aligned");
  thread().open.push_back({to, from, bytes});
}

void commit_copies() {
  thread().groups.push_back(std::exchange(thread().open, {}));
}

void wait_for_copies(std::size_t left) {
  auto& groups = thread().groups;
  while (groups.size() > left) {
    for (const AsyncCopy& copy : groups.front()) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, copy.bytes);
      } else {
        std::memcpy(copy.to, copy.from, copy.bytes);
      }
    }
    groups.erase(groups.begin());
  }
}

}  // namespace tandem::gpu::emulation

int __syncthreads_or(int predicate) {
  int& any = tandem::gpu::emulation::device().predicate;
  any = any | predicate;
  __syncthreads();
  const int result = any;
  __syncthreads();
  any = 0;
  __syncthreads();  // nobody is asked again before all have cleared it
  return result;
}
