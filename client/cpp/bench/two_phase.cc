// What a small two-phase call costs: one after the other, and many under way.
//
// two_phase SYNCHRONOUS ASYNCHRONOUS: makes as many calls of each kind, and prints the median microseconds
// of a call that is waited for, the microseconds that a call takes in the caller's thread when nobody
// waits, and how many of these are done in a second.
#include <acl/acl.h>
#include <aclnnop/aclnn_smooth_l1_loss_backward.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kShape[] = {8};
constexpr size_t kBytes = 8 * sizeof(float);

void check(int code) {
  if (code == 0) return;
  const char* text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%d: %s\n", code, text == nullptr ? "" : text);
  std::exit(1);
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

aclTensor* make_tensor() {
  void* memory = nullptr;
  const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  check(aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  check(aclrtMemcpy(memory, kBytes, values, kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return aclCreateTensor(kShape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kShape, 1, memory);
}

struct Call {
  aclTensor* gradient = make_tensor();
  aclTensor* self = make_tensor();
  aclTensor* target = make_tensor();
  aclTensor* out = make_tensor();
  aclrtStream stream = nullptr;

  void send() {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    check(aclnnSmoothL1LossBackwardGetWorkspaceSize(gradient, self, target, 1, 1.0F, out, &size,
                                                    &executor));
    if (size != 0) std::exit(1);
    check(aclnnSmoothL1LossBackward(nullptr, 0, executor, stream));
  }
};

double median_of_synchronous(Call& call, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    call.send();
    check(aclrtSynchronizeStream(call.stream));
    times.push_back(microseconds(Clock::now() - begin));
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<size_t>(count) / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int synchronous = argc > 1 ? std::atoi(argv[1]) : 2000;
  const int asynchronous = argc > 2 ? std::atoi(argv[2]) : 10000;
  check(aclInit(nullptr));
  check(aclrtSetDevice(0));
  Call call;
  check(aclrtCreateStream(&call.stream));
  call.send();
  check(aclrtSynchronizeStream(call.stream));
  const double waited = median_of_synchronous(call, synchronous);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < asynchronous; ++i) call.send();
  const Clock::time_point sent = Clock::now();
  check(aclrtSynchronizeStream(call.stream));
  const double whole = microseconds(Clock::now() - begin);
  std::printf("%.1f %.2f %.0f\n", waited, microseconds(sent - begin) / asynchronous,
              asynchronous / whole * 1e6);
  check(aclFinalize());
  return 0;
}
