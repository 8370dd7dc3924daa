#include "runtime/transfer.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "aclnn_fields.h"
#include "runtime/host_memory.h"
#include "runtime/session_state.h"
#include "wire/encode.h"

namespace aclnn::runtime {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
// Room for what is beside the bytes in a message.
constexpr uint64_t kHeadBytes = 4096;
// Chunks of one read that are under way at the same time.
constexpr int kWindow = 16;
// Up to here bytes are copied once more, so that nobody has to wait for the server to have them.
constexpr uint64_t kCopiedBytes = 256 << 10;
// Two devices' memory is copied through the host, this much at once.
constexpr uint64_t kBetweenBytes = 16 << 20;

uint64_t chunk_bytes(const Session& session) {
  const uint64_t most = session.limits.message_bytes;
  if (most == 0) return kChunkBytes;
  return std::max<uint64_t>(1, std::min(kChunkBytes, most - std::min(most, kHeadBytes)));
}

// Sends a command for a stream or for none. Nobody waits, but for the completion.
Error send(Session& session, Stream* stream, Command command) {
  if (stream != nullptr) {
    command.failures = stream->failures;
    return stream->submit(command);
  }
  if (command.completion == nullptr) command.failures = session.failures();
  return session.submit(command, false);
}

std::string write_request(const Place& to, uint64_t offset, const Stream* stream) {
  namespace write = fields::WriteBufferRequest;
  std::string request;
  if (stream != nullptr) wire::put_bytes(request, write::kStreamId, stream->full_id);
  wire::put_varint(request, write::kBufferId, to.buffer_id);
  wire::put_varint(request, write::kOffset, to.byte_offset + offset);
  return request;
}

std::string read_request(const Place& from, uint64_t offset, uint64_t bytes, const Stream* stream) {
  namespace read = fields::ReadBufferRequest;
  std::string request;
  if (stream != nullptr) wire::put_bytes(request, read::kStreamId, stream->full_id);
  wire::put_varint(request, read::kBufferId, from.buffer_id);
  wire::put_varint(request, read::kOffset, from.byte_offset + offset);
  wire::put_varint(request, read::kBytes, bytes);
  return request;
}

// Ends a use of memory that a read was writing to.
class Returned final : public Completion {
 public:
  explicit Returned(std::shared_ptr<Lender> lender) : lender_(std::move(lender)) {
    lender_->begin_use();
  }

  void finish(const Outcome&) override {
    lender_->end_use();
    delete this;
  }

 private:
  ~Returned() = default;
  std::shared_ptr<Lender> lender_;
};

// Writes in chunks. The bytes are the lender's, or are copied where there is none.
Error write_chunks(const Place& to, const char* data, uint64_t bytes, Stream* stream,
                   Lender* lender, Countdown* countdown) {
  const uint64_t chunk = chunk_bytes(*to.session);
  for (uint64_t at = 0; at < bytes; at += chunk) {
    const uint64_t size = std::min(chunk, bytes - at);
    const grpc::Slice bulk =
        lender != nullptr ? lender->lend(data + at, size) : grpc::Slice(data + at, size);
    const std::string request = write_request(to, at, stream);
    Command command;
    command.kind = fields::Command::kWriteBuffer;
    command.request = request;
    command.bulk = &bulk;
    command.completion = countdown;
    if (countdown != nullptr) countdown->expect();
    if (Error error = send(*to.session, stream, command)) {
      if (countdown != nullptr) countdown->finish({error, {}});
      return error;
    }
  }
  return {};
}

Command read_command(std::string_view request, char* into, uint64_t bytes, Completion* completion) {
  Command command;
  command.kind = fields::Command::kReadBuffer;
  command.request = request;
  command.into = into;
  command.into_bytes = bytes;
  command.completion = completion;
  return command;
}

// Reads in chunks, and waits for them.
Error read_and_wait(char* data, const Place& from, uint64_t bytes, Stream* stream) {
  Countdown countdown;
  const uint64_t chunk = chunk_bytes(*from.session);
  for (uint64_t at = 0; at < bytes; at += chunk) {
    const uint64_t size = std::min(chunk, bytes - at);
    const std::string request = read_request(from, at, size, stream);
    const Command command = read_command(request, data + at, size, &countdown);
    if (countdown.wait(kWindow - 1)) break;
    countdown.expect();
    if (Error error = from.session->submit(command, true)) {
      countdown.finish({error, {}});
      break;
    }
  }
  return countdown.wait();
}

// Reads in chunks into memory from aclrtMallocHost, without waiting.
Error read_later(char* data, const Place& from, uint64_t bytes, Stream* stream,
                 const std::shared_ptr<Lender>& lender) {
  const uint64_t chunk = chunk_bytes(*from.session);
  for (uint64_t at = 0; at < bytes; at += chunk) {
    const uint64_t size = std::min(chunk, bytes - at);
    const std::string request = read_request(from, at, size, stream);
    auto* const returned = new Returned(lender);
    const Command command = read_command(request, data + at, size, returned);
    if (Error error = send(*from.session, stream, command)) {
      returned->finish({error, {}});
      return error;
    }
  }
  return {};
}

Error copy_between_devices(const Place& to, const Place& from, uint64_t bytes, Stream* stream) {
  if (stream != nullptr) {
    if (Error error = stream->synchronize(-1)) return error;
  }
  std::vector<char> between(std::min(bytes, kBetweenBytes));
  for (uint64_t at = 0; at < bytes; at += kBetweenBytes) {
    const uint64_t size = std::min(kBetweenBytes, bytes - at);
    Place part = from;
    part.byte_offset += at;
    if (Error error = copy_from_device(between.data(), part, size, nullptr)) return error;
    part = to;
    part.byte_offset += at;
    if (Error error = copy_to_device(part, between.data(), size, nullptr)) return error;
  }
  return {};
}

}  // namespace

Error copy_to_device(const Place& to, const char* data, uint64_t bytes, Stream* stream) {
  const auto pinned = stream == nullptr ? nullptr : find_host(data, bytes);
  if (pinned != nullptr) return write_chunks(to, data, bytes, stream, pinned.get(), nullptr);
  if (stream != nullptr || bytes <= kCopiedBytes) {
    return write_chunks(to, data, bytes, stream, nullptr, nullptr);
  }
  Lender lender;
  Countdown countdown;
  Error error = write_chunks(to, data, bytes, stream, &lender, &countdown);
  const Error answered = countdown.wait();
  lender.wait();
  return error ? error : answered;
}

Error copy_from_device(char* data, const Place& from, uint64_t bytes, Stream* stream) {
  const auto pinned = stream == nullptr ? nullptr : find_host(data, bytes);
  if (pinned != nullptr) return read_later(data, from, bytes, stream, pinned);
  return read_and_wait(data, from, bytes, stream);
}

Error copy_on_device(const Place& to, const Place& from, uint64_t bytes, Stream* stream) {
  if (to.session != from.session) return copy_between_devices(to, from, bytes, stream);
  namespace copy = fields::MemcpyRequest;
  std::string request;
  if (stream != nullptr) wire::put_bytes(request, copy::kStreamId, stream->full_id);
  wire::put_varint(request, copy::kDestinationBufferId, to.buffer_id);
  wire::put_varint(request, copy::kDestinationOffset, to.byte_offset);
  wire::put_varint(request, copy::kSourceBufferId, from.buffer_id);
  wire::put_varint(request, copy::kSourceOffset, from.byte_offset);
  wire::put_varint(request, copy::kBytes, bytes);
  Command command;
  command.kind = fields::Command::kMemcpy;
  command.request = request;
  return send(*to.session, stream, command);
}

Error fill_device(const Place& to, uint8_t value, uint64_t bytes, Stream* stream) {
  namespace fill = fields::MemsetRequest;
  std::string request;
  if (stream != nullptr) wire::put_bytes(request, fill::kStreamId, stream->full_id);
  wire::put_varint(request, fill::kBufferId, to.buffer_id);
  wire::put_varint(request, fill::kOffset, to.byte_offset);
  wire::put_varint(request, fill::kBytes, bytes);
  wire::put_varint(request, fill::kValue, value);
  Command command;
  command.kind = fields::Command::kMemset;
  command.request = request;
  return send(*to.session, stream, command);
}

}  // namespace aclnn::runtime
