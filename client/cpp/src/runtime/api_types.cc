// Element types on the host, and the data buffers of the older interface.
#include <cmath>
#include <cstdint>
#include <new>

#include "meta/types.h"
#include "runtime/api.h"

struct aclDataBuffer {
  void* data;
  size_t size;
};

namespace aclnn::runtime {
namespace {

constexpr float kLargestHalf = 65504.0F;
constexpr int kFractionBits = 10;
constexpr int kBias = 15;

// The number's fraction and exponent, as a half has them; the exponent 31 counts like any other.
float from_half(aclFloat16 half) {
  const int exponent = half >> kFractionBits & 31;
  const int fraction = half & ((1 << kFractionBits) - 1);
  const int significand = exponent == 0 ? fraction : fraction | 1 << kFractionBits;
  const float size =
      std::ldexp(static_cast<float>(significand), std::max(exponent, 1) - kBias - kFractionBits);
  return (half & 0x8000) != 0 ? -size : size;
}

aclFloat16 to_half(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const float size =
      std::isfinite(value) ? std::fmin(std::fabs(value), kLargestHalf) : kLargestHalf;
  int exponent = 0;
  std::frexp(size, &exponent);  // size = [0.5, 1) * 2^exponent
  const int scale = std::max(exponent - 1, 1 - kBias);
  // In units of the last place; rounds to the nearest, to even where two are as near.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, kFractionBits - scale)));
  // What rounds up to the next power of two carries into the exponent by itself.
  const int half = ((scale + kBias - 1) << kFractionBits) + units;
  return static_cast<aclFloat16>(sign | std::min(half, 0x7BFF));
}

}  // namespace
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

size_t aclDataTypeSize(aclDataType dataType) {
  const auto* type = aclnn::meta::element_type(dataType);
  return type == nullptr || type->bits % 8 != 0 ? 0 : type->bits / 8;
}

float aclFloat16ToFloat(aclFloat16 value) { return from_half(value); }

aclFloat16 aclFloatToFloat16(float value) { return to_half(value); }

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return new (std::nothrow) aclDataBuffer{data, size};
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  return exported([&]() -> Error {
    if (dataBuffer == nullptr) return null_pointer("dataBuffer");
    delete dataBuffer;
    return {};
  });
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  return exported([&]() -> Error {
    if (dataBuffer == nullptr) return null_pointer("dataBuffer");
    *dataBuffer = {data, size};
    return {};
  });
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return dataBuffer == nullptr ? nullptr : dataBuffer->data;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  return static_cast<uint32_t>(aclGetDataBufferSizeV2(dataBuffer));
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  return dataBuffer == nullptr ? 0 : dataBuffer->size;
}
