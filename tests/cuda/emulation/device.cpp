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
constexpr std::size_t shared_most = std::size_t{227} << 10;  // of one block on the devices that we serve

struct Fiber {
  ucontext_t context{};
  jmp_buf place{};
  bool has_begun = false;
  std::vector<unsigned char> stack;
  Wait state = Wait::nothing;
  Thread thread;
};

struct Device {
  jmp_buf scheduler{};
  std::vector<std::unique_ptr<Fiber>> fibers;
  Fiber* running = nullptr;
  Launch launch;
  uint3 block{};
  const std::function<void()>* body = nullptr;
  std::uint64_t boards[2][threads_max] = {};
  int predicate = 0;
  std::vector<std::uint64_t> shared = std::vector<std::uint64_t>(shared_most / sizeof(std::uint64_t) + 1);
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
  fiber->stack.resize(stack_bytes);
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.data();
  fiber->context.uc_stack.ss_size = fiber->stack.size();
  makecontext(&fiber->context, &run_threads, 0);
  return fiber;
}

void begin_thread(Fiber& fiber, int index) {
  fiber.state = Wait::nothing;
  fiber.thread = {};
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

void run_block(int threads) {
  // All bits set: a NaN, so that a value read before it was written shows.
  std::fill(device().shared.begin(), device().shared.end(), ~std::uint64_t{0});
  for (int i = 0; i < threads; ++i) begin_thread(*device().fibers[static_cast<std::size_t>(i)], i);
  while (!has_ended(threads)) {
    bool moved = false;
    for (int first = 0; first < threads; first += lanes_of_warp) {
      const int last = std::min(first + lanes_of_warp, threads);
      do moved = run_ready(first, last) || moved;
      while (release(first, last, Wait::warp));
    }
    if (!release(0, threads, Wait::block) && !moved) stop("its threads wait for each other");
  }
}

}  // namespace

Thread& thread() noexcept {
  return device().running->thread;
}
uint3 block_number() noexcept {
  return device().block;
}
const Launch& launch_shape() noexcept {
  return device().launch;
}
void* shared_memory() noexcept {
  return device().shared.data();
}
std::uint64_t* board(unsigned number) noexcept {
  return device().boards[number];
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
                           launch.block.x > 0 && launch.block.x <= threads_max && launch.shared_bytes <= shared_most;
  if (!is_possible) stop("a launch that no device accepts");
  while (on.fibers.size() < launch.block.x) on.fibers.push_back(make_fiber());
  on.launch = launch;
  on.body = &body;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        on.block = {x, y, z};
        run_block(static_cast<int>(launch.block.x));
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
    for (const AsyncCopy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
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
  return result;
}
