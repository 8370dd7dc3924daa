// What a function of acl_meta.h answers to handles that are none.
#pragma once

#include <string>

#include "acl/error_codes.h"
#include "meta/pool.h"
#include "runtime/session.h"

namespace aclnn::meta {

inline constexpr int kNullPointer = 161001;
inline constexpr int kInvalid = 161002;
inline constexpr int kInner = 561000;
inline constexpr int kInnerNull = 561103;

inline int refuse_null(const char* function, const char* argument) {
  return runtime::fail(kNullPointer, std::string(function) + ": " + argument + " is null");
}

// For a handle that is not null and yet none.
inline int refuse_handle(const char* function, const char* argument, const char* kind) {
  return runtime::fail(kInvalid, std::string(function) + ": " + argument + " is no " + kind +
                                     ": it was destroyed, or was never one");
}

}  // namespace aclnn::meta
