// Other addresses for the tensors of repeatable executors.
#include <string>
#include <vector>

#include "meta/executors.h"
#include "meta/objects.h"
#include "meta/pool.h"
#include "meta/refusals.h"

namespace aclnn::meta {
namespace {

enum class Among { kInputs, kOutputs, kAll };

struct Change {
  const char* function;
  Among among;
  size_t number;       // as the caller counts
  const void* handle;  // the aclTensor or the aclTensorList
  size_t element;
  void* address;
};

bool of_role(const Slot& slot, Among among) {
  return among == Among::kAll || slot.output == (among == Among::kOutputs);
}

size_t number_in(const Slot& slot, const Executor& executor, Among among) {
  return among == Among::kAll && slot.output ? executor.inputs + slot.number : slot.number;
}

// The slots that are meant: those of the very tensor, else the one of the number. A tensor that
// stands for several parameters is told apart by its role and number, where these fit, and else
// moves everywhere.
std::vector<Slot*> chosen(Executor& executor, const Change& change) {
  std::vector<Slot*> same;
  std::vector<Slot*> same_role;
  Slot* exact = nullptr;
  Slot* numbered = nullptr;
  for (Slot& slot : executor.slots) {
    if (slot.element != change.element) continue;
    const bool fits =
        of_role(slot, change.among) && number_in(slot, executor, change.among) == change.number;
    if (fits) numbered = &slot;
    if (slot.handle != change.handle) continue;
    same.push_back(&slot);
    if (of_role(slot, change.among)) same_role.push_back(&slot);
    if (fits) exact = &slot;
  }
  if (exact != nullptr) return {exact};
  if (!same_role.empty()) return same_role;
  if (!same.empty()) return same;
  if (numbered != nullptr) return {numbered};
  return {};
}

int check_place(const Change& change, const Executor& executor, const Slot& slot,
                const runtime::Place& place) {
  const std::string who = std::string(change.function) + ": " + slot.parameter;
  if (place.session != executor.session) {
    return runtime::fail(kInvalid, who + " would lie on another device than the executor");
  }
  if (slot.bytes > place.bytes_left) {
    return runtime::fail(kInvalid, who + " needs " + std::to_string(slot.bytes) + " bytes; " +
                                       std::to_string(place.bytes_left) +
                                       " are left in the allocation from this address on");
  }
  return OK;
}

int set_address(aclOpExecutor* handle, const Change& change) {
  if (change.handle == nullptr) {
    return runtime::fail(kInnerNull, std::string(change.function) + ": the tensor is null");
  }
  int code = OK;
  const std::shared_ptr<Executor> executor = find_executor(change.function, handle, &code);
  if (executor == nullptr) return code;
  if (!executor->repeatable) {
    return runtime::fail(kInner, std::string(change.function) +
                                     ": the executor is not repeatable; "
                                     "aclSetAclOpExecutorRepeatable makes it so");
  }
  if (change.address == nullptr) return refuse_null(change.function, "addr");
  runtime::Place place;
  if (!runtime::find_place(change.address, &place)) {
    return runtime::fail(kInvalid, std::string(change.function) + ": addr is no device memory");
  }
  std::lock_guard<std::mutex> lock(executor->mutex);
  const std::vector<Slot*> slots = chosen(*executor, change);
  if (slots.empty()) {
    return runtime::fail(kInvalid, std::string(change.function) + ": " + executor->operator_name +
                                       " has no such tensor: index " +
                                       std::to_string(change.number) + ", element " +
                                       std::to_string(change.element));
  }
  for (const Slot* slot : slots) {
    if ((code = check_place(change, *executor, *slot, place)) != OK) return code;
  }
  for (Slot* slot : slots) {
    slot->buffer_id = place.buffer_id;
    slot->byte_offset = place.byte_offset;
  }
  return OK;
}

int set_one(const char* function, Among among, aclOpExecutor* executor, size_t number,
            aclTensor* tensor, void* address) {
  const int code = set_address(executor, {function, among, number, tensor, 0, address});
  if (code == OK) {
    if (aclTensor* moved = live(tensor)) moved->data = address;
  }
  return code;
}

int set_in_list(const char* function, Among among, aclOpExecutor* executor, size_t number,
                size_t element, aclTensorList* tensors, void* address) {
  const int code = set_address(executor, {function, among, number, tensors, element, address});
  if (code == OK) {
    const aclTensorList* list = live(tensors);
    if (list != nullptr && element < list->values.size()) {
      if (aclTensor* moved = live(list->values[element])) moved->data = address;
    }
  }
  return code;
}

}  // namespace
}  // namespace aclnn::meta

using aclnn::meta::Among;
using aclnn::meta::set_in_list;
using aclnn::meta::set_one;

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                  void* addr) {
  return set_one("aclSetInputTensorAddr", Among::kInputs, executor, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                   void* addr) {
  return set_one("aclSetOutputTensorAddr", Among::kOutputs, executor, index, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                             void* addr) {
  return set_one("aclSetTensorAddr", Among::kAll, executor, index, tensor, addr);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                         const size_t relativeIndex, aclTensorList* tensors,
                                         void* addr) {
  return set_in_list("aclSetDynamicInputTensorAddr", Among::kInputs, executor, irIndex,
                     relativeIndex, tensors, addr);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                          const size_t relativeIndex, aclTensorList* tensors,
                                          void* addr) {
  return set_in_list("aclSetDynamicOutputTensorAddr", Among::kOutputs, executor, irIndex,
                     relativeIndex, tensors, addr);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                    const size_t relativeIndex, aclTensorList* tensors,
                                    void* addr) {
  return set_in_list("aclSetDynamicTensorAddr", Among::kAll, executor, irIndex, relativeIndex,
                     tensors, addr);
}

// --- other spellings ---------------------------------------------------------------------------

aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                  void* addr) {
  return aclSetInputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                   void* addr) {
  return aclSetOutputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                             void* addr) {
  return aclSetTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                         const size_t relativeIndex, aclTensorList* tensors,
                                         void* addr) {
  return aclSetDynamicInputTensorAddr(executor, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                          const size_t relativeIndex, aclTensorList* tensors,
                                          void* addr) {
  return aclSetDynamicOutputTensorAddr(executor, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                    const size_t relativeIndex, aclTensorList* tensors,
                                    void* addr) {
  return aclSetDynamicTensorAddr(executor, irIndex, relativeIndex, tensors, addr);
}
