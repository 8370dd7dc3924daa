/* The same calls from C: the sum of two tensors. */
#include <acl/acl.h>
#include <aclnnop/aclnn_add.h>
#include <stdio.h>
#include <stdlib.h>

static void require(int status, const char* call) {
  if (status != ACL_SUCCESS) {
    const char* text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", call, status, text == NULL ? "" : text);
    exit(1);
  }
}

#define REQUIRE(call) require(call, #call)

static const int64_t shape[] = {2, 3};

static aclTensor* tensor_of(const float* values, void** memory) {
  const size_t bytes = 6 * sizeof(float);
  REQUIRE(aclrtMalloc(memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  if (values != NULL) {
    REQUIRE(aclrtMemcpy(*memory, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  }
  return aclCreateTensor(shape, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 2, *memory);
}

int main(void) {
  const float left[] = {1, 2, 3, 4, 5, 6};
  const float right[] = {10, 10, 10, 20, 20, 20};
  float sum[6];
  float factor = 0.5f;
  void *left_memory, *right_memory, *sum_memory;
  uint64_t size = 0;
  aclOpExecutor* executor = NULL;

  REQUIRE(aclInit(NULL));
  REQUIRE(aclrtSetDevice(0));
  aclTensor* self = tensor_of(left, &left_memory);
  aclTensor* other = tensor_of(right, &right_memory);
  aclTensor* out = tensor_of(NULL, &sum_memory);
  aclScalar* alpha = aclCreateScalar(&factor, ACL_FLOAT);

  /* A null stream is the default one. This library asks for no workspace: its server lends it. */
  REQUIRE(aclnnAddGetWorkspaceSize(self, other, alpha, out, &size, &executor));
  REQUIRE(aclnnAdd(NULL, size, executor, NULL));
  REQUIRE(aclrtSynchronizeStream(NULL));
  REQUIRE(aclrtMemcpy(sum, sizeof sum, sum_memory, sizeof sum, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < 6; ++i) printf("%g ", sum[i]);
  printf("\n");

  REQUIRE(aclDestroyScalar(alpha));
  REQUIRE(aclDestroyTensor(self));
  REQUIRE(aclDestroyTensor(other));
  REQUIRE(aclDestroyTensor(out));
  REQUIRE(aclrtFree(left_memory));
  REQUIRE(aclrtFree(right_memory));
  REQUIRE(aclrtFree(sum_memory));
  REQUIRE(aclrtResetDevice(0));
  REQUIRE(aclFinalize());
  return 0;
}
