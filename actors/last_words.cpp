// From exceptions and exit reasons to text.
#include "actors/last_words.hpp"

#include <fmt/format.h>

#include <exception>

namespace tandem::actors {

caf::error keep_exception(caf::scheduled_actor*, std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return caf::make_error(caf::sec::runtime_error, error.what());
  } catch (...) {
    return caf::make_error(caf::sec::runtime_error, "an exception of an unknown type");
  }
}

std::string describe_end(const caf::local_actor& self) {
  return fmt::format("the {} actor ended: {}", self.name(), self.home_system().render(self.fail_state()));
}

}  // namespace tandem::actors
