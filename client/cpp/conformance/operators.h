// The operators' functions of the C library, by name.
#pragma once

#include <acl/acl.h>
#include <aclnn/acl_meta.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "values.h"

namespace aclnn::conformance {

using Tensors = std::map<std::string, std::unique_ptr<Tensor>>;

// One operator's pair of functions.
struct Operator {
  // Calls phase one with the arguments of a step.
  std::function<int(const Json& arguments, const Tensors&, uint64_t* size, aclOpExecutor**)> plan;
  aclnnStatus (*execute)(void*, uint64_t, aclOpExecutor*, aclrtStream) = nullptr;
  std::vector<std::string> parameters;
};

// The operator of a name; one that the library has no functions for is asked of the server.
const Operator& find_operator(const std::string& name);

}  // namespace aclnn::conformance
