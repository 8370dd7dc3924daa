// Reads a message that lies in several pieces of memory, as gRPC receives it.
#pragma once

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "wire/encode.h"

namespace aclnn::runtime {

class SliceCursor {
 public:
  // slices and joined must outlive what is read; joined takes what lies in two slices.
  SliceCursor(const std::vector<grpc::Slice>& slices, std::deque<std::string>* joined)
      : slices_(slices), joined_(joined) {
    for (const grpc::Slice& slice : slices) left_ += slice.size();
    skip_empty();
  }

  uint64_t left() const { return left_; }

  bool varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && left_ != 0; shift += 7) {
      const unsigned char byte = *(slices_[index_].begin() + offset_);
      advance(1);
      *value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }

  // The next bytes, without a copy where they lie in one piece.
  bool bytes(uint64_t size, std::string_view* view) {
    if (size > left_) return false;
    if (size == 0) {
      *view = {};
      return true;
    }
    if (size <= here()) {
      *view = {reinterpret_cast<const char*>(slices_[index_].begin() + offset_), size};
      advance(size);
      return true;
    }
    std::string& copy = joined_->emplace_back(size, '\0');
    *view = copy;
    return this->copy(size, copy.data());
  }

  bool copy(uint64_t size, char* to) {
    if (size > left_) return false;
    while (size != 0) {
      const uint64_t part = std::min(size, here());
      std::memcpy(to, slices_[index_].begin() + offset_, part);
      to += part;
      size -= part;
      advance(part);
    }
    return true;
  }

  bool skip(uint64_t size) {
    if (size > left_) return false;
    while (size != 0) {
      const uint64_t part = std::min(size, here());
      size -= part;
      advance(part);
    }
    return true;
  }

 private:
  uint64_t here() const { return slices_[index_].size() - offset_; }

  void advance(uint64_t size) {
    offset_ += size;
    left_ -= size;
    skip_empty();
  }

  void skip_empty() {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }

  const std::vector<grpc::Slice>& slices_;
  std::deque<std::string>* joined_;
  size_t index_ = 0;
  uint64_t offset_ = 0;
  uint64_t left_ = 0;
};

}  // namespace aclnn::runtime
