// aclnnSmoothL1LossBackward in two phases: every step that a program takes, from the start of ACL
// to its end.
#include <acl/acl.h>
#include <aclnnop/aclnn_smooth_l1_loss_backward.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#define REQUIRE(call)                                                                  \
  do {                                                                                 \
    const int status = (call);                                                         \
    if (status != ACL_SUCCESS) {                                                       \
      const char* text = aclGetRecentErrMsg();                                         \
      std::fprintf(stderr, "%s: %d %s\n", #call, status, text == nullptr ? "" : text); \
      return status;                                                                   \
    }                                                                                  \
  } while (false)

namespace {

const std::vector<int64_t> kShape = {4, 2};

// Device memory with the values in it, and a tensor over it.
int make_tensor(const std::vector<float>& values, void** memory, aclTensor** tensor) {
  const size_t bytes = values.size() * sizeof(float);
  REQUIRE(aclrtMalloc(memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  REQUIRE(aclrtMemcpy(*memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  const std::vector<int64_t> strides = {kShape[1], 1};
  *tensor = aclCreateTensor(kShape.data(), kShape.size(), ACL_FLOAT, strides.data(), 0,
                            ACL_FORMAT_ND, kShape.data(), kShape.size(), *memory);
  return *tensor == nullptr ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS;
}

}  // namespace

int main() {
  // 1. ACL, a device, a stream.
  const int32_t device = 0;
  aclrtStream stream = nullptr;
  REQUIRE(aclInit(nullptr));
  REQUIRE(aclrtSetDevice(device));
  REQUIRE(aclrtCreateStream(&stream));

  // 2. The tensors.
  void *grad_memory, *self_memory, *target_memory, *result_memory;
  aclTensor *grad, *self, *target, *result;
  REQUIRE(make_tensor({1, 1, 1, 1, 1, 1, 1, 1}, &grad_memory, &grad));
  REQUIRE(make_tensor({0, 1, 2, 3, 4, 5, 6, 7}, &self_memory, &self));
  REQUIRE(make_tensor({1, 1, 1, 1, 1, 1, 1, 1}, &target_memory, &target));
  REQUIRE(make_tensor(std::vector<float>(8), &result_memory, &result));
  const int64_t reduction = 0;  // none
  const float beta = 1.0f;

  // 3. Phase one validates the call and tells how much scratch memory it needs.
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  REQUIRE(aclnnSmoothL1LossBackwardGetWorkspaceSize(grad, self, target, reduction, beta, result,
                                                    &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) {
    REQUIRE(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  }

  // 4. Phase two queues it on the stream.
  REQUIRE(aclnnSmoothL1LossBackward(workspace, workspace_size, executor, stream));

  // 5. Wait, and copy the result back.
  REQUIRE(aclrtSynchronizeStream(stream));
  std::vector<float> values(8);
  const size_t bytes = values.size() * sizeof(float);
  REQUIRE(aclrtMemcpy(values.data(), bytes, result_memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (size_t i = 0; i < values.size(); ++i) std::printf("gradInput[%zu] = %g\n", i, values[i]);

  // 6. Give everything back.
  for (aclTensor* tensor : {grad, self, target, result}) REQUIRE(aclDestroyTensor(tensor));
  for (void* memory : {grad_memory, self_memory, target_memory, result_memory}) {
    REQUIRE(aclrtFree(memory));
  }
  if (workspace != nullptr) REQUIRE(aclrtFree(workspace));
  REQUIRE(aclrtDestroyStream(stream));
  REQUIRE(aclrtResetDevice(device));
  REQUIRE(aclFinalize());
  return 0;
}
