// Memory of the host from aclrtMallocHost: copies from and to it go on by themselves, without a
// copy in between, so it must not end while one is under way.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include "runtime/completion.h"

namespace grpc {
class Slice;
}

namespace aclnn::runtime {

// Memory that copies under way refer to.
class Lender {
 public:
  // A slice of the memory, for gRPC to read from until it has no use for it any more.
  grpc::Slice lend(const char* data, size_t size);

  // Notes a copy that writes to the memory, or its end.
  void begin_use();
  void end_use();

  // Waits until nothing refers to the memory.
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t uses_ = 0;
};

// Allocates; null where there is no room.
void* allocate_host(size_t bytes);

// Frees, after the copies under way; false where address is none that was allocated.
bool free_host(void* address);

// The lender of memory from allocate_host that has all these bytes; null where there is none.
std::shared_ptr<Lender> find_host(const void* address, size_t bytes);

}  // namespace aclnn::runtime
