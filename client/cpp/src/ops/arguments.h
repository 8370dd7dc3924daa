// Arguments of phase one: encoded for the server, and where their tensors lie.
#pragma once

#include <string>
#include <vector>

#include "aclnn/aclnn_serve.h"
#include "meta/executors.h"

namespace aclnn::ops {

// What the handles of a call said in phase one; nothing of it refers to them any more.
struct Arguments {
  std::string encoded;  // GetWorkspaceSizeRequest.arguments; tensors without their storages
  std::vector<meta::Slot> slots;       // one for each tensor, not placed yet
  std::vector<const void*> addresses;  // of each slot's storage
  std::vector<bool> has_elements;      // whether each slot's view has any
  uint32_t inputs = 0;                 // tensor and tensor list parameters that are only read

  void clear();
};

// Reads the handles of a call. Returns 0, or 161001 or 161002 with the text noted: an argument is
// over or of another kind, or holds what cannot be said to a server. What an operator allows, the
// server checks.
int read_arguments(const aclnnServeOperator& op, const aclnnServeArgument* values,
                   Arguments* arguments);

}  // namespace aclnn::ops
