#include "runtime/session.h"

#include <cstdio>
#include <mutex>
#include <vector>

#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/channel.h"
#include "runtime/first_contact.h"
#include "runtime/pipeline.h"
#include "runtime/session_state.h"
#include "wire/decode.h"

namespace aclnn::runtime {
namespace {

constexpr uint32_t kProtocolVersion = 1;
constexpr const char* kClientName = "aclnn-client-cpp/" ACLNN_SERVE_VERSION;
constexpr std::chrono::milliseconds kGoodbyeLimit{2000};

// What is known of the server; guarded by the mutex, and never destroyed.
struct Server {
  std::mutex mutex;
  std::unique_ptr<Environment> environment;
  std::unique_ptr<Channel> channel;
  std::unique_ptr<ServerInfo> info;
  std::vector<Session*> sessions;  // all that ever were
  bool told = false;               // that it cannot be reached
};

Server& server() {
  static Server* const instance = new Server;
  return *instance;
}

// Tells the user once what the program may not: that nothing will work.
Error told(Error error) {
  if (!server().told) {
    server().told = true;
    std::fprintf(stderr, "aclnn: %s\n", error.text.c_str());
  }
  return error;
}

Error ready(Server& known) {
  if (known.channel != nullptr) return {};
  auto environment = std::make_unique<Environment>();
  if (Error error = read_environment(environment.get())) return error;
  known.channel = std::make_unique<Channel>(*environment);
  known.environment = std::move(environment);
  return {};
}

Limits read_limits(std::string_view message) {
  Limits limits;
  wire::Reader reader(message);
  for (wire::Field field; reader.next(&field);) {
    namespace limit = fields::Limits;
    if (field.number == limit::kMessageBytes) limits.message_bytes = field.value;
    if (field.number == limit::kTensorBytes) limits.tensor_bytes = field.value;
    if (field.number == limit::kContextBytes) limits.context_bytes = field.value;
    if (field.number == limit::kStreams) limits.streams = field.value;
    if (field.number == limit::kQueuedCommands) limits.queued_commands = field.value;
    if (field.number == limit::kEvents) limits.events = field.value;
  }
  return limits;
}

Opening read_opening(std::string_view message) {
  Opening opening;
  wire::Reader reader(message);
  for (wire::Field field; reader.next(&field);) {
    namespace created = fields::CreateContextResponse;
    if (field.number == created::kContextId) opening.context_id = field.bytes;
    if (field.number == created::kStreamId) opening.default_stream_id = field.bytes;
    if (field.number == created::kLimits) opening.limits = read_limits(field.bytes);
  }
  return opening;
}

ServerInfo read_info(std::string_view message) {
  ServerInfo info;
  wire::Reader reader(message);
  for (wire::Field field; reader.next(&field);) {
    namespace answer = fields::GetServerInfoResponse;
    if (field.number == answer::kDeviceCount) {
      info.device_count = static_cast<uint32_t>(field.value);
    }
    if (field.number == answer::kSoc) info.soc = field.bytes;
  }
  return info;
}

Error ask_info(Server& known, ServerInfo* info) {
  if (known.info == nullptr) {
    if (Error error = ready(known)) return error;
    std::string response;
    if (Error error = known.channel->call("/aclnn.v1.DeviceService/GetServerInfo", "",
                                          "asking what the server is", kCallLimit, &response)) {
      return explained(std::move(error), *known.environment);
    }
    known.info = std::make_unique<ServerInfo>(read_info(response));
  }
  *info = *known.info;
  return {};
}

Error open_context(const Channel& channel, int device, Opening* opening) {
  std::string request, response;
  namespace create = fields::CreateContextRequest;
  wire::put_varint(request, create::kProtocolVersion, kProtocolVersion);
  wire::add_varint(request, create::kDeviceIndex, static_cast<uint32_t>(device));
  wire::put_bytes(request, create::kClientName, kClientName);
  if (Error error = channel.call("/aclnn.v1.DeviceService/CreateContext", request,
                                 "opening a context", kCallLimit, &response)) {
    return error;
  }
  *opening = read_opening(response);
  return {};
}

}  // namespace

Error server_info(ServerInfo* info) {
  Server& known = server();
  const std::lock_guard<std::mutex> lock(known.mutex);
  if (Error error = ask_info(known, info)) return told(error);
  return {};
}

void forget_server() {
  Server& known = server();
  const std::lock_guard<std::mutex> lock(known.mutex);
  known.info.reset();
  known.channel.reset();
  known.environment.reset();
}

Session* open_session(int device, Error* error) {
  Server& known = server();
  const std::lock_guard<std::mutex> lock(known.mutex);
  ServerInfo info;
  if ((*error = ask_info(known, &info))) {
    told(*error);
    return nullptr;
  }
  if (device < 0 || static_cast<uint32_t>(device) >= info.device_count) {
    *error = {ACL_ERROR_RT_INVALID_DEVICEID,
              "deviceId is " + std::to_string(device) + "; the server has " +
                  std::to_string(info.device_count) + ", counted from 0"};
    return nullptr;
  }
  auto channel = std::make_unique<Channel>(*known.environment);
  Opening opening;
  if ((*error = open_context(*channel, device, &opening))) {
    told(*error);
    return nullptr;
  }
  known.sessions.push_back(new Session(device, std::move(channel), std::move(opening)));
  return known.sessions.back();
}

Error device_memory(const Session& session, uint64_t* free, uint64_t* total) {
  std::string response;
  if (Error error = session.call("/aclnn.v1.DeviceService/ListDevices", "",
                                 "asking for the devices' memory", &response)) {
    return error;
  }
  *free = *total = 0;
  wire::Reader reader(response);
  for (wire::Field found; reader.next(&found);) {
    if (found.number != fields::ListDevicesResponse::kDevices) continue;
    uint64_t index = 0, free_bytes = 0, total_bytes = 0;
    wire::Reader one(found.bytes);
    for (wire::Field field; one.next(&field);) {
      if (field.number == fields::Device::kIndex) index = field.value;
      if (field.number == fields::Device::kFreeBytes) free_bytes = field.value;
      if (field.number == fields::Device::kTotalBytes) total_bytes = field.value;
    }
    if (index == static_cast<uint64_t>(session.device)) {
      *free = free_bytes;
      *total = total_bytes;
    }
  }
  return {};
}

inline namespace v1 {

Session::Session(int device, std::unique_ptr<Channel> channel, Opening opening)
    : device(device),
      context_id(std::move(opening.context_id)),
      default_stream_id(std::move(opening.default_stream_id)),
      limits(opening.limits),
      channel_(channel.release()),
      pipeline_(new Pipeline(*channel_, context_id)) {}

void Session::close() {
  if (closed_.exchange(true)) return;
  if (!pipeline_->broken()) {
    std::string request;
    wire::put_bytes(request, fields::DestroyContextRequest::kContextId, context_id);
    // The server may be gone, or have ended the context itself; the lease sees to the rest.
    channel_->call("/aclnn.v1.DeviceService/DestroyContext", request, "closing a context",
                   kGoodbyeLimit, nullptr);
  }
  pipeline_->close();
  channel_->close();
  plans_.clear();
}

Error Session::submit(const Command& command, bool urgent) {
  return pipeline_->submit(command, urgent);
}

Error Session::post(uint32_t kind, std::string_view request, std::shared_ptr<Failures> failures) {
  Command command;
  command.kind = kind;
  command.request = request;
  command.failures = failures == nullptr ? failures_ : std::move(failures);
  return pipeline_->submit(command, false);
}

Error Session::ask(uint32_t kind, std::string_view request, std::string* response) {
  Answer answer;
  Command command;
  command.kind = kind;
  command.request = request;
  command.completion = &answer;
  if (Error error = pipeline_->submit(command, true)) return error;
  if (const Error& error = answer.wait()) return error;
  if (response != nullptr) *response = answer.response();
  return {};
}

Error Session::call(const char* method, std::string_view request, const char* doing,
                    std::string* response) const {
  return channel_->call(method, request, doing, std::chrono::milliseconds(-1), response);
}

Error Session::broken() const { return pipeline_->broken(); }

}  // namespace v1
}  // namespace aclnn::runtime
