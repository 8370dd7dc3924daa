#include "runtime/host_memory.h"

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <shared_mutex>

namespace aclnn::runtime {
namespace {

constexpr size_t kAlignment = 4096;

struct Block {
  size_t bytes = 0;
  std::shared_ptr<Lender> lender;
};

struct Blocks {
  std::shared_mutex mutex;
  std::map<uintptr_t, Block> by_address;
};

// Never destroyed: calls may come while the process exits.
Blocks& blocks() {
  static Blocks* const instance = new Blocks;
  return *instance;
}

}  // namespace

grpc::Slice Lender::lend(const char* data, size_t size) {
  begin_use();
  return grpc::Slice(
      const_cast<char*>(data), size, [](void* lender) { static_cast<Lender*>(lender)->end_use(); },
      this);
}

void Lender::begin_use() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++uses_;
}

void Lender::end_use() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--uses_ == 0) changed_.notify_all();
}

void Lender::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return uses_ == 0; });
}

void* allocate_host(size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) return nullptr;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return nullptr;
  const std::unique_lock<std::shared_mutex> lock(blocks().mutex);
  blocks().by_address[reinterpret_cast<uintptr_t>(memory)] = {bytes, std::make_shared<Lender>()};
  return memory;
}

bool free_host(void* address) {
  std::shared_ptr<Lender> lender;
  {
    const std::unique_lock<std::shared_mutex> lock(blocks().mutex);
    const auto found = blocks().by_address.find(reinterpret_cast<uintptr_t>(address));
    if (found == blocks().by_address.end()) return false;
    lender = found->second.lender;
    blocks().by_address.erase(found);
  }
  lender->wait();
  std::free(address);
  return true;
}

std::shared_ptr<Lender> find_host(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::shared_lock<std::shared_mutex> lock(blocks().mutex);
  auto after = blocks().by_address.upper_bound(address);
  if (after == blocks().by_address.begin()) return nullptr;
  const auto& [begin, block] = *--after;
  const size_t offset = address - begin;
  return offset <= block.bytes && bytes <= block.bytes - offset ? block.lender : nullptr;
}

}  // namespace aclnn::runtime
