// Options of a compiler that there is none of here: kept, so that programs read what they set.
#include "acl/acl_op_compiler.h"

#include <array>
#include <cstring>
#include <mutex>
#include <string>

#include "runtime/api.h"

namespace aclnn::runtime {
namespace {

constexpr size_t kOptions = ACL_OP_DEBUG_OPTION + 1;

// The options' values, of those that have one. Never destroyed.
struct Options {
  std::mutex mutex;
  std::array<std::string, kOptions> values;
};

Options& options() {
  static Options* const instance = [] {
    auto* made = new Options;
    made->values[ACL_OP_JIT_COMPILE] = "disable";
    return made;
  }();
  return *instance;
}

bool known(int option) { return option >= 0 && static_cast<size_t>(option) < kOptions; }

std::string value_of(int option) {
  if (!known(option)) return {};
  const std::lock_guard<std::mutex> lock(options().mutex);
  return options().values[static_cast<size_t>(option)];
}

}  // namespace
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  return exported([&]() -> Error {
    if (!known(opt)) return invalid("opt", std::to_string(opt), "the options are 0 to 16");
    if (value == nullptr) return null_pointer("value");
    const std::lock_guard<std::mutex> lock(options().mutex);
    options().values[static_cast<size_t>(opt)] = value;
    return {};
  });
}

size_t aclGetCompileoptSize(aclCompileOpt opt) try {
  const std::string value = value_of(opt);
  return value.empty() ? 0 : value.size() + 1;
} catch (const std::exception&) {
  return 0;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  return exported([&]() -> Error {
    if (value == nullptr) return null_pointer("value");
    const std::string found = value_of(opt);
    if (found.empty()) return invalid("opt", std::to_string(opt), "it has not been set");
    if (length <= found.size()) {
      return invalid("length", std::to_string(length),
                     "the value takes " + std::to_string(found.size() + 1) + " bytes");
    }
    std::memcpy(value, found.c_str(), found.size() + 1);
    return {};
  });
}
