#include "runtime/plans.h"

#include <utility>
#include <vector>

#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/devices.h"
#include "runtime/error.h"
#include "runtime/handles.h"
#include "runtime/session_state.h"
#include "wire/decode.h"

namespace aclnn::runtime {
namespace {

constexpr size_t kMostPlans = 4096;

// Operator and arguments in one: a name ends where the arguments' first tag begins, which no name
// has.
std::string_view key_of(std::string_view operator_name, std::string_view arguments) {
  thread_local std::string key;
  key.assign(operator_name);
  key.append(arguments);
  return key;
}

Error read_plan(const std::string& response, uint64_t* workspace_bytes) {
  wire::Reader reader(response);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == fields::GetWorkspaceSizeResponse::kWorkspaceBytes) {
      *workspace_bytes = field.value;
    }
  }
  if (reader.complete()) return {};
  return {ACL_ERROR_INTERNAL_ERROR, "the server's answer to phase one cannot be read"};
}

// A stream's completion of one execution.
class Done final : public Completion {
 public:
  explicit Done(ExecuteDone done) : done_(std::move(done)) {}

  void finish(const Outcome& outcome) override {
    if (outcome.error) {
      done_(outcome.error.code, outcome.error.text);
    } else {
      done_(0, outcome.response);
    }
    delete this;
  }

 private:
  ~Done() = default;
  ExecuteDone done_;
};

// Where the workspace lies; refuses one that cannot be.
Error place_workspace(const Plan& plan, const void* workspace, uint64_t bytes, Place* place) {
  if (workspace == nullptr && bytes != 0) {
    return {161001, "workspace is null, and workspaceSize is " + std::to_string(bytes)};
  }
  if (bytes == 0) return {};  // the server lends its own
  if (bytes < plan.workspace_bytes) {
    return {161002, "workspaceSize is " + std::to_string(bytes) + "; phase one asked for " +
                        std::to_string(plan.workspace_bytes)};
  }
  if (!find_place(workspace, place) || place->session != &plan.session) {
    return {161002, "workspace is no memory of the device that the call was planned for"};
  }
  if (place->bytes_left < bytes) {
    return {161002, "workspaceSize is " + std::to_string(bytes) +
                        "; from workspace to the end of its " + "allocation there are " +
                        std::to_string(place->bytes_left)};
  }
  return {};
}

void encode_execution(std::string& request, const Plan& plan, const Stream& stream,
                      const Storage* storages, size_t count, const Place& workspace,
                      uint64_t workspace_bytes) {
  namespace execute = fields::ExecuteRequest;
  wire::put_bytes(request, execute::kStreamId, stream.id);
  wire::put_varint(request, execute::kExecutorId, plan.executor_id);
  if (workspace_bytes != 0) {
    const wire::Nested nested(request, execute::kWorkspace);
    wire::put_varint(request, fields::Workspace::kBufferId, workspace.buffer_id);
    wire::put_varint(request, fields::Workspace::kOffset, workspace.byte_offset);
    wire::put_varint(request, fields::Workspace::kBytes, workspace_bytes);
  }
  for (size_t i = 0; i < count; ++i) {
    const wire::Nested nested(request, execute::kBindings);
    wire::put_varint(request, fields::Binding::kArgument, storages[i].argument);
    wire::put_varint(request, fields::Binding::kElement, storages[i].element);
    wire::add_varint(request, fields::Binding::kBufferId, storages[i].buffer_id);
    wire::put_varint(request, fields::Binding::kBufferOffset, storages[i].byte_offset);
  }
  wire::add_varint(request, execute::kAsynchronous, 1);
}

}  // namespace

// --- the plans of a session --------------------------------------------------

std::shared_ptr<Plan> Plans::find(std::string_view operator_name, std::string_view arguments) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key_of(operator_name, arguments));
  if (found == entries_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return found->second->plan;
}

void Plans::keep(std::string_view operator_name, std::string_view arguments,
                 std::shared_ptr<Plan> plan) {
  Order ended;  // what is forgotten ends without the mutex: its destructor sends
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string_view key = key_of(operator_name, arguments);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    found->second->plan.swap(plan);
    return;
  }
  order_.push_front({std::string(key), std::move(plan)});
  entries_[order_.front().key] = order_.begin();
  if (order_.size() > kMostPlans) {
    entries_.erase(order_.back().key);
    ended.splice(ended.begin(), order_, std::prev(order_.end()));
  }
}

void Plans::clear() {
  Order ended;
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
  ended.swap(order_);
}

inline namespace v1 {

Plan::~Plan() {
  std::string request;
  wire::put_varint(request, fields::DestroyExecutorRequest::kExecutorId, executor_id);
  session.post(fields::Command::kDestroyExecutor, request);
}

// --- the two phases ----------------------------------------------------------

int plan(Session& session, std::string_view operator_name, std::string_view arguments,
         std::shared_ptr<Plan>* planned, uint64_t* workspace_bytes) {
  if (forked()) return fail_forked();
  *planned = session.plans().find(operator_name, arguments);
  if (*planned == nullptr) {
    const uint64_t executor_id = session.next_id();
    std::string request, response;
    wire::put_varint(request, fields::GetWorkspaceSizeRequest::kExecutorId, executor_id);
    wire::put_bytes(request, fields::GetWorkspaceSizeRequest::kOperator, operator_name);
    request.append(arguments);
    wire::add_varint(request, fields::GetWorkspaceSizeRequest::kRepeatable, 1);
    Error error = session.ask(fields::Command::kGetWorkspaceSize, request, &response);
    uint64_t bytes = 0;
    if (!error) error = read_plan(response, &bytes);
    if (error) return fail(error);
    *planned = std::make_shared<Plan>(session, executor_id, bytes);
    session.plans().keep(operator_name, arguments, *planned);
  }
  *workspace_bytes = (*planned)->workspace_bytes;
  return 0;
}

int execute(const std::shared_ptr<Plan>& plan, void* stream_handle, const Storage* storages,
            size_t storage_count, const void* workspace, uint64_t workspace_bytes,
            ExecuteDone done) {
  if (forked()) return fail_forked();
  std::shared_ptr<Stream> stream;
  if (Error error = find_stream(stream_handle, plan->session, &stream)) return fail(error);
  Place place;
  if (Error error = place_workspace(*plan, workspace, workspace_bytes, &place)) return fail(error);
  thread_local std::string request;
  request.clear();
  encode_execution(request, *plan, *stream, storages, storage_count, place, workspace_bytes);
  Command command;
  command.kind = fields::Command::kExecute;
  command.request = request;
  if (done) command.completion = new Done(std::move(done));
  if (Error error = stream->submit(command)) {
    if (command.completion != nullptr) command.completion->finish({error, {}});
    return fail(error);
  }
  return 0;
}

}  // namespace v1
}  // namespace aclnn::runtime
