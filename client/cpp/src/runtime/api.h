// What the exported functions have in common.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "acl/acl.h"
#include "runtime/devices.h"
#include "runtime/error.h"
#include "runtime/handles.h"

namespace aclnn::runtime {

// Runs the body of an exported function, which gives its failure: notes the text, gives the code,
// and lets no exception out.
template <typename Body>
aclError exported(Body body) noexcept {
  try {
    if (forked()) return fail_forked();
    const Error error = body();
    return error ? fail(error) : ACL_SUCCESS;
  } catch (const std::bad_alloc&) {
    return ACL_ERROR_BAD_ALLOC;
  } catch (const std::exception& exception) {
    return fail(ACL_ERROR_INTERNAL_ERROR, exception.what());
  }
}

inline Error null_pointer(const char* name) {
  return {ACL_ERROR_INVALID_PARAM, std::string(name) + " is null"};
}

inline Error invalid(const char* name, const std::string& value, const std::string& allowed) {
  return {ACL_ERROR_INVALID_PARAM, std::string(name) + " is " + value + "; " + allowed};
}

// Runs a body with an event, or fails with 107017.
template <typename Body>
Error with_event(aclrtEvent handle, Body body) {
  const std::shared_ptr<Event> event = events().find(handle);
  if (event == nullptr) {
    return {ACL_ERROR_RT_INVALID_HANDLE, "event is no event, or one that was destroyed"};
  }
  return body(*event);
}

// Runs a body with a stream, the default stream of the thread's context for null, or fails.
template <typename Body>
Error with_stream(aclrtStream handle, Body body) {
  std::shared_ptr<Stream> stream;
  if (Error error = find_stream(handle, &stream)) return error;
  return body(stream);
}

}  // namespace aclnn::runtime
