// What the examples share: a check of every return code, and tensors in device memory.
#pragma once

#include <acl/acl.h>
#include <aclnn/acl_meta.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

// Ends the program where a call failed, with what it failed with.
inline void check(int status, const char* call) {
  if (status == ACL_SUCCESS) return;
  const char* text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s returned %d: %s\n", call, status, text == nullptr ? "" : text);
  std::exit(1);
}

#define CHECK(call) check(call, #call)

// ACL and its first device, for as long as it lives.
class Device {
 public:
  Device() {
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
  }
  ~Device() {
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};

// Floats in device memory, and the aclTensor over them.
class Tensor {
 public:
  explicit Tensor(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    CHECK(aclrtMalloc(&memory_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    handle_ = aclCreateTensor(shape_.data(), shape_.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                              shape_.data(), shape_.size(), memory_);
    if (handle_ == nullptr) check(ACL_ERROR_BAD_ALLOC, "aclCreateTensor");
  }

  Tensor(std::vector<int64_t> shape, const std::vector<float>& values) : Tensor(std::move(shape)) {
    write(values);
  }

  ~Tensor() {
    CHECK(aclDestroyTensor(handle_));
    CHECK(aclrtFree(memory_));
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  aclTensor* get() const { return handle_; }
  void* memory() const { return memory_; }

  size_t elements() const {
    size_t count = 1;
    for (const int64_t size : shape_) count *= static_cast<size_t>(size);
    return count;
  }
  size_t bytes() const { return elements() * sizeof(float); }

  void write(const std::vector<float>& values) {
    CHECK(aclrtMemcpy(memory_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
  }

  // Copies do not wait for streams: synchronise first.
  std::vector<float> read() const {
    std::vector<float> values(elements());
    CHECK(aclrtMemcpy(values.data(), bytes(), memory_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
  }

 private:
  std::vector<int64_t> shape_;
  void* memory_ = nullptr;
  aclTensor* handle_ = nullptr;
};

// Phase two of an operator, with the workspace that phase one asked for.
template <class PhaseTwo>
void execute(PhaseTwo phase_two, uint64_t workspace_size, aclOpExecutor* executor,
             aclrtStream stream) {
  void* workspace = nullptr;
  if (workspace_size > 0) {
    CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  }
  check(phase_two(workspace, workspace_size, executor, stream), "phase two");
  if (workspace != nullptr) {
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtFree(workspace));
  }
}
