#include "meta/shapes.h"

#include "aclnn_fields.h"
#include "meta/pool.h"
#include "wire/decode.h"

namespace aclnn::meta {
namespace {

bool is_contiguous(const aclTensor& tensor) {
  int64_t step = 1;
  for (size_t axis = tensor.shape.size(); axis-- > 0; step *= tensor.shape[axis]) {
    if (tensor.strides[axis] != step) return false;
  }
  return true;
}

// The elements are the first of the tensor in C order.
void reshape(aclTensor& tensor, std::vector<int64_t> shape) {
  if (is_contiguous(tensor)) {
    tensor.strides.resize(shape.size());
    int64_t step = 1;
    for (size_t axis = shape.size(); axis-- > 0; step *= shape[axis]) tensor.strides[axis] = step;
  }
  tensor.shape = std::move(shape);
}

}  // namespace

std::mutex& shape_mutex() {
  static auto* const instance = new std::mutex;
  return *instance;
}

ShapedOutputs::ShapedOutputs(const Executor& executor) {
  for (const Slot& slot : executor.slots) {
    if (!slot.shaped) continue;
    aclTensor* const tensor = live(static_cast<const aclTensor*>(slot.handle));
    if (tensor == nullptr || tensor->life.load() != slot.life) continue;
    tensor->shaped.store(true, std::memory_order_release);
    outputs_.push_back({slot.argument, tensor, slot.life});
  }
}

void ShapedOutputs::take(std::string_view response) const {
  wire::Reader reader(response);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == fields::ExecuteResponse::kShapes) take_one(field.bytes);
  }
}

void ShapedOutputs::take_one(std::string_view encoded) const {
  uint64_t argument = 0;
  std::vector<int64_t> shape;
  wire::Reader reader(encoded);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == fields::OutputShape::kArgument) argument = field.value;
    if (field.number != fields::OutputShape::kShape) continue;
    const char* at = field.bytes.data();
    const char* const end = at + field.bytes.size();
    for (uint64_t size = 0; wire::read_varint(&at, end, &size);) {
      shape.push_back(static_cast<int64_t>(size));
    }
  }
  for (const Output& output : outputs_) {
    if (output.argument != argument) continue;
    const std::lock_guard<std::mutex> lock(shape_mutex());
    aclTensor* const tensor = live(output.tensor);
    const bool same = tensor != nullptr && tensor->life.load() == output.life &&
                      tensor->shape.size() == shape.size();
    if (same) reshape(*tensor, shape);
  }
}

}  // namespace aclnn::meta
