// What goes wrong, and how it is told: a code, and a text that names parameter and value.
#include <aclnnop/aclnn_smooth_l1_loss_backward.h>

#include "example.h"

namespace {

void tell(const char* what, int status) {
  const char* text = aclGetRecentErrMsg();  // forgotten once it is read; of this thread only
  std::printf("%s: %d\n    %s\n", what, status, text == nullptr ? "" : text);
}

}  // namespace

int main() {
  Device device;
  {
    Tensor grad({4, 2}, std::vector<float>(8, 1.0f));
    Tensor self({4, 2}, std::vector<float>(8, 2.0f));
    Tensor target({4, 2}, std::vector<float>(8, 1.0f));
    Tensor result({4, 2});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const auto plan = [&](const aclTensor* input, int64_t reduction, float beta) {
      return aclnnSmoothL1LossBackwardGetWorkspaceSize(grad.get(), input, target.get(), reduction,
                                                       beta, result.get(), &size, &executor);
    };

    tell("a null tensor", plan(nullptr, 0, 1.0f));
    tell("a reduction that there is not", plan(self.get(), 3, 1.0f));
    tell("a negative beta", plan(self.get(), 0, -1.0f));

    float on_host[8] = {};
    const int64_t shape[] = {4, 2};
    aclTensor* lost =
        aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 2, on_host);
    tell("memory of the host", plan(lost, 0, 1.0f));
    CHECK(aclDestroyTensor(lost));
    tell("a tensor that was destroyed", plan(lost, 0, 1.0f));

    CHECK(plan(self.get(), 0, 1.0f));
    CHECK(aclnnSmoothL1LossBackward(nullptr, size, executor, nullptr));
    tell("an executor that was run", aclnnSmoothL1LossBackward(nullptr, size, executor, nullptr));
    void* memory = nullptr;
    tell("more memory than there is",
         aclrtMalloc(&memory, size_t{1} << 60, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtSynchronizeStream(nullptr));  // all that was right has been done
  }
  return 0;
}
