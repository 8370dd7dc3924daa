#include "runtime/waiting.h"

#include <algorithm>
#include <chrono>

#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/session_state.h"
#include "wire/encode.h"

namespace aclnn::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// How long a wait may hold up the commands of the context's other streams.
constexpr int64_t kInOrderMs = 2;

// Fields of google.protobuf.Duration.
constexpr uint32_t kSeconds = 1, kNanoseconds = 2;

std::string encode(const Wait& wait, const std::string& context_id, int64_t limit_ms) {
  std::string request = wait.named;
  wire::put_bytes(request, wait.context_field, context_id);
  if (limit_ms >= 0) {
    const wire::Nested duration(request, wait.timeout_field);
    wire::put_varint(request, kSeconds, static_cast<uint64_t>(limit_ms / 1000));
    wire::put_varint(request, kNanoseconds, static_cast<uint64_t>(limit_ms % 1000 * 1000000));
  }
  return request;
}

// What is left of a limit; below 0: there is none.
int64_t left_of(int64_t limit_ms, Clock::time_point begin) {
  if (limit_ms < 0) return limit_ms;
  const auto passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  return std::max<int64_t>(0, limit_ms - passed);
}

}  // namespace

Error wait_for(Session& session, const Wait& wait, int64_t limit_ms) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const int64_t left = left_of(limit_ms, begin);
    const bool last = left >= 0 && left <= kInOrderMs;
    Error error = session.ask(wait.command, encode(wait, "", last ? left : kInOrderMs));
    if (!is_timeout(error, wait.timeout_code) || last) return error;
    error = session.call(wait.method, encode(wait, session.context_id, left_of(limit_ms, begin)),
                         wait.doing);
    // A connection that broke is the pipeline's to make again, or to give up.
    if (error.code != ACL_ERROR_RT_SOCKET_CLOSE) return error;
  }
}

std::string waiting_for_stream(const std::string& stream_id) {
  std::string request;
  wire::put_bytes(request, fields::SynchronizeStreamRequest::kStreamId, stream_id);
  return request;
}

Error wait_for_stream(Session& session, const std::string& stream_id, int64_t limit_ms) {
  const Wait wait{fields::Command::kSynchronizeStream,
                  "/aclnn.v1.DeviceService/SynchronizeStream",
                  "waiting for a stream",
                  fields::SynchronizeStreamRequest::kContextId,
                  fields::SynchronizeStreamRequest::kTimeout,
                  ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  waiting_for_stream(stream_id)};
  return wait_for(session, wait, limit_ms);
}

Error wait_for_event(Session& session, uint64_t event_id, int64_t limit_ms) {
  Wait wait{fields::Command::kSynchronizeEvent,
            "/aclnn.v1.DeviceService/SynchronizeEvent",
            "waiting for an event",
            fields::SynchronizeEventRequest::kContextId,
            fields::SynchronizeEventRequest::kTimeout,
            ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
            {}};
  wire::put_varint(wait.named, fields::SynchronizeEventRequest::kEventId, event_id);
  return wait_for(session, wait, limit_ms);
}

}  // namespace aclnn::runtime
