#include "runtime/handles.h"

#include "acl/error_codes.h"
#include "runtime/devices.h"

namespace aclnn::runtime {

// Never destroyed: calls may come while the process exits.

Handles<Stream>& streams() {
  static auto* const all = new Handles<Stream>(0xAC51);
  return *all;
}

Handles<Event>& events() {
  static auto* const all = new Handles<Event>(0xACE1);
  return *all;
}

Handles<Context>& contexts() {
  static auto* const all = new Handles<Context>(0xACC1);
  return *all;
}

Error find_stream(const void* handle, Session& session, std::shared_ptr<Stream>* stream) {
  std::shared_ptr<Context> context;
  if (handle == nullptr) {
    if (current(&context) || context->session != &session) context = primary_context(session);
    if (context == nullptr) {
      return closed_connection();
    }
    *stream = context->default_stream;
    return {};
  }
  if (Error error = find_stream(handle, stream)) return error;
  if (&(*stream)->session == &session) return {};
  return {ACL_ERROR_RT_STREAM_CONTEXT, "the stream belongs to another device"};
}

Error find_stream(const void* handle, std::shared_ptr<Stream>* stream) {
  if (handle != nullptr) {
    *stream = streams().find(handle);
    if (*stream != nullptr) return {};
    return {ACL_ERROR_RT_INVALID_HANDLE, "stream is no stream, or one that was destroyed"};
  }
  std::shared_ptr<Context> context;
  if (Error error = current(&context)) return error;
  *stream = context->default_stream;
  return {};
}

Error as_runtime_failure(Error error) {
  if (error.code == 361001) error.code = ACL_ERROR_RT_AICORE_EXCEPTION;
  return error;
}

}  // namespace aclnn::runtime
