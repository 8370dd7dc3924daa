// The objects behind the handles of acl_meta.h. Plain data: what they mean is checked where they
// are used.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "aclnn/acl_meta.h"

struct aclTensor {
  static constexpr uint64_t kTag = 0x61636c54656e736fULL;
  std::atomic<uint64_t> tag{0};
  // Counts the lives of the object, so that what was meant for an earlier one is not taken.
  std::atomic<uint64_t> life{0};
  // Whether work on the server may give it another shape, from another thread.
  std::atomic<bool> shaped{false};
  int data_type = 0;
  int format = 0;
  int64_t offset = 0;  // in elements
  void* data = nullptr;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::vector<int64_t> storage_shape;
};

struct aclScalar {
  static constexpr uint64_t kTag = 0x61636c5363616c61ULL;
  std::atomic<uint64_t> tag{0};
  int data_type = 0;
  uint8_t bytes = 0;
  unsigned char value[16] = {};
};

// T: what C gives, and what is kept of it.
template <class T, uint64_t Tag>
struct aclArray {
  static constexpr uint64_t kTag = Tag;
  using Value = T;
  std::atomic<uint64_t> tag{0};
  std::vector<T> values;
};

struct aclIntArray : aclArray<int64_t, 0x61636c496e744172ULL> {};
struct aclFloatArray : aclArray<float, 0x61636c466c6f6174ULL> {};
struct aclBoolArray : aclArray<uint8_t, 0x61636c426f6f6c41ULL> {};

// Lists own their elements.
struct aclTensorList : aclArray<const aclTensor*, 0x61636c54656e4c69ULL> {};
struct aclScalarList : aclArray<const aclScalar*, 0x61636c5363614c69ULL> {};
