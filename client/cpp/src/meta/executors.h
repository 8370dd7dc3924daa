// Executors: planned calls, from phase one until phase two or aclDestroyAclOpExecutor.
//
// A handle is a number that is never used again, dressed as a pointer: a second use of an executor
// is told apart from a first one, whatever came in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/acl_meta.h"
#include "runtime/session.h"

#define ACLNN_META_API __attribute__((visibility("default")))

namespace aclnn::meta {

// One tensor of a call, and where it lies.
struct Slot {
  const char* parameter = nullptr;  // name in the prototype
  uint32_t argument = 0;            // position in the prototype
  uint32_t element = 0;             // position inside a list
  uint32_t number = 0;              // position among the inputs, or among the outputs
  bool output = false;
  bool shaped = false;  // an output whose shape only the run tells
  const void* handle = nullptr;  // the aclTensor, or the aclTensorList, of phase one
  uint64_t life = 0;             // of that aclTensor
  uint64_t bytes = 0;            // of the storage
  uint64_t buffer_id = 0;        // 0: it lies nowhere
  uint64_t byte_offset = 0;
};

struct Executor {
  const char* operator_name = nullptr;
  runtime::Session* session = nullptr;
  std::shared_ptr<runtime::Plan> plan;
  uint64_t workspace_bytes = 0;  // what the plan needs
  uint32_t inputs = 0;           // tensor and tensor list parameters that are read only
  std::vector<Slot> slots;
  std::atomic<bool> repeatable{false};
  std::mutex mutex;  // guards slots, once it is repeatable
};

// Keeps an executor and gives it a handle.
ACLNN_META_API aclOpExecutor* keep_executor(std::shared_ptr<Executor> executor);

// The executor of a handle, for phase two: a one-shot one is over then. Null where there is none,
// with the text noted and the code in *code.
ACLNN_META_API std::shared_ptr<Executor> use_executor(const char* function,
                                                      const aclOpExecutor* handle, int* code);

// The same for what leaves it as it is.
std::shared_ptr<Executor> find_executor(const char* function, const aclOpExecutor* handle,
                                        int* code);

}  // namespace aclnn::meta
