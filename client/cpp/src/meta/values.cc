// Scalars, arrays of numbers, and lists of tensors and scalars.
#include <cstring>
#include <string>

#include "meta/objects.h"
#include "meta/pool.h"
#include "meta/refusals.h"
#include "meta/types.h"

using aclnn::meta::live;
using aclnn::meta::Pool;
using aclnn::meta::refuse_handle;
using aclnn::meta::refuse_null;

namespace {

template <class Array, class Value>
Array* create_array(const char* function, const Value* values, uint64_t count) try {
  if (values == nullptr && count != 0) {
    refuse_null(function, "value");
    return nullptr;
  }
  Array* array = Pool<Array>::instance().take();
  try {
    array->values.assign(values, values + count);
  } catch (...) {
    Pool<Array>::instance().give(array);
    throw;
  }
  return array;
} catch (const std::exception& error) {
  aclnn::runtime::fail(ACL_ERROR_BAD_ALLOC, std::string(function) + ": " + error.what());
  return nullptr;
}

template <class T>
aclnnStatus destroy(const char* function, const char* kind, const T* handle) {
  if (handle == nullptr) return OK;
  T* found = live(handle);
  if (found == nullptr || !Pool<T>::instance().give(found)) {
    return refuse_handle(function, "the argument", kind);
  }
  return OK;
}

// The elements are destroyed first: once the list is given back, another thread may fill it anew.
template <class List>
aclnnStatus destroy_list(const char* function, const char* kind, const List* handle,
                         aclnnStatus (*destroy_element)(typename List::Value)) {
  if (handle == nullptr) return OK;
  List* found = live(handle);
  if (found == nullptr) return refuse_handle(function, "the argument", kind);
  aclnnStatus first = OK;
  for (typename List::Value element : found->values) {
    const aclnnStatus status = destroy_element(element);
    if (first == OK) first = status;
  }
  found->values.clear();
  const aclnnStatus own = destroy(function, kind, handle);
  return own != OK ? own : first;
}

template <class Array>
aclnnStatus tell_size(const char* function, const char* kind, const Array* array, uint64_t* size) {
  if (array == nullptr) return refuse_null(function, kind);
  if (size == nullptr) return refuse_null(function, "size");
  const Array* found = live(array);
  if (found == nullptr) return refuse_handle(function, "the argument", kind);
  *size = found->values.size();
  return OK;
}

}  // namespace

// --- scalars -----------------------------------------------------------------------------------

aclScalar* aclCreateScalar(void* value, aclDataType dataType) try {
  if (value == nullptr) {
    refuse_null("aclCreateScalar", "value");
    return nullptr;
  }
  const aclnn::meta::ElementType* type = aclnn::meta::element_type(dataType);
  const size_t bytes = type == nullptr ? 0 : aclnn::meta::value_bytes(*type);
  if (bytes == 0) {
    aclnn::runtime::fail(aclnn::meta::kInvalid, "aclCreateScalar: dataType is " +
                                                    std::to_string(dataType) +
                                                    ", of which there are no scalars");
    return nullptr;
  }
  aclScalar* scalar = Pool<aclScalar>::instance().take();
  scalar->data_type = dataType;
  scalar->bytes = static_cast<uint8_t>(bytes);
  std::memcpy(scalar->value, value, bytes);
  return scalar;
} catch (const std::exception& error) {
  aclnn::runtime::fail(ACL_ERROR_BAD_ALLOC, std::string("aclCreateScalar: ") + error.what());
  return nullptr;
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  return destroy("aclDestroyScalar", "aclScalar", scalar);
}

// --- arrays ------------------------------------------------------------------------------------

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return create_array<aclIntArray>("aclCreateIntArray", value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return create_array<aclFloatArray>("aclCreateFloatArray", value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  // As bytes: what a caller left other than 0 and 1 there is no bool to this library either.
  return create_array<aclBoolArray>("aclCreateBoolArray", reinterpret_cast<const uint8_t*>(value),
                                    size);
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return destroy("aclDestroyIntArray", "aclIntArray", array);
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return destroy("aclDestroyFloatArray", "aclFloatArray", array);
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return destroy("aclDestroyBoolArray", "aclBoolArray", array);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return tell_size("aclGetIntArraySize", "aclIntArray", array, size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return tell_size("aclGetFloatArraySize", "aclFloatArray", array, size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return tell_size("aclGetBoolArraySize", "aclBoolArray", array, size);
}

// --- lists -------------------------------------------------------------------------------------

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return create_array<aclTensorList>("aclCreateTensorList", value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return create_array<aclScalarList>("aclCreateScalarList", value, size);
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return destroy_list("aclDestroyTensorList", "aclTensorList", array, aclDestroyTensor);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return destroy_list("aclDestroyScalarList", "aclScalarList", array, aclDestroyScalar);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return tell_size("aclGetTensorListSize", "aclTensorList", tensorList, size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return tell_size("aclGetScalarListSize", "aclScalarList", scalarList, size);
}
