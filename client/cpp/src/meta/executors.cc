#include "meta/executors.h"

#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "meta/refusals.h"

namespace aclnn::meta {
namespace {

// Handles look like no address of user space, so that following one by mistake is noticed at once.
constexpr uint64_t kMark = 0xACE0ULL << 48;
constexpr uint64_t kMarkMask = 0xFFFFULL << 48;
constexpr int kShift = 4;

std::atomic<uint64_t> last_number{0};

// Executors by number. Never destroyed: other libraries' static objects may still hold some at
// exit.
struct Shard {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<Executor>> executors;
};

Shard& shard_of(uint64_t number) {
  static auto* shards = new std::array<Shard, 16>;
  return (*shards)[number % shards->size()];
}

// 0 where the handle is none.
uint64_t number_of(const aclOpExecutor* handle) {
  const uint64_t value = reinterpret_cast<uint64_t>(handle);
  const bool ours = (value & kMarkMask) == kMark && value % (1U << kShift) == 0;
  return ours ? (value & ~kMarkMask) >> kShift : 0;
}

enum class After { kKeep, kRemoveOneShot, kRemove };

// Finds an executor, and takes it out of its shard where that is asked for.
std::shared_ptr<Executor> look_up(const aclOpExecutor* handle, After after) {
  const uint64_t number = number_of(handle);
  Shard& shard = shard_of(number);
  std::lock_guard<std::mutex> lock(shard.mutex);
  const auto found = shard.executors.find(number);
  if (found == shard.executors.end()) return nullptr;
  std::shared_ptr<Executor> executor = found->second;
  const bool remove =
      after == After::kRemove || (after == After::kRemoveOneShot && !executor->repeatable.load());
  if (remove) shard.executors.erase(found);
  return executor;
}

int refuse_executor(const char* function, const aclOpExecutor* handle) {
  if (handle == nullptr) {
    return runtime::fail(kInnerNull, std::string(function) + ": executor is null");
  }
  const uint64_t number = number_of(handle);
  if (number != 0 && number <= last_number.load()) {
    return runtime::fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                         std::string(function) + ": the executor was run or destroyed before");
  }
  return runtime::fail(kInvalid,
                       std::string(function) + ": executor is no aclOpExecutor of a phase one");
}

std::shared_ptr<Executor> found_or_refused(const char* function, const aclOpExecutor* handle,
                                           After after, int* code) {
  std::shared_ptr<Executor> executor = look_up(handle, after);
  if (executor == nullptr) *code = refuse_executor(function, handle);
  return executor;
}

}  // namespace

aclOpExecutor* keep_executor(std::shared_ptr<Executor> executor) {
  const uint64_t number = last_number.fetch_add(1) + 1;
  Shard& shard = shard_of(number);
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.executors.emplace(number, std::move(executor));
  return reinterpret_cast<aclOpExecutor*>(kMark | number << kShift);
}

std::shared_ptr<Executor> use_executor(const char* function, const aclOpExecutor* handle,
                                       int* code) {
  return found_or_refused(function, handle, After::kRemoveOneShot, code);
}

std::shared_ptr<Executor> find_executor(const char* function, const aclOpExecutor* handle,
                                        int* code) {
  return found_or_refused(function, handle, After::kKeep, code);
}

}  // namespace aclnn::meta

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  int code = OK;
  const auto found = aclnn::meta::find_executor("aclSetAclOpExecutorRepeatable", executor, &code);
  if (found != nullptr) found->repeatable = true;
  return code;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  int code = OK;
  aclnn::meta::found_or_refused("aclDestroyAclOpExecutor", executor, aclnn::meta::After::kRemove,
                                &code);
  return code;
}
