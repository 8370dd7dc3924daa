// Element types by name, the bytes of scalars, and tensors with their memory.
#pragma once

#include <acl/acl.h>
#include <aclnn/acl_meta.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "json.h"

namespace aclnn::conformance {

// A call of the C library that failed.
struct Refused : std::runtime_error {
  Refused(int code, const std::string& text) : std::runtime_error(text), code(code) {}
  const int code;
};

// Throws what a code that is not 0 tells.
inline void check(int code) {
  if (code == 0) return;
  const char* text = aclGetRecentErrMsg();
  throw Refused(code, text == nullptr ? "" : text);
}

template <class Handle>
Handle* check(Handle* handle) {
  if (handle == nullptr) check(ACL_ERROR_FAILURE);
  return handle;
}

// By ACL's name without its prefix.
aclDataType data_type(const std::string& name);

// An aclScalar of a value as Python writes it.
aclScalar* make_scalar(const std::string& text, aclDataType type);

// An aclTensor over memory of its own.
class Tensor {
 public:
  // step: what the kit says of it; its storage begins with the bytes that are named there.
  explicit Tensor(const Json& step);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  aclTensor* handle() const { return handle_; }
  void* memory() const { return memory_; }
  aclDataType type() const { return type_; }

  // Another aclTensor of the same: lists own their elements.
  aclTensor* another() const;

  // The elements of the view in C order. Waits for everything that might write them.
  std::string read();

  void free();

 private:
  // Takes the shape that work on the device has found.
  void ask_shape();

  aclDataType type_;
  std::vector<int64_t> shape_, strides_, storage_shape_;
  int64_t offset_ = 0;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
  aclTensor* handle_ = nullptr;
};

}  // namespace aclnn::conformance
