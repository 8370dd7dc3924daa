// A tensor of 1 GiB, or of as many MiB as the first argument says: up, computed in place, and down
// again.
#include <aclnnop/aclnn_mul.h>

#include "example.h"

int main(int count, char** arguments) {
  const int64_t mebibytes = count > 1 ? std::atoll(arguments[1]) : 1024;
  const int64_t elements = mebibytes * (1 << 20) / static_cast<int64_t>(sizeof(float));
  Device device;
  int wrong = 0;
  {
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1021);
    Tensor tensor({elements}, values);
    double factor = 2;
    aclScalar* scalar = aclCreateScalar(&factor, ACL_DOUBLE);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnInplaceMulsGetWorkspaceSize(tensor.get(), scalar, &size, &executor));
    execute(aclnnInplaceMuls, size, executor, nullptr);
    CHECK(aclrtSynchronizeStream(nullptr));
    values = tensor.read();
    for (size_t i = 0; i < values.size(); ++i)
      wrong += values[i] != static_cast<float>(i % 1021 * 2);
    CHECK(aclDestroyScalar(scalar));
  }
  std::printf("%lld MiB doubled, %d elements wrong\n", static_cast<long long>(mebibytes), wrong);
  return wrong == 0 ? 0 : 1;
}
