// Shapes of outputs that only their elements tell: an answer to phase two gives them to the tensors.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "meta/executors.h"
#include "meta/objects.h"

namespace aclnn::meta {

ACLNN_META_API std::mutex& shape_mutex();

// Held while a tensor's shape and strides are read or changed, if it is one that answers shape.
class ShapeLock {
 public:
  explicit ShapeLock(const aclTensor& tensor) : lock_(shape_mutex(), std::defer_lock) {
    if (tensor.shaped.load(std::memory_order_acquire)) lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

// The outputs of one execution that take their shape from the answer to it.
class ShapedOutputs {
 public:
  // From now on the thread that reads answers may shape the tensors.
  ACLNN_META_API explicit ShapedOutputs(const Executor& executor);

  // Takes the shapes of an encoded ExecuteResponse; a tensor that is over takes none.
  ACLNN_META_API void take(std::string_view response) const;

 private:
  struct Output {
    uint32_t argument;
    const aclTensor* tensor;
    uint64_t life;
  };

  void take_one(std::string_view encoded) const;

  std::vector<Output> outputs_;
};

}  // namespace aclnn::meta
