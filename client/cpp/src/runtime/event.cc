#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/handles.h"
#include "runtime/session_state.h"
#include "runtime/waiting.h"
#include "wire/decode.h"

namespace aclnn::runtime {
namespace {

std::string naming(uint32_t field, uint64_t event_id) {
  std::string request;
  wire::put_varint(request, field, event_id);
  return request;
}

uint64_t number_in(const std::string& response, uint32_t number) {
  uint64_t value = 0;
  wire::Reader reader(response);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == number) value = field.value;
  }
  return value;
}

}  // namespace

Error Event::record(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Session& session = stream->session;
  if (session_ != &session) {
    session_ = &session;
    event_id_ = session.next_id();
    if (Error error = session.post(fields::Command::kCreateEvent,
                                   naming(fields::CreateEventRequest::kEventId, event_id_))) {
      session_ = nullptr;
      return error;
    }
  }
  std::string request = naming(fields::RecordEventRequest::kEventId, event_id_);
  wire::put_bytes(request, fields::RecordEventRequest::kStreamId, stream->id);
  Command command;
  command.kind = fields::Command::kRecordEvent;
  command.request = request;
  if (Error error = stream->submit(command)) return error;
  mark_ = {stream, event_id_, stream->submitted.load()};
  return {};
}

void Event::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  mark_ = {};
}

Event::Mark Event::mark() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return mark_;
}

bool Event::known_passed(const Mark& mark) {
  return mark.stream == nullptr || mark.stream->synchronized.load() >= mark.number;
}

Error Event::hold(const std::shared_ptr<Stream>& stream) {
  const Mark latest = mark();
  if (known_passed(latest)) return {};
  if (&latest.stream->session != &stream->session) {
    // The server's contexts know nothing of each other: what comes later is sent later.
    return synchronize(-1);
  }
  std::string request = naming(fields::WaitEventRequest::kEventId, latest.event_id);
  wire::put_bytes(request, fields::WaitEventRequest::kStreamId, stream->id);
  Command command;
  command.kind = fields::Command::kWaitEvent;
  command.request = request;
  return stream->submit(command);
}

Error Event::query(bool* passed) {
  const Mark latest = mark();
  *passed = known_passed(latest);
  if (*passed) return {};
  std::string response;
  Error error = latest.stream->session.ask(
      fields::Command::kQueryEvent, naming(fields::QueryEventRequest::kEventId, latest.event_id),
      &response);
  *passed = number_in(response, fields::QueryEventResponse::kComplete) != 0;
  return error;
}

Error Event::synchronize(int64_t limit_ms) {
  const Mark latest = mark();
  if (known_passed(latest)) return {};
  return wait_for_event(latest.stream->session, latest.event_id, limit_ms);
}

void Event::destroy() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (session_ == nullptr) return;
  session_->post(fields::Command::kDestroyEvent,
                 naming(fields::DestroyEventRequest::kEventId, event_id_));
  session_ = nullptr;
  mark_ = {};
}

Error Event::elapsed(Event& start, Event& end, float* milliseconds) {
  const Mark from = start.mark(), to = end.mark();
  if (from.stream == nullptr || to.stream == nullptr) {
    return {ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, from.stream == nullptr
                                                      ? "the start event was not recorded"
                                                      : "the end event was not recorded"};
  }
  Session& session = from.stream->session;
  if (&session != &to.stream->session) {
    return {ACL_ERROR_RT_STREAM_CONTEXT, "the events were recorded on two devices"};
  }
  namespace ask = fields::GetEventElapsedTimeRequest;
  std::string request = naming(ask::kStartEventId, from.event_id), response;
  wire::put_varint(request, ask::kEndEventId, to.event_id);
  if (Error error = session.ask(fields::Command::kGetEventElapsedTime, request, &response)) {
    return error;
  }
  const auto nanoseconds =
      static_cast<int64_t>(number_in(response, fields::GetEventElapsedTimeResponse::kElapsedNs));
  *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
  return {};
}

}  // namespace aclnn::runtime
