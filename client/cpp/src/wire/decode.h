// Protobuf's encoding, read by hand: one message, field by field.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/encode.h"

namespace aclnn::wire {

struct Field {
  uint32_t number = 0;
  Type type = kVarint;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of anything else, in the message's own memory
};

// Reads a varint; false where the text ends before it does, or it is longer than 64 bits.
inline bool read_varint(const char** at, const char* end, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    const auto byte = static_cast<unsigned char>(*(*at)++);
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

class Reader {
 public:
  explicit Reader(std::string_view message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  // The next field; false at the end, and where the rest is no message.
  bool next(Field* field) {
    if (at_ == end_) return false;
    uint64_t tag = 0;
    if (!read_varint(&at_, end_, &tag)) return stop();
    field->number = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<Type>(tag & 7);
    switch (field->type) {
      case kVarint:
        return read_varint(&at_, end_, &field->value) || stop();
      case kFixed64:
        return take(8, field);
      case kFixed32:
        return take(4, field);
      case kBytes: {
        uint64_t size = 0;
        return (read_varint(&at_, end_, &size) && take(size, field)) || stop();
      }
    }
    return stop();
  }

  // Whether all of it was a message.
  bool complete() const { return at_ == end_ && !malformed_; }

 private:
  bool take(uint64_t size, Field* field) {
    if (size > static_cast<uint64_t>(end_ - at_)) return stop();
    field->bytes = std::string_view(at_, size);
    at_ += size;
    return true;
  }

  bool stop() {
    malformed_ = true;
    return false;
  }

  const char* at_;
  const char* end_;
  bool malformed_ = false;
};

}  // namespace aclnn::wire
