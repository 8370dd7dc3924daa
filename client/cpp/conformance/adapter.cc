// Does the conformance kit's steps with the C library: see tests/conformance/README.md.
//
// Tensors, executors, streams and events are used as any program for CANN does.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "json.h"
#include "operators.h"
#include "values.h"

namespace aclnn::conformance {
namespace {

struct Planned {
  const Operator* operator_ = nullptr;
  aclOpExecutor* executor = nullptr;
  uint64_t workspace_bytes = 0;
  std::vector<Json> arguments;
};

// What has a name.
struct Named {
  Tensors tensors;
  std::map<std::string, Planned> executors;
  std::map<std::string, aclrtStream> streams;
  std::map<std::string, aclrtEvent> events;
};

class Adapter {
 public:
  // Gives the content of "ok".
  std::string act(const Json& step) {
    const std::string verb = step["do"].text;
    if (verb == "hello") return "\"client\": \"aclnn-client-cpp\"";
    if (verb == "plan") return plan(step);
    if (verb == "query_event") return query_event(step);
    if (verb == "elapsed") return elapsed(step);
    static const std::map<std::string, void (Adapter::*)(const Json&)> verbs = {
        {"connect", &Adapter::connect},
        {"close", &Adapter::close},
        {"stream", &Adapter::stream},
        {"event", &Adapter::event},
        {"buffer", &Adapter::buffer},
        {"tensor", &Adapter::tensor},
        {"read", &Adapter::read},
        {"free", &Adapter::free},
        {"execute", &Adapter::execute},
        {"destroy_executor", &Adapter::destroy_executor},
        {"synchronize", &Adapter::synchronize},
        {"record", &Adapter::record},
        {"wait_event", &Adapter::wait_event},
    };
    (this->*verbs.at(verb))(step);
    return "";
  }

 private:
  void connect(const Json& step) {
    setenv("ACLNN_SERVER", step["address"].text.c_str(), 1);
    setenv("ACLNN_WORKSPACE", "caller", 1);
    if (!started_) check(aclInit(nullptr));
    started_ = true;
    check(aclrtSetDevice(0));
  }

  void close(const Json&) {
    for (const auto& [name, planned] : named_.executors) aclDestroyAclOpExecutor(planned.executor);
    named_ = {};
    if (started_) check(aclFinalize());
    started_ = false;
    aclGetRecentErrMsg();  // of what ended before
  }

  void stream(const Json& step) { check(aclrtCreateStream(&named_.streams[step["as"].text])); }

  void event(const Json& step) {
    check(aclrtCreateEventWithFlag(&named_.events[step["as"].text],
                                   ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  }

  void buffer(const Json& step) {
    void* memory = nullptr;
    check(aclrtMalloc(&memory, static_cast<size_t>(step["bytes"].whole()),
                      ACL_MEM_MALLOC_HUGE_FIRST));
  }

  void tensor(const Json& step) {
    named_.tensors[step["as"].text] = std::make_unique<Tensor>(step);
  }

  void read(const Json& step) {
    std::ofstream file(step["into"].text, std::ios::binary);
    file << tensor_of(step["tensor"]).read();
  }

  void free(const Json& step) { tensor_of(step["tensor"]).free(); }

  std::string plan(const Json& step) {
    Planned planned;
    planned.operator_ = &find_operator(step["operator"].text);
    planned.arguments = step["arguments"].items;
    check(planned.operator_->plan(step["arguments"], named_.tensors, &planned.workspace_bytes,
                                  &planned.executor));
    const Json* const repeatable = step.find("repeatable");
    if (repeatable != nullptr && repeatable->yes()) {
      check(aclSetAclOpExecutorRepeatable(planned.executor));
    }
    const std::string answer = "\"workspace_bytes\": " + std::to_string(planned.workspace_bytes);
    named_.executors[step["as"].text] = std::move(planned);
    return answer;
  }

  void execute(const Json& step) {
    const Planned& planned = named_.executors.at(step["executor"].text);
    if (const Json* const bindings = step.find("bindings")) {
      for (const auto& [parameter, name] : bindings->fields) bind(planned, parameter, name);
    }
    void* workspace = nullptr;
    const uint64_t bytes = planned.workspace_bytes;
    if (bytes != 0) check(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    const int code =
        planned.operator_->execute(workspace, bytes, planned.executor, stream_of(step));
    if (workspace != nullptr) check(aclrtFree(workspace));
    check(code);
  }

  // Gives the tensor of a parameter another address.
  void bind(const Planned& planned, const std::string& parameter, const Json& name) {
    const auto& parameters = planned.operator_->parameters;
    size_t number = 0;  // among the tensors
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Json* const given = planned.arguments[i].find("tensor");
      if (given == nullptr) continue;
      if (parameters[i] == parameter) {
        check(aclSetTensorAddr(planned.executor, number, tensor_of(*given).handle(),
                               tensor_of(name).memory()));
        return;
      }
      ++number;
    }
    throw std::runtime_error("no parameter " + parameter);
  }

  void destroy_executor(const Json& step) {
    const auto found = named_.executors.find(step["executor"].text);
    aclOpExecutor* const executor = found->second.executor;
    named_.executors.erase(found);
    check(aclDestroyAclOpExecutor(executor));
  }

  void synchronize(const Json& step) {
    const Json* const timeout = step.find("timeout_ms");
    const int milliseconds = timeout == nullptr ? -1 : static_cast<int>(timeout->whole());
    check(step.find("stream") == nullptr
              ? aclrtSynchronizeDeviceWithTimeout(milliseconds)
              : aclrtSynchronizeStreamWithTimeout(stream_of(step), milliseconds));
  }

  void record(const Json& step) { check(aclrtRecordEvent(event_of(step["event"]), stream_of(step))); }

  void wait_event(const Json& step) {
    check(aclrtStreamWaitEvent(stream_of(step), event_of(step["event"])));
  }

  std::string query_event(const Json& step) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    check(aclrtQueryEventStatus(event_of(step["event"]), &status));
    const bool complete = status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return std::string("\"complete\": ") + (complete ? "true" : "false");
  }

  std::string elapsed(const Json& step) {
    float milliseconds = 0;
    check(aclrtEventElapsedTime(&milliseconds, event_of(step["start"]), event_of(step["end"])));
    return "\"milliseconds\": " + std::to_string(milliseconds);
  }

  Tensor& tensor_of(const Json& name) { return *named_.tensors.at(name.text); }

  aclrtEvent event_of(const Json& name) { return named_.events.at(name.text); }

  aclrtStream stream_of(const Json& step) {
    const Json* const name = step.find("stream");
    return name == nullptr ? nullptr : named_.streams.at(name->text);
  }

  Named named_;
  bool started_ = false;
};

std::string answer(Adapter& adapter, const Json& step) {
  try {
    return "{\"ok\": {" + adapter.act(step) + "}}";
  } catch (const Refused& refused) {
    return "{\"error\": {\"code\": " + std::to_string(refused.code) +
           ", \"message\": " + quoted(refused.what()) + "}}";
  }
}

}  // namespace
}  // namespace aclnn::conformance

int main() {
  aclnn::conformance::Adapter adapter;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(adapter, aclnn::conformance::JsonReader(line).read()) << std::endl;
  }
}
