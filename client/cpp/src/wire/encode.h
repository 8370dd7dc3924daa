// Protobuf's encoding, written by hand: what the libraries send, with one copy and no allocation of
// its own.
//
// Field numbers are those of aclnn_fields.h. As in proto3, the put_ functions leave a default value
// out; members of a oneof, which count even with a default value, are written with the add_
// functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace aclnn::wire {

enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline void add_raw_varint(std::string& out, uint64_t value) {
  while (value > 127) {
    out.push_back(static_cast<char>(value | 128));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

inline void add_tag(std::string& out, uint32_t field, Type type) {
  add_raw_varint(out, field << 3 | type);
}

inline void add_varint(std::string& out, uint32_t field, uint64_t value) {
  add_tag(out, field, kVarint);
  add_raw_varint(out, value);
}

// int32 and int64 are encoded as 64 bits in two's complement.
inline void add_signed(std::string& out, uint32_t field, int64_t value) {
  add_varint(out, field, static_cast<uint64_t>(value));
}

inline void add_bytes(std::string& out, uint32_t field, std::string_view value) {
  add_tag(out, field, kBytes);
  add_raw_varint(out, value.size());
  out.append(value);
}

inline void add_float(std::string& out, uint32_t field, float value) {
  add_tag(out, field, kFixed32);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // little-endian, as every machine that CANN runs on
  out.append(bytes, sizeof value);
}

inline void add_double(std::string& out, uint32_t field, double value) {
  add_tag(out, field, kFixed64);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

inline void put_varint(std::string& out, uint32_t field, uint64_t value) {
  if (value != 0) add_varint(out, field, value);
}

inline void put_signed(std::string& out, uint32_t field, int64_t value) {
  if (value != 0) add_signed(out, field, value);
}

inline void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  if (!value.empty()) add_bytes(out, field, value);
}

inline size_t varint_size(uint64_t value) {
  size_t size = 1;
  while (value > 127) {
    value >>= 7;
    ++size;
  }
  return size;
}

// A nested message: what is appended to `out` in its lifetime becomes the field's content.
class Nested {
 public:
  Nested(std::string& out, uint32_t field) : out_(out) {
    add_tag(out, field, kBytes);
    out.push_back('\0');  // the length, where it takes one byte, as it mostly does
    start_ = out.size();
  }

  ~Nested() {
    const size_t size = out_.size() - start_;
    if (size < 128) {
      out_[start_ - 1] = static_cast<char>(size);
      return;
    }
    char length[10];
    size_t count = 0;
    for (uint64_t rest = size; rest != 0; rest >>= 7) {
      length[count++] = static_cast<char>(rest > 127 ? rest | 128 : rest);
    }
    out_[start_ - 1] = length[0];
    out_.insert(start_, length + 1, count - 1);
  }

  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  std::string& out_;
  size_t start_;
};

// A repeated field of numbers in its packed form; left out where there are none.
template <typename Number>
void put_packed(std::string& out, uint32_t field, const Number* values, size_t count) {
  if (count == 0) return;
  Nested packed(out, field);
  for (size_t i = 0; i < count; ++i) add_raw_varint(out, static_cast<uint64_t>(values[i]));
}

}  // namespace aclnn::wire
