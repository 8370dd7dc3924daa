#include "ops/arguments.h"

#include <limits>
#include <string_view>

#include "aclnn_fields.h"
#include "meta/objects.h"
#include "meta/pool.h"
#include "meta/refusals.h"
#include "meta/shapes.h"
#include "meta/types.h"
#include "ops/utf8.h"
#include "wire/encode.h"

namespace aclnn::ops {
namespace {

namespace Field = fields::Argument;
using meta::kInvalid;
using meta::kNullPointer;
using meta::live;
using wire::Nested;

bool is_contiguous(const aclTensor& tensor) {
  uint64_t step = 1;
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (static_cast<uint64_t>(tensor.strides[axis]) != step) return false;
    step *= static_cast<uint64_t>(tensor.shape[axis]);
  }
  return true;
}

// Bytes of a storage; the largest number where there is none so large. A plan's shapes are
// possible.
uint64_t storage_bytes(const std::vector<int64_t>& shape, unsigned bits) {
  unsigned __int128 elements = 1;
  for (const int64_t size : shape) {
    if (size <= 0) return 0;
    elements *= static_cast<uint64_t>(size);
    if (elements > std::numeric_limits<uint64_t>::max())
      return std::numeric_limits<uint64_t>::max();
  }
  const unsigned __int128 bytes = (elements * bits + 7) / 8;
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  return bytes > most ? most : static_cast<uint64_t>(bytes);
}

bool has_elements(const std::vector<int64_t>& shape) {
  for (const int64_t size : shape) {
    if (size == 0) return false;
  }
  return true;
}

// Reads the arguments of one call, in order. Each function returns 0 or a code, the text noted.
class Reader {
 public:
  Reader(const aclnnServeOperator& op, Arguments& arguments)
      : op_(op), out_(arguments), encoded_(arguments.encoded) {}

  int read(const aclnnServeArgument* values) {
    for (position_ = 0; position_ < op_.parameterNum; ++position_) {
      parameter_ = &op_.parameters[position_];
      Nested argument(encoded_, fields::GetWorkspaceSizeRequest::kArguments);
      const int code = read_one(values[position_]);
      if (code != OK) return code;
      if (holds_tensors()) ++(parameter_->output ? outputs_ : out_.inputs);
    }
    return OK;
  }

 private:
  int read_one(const aclnnServeArgument& value);
  int read_tensor(const aclTensor* tensor);
  int read_tensor_list(const aclTensorList* list);
  int read_scalar(const aclScalar* scalar);
  int read_scalar_list(const aclScalarList* list);
  int read_text(const char* text);
  int add_tensor(uint32_t field, const aclTensor* handle, const std::string& name,
                 const void* owner, uint32_t element);
  int add_scalar(uint32_t field, const aclScalar* handle, const std::string& name);
  int add_data_type(uint32_t field, int number, const std::string& name);
  void add_slot(const aclTensor& tensor, const void* owner, uint32_t element);

  template <class Array>
  int read_array(const Array* array, const char* kind, uint32_t field) {
    if (array == nullptr) return add_null();
    const Array* found = live(array);
    if (found == nullptr) return refuse_handle(parameter_->name, kind);
    Nested message(encoded_, field);
    // The field `values` of IntArray, FloatArray and BoolArray alike.
    if constexpr (std::is_same_v<Array, aclFloatArray>) {
      const auto* bytes = reinterpret_cast<const char*>(found->values.data());
      const std::string_view packed(bytes, found->values.size() * sizeof(float));
      wire::put_bytes(encoded_, fields::FloatArray::kValues, packed);
    } else {
      wire::put_packed(encoded_, fields::IntArray::kValues, found->values.data(),
                       found->values.size());
    }
    return OK;
  }

  int add_null() {
    Nested nothing(encoded_, Field::kNull);
    return OK;
  }

  bool holds_tensors() const {
    return parameter_->kind == ACLNN_SERVE_TENSOR || parameter_->kind == ACLNN_SERVE_TENSOR_LIST;
  }

  std::string element_name(size_t element) const {
    return parameter_->name + ("[" + std::to_string(element) + "]");
  }

  int refuse(int code, const std::string& name, const std::string& problem) const {
    return runtime::fail(code, std::string(op_.name) + ": " + name + " " + problem);
  }

  int refuse_handle(const std::string& name, const char* kind) const {
    const std::string problem = std::string("is no ") + kind;
    return refuse(kInvalid, name, problem + ": it was destroyed, or was never one");
  }

  const aclnnServeOperator& op_;
  Arguments& out_;
  std::string& encoded_;
  uint32_t position_ = 0;
  const aclnnServeParameter* parameter_ = nullptr;
  uint32_t outputs_ = 0;
};

int Reader::read_one(const aclnnServeArgument& value) {
  switch (parameter_->kind) {
    case ACLNN_SERVE_TENSOR:
      return read_tensor(value.tensor);
    case ACLNN_SERVE_TENSOR_LIST:
      return read_tensor_list(value.tensorList);
    case ACLNN_SERVE_SCALAR:
      return read_scalar(value.scalar);
    case ACLNN_SERVE_SCALAR_LIST:
      return read_scalar_list(value.scalarList);
    case ACLNN_SERVE_INT_ARRAY:
      return read_array(value.intArray, "aclIntArray", Field::kIntArray);
    case ACLNN_SERVE_FLOAT_ARRAY:
      return read_array(value.floatArray, "aclFloatArray", Field::kFloatArray);
    case ACLNN_SERVE_BOOL_ARRAY:
      return read_array(value.boolArray, "aclBoolArray", Field::kBoolArray);
    case ACLNN_SERVE_TEXT:
      return read_text(value.text);
    case ACLNN_SERVE_INT64:
      wire::add_signed(encoded_, Field::kInt64Value, value.int64Value);
      return OK;
    case ACLNN_SERVE_INT32:
      wire::add_signed(encoded_, Field::kInt32Value, value.int32Value);
      return OK;
    case ACLNN_SERVE_INT8:
      wire::add_signed(encoded_, Field::kInt8Value, value.int8Value);
      return OK;
    case ACLNN_SERVE_UINT64:
      wire::add_varint(encoded_, Field::kUint64Value, value.uint64Value);
      return OK;
    case ACLNN_SERVE_BOOL:
      wire::add_varint(encoded_, Field::kBoolValue, value.boolValue ? 1 : 0);
      return OK;
    case ACLNN_SERVE_DOUBLE:
      wire::add_double(encoded_, Field::kDoubleValue, value.doubleValue);
      return OK;
    case ACLNN_SERVE_FLOAT:
      wire::add_float(encoded_, Field::kFloatValue, value.floatValue);
      return OK;
    case ACLNN_SERVE_DATA_TYPE:
      return add_data_type(Field::kDataType, value.dataType, parameter_->name);
  }
  return refuse(kInvalid, parameter_->name, "is of no kind that there is");
}

// --- tensors -----------------------------------------------------------------------------------

int Reader::read_tensor(const aclTensor* tensor) {
  if (tensor == nullptr) return add_null();
  return add_tensor(Field::kTensor, tensor, parameter_->name, tensor, 0);
}

int Reader::read_tensor_list(const aclTensorList* list) {
  if (list == nullptr) return add_null();
  const aclTensorList* found = live(list);
  if (found == nullptr) return refuse_handle(parameter_->name, "aclTensorList");
  Nested message(encoded_, Field::kTensorList);
  for (uint32_t element = 0; element < found->values.size(); ++element) {
    const int code = add_tensor(fields::TensorList::kTensors, found->values[element],
                                element_name(element), list, element);
    if (code != OK) return code;
  }
  return OK;
}

int Reader::add_tensor(uint32_t field, const aclTensor* handle, const std::string& name,
                       const void* owner, uint32_t element) {
  if (handle == nullptr) return refuse(kNullPointer, name, "is null");
  const aclTensor* found = live(handle);
  if (found == nullptr) return refuse_handle(name, "aclTensor");
  const aclTensor& tensor = *found;
  const meta::StorageFormat* format = meta::storage_format(tensor.format);
  if (format == nullptr && tensor.format != ACL_FORMAT_UNDEFINED) {
    return refuse(kInvalid, name,
                  "has format " + std::to_string(tensor.format) + ", which ACL has not");
  }
  const meta::ShapeLock lock(tensor);
  namespace Message = fields::Tensor;
  Nested message(encoded_, field);
  const int code = add_data_type(Message::kDataType, tensor.data_type, name);
  if (code != OK) return code;
  wire::put_varint(encoded_, Message::kFormat, format == nullptr ? 0 : format->number);
  wire::put_packed(encoded_, Message::kShape, tensor.shape.data(), tensor.shape.size());
  if (!is_contiguous(tensor)) {
    wire::put_packed(encoded_, Message::kStrides, tensor.strides.data(), tensor.strides.size());
  }
  wire::put_signed(encoded_, Message::kOffset, tensor.offset);
  if (tensor.storage_shape != tensor.shape) {
    static constexpr int64_t kOne = 1;  // no dimensions at all would mean those of the view
    const bool none = tensor.storage_shape.empty();
    wire::put_packed(encoded_, Message::kStorageShape, none ? &kOne : tensor.storage_shape.data(),
                     none ? 1 : tensor.storage_shape.size());
  }
  add_slot(tensor, owner, element);
  return OK;
}

void Reader::add_slot(const aclTensor& tensor, const void* owner, uint32_t element) {
  const meta::ElementType* type = meta::element_type(tensor.data_type);
  meta::Slot slot;
  slot.parameter = parameter_->name;
  slot.argument = position_;
  slot.element = element;
  slot.number = parameter_->output ? outputs_ : out_.inputs;
  slot.output = parameter_->output != 0;
  slot.handle = owner;
  slot.shaped = parameter_->output == ACLNN_SERVE_SHAPED && parameter_->kind == ACLNN_SERVE_TENSOR;
  slot.life = tensor.life.load(std::memory_order_relaxed);
  slot.bytes = storage_bytes(tensor.storage_shape, type == nullptr ? 0 : type->bits);
  out_.slots.push_back(slot);
  out_.addresses.push_back(tensor.data);
  out_.has_elements.push_back(has_elements(tensor.shape));
}

int Reader::add_data_type(uint32_t field, int number, const std::string& name) {
  const meta::ElementType* type = meta::element_type(number);
  if (type == nullptr && number != ACL_DT_UNDEFINED) {
    return refuse(kInvalid, name,
                  "has data type " + std::to_string(number) + ", which ACL has not");
  }
  wire::add_varint(encoded_, field, type == nullptr ? 0 : type->number);
  return OK;
}

// --- scalars and texts -------------------------------------------------------------------------

int Reader::read_scalar(const aclScalar* scalar) {
  if (scalar == nullptr) return add_null();
  return add_scalar(Field::kScalar, scalar, parameter_->name);
}

int Reader::read_scalar_list(const aclScalarList* list) {
  if (list == nullptr) return add_null();
  const aclScalarList* found = live(list);
  if (found == nullptr) return refuse_handle(parameter_->name, "aclScalarList");
  Nested message(encoded_, Field::kScalarList);
  for (size_t element = 0; element < found->values.size(); ++element) {
    const int code =
        add_scalar(fields::ScalarList::kScalars, found->values[element], element_name(element));
    if (code != OK) return code;
  }
  return OK;
}

int Reader::add_scalar(uint32_t field, const aclScalar* handle, const std::string& name) {
  if (handle == nullptr) return refuse(kNullPointer, name, "is null");
  const aclScalar* scalar = live(handle);
  if (scalar == nullptr) return refuse_handle(name, "aclScalar");
  Nested message(encoded_, field);
  const auto* bytes = reinterpret_cast<const char*>(scalar->value);
  wire::put_bytes(encoded_, fields::Scalar::kValue, {bytes, scalar->bytes});
  return add_data_type(fields::Scalar::kDataType, scalar->data_type, name);
}

int Reader::read_text(const char* text) {
  if (text == nullptr) return add_null();
  const std::string_view content(text);
  if (!is_utf8(content)) return refuse(kInvalid, parameter_->name, "is no UTF-8");
  wire::add_bytes(encoded_, Field::kText, content);
  return OK;
}

}  // namespace

void Arguments::clear() {
  encoded.clear();
  slots.clear();
  addresses.clear();
  has_elements.clear();
  inputs = 0;
}

int read_arguments(const aclnnServeOperator& op, const aclnnServeArgument* values,
                   Arguments* arguments) {
  arguments->clear();
  return Reader(op, *arguments).read(values);
}

}  // namespace aclnn::ops
