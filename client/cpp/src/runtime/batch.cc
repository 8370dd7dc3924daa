#include "runtime/batch.h"

#include <algorithm>
#include <array>

#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/slice_cursor.h"
#include "wire/decode.h"

namespace aclnn::runtime {
namespace {

// What a command is called where its failure is told later, by a call that has nothing to do with
// it.
const char* name_of(uint32_t kind) {
  namespace command = fields::Command;
  switch (kind) {
    case command::kExecute:
      return "the second phase of an operator";
    case command::kMemset:
      return "setting memory";
    case command::kMemcpy:
      return "copying on the device";
    case command::kWriteBuffer:
      return "copying to the device";
    case command::kReadBuffer:
      return "copying from the device";
    case command::kFree:
      return "freeing memory";
    case command::kRecordEvent:
      return "recording an event";
    case command::kWaitEvent:
      return "letting a stream wait for an event";
    case command::kCreateEvent:
      return "creating an event";
    default:
      return "an earlier call";
  }
}

uint64_t tag(uint32_t field, wire::Type type) { return field << 3 | type; }

}  // namespace

grpc::Slice slice_of(std::string bytes) {
  auto* owned = new std::string(std::move(bytes));
  return grpc::Slice(
      owned->data(), owned->size(), [](void* data) { delete static_cast<std::string*>(data); },
      owned);
}

void Pending::finish(const Outcome& outcome) const {
  if (outcome.error && failures != nullptr) failures->keep(outcome.error);
  if (completion != nullptr) completion->finish(outcome);
}

// --- what is sent ------------------------------------------------------------

void Batch::add(const Command& command) {
  const size_t bulk = command.bulk == nullptr ? 0 : command.bulk->size();
  const size_t data_head = bulk == 0 ? 0 : 1 + wire::varint_size(bulk);
  const size_t inner = command.request.size() + data_head + bulk;
  const size_t outer =
      wire::varint_size(tag(command.kind, wire::kBytes)) + wire::varint_size(inner) + inner;
  wire::add_tag(open_, fields::SubmitRequest::kCommands, wire::kBytes);
  wire::add_raw_varint(open_, outer);
  wire::add_tag(open_, command.kind, wire::kBytes);
  wire::add_raw_varint(open_, inner);
  open_.append(command.request);
  if (bulk != 0) {
    wire::add_tag(open_, fields::WriteBufferRequest::kData, wire::kBytes);
    wire::add_raw_varint(open_, bulk);
    close_open_part();
    slices_.push_back(*command.bulk);
  }
  pendings_.push_back(
      {command.kind, command.into, command.into_bytes, command.completion, command.failures});
  weight_ += std::max(inner, command.into_bytes);
}

bool Batch::has_room_for(const Command& command) const {
  const size_t bulk = command.bulk == nullptr ? 0 : command.bulk->size();
  const size_t more = std::max(command.request.size() + bulk, command.into_bytes);
  return !sent() && (pendings_.empty() || weight_ + more <= kMostBytes);
}

grpc::ByteBuffer Batch::message(const std::string& head) {
  close_open_part();
  std::vector<grpc::Slice> slices;
  slices.reserve(slices_.size() + 1);
  slices.emplace_back(head.data(), head.size());
  slices.insert(slices.end(), slices_.begin(), slices_.end());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

void Batch::close_open_part() {
  if (open_.empty()) return;
  slices_.push_back(slice_of(std::move(open_)));
  open_.clear();
}

// --- what is answered --------------------------------------------------------

bool BatchAnswer::read(const grpc::ByteBuffer& message, const Batch& batch) {
  if (!message.Dump(&slices_).ok()) return false;
  SliceCursor cursor(slices_, &joined_);
  uint64_t sequence = 0;
  results_.reserve(batch.pendings().size());
  while (cursor.left() != 0) {
    uint64_t field = 0, value = 0;
    if (!cursor.varint(&field) || !cursor.varint(&value)) return false;
    if (field == tag(fields::SubmitResponse::kSequence, wire::kVarint)) {
      sequence = value;
    } else if (field == tag(fields::SubmitResponse::kResults, wire::kBytes)) {
      if (results_.size() == batch.pendings().size()) return false;
      if (!read_result(cursor, value, batch.pendings()[results_.size()])) return false;
    } else if ((field & 7) == wire::kBytes ? !cursor.skip(value) : (field & 7) != wire::kVarint) {
      return false;
    }
  }
  return sequence == batch.number && results_.size() == batch.pendings().size();
}

bool BatchAnswer::read_result(SliceCursor& cursor, uint64_t size, const Pending& pending) {
  Result result;
  if (size == 0 || size > cursor.left()) return false;
  const uint64_t end = cursor.left() - size;
  uint64_t field = 0, inner = 0;
  if (!cursor.varint(&field) || !cursor.varint(&inner)) return false;
  if (cursor.left() - end != inner || (field & 7) != wire::kBytes) return false;
  result.kind = static_cast<uint32_t>(field >> 3);
  if (result.kind != fields::Result::kReadBuffer) {
    if (!cursor.bytes(inner, &result.response)) return false;
  } else {
    uint64_t data = 0, bytes = 0;
    if (inner != 0 && !(cursor.varint(&data) && cursor.varint(&bytes))) return false;
    if (cursor.left() - end != bytes) return false;
    result.misfit = bytes != pending.into_bytes;
    if (!(result.misfit ? cursor.skip(bytes) : cursor.copy(bytes, pending.into))) return false;
  }
  results_.push_back(result);
  return true;
}

void BatchAnswer::finish(const Batch& batch) const {
  for (size_t i = 0; i < results_.size(); ++i) {
    const Pending& pending = batch.pendings()[i];
    Outcome outcome{{}, results_[i].response};
    if (results_[i].kind == fields::Result::kError) {
      outcome = {from_wire(results_[i].response), {}};
      // A text that names the operator lets nobody wonder what it is about.
      if (pending.completion == nullptr && !outcome.error.of_operator) {
        outcome.error.text =
            std::string(name_of(pending.kind)) + ", earlier: " + outcome.error.text;
      }
    } else if (results_[i].misfit) {
      outcome.error = {ACL_ERROR_INTERNAL_ERROR,
                       "the server sent another number of bytes than asked"};
    }
    pending.finish(outcome);
  }
}

}  // namespace aclnn::runtime
