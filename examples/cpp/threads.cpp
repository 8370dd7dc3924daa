// 64 threads on one device, each with a stream and tensors of its own.
#include <aclnnop/aclnn_add.h>

#include <atomic>
#include <thread>

#include "example.h"

namespace {

constexpr int kThreads = 64;
constexpr int kCalls = 20;
constexpr int64_t kElements = 1000;

// Adds the thread's number to a tensor, many times; returns whether the sum is right.
bool count_up(int number) {
  CHECK(aclrtSetDevice(0));  // the current device is a thread's own
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  bool right = true;
  {
    Tensor sum({kElements}, std::vector<float>(kElements));
    Tensor step({kElements}, std::vector<float>(kElements, static_cast<float>(number)));
    int64_t one = 1;
    aclScalar* alpha = aclCreateScalar(&one, ACL_INT64);
    for (int call = 0; call < kCalls; ++call) {
      uint64_t size = 0;
      aclOpExecutor* executor = nullptr;
      CHECK(aclnnInplaceAddGetWorkspaceSize(sum.get(), step.get(), alpha, &size, &executor));
      execute(aclnnInplaceAdd, size, executor, stream);
    }
    CHECK(aclrtSynchronizeStream(stream));
    for (const float value : sum.read())
      right = right && value == static_cast<float>(number * kCalls);
    CHECK(aclDestroyScalar(alpha));
  }
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  return right;
}

}  // namespace

int main() {
  Device device;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([number, &right] { right += count_up(number) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d of %d threads found what they had summed up\n", right.load(), kThreads);
  return right == kThreads ? 0 : 1;
}
