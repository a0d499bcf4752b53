// A call that nobody has to wait for: for libraries that may keep a thread for longer than a caller has time.
//
// std::thread and std::async want to be joined; here the thread ends by itself, or with the process.
#pragma once

#include <functional>
#include <future>
#include <optional>

namespace tandem {

// Starts `call` in a thread that is never joined: it must own whatever it touches. Returns its end, with what it threw;
// nullopt if there is no thread to be had.
std::optional<std::future<void>> start_unwaited(std::function<void()> call);

}  // namespace tandem
