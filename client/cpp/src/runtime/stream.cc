#include <algorithm>
#include <utility>
#include <vector>

#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/handles.h"
#include "runtime/session_state.h"
#include "runtime/waiting.h"
#include "wire/decode.h"

namespace aclnn::runtime {

int32_t Stream::next_number() {
  static std::atomic<int32_t> next{0};
  return next.fetch_add(1);
}

Error Stream::submit(Command command) {
  if (stops_on_failure && failures->any()) {
    return {ACL_ERROR_RT_STREAM_ABORT,
            "work of the stream has failed, and it stops on failure; synchronising tells why"};
  }
  command.failures = failures;
  if (Error error = session.submit(command, false)) return error;
  submitted.fetch_add(1);
  // The server holds only so many commands of a stream: it is made to wait before there are too
  // many.
  const uint64_t most = session.limits.queued_commands;
  if (most != 0 && queued.fetch_add(1) + 1 >= std::max<uint64_t>(1, most / 2)) {
    queued.store(0);
    session.post(fields::Command::kSynchronizeStream, waiting_for_stream(full_id), failures);
  }
  return {};
}

Error Stream::synchronize(int64_t limit_ms) {
  const uint64_t sent = submitted.load();
  Error error = session.broken();
  if (!error && synchronized.load() != sent) {
    error = wait_for_stream(session, full_id, limit_ms);
    if (is_timeout(error, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)) return error;
    if (!error) {
      synchronized.store(sent);
      queued.store(0);
    }
  }
  for (const auto& kept : {failures, session.failures()}) {
    if (Error first = kept->take()) return as_runtime_failure(first);
  }
  return as_runtime_failure(error);
}

Error create_stream(Session& session, uint32_t priority, uint32_t flags,
                    std::shared_ptr<Stream>* stream) {
  std::string response, id;
  if (Error error = session.ask(fields::Command::kCreateStream, "", &response)) {
    return error;
  }
  wire::Reader reader(response);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == fields::CreateStreamResponse::kStreamId) id = field.bytes;
  }
  *stream = std::make_shared<Stream>(session, id, id);
  (*stream)->priority = priority;
  (*stream)->flags = flags;
  return {};
}

Error destroy_stream(const Stream& stream) {
  std::string request;
  wire::put_bytes(request, fields::DestroyStreamRequest::kStreamId, stream.full_id);
  return stream.session.post(fields::Command::kDestroyStream, request);
}

Error ask_complete(const Stream& stream, bool* complete) {
  std::string request, response;
  wire::put_bytes(request, fields::QueryStreamRequest::kStreamId, stream.full_id);
  if (Error error = stream.session.ask(fields::Command::kQueryStream, request, &response)) {
    return error;
  }
  *complete = false;
  wire::Reader reader(response);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == fields::QueryStreamResponse::kComplete) *complete = field.value != 0;
  }
  return {};
}

Error synchronize_all(Session& session, int64_t limit_ms) {
  std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> waited;
  bool dirty = false;
  const auto note = [&](const std::shared_ptr<Stream>& stream) {
    if (&stream->session != &session) return;
    waited.emplace_back(stream, stream->submitted.load());
    dirty = dirty || stream->synchronized.load() != waited.back().second;
  };
  streams().for_each(note);
  contexts().for_each(
      [&](const std::shared_ptr<Context>& context) { note(context->default_stream); });
  Error error = session.broken();
  if (!error && dirty) error = wait_for_stream(session, "", limit_ms);
  if (is_timeout(error, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)) return error;
  for (const auto& [stream, number] : waited) {
    if (!error) stream->synchronized.store(number);
    if (Error first = stream->failures->take(); first && !error) error = first;
  }
  if (Error first = session.failures()->take(); first && !error) error = first;
  return as_runtime_failure(error);
}

}  // namespace aclnn::runtime
