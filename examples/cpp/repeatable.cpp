// One plan, run many times: a repeatable executor that is told other addresses between its runs.
#include <aclnnop/aclnn_add.h>

#include "example.h"

int main() {
  Device device;
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  {
    Tensor self({4}, {1, 2, 3, 4});
    Tensor other({4}, {10, 20, 30, 40});
    Tensor another({4}, {100, 200, 300, 400});
    Tensor out({4});
    Tensor elsewhere({4});
    int64_t one = 1;
    aclScalar* alpha = aclCreateScalar(&one, ACL_INT64);

    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnAddGetWorkspaceSize(self.get(), other.get(), alpha, out.get(), &workspace_size,
                                   &executor));
    CHECK(aclSetAclOpExecutorRepeatable(executor));

    execute(aclnnAdd, workspace_size, executor, stream);  // out = self + other
    CHECK(aclSetInputTensorAddr(executor, 1, other.get(), another.memory()));
    CHECK(aclSetOutputTensorAddr(executor, 0, out.get(), elsewhere.memory()));
    for (int run = 0; run < 100; ++run) {
      execute(aclnnAdd, workspace_size, executor, stream);  // elsewhere = self + another
    }
    CHECK(aclDestroyAclOpExecutor(executor));

    CHECK(aclrtSynchronizeStream(stream));
    for (const Tensor* result : {&out, &elsewhere}) {
      for (const float value : result->read()) std::printf("%g ", value);
      std::printf("\n");
    }
    CHECK(aclDestroyScalar(alpha));
  }
  CHECK(aclrtDestroyStream(stream));
  return 0;
}
