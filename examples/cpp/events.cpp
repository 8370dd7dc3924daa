// Two streams that run side by side, ordered by an event where one needs what the other computes.
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_mul.h>

#include "example.h"

int main() {
  Device device;
  aclrtStream producer = nullptr;
  aclrtStream consumer = nullptr;
  aclrtEvent start = nullptr;
  aclrtEvent ready = nullptr;
  CHECK(aclrtCreateStream(&producer));
  CHECK(aclrtCreateStream(&consumer));
  CHECK(aclrtCreateEventWithFlag(&start, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
  CHECK(aclrtCreateEventWithFlag(&ready, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
  {
    const int64_t elements = 1 << 20;
    Tensor numbers({elements}, std::vector<float>(elements, 3.0f));
    Tensor squares({elements});
    Tensor sums({elements});
    int64_t one = 1;
    aclScalar* alpha = aclCreateScalar(&one, ACL_INT64);
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;

    CHECK(aclrtRecordEvent(start, producer));
    CHECK(aclnnMulGetWorkspaceSize(numbers.get(), numbers.get(), squares.get(), &workspace_size,
                                   &executor));
    execute(aclnnMul, workspace_size, executor, producer);
    CHECK(aclrtRecordEvent(ready, producer));

    CHECK(aclrtStreamWaitEvent(consumer, ready));  // without it the sums may be made too early
    CHECK(aclnnAddGetWorkspaceSize(squares.get(), numbers.get(), alpha, sums.get(), &workspace_size,
                                   &executor));
    execute(aclnnAdd, workspace_size, executor, consumer);
    CHECK(aclrtSynchronizeStream(consumer));

    bool right = true;
    for (const float value : sums.read()) right = right && value == 12.0f;
    std::printf("3 * 3 + 3 = 12 in all of %lld places: %s\n", static_cast<long long>(elements),
                right ? "yes" : "no");
    float milliseconds = 0;
    CHECK(aclrtEventElapsedTime(&milliseconds, start, ready));
    std::printf("the squares took a time that is %s\n",
                milliseconds >= 0 ? "not negative" : "negative");
    CHECK(aclDestroyScalar(alpha));
  }
  CHECK(aclrtDestroyEvent(start));
  CHECK(aclrtDestroyEvent(ready));
  CHECK(aclrtDestroyStream(producer));
  CHECK(aclrtDestroyStream(consumer));
  return 0;
}
