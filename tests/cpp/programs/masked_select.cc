// Results that are as large as their elements make them: what aclGetViewShape tells, and when.
#include <acl/acl.h>
#include <aclnnop/aclnn_masked_select.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kShape[] = {4, 2};
constexpr int64_t kMost[] = {8};

void check(int code) {
  if (code == 0) return;
  const char* text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%d: %s\n", code, text == nullptr ? "" : text);
  std::exit(1);
}

void* on_device(const void* data, size_t bytes) {
  void* memory = nullptr;
  check(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  check(aclrtMemcpy(memory, bytes, data, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return memory;
}

aclTensor* output(void* memory) {
  return aclCreateTensor(kMost, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kMost, 1, memory);
}

void select(const aclTensor* self, const aclTensor* mask, aclTensor* out) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  check(aclnnMaskedSelectGetWorkspaceSize(self, mask, out, &size, &executor));
  check(aclnnMaskedSelect(nullptr, size, executor, nullptr));
}

void print_shape(const aclTensor* tensor) {
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  check(aclGetViewShape(tensor, &shape, &rank));
  for (uint64_t axis = 0; axis < rank; ++axis) std::printf("[%ld] ", static_cast<long>(shape[axis]));
  delete[] shape;
}

}  // namespace

int main() {
  const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const bool flags[8] = {false, true, false, true, true, false, false, false};
  float found[8] = {};
  check(aclInit(nullptr));
  check(aclrtSetDevice(0));
  aclTensor* self = aclCreateTensor(kShape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kShape, 2,
                                    on_device(numbers, sizeof numbers));
  aclTensor* mask = aclCreateTensor(kShape, 2, ACL_BOOL, nullptr, 0, ACL_FORMAT_ND, kShape, 2,
                                    on_device(flags, sizeof flags));
  void* memory = on_device(found, sizeof found);
  aclTensor* out = output(memory);
  select(self, mask, out);
  check(aclrtSynchronizeStream(nullptr));
  print_shape(out);
  check(aclrtMemcpy(found, sizeof found, memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("%g %g %g\n", found[0], found[1], found[2]);

  // A tensor that is destroyed before the answer comes takes no shape, nor does its successor.
  for (int round = 0; round < 1000; ++round) {
    aclTensor* short_lived = output(memory);
    select(self, mask, short_lived);
    check(aclDestroyTensor(short_lived));
  }
  aclTensor* untouched = output(memory);
  check(aclrtSynchronizeDevice());
  print_shape(untouched);
  std::printf("\n");
  check(aclFinalize());
}
