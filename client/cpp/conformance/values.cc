#include "values.h"

#include <complex>
#include <cstring>
#include <fstream>

namespace aclnn::conformance {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

std::vector<int64_t> c_order(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::vector<int64_t> given(const Json& step, const char* name, std::vector<int64_t> usual) {
  const Json* const found = step.find(name);
  return found == nullptr ? usual : found->wholes();
}

std::string bytes_of(const Json& data) {
  std::string bytes(static_cast<size_t>(data["bytes"].whole()), '\0');
  std::ifstream file(data["file"].text, std::ios::binary);
  file.seekg(data["offset"].whole());
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("no such bytes in " + data["file"].text);
  return bytes;
}

// "(1.5-2.5j)", or "2j".
std::complex<double> complex_of(std::string text) {
  if (text.front() == '(') text = text.substr(1, text.size() - 2);
  char* end = nullptr;
  const double first = std::strtod(text.c_str(), &end);
  return *end == 'j' ? std::complex<double>(0, first) : std::complex<double>(first, std::strtod(end, nullptr));
}

// To the nearest, of two to the even one.
uint16_t to_bfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class Value>
aclScalar* scalar_of(Value value, aclDataType type) {
  return check(aclCreateScalar(&value, type));
}

}  // namespace

aclDataType data_type(const std::string& name) {
  static const std::map<std::string, aclDataType> types = {
      {"FLOAT", ACL_FLOAT},
      {"FLOAT16", ACL_FLOAT16},
      {"BF16", ACL_BF16},
      {"DOUBLE", ACL_DOUBLE},
      {"INT8", ACL_INT8},
      {"INT16", ACL_INT16},
      {"INT32", ACL_INT32},
      {"INT64", ACL_INT64},
      {"UINT8", ACL_UINT8},
      {"UINT16", ACL_UINT16},
      {"UINT32", ACL_UINT32},
      {"UINT64", ACL_UINT64},
      {"BOOL", ACL_BOOL},
      {"COMPLEX64", ACL_COMPLEX64},
      {"COMPLEX128", ACL_COMPLEX128},
      {"FLOAT8_E5M2", ACL_FLOAT8_E5M2},
      {"FLOAT8_E4M3FN", ACL_FLOAT8_E4M3FN},
      {"FLOAT8_E8M0", ACL_FLOAT8_E8M0},
  };
  return types.at(name);
}

aclScalar* make_scalar(const std::string& text, aclDataType type) {
  const double number = std::strtod(text.c_str(), nullptr);
  const bool negative = text.front() == '-';
  const auto whole = negative ? static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 10))
                              : std::strtoull(text.c_str(), nullptr, 10);
  switch (type) {
    case ACL_BOOL:
      return scalar_of(text == "True", type);
    case ACL_FLOAT:
      return scalar_of(static_cast<float>(number), type);
    case ACL_FLOAT16:
      return scalar_of(aclFloatToFloat16(static_cast<float>(number)), type);
    case ACL_BF16:
      return scalar_of(to_bfloat16(static_cast<float>(number)), type);
    case ACL_DOUBLE:
      return scalar_of(number, type);
    case ACL_COMPLEX64:
      return scalar_of(std::complex<float>(complex_of(text)), type);
    case ACL_COMPLEX128:
      return scalar_of(complex_of(text), type);
    default:
      return scalar_of(whole, type);  // little-endian: the first bytes are those of a smaller type
  }
}

Tensor::Tensor(const Json& step)
    : type_(data_type(step["dtype"].text)),
      shape_(step["shape"].wholes()),
      strides_(given(step, "strides", c_order(shape_))),
      storage_shape_(given(step, "storage_shape", shape_)) {
  if (const Json* const offset = step.find("offset")) offset_ = offset->whole();
  bytes_ = static_cast<size_t>(product(storage_shape_)) * aclDataTypeSize(type_);
  if (bytes_ != 0) {
    check(aclrtMalloc(&memory_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST));
    check(aclrtMemset(memory_, bytes_, 0, bytes_));
  }
  if (const Json* const data = step.find("data"); data != nullptr && bytes_ != 0) {
    const std::string bytes = bytes_of(*data);
    check(aclrtMemcpy(memory_, bytes_, bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE));
  }
  handle_ = another();
}

Tensor::~Tensor() {
  aclDestroyTensor(handle_);
  if (memory_ != nullptr) aclrtFree(memory_);
}

aclTensor* Tensor::another() const {
  return check(aclCreateTensor(shape_.data(), shape_.size(), type_, strides_.data(), offset_,
                               ACL_FORMAT_ND, storage_shape_.data(), storage_shape_.size(), memory_));
}

void Tensor::ask_shape() {
  int64_t *shape = nullptr, *strides = nullptr;
  uint64_t rank = 0;
  check(aclGetViewShape(handle_, &shape, &rank));
  shape_.assign(shape, shape + rank);
  check(aclGetViewStrides(handle_, &strides, &rank));
  strides_.assign(strides, strides + rank);
  delete[] shape;
  delete[] strides;
}

std::string Tensor::read() {
  check(aclrtSynchronizeDevice());
  ask_shape();
  std::string storage(bytes_, '\0'), elements;
  if (bytes_ != 0) {
    check(aclrtMemcpy(storage.data(), bytes_, memory_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST));
  }
  const size_t item = aclDataTypeSize(type_);
  std::vector<int64_t> index(shape_.size(), 0);
  for (int64_t left = product(shape_); left > 0; --left) {
    int64_t place = offset_;
    for (size_t axis = 0; axis < index.size(); ++axis) place += index[axis] * strides_[axis];
    elements.append(storage, static_cast<size_t>(place) * item, item);
    for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == shape_[axis];) index[axis] = 0;
  }
  return elements;
}

void Tensor::free() {
  check(aclrtFree(memory_));
  memory_ = nullptr;
}

}  // namespace aclnn::conformance
