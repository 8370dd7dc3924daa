// Tensors: made, made anew, asked about, destroyed.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "meta/objects.h"
#include "meta/pool.h"
#include "meta/refusals.h"
#include "meta/shapes.h"
#include "meta/types.h"

using aclnn::meta::live;
using aclnn::meta::refuse_handle;
using aclnn::meta::refuse_null;
using Tensors = aclnn::meta::Pool<aclTensor>;

namespace {

struct Description {
  const int64_t* shape;
  uint64_t rank;
  aclDataType data_type;
  const int64_t* strides;
  int64_t offset;
  aclFormat format;
  const int64_t* storage_shape;
  uint64_t storage_rank;
  void* data;

  bool whole() const {
    return (shape != nullptr || rank == 0) && (storage_shape != nullptr || storage_rank == 0);
  }
};

// C order; wraps around where the shape is impossible, which phase one refuses.
void fill_contiguous(const std::vector<int64_t>& shape, std::vector<int64_t>& strides) {
  strides.resize(shape.size());
  uint64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(shape[axis]);
  }
}

void describe_view(aclTensor& tensor, const Description& given) {
  tensor.shape.assign(given.shape, given.shape + given.rank);
  if (given.strides != nullptr) {
    tensor.strides.assign(given.strides, given.strides + given.rank);
  } else {
    fill_contiguous(tensor.shape, tensor.strides);
  }
}

void describe_rest(aclTensor& tensor, const Description& given) {
  tensor.data_type = given.data_type;
  tensor.format = given.format;
  tensor.offset = given.offset;
  tensor.data = given.data;
}

// The caller deletes with the process's own operator delete[], so the array has to come from the
// operator new[] beside it: this library's is linked in, and is another one where a program brings
// its own.
int64_t* new_array(size_t count) {
  using New = void* (*)(size_t, const std::nothrow_t&);
  static const New of_process = reinterpret_cast<New>(dlsym(RTLD_DEFAULT, "_ZnamRKSt9nothrow_t"));
  const size_t bytes = count * sizeof(int64_t);
  void* memory = of_process == nullptr ? std::malloc(bytes + 1) : of_process(bytes, std::nothrow);
  return static_cast<int64_t*>(memory);
}

aclnnStatus copy_out(const char* function, const aclTensor* tensor,
                     std::vector<int64_t> aclTensor::* member, int64_t** values, uint64_t* count) {
  if (tensor == nullptr) return refuse_null(function, "tensor");
  if (values == nullptr || count == nullptr) return refuse_null(function, "a place for the answer");
  const aclTensor* found = live(tensor);
  if (found == nullptr) return refuse_handle(function, "tensor", "aclTensor");
  const aclnn::meta::ShapeLock lock(*found);
  const std::vector<int64_t>& source = found->*member;
  *values = new_array(source.size());
  if (*values == nullptr) {
    return aclnn::runtime::fail(ACL_ERROR_BAD_ALLOC, "no memory for the answer");
  }
  std::copy(source.begin(), source.end(), *values);
  *count = source.size();
  return OK;
}

template <class Member, class Value>
aclnnStatus tell(const char* function, const aclTensor* tensor, Member aclTensor::* member,
                 Value* value) {
  if (tensor == nullptr) return refuse_null(function, "tensor");
  if (value == nullptr) return refuse_null(function, "the place for the answer");
  const aclTensor* found = live(tensor);
  if (found == nullptr) return refuse_handle(function, "tensor", "aclTensor");
  *value = static_cast<Value>(found->*member);
  return OK;
}

}  // namespace

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t* stride, int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) try {
  const Description given{viewDims, viewDimsNum, dataType,       stride,    offset,
                          format,   storageDims, storageDimsNum, tensorData};
  if (!given.whole()) {
    refuse_null("aclCreateTensor", "viewDims or storageDims");
    return nullptr;
  }
  aclTensor* tensor = Tensors::instance().take();
  tensor->life.fetch_add(1);
  tensor->shaped.store(false);
  try {
    describe_view(*tensor, given);
    tensor->storage_shape.assign(storageDims, storageDims + storageDimsNum);
    describe_rest(*tensor, given);
  } catch (...) {
    Tensors::instance().give(tensor);
    throw;
  }
  return tensor;
} catch (const std::exception& error) {
  aclnn::runtime::fail(ACL_ERROR_BAD_ALLOC, std::string("aclCreateTensor: ") + error.what());
  return nullptr;
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                          aclDataType dataType, const int64_t* stride, int64_t offset,
                          aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                          void* tensorDataAddr) try {
  if (tensor == nullptr) return refuse_null("aclInitTensor", "tensor");
  aclTensor* found = live(tensor);
  if (found == nullptr) return refuse_handle("aclInitTensor", "tensor", "aclTensor");
  const Description given{viewDims, viewDimsNum, dataType,       stride,        offset,
                          format,   storageDims, storageDimsNum, tensorDataAddr};
  const aclnn::meta::ShapeLock lock(*found);
  if (viewDims != nullptr && viewDimsNum != 0) describe_view(*found, given);
  if (storageDims != nullptr && storageDimsNum != 0) {
    found->storage_shape.assign(storageDims, storageDims + storageDimsNum);
  }
  describe_rest(*found, given);
  return OK;
} catch (const std::exception& error) {
  return aclnn::runtime::fail(ACL_ERROR_BAD_ALLOC, std::string("aclInitTensor: ") + error.what());
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  if (tensor == nullptr) return OK;
  aclTensor* found = live(tensor);
  if (found == nullptr || !Tensors::instance().give(found)) {
    return refuse_handle("aclDestroyTensor", "tensor", "aclTensor");
  }
  return OK;
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return copy_out("aclGetViewShape", tensor, &aclTensor::shape, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                               uint64_t* storageDimsNum) {
  return copy_out("aclGetStorageShape", tensor, &aclTensor::storage_shape, storageDims,
                  storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                              uint64_t* stridesNum) {
  return copy_out("aclGetViewStrides", tensor, &aclTensor::strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return tell("aclGetViewOffset", tensor, &aclTensor::offset, offset);
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return tell("aclGetFormat", tensor, &aclTensor::format, format);
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return tell("aclGetDataType", tensor, &aclTensor::data_type, dataType);
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return tell("aclGetRawTensorAddr", tensor, &aclTensor::data, addr);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  if (tensor == nullptr) {
    return aclnn::runtime::fail(aclnn::meta::kInnerNull, "aclSetRawTensorAddr: tensor is null");
  }
  aclTensor* found = live(tensor);
  if (found == nullptr) return refuse_handle("aclSetRawTensorAddr", "tensor", "aclTensor");
  found->data = addr;
  return OK;
}
