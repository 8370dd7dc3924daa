#include "runtime/channel.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <vector>

#include "acl/error_codes.h"

namespace aclnn::runtime {
namespace {

// Longest attempt to connect: shorter than a call's limit, so that a call sees its outcome.
constexpr std::chrono::milliseconds kAttemptLimit{4000};

grpc::ChannelArguments arguments_for(const Environment& environment) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // the server's own limit holds
  // No connection shared with another channel: no waiting behind its bulk data.
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);
  // A connection that broke is tried again at once: a context waits for no longer than its lease.
  arguments.SetInt("grpc.initial_reconnect_backoff_ms", 100);
  arguments.SetInt("grpc.max_reconnect_backoff_ms", 1000);
  // How long one attempt may take, in spite of the name: a far or busy server is slow to greet.
  arguments.SetInt("grpc.min_reconnect_backoff_ms", kAttemptLimit.count());
  // Finds out that the other machine is gone when nothing tells.
  arguments.SetInt("grpc.keepalive_time_ms", 20000);
  arguments.SetInt("grpc.keepalive_timeout_ms", 10000);
  if (environment.local) arguments.SetInt("grpc.enable_http_proxy", 0);
  if (!environment.server_name.empty()) {
    arguments.SetSslTargetNameOverride(environment.server_name);
  }
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> credentials_for(const Environment& environment) {
  if (!environment.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = environment.roots;
  options.pem_cert_chain = environment.certificate;
  options.pem_private_key = environment.key;
  return grpc::SslCredentials(options);
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::string text;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return text;
  text.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

Channel::Channel(const Environment& environment)
    : address_(environment.address),
      authorization_(environment.token.empty() ? "" : "Bearer " + environment.token),
      channel_(grpc::CreateCustomChannel(environment.target, credentials_for(environment),
                                         arguments_for(environment))) {}

void Channel::prepare(grpc::ClientContext* context) const {
  if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
}

Error Channel::call(const char* method, std::string_view request, const char* doing,
                    std::chrono::milliseconds limit, std::string* response) const {
  const std::shared_ptr<grpc::Channel> channel = grpc_channel();
  if (channel == nullptr) return closed_connection();
  grpc::ClientContext context;
  prepare(&context);
  if (limit.count() >= 0) context.set_deadline(std::chrono::system_clock::now() + limit);
  const grpc::Slice slice(request.data(), request.size());
  const grpc::ByteBuffer message(&slice, 1);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  grpc::ByteBuffer answer;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context, method, message, &queue);
  call->StartCall();
  call->Finish(&answer, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (status.ok()) {
    if (response != nullptr) *response = text_of(answer);
    return {};
  }
  return named(
      from_grpc(status.error_code(), status.error_message(), status.error_details(), doing));
}

void Channel::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  channel_.reset();
}

std::shared_ptr<grpc::Channel> Channel::grpc_channel() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return channel_;
}

Error Channel::named(Error error) const {
  if (error.code == ACL_ERROR_RT_SOCKET_CLOSE && error.text.find(address_) == std::string::npos) {
    error.text = address_ + ": " + error.text;
  }
  return error;
}

}  // namespace aclnn::runtime
