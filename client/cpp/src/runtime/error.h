// Failures: a code of ACL's and a text for people, and each thread's latest ones.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "acl/error_codes.h"
#include "runtime/session.h"

namespace aclnn::runtime {

// A failure; code 0 is none.
struct Error {
  int code = 0;
  std::string text;
  // Whether the server names what is at fault.
  bool of_operator = false;
  bool of_parameter = false;

  explicit operator bool() const { return code != 0; }
};

inline int fail(const Error& error) { return fail(error.code, error.text); }

// What calls fail with after the end of their session.
inline Error closed_connection() {
  return {ACL_ERROR_RT_CONTEXT_NULL, "the device was reset, or ACL was finalized"};
}

// Whether texts are told to whichever thread of the process asks first, not to the one that failed.
void share_recent_texts(bool shared);

// The code that a failed call of gRPC's means, with its text in words that a user can act on.
//
// status_code: gRPC's. message: gRPC's debug text, or the server's. details: google.rpc.Status as
// the server encoded it, empty where the failure is not the server's. doing: to follow "while".
Error from_grpc(int status_code, std::string_view message, std::string_view details,
                std::string_view doing);

// A failure in an answer of Submit: the message aclnn.v1.Error, encoded.
Error from_wire(std::string_view encoded);

}  // namespace aclnn::runtime
