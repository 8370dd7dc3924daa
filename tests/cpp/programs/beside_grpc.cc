// Uses a gRPC of its own and the C library in turns: what both link is there twice.
#include <acl/acl.h>
#include <aclnnop/aclnn_add.h>
#include <google/protobuf/empty.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(int code) {
  if (code == 0) return;
  const char* text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%d: %s\n", code, text == nullptr ? "" : text);
  std::exit(1);
}

// Asks the server what it is, with a message of the program's own protobuf.
void call_server(grpc::GenericStub& stub) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const std::string encoded = google::protobuf::Empty().SerializeAsString();
  const grpc::Slice slice(encoded);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context, "/aclnn.v1.DeviceService/GetServerInfo", request,
                                    &queue);
  call->StartCall();
  call->Finish(&response, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  const bool answered = status.ok() && response.Length() > 0;
  std::printf("its own gRPC: %s\n", answered ? "OK" : status.error_message().c_str());
}

void add() {
  const int64_t shape[] = {2};
  float values[3][2] = {{1, 2}, {10, 20}, {0, 0}}, one = 1;
  aclTensor* tensors[3];
  void* memory[3];
  for (int i = 0; i < 3; ++i) {
    check(aclrtMalloc(&memory[i], 8, ACL_MEM_MALLOC_HUGE_FIRST));
    check(aclrtMemcpy(memory[i], 8, values[i], 8, ACL_MEMCPY_HOST_TO_DEVICE));
    tensors[i] =
        aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, memory[i]);
  }
  aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  check(aclnnAddGetWorkspaceSize(tensors[0], tensors[1], alpha, tensors[2], &size, &executor));
  check(aclnnAdd(nullptr, size, executor, nullptr));
  check(aclrtSynchronizeStream(nullptr));
  check(aclrtMemcpy(values[2], 8, memory[2], 8, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("the C library: %g %g\n", values[2][0], values[2][1]);
  for (aclTensor* tensor : tensors) check(aclDestroyTensor(tensor));
  for (void* one_memory : memory) check(aclrtFree(one_memory));
  check(aclDestroyScalar(alpha));
}

}  // namespace

int main(int, char** argv) {
  grpc::GenericStub stub(grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
  check(aclInit(nullptr));
  check(aclrtSetDevice(0));
  for (int round = 0; round < 2; ++round) {
    call_server(stub);
    add();
  }
  check(aclrtResetDevice(0));
  check(aclFinalize());
}
