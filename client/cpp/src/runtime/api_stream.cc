// Streams and events.
#include <algorithm>
#include <string>

#include "runtime/api.h"
#include "runtime/session_state.h"

namespace aclnn::runtime {
namespace {

constexpr uint32_t kStreamFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC |
                                  ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |
                                  ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

Error add_stream(aclrtStream* handle, uint32_t priority, uint32_t flags) {
  if (handle == nullptr) return null_pointer("stream");
  if ((flags & ~kStreamFlags) != 0) {
    return invalid("flag", std::to_string(flags), "flags are 1, 2, 4, 8, 16 and 32");
  }
  std::shared_ptr<Context> context;
  if (Error error = current(&context)) return error;
  std::shared_ptr<Stream> stream;
  if (Error error = create_stream(*context->session, priority, flags, &stream)) return error;
  *handle = streams().add(std::move(stream));
  return {};
}

Error end_stream(aclrtStream handle, bool wait) {
  const std::shared_ptr<Stream> stream = streams().take(handle);
  if (stream == nullptr) {
    return {ACL_ERROR_RT_INVALID_HANDLE,
            handle == nullptr ? "stream is null; the default stream ends with its context"
                              : "stream is no stream, or one that was destroyed"};
  }
  Error error;
  if (wait) error = stream->synchronize(-1);
  const Error ended = destroy_stream(*stream);
  return error ? error : ended;
}

Error query_stream(const Stream& stream, aclrtStreamStatus* status) {
  bool complete = !stream.dirty();
  if (!complete) {
    if (Error error = ask_complete(stream, &complete)) return error;
  }
  *status = complete ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return {};
}

constexpr uint32_t kEventFlags =
    ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;

Error add_event(aclrtEvent* handle, uint32_t flag) {
  if (handle == nullptr) return null_pointer("event");
  if ((flag & ~kEventFlags) != 0) {
    return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "flag is " + std::to_string(flag) + "; events here have flags of 1, 2 and 8"};
  }
  *handle = events().add(std::make_shared<Event>());
  return {};
}

Error hold(aclrtStream stream_handle, aclrtEvent event_handle) {
  return with_event(event_handle, [&](Event& event) {
    return with_stream(stream_handle,
                       [&](const std::shared_ptr<Stream>& stream) { return event.hold(stream); });
  });
}

}  // namespace
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

// --- streams -----------------------------------------------------------------

aclError aclrtCreateStream(aclrtStream* stream) {
  return exported([&] { return add_stream(stream, 0, 0); });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return exported([&] { return add_stream(stream, priority, flag); });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return exported([&] { return end_stream(stream, true); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return exported([&] { return end_stream(stream, false); });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return aclrtSynchronizeStreamWithTimeout(stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
  return exported([&]() -> Error {
    if (timeout < -1) return invalid("timeout", std::to_string(timeout), "-1 or milliseconds");
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) {
      return stream->synchronize(timeout);
    });
  });
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  return exported([&]() -> Error {
    if (status == nullptr) return null_pointer("status");
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) {
      return query_stream(*stream, status);
    });
  });
}

aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t* priority) {
  return exported([&]() -> Error {
    if (priority == nullptr) return null_pointer("priority");
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) -> Error {
      *priority = stream->priority;
      return {};
    });
  });
}

aclError aclrtStreamGetFlags(aclrtStream handle, uint32_t* flags) {
  return exported([&]() -> Error {
    if (flags == nullptr) return null_pointer("flags");
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) -> Error {
      *flags = stream->flags;
      return {};
    });
  });
}

aclError aclrtStreamGetId(aclrtStream handle, int32_t* streamId) {
  return exported([&]() -> Error {
    if (streamId == nullptr) return null_pointer("streamId");
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) -> Error {
      *streamId = stream->number;
      return {};
    });
  });
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  return exported([&]() -> Error {
    if (stream == nullptr) return null_pointer("stream");
    std::shared_ptr<Context> context;
    if (Error error = current(&context)) return error;
    *stream = nullptr;  // which every function takes for it
    return {};
  });
}

aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
  return exported([&]() -> Error {
    if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
      return invalid("mode", std::to_string(mode), "modes are 0 and 1");
    }
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) -> Error {
      stream->stops_on_failure = mode == ACL_STOP_ON_FAILURE;
      return {};
    });
  });
}

// --- events ------------------------------------------------------------------

aclError aclrtCreateEvent(aclrtEvent* event) {
  return exported([&] { return add_event(event, 0); });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return exported([&] { return add_event(event, flag); });
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return exported([&] { return add_event(event, flag); });
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
  return exported([&]() -> Error {
    const std::shared_ptr<Event> event = events().take(handle);
    if (event == nullptr) {
      return {ACL_ERROR_RT_INVALID_HANDLE, "event is no event, or one that was destroyed"};
    }
    event->destroy();
    return {};
  });
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
  return exported([&] {
    return with_event(handle, [&](Event& event) {
      return with_stream(stream_handle, [&](const std::shared_ptr<Stream>& stream) {
        return event.record(stream);
      });
    });
  });
}

aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle) {
  return exported([&] {
    return with_event(handle, [&](Event& event) {
      return with_stream(stream_handle, [&](const std::shared_ptr<Stream>&) -> Error {
        event.reset();
        return {};
      });
    });
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return exported([&] { return hold(stream, event); });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return aclrtSynchronizeEventWithTimeout(event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent handle, int32_t timeout) {
  return exported([&]() -> Error {
    if (timeout < -1) return invalid("timeout", std::to_string(timeout), "-1 or milliseconds");
    return with_event(handle, [&](Event& event) { return event.synchronize(timeout); });
  });
}

aclError aclrtQueryEvent(aclrtEvent handle, aclrtEventStatus* status) {
  return exported([&]() -> Error {
    if (status == nullptr) return null_pointer("status");
    bool passed = false;
    const Error error = with_event(handle, [&](Event& event) { return event.query(&passed); });
    *status = passed ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return error;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  return exported([&]() -> Error {
    if (status == nullptr) return null_pointer("status");
    bool passed = false;
    const Error error = with_event(handle, [&](Event& event) { return event.query(&passed); });
    *status = passed ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return error;
  });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus* status) {
  return exported([&]() -> Error {
    if (status == nullptr) return null_pointer("status");
    bool passed = false;
    const Error error = with_event(handle, [&](Event& event) { return event.query(&passed); });
    *status = passed ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return error;
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return exported([&]() -> Error {
    if (ms == nullptr) return null_pointer("ms");
    return with_event(startEvent, [&](Event& start) {
      return with_event(endEvent, [&](Event& end) { return Event::elapsed(start, end, ms); });
    });
  });
}
