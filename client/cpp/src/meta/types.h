// Element types and formats: ACL's numbers, the protocol's numbers, sizes and names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aclnn::meta {

// Meaning of a number of aclDataType.
struct ElementType {
  const char* name;  // ACL's, without the prefix ACL_
  uint8_t number;    // of the protocol's DataType
  uint8_t bits;      // of an element in a storage; 0 for texts
};

// Meaning of a number of aclFormat.
struct StorageFormat {
  const char* name;  // ACL's, without the prefix ACL_FORMAT_
  uint8_t number;    // of the protocol's Format
};

namespace tables {
#include "meta/types.inc"
}

// The row of a number; null where ACL has no such number.
inline const ElementType* element_type(int number) {
  constexpr int count = static_cast<int>(sizeof tables::kElementTypes / sizeof(ElementType));
  if (number < 0 || number >= count || tables::kElementTypes[number].name == nullptr)
    return nullptr;
  return &tables::kElementTypes[number];
}

// The same for formats.
inline const StorageFormat* storage_format(int number) {
  constexpr int count = static_cast<int>(sizeof tables::kFormats / sizeof(StorageFormat));
  if (number < 0 || number >= count || tables::kFormats[number].name == nullptr) return nullptr;
  return &tables::kFormats[number];
}

// Bytes of one value in the host's memory, where packed types have a byte of their own; 0 for
// texts.
inline size_t value_bytes(const ElementType& type) { return (type.bits + 7u) / 8u; }

}  // namespace aclnn::meta
