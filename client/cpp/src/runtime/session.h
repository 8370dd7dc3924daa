// What the operator libraries (libnnopbase, libopapi) need of the runtime (libascendcl).
//
// These symbols are exported for the three libraries alone, which are built together; the
// namespace's version changes with them, so that libraries of two builds do not link. No protobuf
// or gRPC object crosses: what is sent is handed over encoded (wire.h has the encoder).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#if defined(__GNUC__)
#define ACLNN_RUNTIME_API __attribute__((visibility("default")))
#endif

namespace aclnn::runtime {
inline namespace v1 {

// One device's context on the server, shared by everything in this process that uses the device.
class Session;

// Where a device address lies.
struct Place {
  Session* session = nullptr;
  uint64_t buffer_id = 0;
  uint64_t byte_offset = 0;  // from the start of the buffer
  uint64_t bytes_left = 0;   // from the address to the end of the allocation
};

// Finds the allocation that an address lies in, anywhere inside it; false where it lies in none.
ACLNN_RUNTIME_API bool find_place(const void* address, Place* place);

// Notes a failure's text for this thread's next aclGetRecentErrMsg, and returns its code.
ACLNN_RUNTIME_API int fail(int code, std::string text);

// The session of this thread's current device; opens the connection where this is its first use.
// Null with a code and a noted text where there is none (107002) or the server does not answer
// (507901 …).
ACLNN_RUNTIME_API Session* current_session(int* code);

// The session that a stream belongs to; a null stream is the default stream of the thread's
// context.
ACLNN_RUNTIME_API Session* session_of(void* stream, int* code);

// The storage of one tensor argument, by its position in the C prototype (and inside its tensor
// list).
struct Storage {
  uint32_t argument = 0;
  uint32_t element = 0;
  uint64_t buffer_id = 0;
  uint64_t byte_offset = 0;  // from the start of the buffer to the storage's first byte
};

// A planned call without storages: an executor of the server's that can be run any number of times,
// with the storages of each run. Shared by equal calls of a session, and ended when the last who
// holds it is gone.
class Plan;

// Phase one. Waits for the server's answer, unless an equal call has been planned before in this
// session.
//
// operator_name: C name, with the aclnn prefix. arguments: the field
// GetWorkspaceSizeRequest.arguments, encoded: for each argument tag, length and Argument message,
// the tensors without their storage. Calls that are equal in both share a plan. Returns 0, or what
// the server refuses it with, the text noted.
ACLNN_RUNTIME_API int plan(Session& session, std::string_view operator_name,
                           std::string_view arguments, std::shared_ptr<Plan>* planned,
                           uint64_t* workspace_bytes);

// Told of the end of an execution: 0 and the encoded ExecuteResponse, or the failure's code and
// text. Called once, from any thread, at the latest before a later synchronisation of the stream
// returns.
using ExecuteDone = std::function<void(int code, std::string_view response)>;

// Phase two: queues a planned call on a stream, without waiting. A null stream is the default
// stream of the thread's context where that is on the plan's device, else the default stream of the
// plan's device.
//
// Refuses what is known here to be wrong: a workspace that is null with a size (161001), too small
// or no device memory (161002), a stream of another device (107003). What fails later is told by
// the next synchronisation.
ACLNN_RUNTIME_API int execute(const std::shared_ptr<Plan>& plan, void* stream,
                              const Storage* storages, size_t storage_count, const void* workspace,
                              uint64_t workspace_bytes, ExecuteDone done = nullptr);

}  // namespace v1
}  // namespace aclnn::runtime
