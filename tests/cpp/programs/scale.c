/* Calls an operator that only the server knows, by what `aclnn-serve headers` wrote. */
#include <acl/acl.h>
#include <aclnnop/aclnn_scale.h>
#include <stdio.h>

int main(void) {
  const int64_t shape[] = {3};
  float values[] = {1, 2, 3};
  void* memory = NULL;
  uint64_t size = 0;
  aclOpExecutor* executor = NULL;
  int failures = 0;
  failures += aclInit(NULL) != 0;
  failures += aclrtSetDevice(0) != 0;
  failures += aclrtMalloc(&memory, sizeof values, ACL_MEM_MALLOC_HUGE_FIRST) != 0;
  failures +=
      aclrtMemcpy(memory, sizeof values, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE) != 0;
  aclTensor* x = aclCreateTensor(shape, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 1, memory);
  failures += aclnnScaleGetWorkspaceSize(x, 1.5, x, &size, &executor) != 0;
  failures += aclnnScale(NULL, size, executor, NULL) != 0;
  failures += aclrtSynchronizeStream(NULL) != 0;
  failures +=
      aclrtMemcpy(values, sizeof values, memory, sizeof values, ACL_MEMCPY_DEVICE_TO_HOST) != 0;
  printf("%g %g %g\n", values[0], values[1], values[2]);
  printf("%d\n", aclnnScaleGetWorkspaceSize(NULL, 1.5, x, &size, &executor));
  printf("%s\n", aclGetRecentErrMsg());
  failures += aclDestroyTensor(x) != 0;
  failures += aclrtFree(memory) != 0;
  failures += aclFinalize() != 0;
  return failures;
}
