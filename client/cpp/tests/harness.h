// What the runtime's test programs share: the test that drives them, device memory, and the
// operators of the server that they run against (tests/service/gated.py).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_serve.h"
#include "expect.h"

namespace aclnn::tests {

// Asks the driving test to do something, and waits until it has: "open 1" opens a gate.
inline void ask_driver(const std::string& request) {
  std::cout << request << std::endl;
  std::string answer;
  if (!std::getline(std::cin, answer) || answer != "done") {
    std::cerr << "the driver answered '" << answer << "' to '" << request << "'\n";
    std::exit(1);
  }
}

inline void must(int code, const char* call, const char* file, int line) {
  if (code == 0) return;
  std::cerr << file << ":" << line << ": " << call << " gave " << code << ": " << recent_text()
            << "\n";
  std::exit(1);
}

// A call without which the rest of the test makes no sense.
#define MUST(call) aclnn::tests::must((call), #call, __FILE__, __LINE__)

// Numbers in device memory, and the aclTensor over them.
class Numbers {
 public:
  explicit Numbers(const std::vector<int64_t>& values) : count_(values.size()) {
    MUST(aclrtMalloc(&memory_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemcpy(memory_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    const auto shape = static_cast<int64_t>(count_);
    tensor_ = aclCreateTensor(&shape, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, &shape, 1, memory_);
  }

  ~Numbers() {
    MUST(aclDestroyTensor(tensor_));
    if (memory_ != nullptr) MUST(aclrtFree(memory_));
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  std::vector<int64_t> read() const {
    std::vector<int64_t> values(count_);
    MUST(aclrtMemcpy(values.data(), bytes(), memory_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
  }

  // Frees the memory; the tensor stays.
  void free() {
    MUST(aclrtFree(memory_));
    memory_ = nullptr;
  }

  aclTensor* tensor() const { return tensor_; }
  void* memory() const { return memory_; }
  size_t bytes() const { return count_ * sizeof(int64_t); }

 private:
  size_t count_;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};

// A stream for the time of a block.
class OwnStream {
 public:
  OwnStream() { MUST(aclrtCreateStream(&handle_)); }
  ~OwnStream() { MUST(aclrtDestroyStream(handle_)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  aclrtStream get() const { return handle_; }

 private:
  aclrtStream handle_ = nullptr;
};

// --- the server's operators --------------------------------------------------

// Both phases of a call that takes no workspace; gives the first failure.
inline int call(const aclnnServeOperator& op, const std::vector<aclnnServeArgument>& arguments,
                aclrtStream stream) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int planned = aclnnServeGetWorkspaceSize(&op, arguments.data(), &size, &executor);
  if (planned != 0) return planned;
  return aclnnServeExecute(&op, nullptr, size, executor, stream);
}

inline aclnnServeArgument tensor_argument(const aclTensor* tensor) {
  aclnnServeArgument argument;
  argument.tensor = tensor;
  return argument;
}

inline aclnnServeArgument number_argument(int64_t number) {
  aclnnServeArgument argument;
  argument.int64Value = number;
  return argument;
}

// Copies, once the gate of a number is open; gate 0 is none.
inline int pass(const Numbers& self, int64_t gate, const Numbers& out, aclrtStream stream) {
  static const aclnnServeParameter parameters[] = {{"self", ACLNN_SERVE_TENSOR, false},
                                                   {"gate", ACLNN_SERVE_INT64, false},
                                                   {"out", ACLNN_SERVE_TENSOR, true}};
  static const aclnnServeOperator op{"aclnnPass", parameters, 3};
  return call(
      op, {tensor_argument(self.tensor()), number_argument(gate), tensor_argument(out.tensor())},
      stream);
}

// out = self + other.
inline int plus(const Numbers& self, int64_t other, const Numbers& out, aclrtStream stream) {
  static const aclnnServeParameter parameters[] = {{"self", ACLNN_SERVE_TENSOR, false},
                                                   {"other", ACLNN_SERVE_INT64, false},
                                                   {"out", ACLNN_SERVE_TENSOR, true}};
  static const aclnnServeOperator op{"aclnnPlus", parameters, 3};
  return call(
      op, {tensor_argument(self.tensor()), number_argument(other), tensor_argument(out.tensor())},
      stream);
}

// Appends a digit to a number: what is run twice, not at all or in another order shows.
inline int append(int64_t digit, const Numbers& number, aclrtStream stream) {
  static const aclnnServeParameter parameters[] = {{"digit", ACLNN_SERVE_INT64, false},
                                                   {"selfRef", ACLNN_SERVE_TENSOR, true}};
  static const aclnnServeOperator op{"aclnnDigit", parameters, 2};
  return call(op, {number_argument(digit), tensor_argument(number.tensor())}, stream);
}

// Fails when it is run.
inline int fail_on_device(int64_t number, const Numbers& out, aclrtStream stream) {
  static const aclnnServeParameter parameters[] = {{"number", ACLNN_SERVE_INT64, false},
                                                   {"out", ACLNN_SERVE_TENSOR, true}};
  static const aclnnServeOperator op{"aclnnFail", parameters, 2};
  return call(op, {number_argument(number), tensor_argument(out.tensor())}, stream);
}

// --- programs ----------------------------------------------------------------

using Tests = std::map<std::string, std::function<void()>>;

// Runs the tests that are named, or all; gives how many checks failed.
inline int run_tests(const Tests& tests, int argc, char** argv) {
  for (const auto& [name, test] : tests) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i) wanted = wanted || name == argv[i];
    if (!wanted) continue;
    const int before = failures;
    test();
    if (failures != before) std::cerr << "failed: " << name << "\n";
  }
  return failures == 0 ? 0 : 1;
}

// The same on the first device.
inline int run_device_tests(const Tests& tests, int argc, char** argv) {
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  const int code = run_tests(tests, argc, argv);
  MUST(aclrtResetDevice(0));
  MUST(aclFinalize());
  return code;
}

}  // namespace aclnn::tests
