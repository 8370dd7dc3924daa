#include "runtime/devices.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "acl/error_codes.h"
#include "runtime/address_map.h"
#include "runtime/session_state.h"

namespace aclnn::runtime {
namespace {

struct Active {
  std::shared_ptr<Context> primary;
  int uses = 0;
};

// Never destroyed: calls may come while the process exits.
struct Devices {
  std::mutex mutex;
  std::map<int, Active> active;
  std::atomic<int> default_device{-1};
};

Devices& devices() {
  static Devices* const instance = new Devices;
  return *instance;
}

std::atomic<bool> connected{false};
std::atomic<bool> was_forked{false};

thread_local std::shared_ptr<Context> current_context_;

void end_session(const std::shared_ptr<Context>& primary) {
  Session& session = *primary->session;
  contexts().for_each([&](const std::shared_ptr<Context>& context) {
    if (context->session == &session) context->ended = true;
  });
  contexts().remove_if([](const Context& context) { return context.ended.load(); });
  session.close();
  streams().remove_if([&](const Stream& stream) { return &stream.session == &session; });
  release_addresses_of(&session);
}

// At the first connection: from here on a fork leaves the child without gRPC's threads.
void note_connection() {
  if (connected.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, [] { was_forked = true; });
  std::atexit([] {
    if (!forked()) end_all_sessions();
  });
}

Error open_primary(int device, Active* active) {
  note_connection();
  Error error;
  Session* const session = open_session(device, &error);
  if (session == nullptr) return error;
  auto context = std::make_shared<Context>();
  context->session = session;
  context->default_stream = std::make_shared<Stream>(*session, "", session->default_stream_id);
  context->handle = contexts().add(context);
  active->primary = std::move(context);
  return {};
}

}  // namespace

Error set_device(int device) {
  Devices& all = devices();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Active& active = all.active[device];
  if (active.primary == nullptr) {
    if (Error error = open_primary(device, &active)) {
      all.active.erase(device);
      return error;
    }
  }
  ++active.uses;
  current_context_ = active.primary;
  return {};
}

Error reset_device(int device, bool everything) {
  Devices& all = devices();
  std::shared_ptr<Context> ended;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.active.find(device);
    if (found == all.active.end()) {
      return {ACL_ERROR_RT_INVALID_DEVICEID,
              "deviceId is " + std::to_string(device) + ", a device that is not set"};
    }
    if (--found->second.uses > 0 && !everything) return {};
    ended = found->second.primary;
    all.active.erase(found);
  }
  end_session(ended);
  return {};
}

Error current(std::shared_ptr<Context>* context) {
  if (current_context_ == nullptr && devices().default_device >= 0) {
    if (Error error = set_device(devices().default_device)) return error;
  }
  if (current_context_ == nullptr || current_context_->ended) {
    return {ACL_ERROR_RT_CONTEXT_NULL, "the thread has no context; aclrtSetDevice gives it one"};
  }
  *context = current_context_;
  return {};
}

void set_current(std::shared_ptr<Context> context) { current_context_ = std::move(context); }

std::shared_ptr<Context> primary_context(const Session& session) {
  const std::lock_guard<std::mutex> lock(devices().mutex);
  const auto found = devices().active.find(session.device);
  if (found == devices().active.end() || found->second.primary->session != &session) {
    return nullptr;
  }
  return found->second.primary;
}

void set_default_device(int device) { devices().default_device = device; }

void end_all_sessions() {
  std::map<int, Active> ended;
  {
    const std::lock_guard<std::mutex> lock(devices().mutex);
    ended.swap(devices().active);
  }
  for (const auto& [device, active] : ended) end_session(active.primary);
  set_default_device(-1);
  forget_server();
}

bool forked() { return was_forked.load(std::memory_order_relaxed); }

int fail_forked() {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "this process was forked from one that uses a device, which cannot work here; fork "
              "before the first use, or start the process anew (spawn)");
}

inline namespace v1 {

Session* current_session(int* code) {
  std::shared_ptr<Context> context;
  *code = forked() ? fail_forked() : 0;
  if (*code != 0) return nullptr;
  if (Error error = current(&context)) {
    *code = fail(error);
    return nullptr;
  }
  return context->session;
}

Session* session_of(void* handle, int* code) {
  if (handle == nullptr || forked()) return current_session(code);
  std::shared_ptr<Stream> stream;
  if (Error error = find_stream(handle, &stream)) {
    *code = fail(error);
    return nullptr;
  }
  *code = 0;
  return &stream->session;
}

}  // namespace v1
}  // namespace aclnn::runtime
