#include "runtime/pipeline.h"

#include <grpcpp/generic/generic_stub.h>
#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "acl/error_codes.h"
#include "aclnn_fields.h"
#include "runtime/sanitizer.h"
#include "wire/encode.h"

namespace aclnn::runtime {
namespace {

constexpr const char* kMethod = "/aclnn.v1.DeviceService/Submit";

// What may be under way before the one who sends more waits.
constexpr size_t kMostCommands = 1 << 16;
constexpr size_t kMostBytes = 64 << 20;
// Requests under way that keep the server busy.
constexpr size_t kBusyRequests = 2;
// Commands, or bytes of them, that are worth a request.
constexpr size_t kGatheredCommands = 64;
constexpr size_t kGatheredBytes = 64 << 10;
// How long commands are gathered, and how many times in a row the thread that watches over it finds
// nothing before it waits to be told.
constexpr std::chrono::microseconds kGatherTime{200};
constexpr int kIdleLooks = 50;

// How long to try to reach the server again, and how long to pause before the second attempt,
// doubled after each.
constexpr std::chrono::seconds kResumeLimit{10};
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{1000};

void* const kOpened = reinterpret_cast<void*>(1);
void* const kWritten = reinterpret_cast<void*>(2);
void* const kReceived = reinterpret_cast<void*>(3);
void* const kFinished = reinterpret_cast<void*>(4);

}  // namespace

// One open call.
struct Pipeline::Call {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  grpc::ByteBuffer incoming;
  grpc::Status status;
  int under_way = 0;        // operations that the queue has not told the end of
  bool opened = false;      // can be written to
  bool writing = false;     // a request is on its way to the connection; there can be one
  bool introduced = false;  // its first request, which names the context, was sent
  bool finishing = false;
  bool ended = false;
};

Pipeline::Pipeline(const Channel& channel, std::string context_id)
    : channel_(channel), context_id_(std::move(context_id)) {
  reader_ = std::thread([this] { run(); });
  pthread_setname_np(reader_.native_handle(), "aclnn-answers");
  watcher_ = std::thread([this] { watch(); });
  pthread_setname_np(watcher_.native_handle(), "aclnn-gather");
}

Pipeline::~Pipeline() { close(); }

// --- sending -----------------------------------------------------------------

Error Pipeline::submit(const Command& command, bool urgent) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto room = [this] {
    return broken_ || (outstanding_commands_ < kMostCommands && outstanding_bytes_ < kMostBytes);
  };
  if (!room()) {
    urgent_ = true;
    flush();
    changed_.wait(lock, room);
  }
  if (broken_) return broken_;
  add(command);
  urgent_ = urgent_ || urgent;
  if (worth_sending()) {
    flush();
  } else {
    gather();
  }
  return {};
}

Error Pipeline::broken() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return broken_;
}

void Pipeline::add(const Command& command) {
  if (batches_.empty() || !batches_.back()->has_room_for(command)) {
    batches_.push_back(std::make_unique<Batch>());
  }
  Batch& batch = *batches_.back();
  const size_t before = batch.weight();
  batch.add(command);
  outstanding_bytes_ += batch.weight() - before;
  ++outstanding_commands_;
}

bool Pipeline::worth_sending() const {
  if (sent_ == batches_.size()) return false;
  if (urgent_ || sent_ + 1 < batches_.size()) return true;
  const Batch& last = *batches_.back();
  return last.pendings().size() >= kGatheredCommands || last.weight() >= kGatheredBytes;
}

void Pipeline::gather() {
  if (gathering_) return;
  gathering_ = true;
  gathering_since_ = Clock::now();
  if (!watching_) gathered_.notify_one();
}

void Pipeline::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  int idle_looks = 0;
  while (!closing_) {
    if (gathering_) {
      idle_looks = 0;
      if (Clock::now() - gathering_since_ >= kGatherTime) flush();
    } else if (++idle_looks > kIdleLooks) {
      gathered_.wait(lock, [this] { return gathering_ || closing_; });
    }
    watching_ = true;
    gathered_.wait_for(lock, kGatherTime, [this] { return closing_; });
    watching_ = false;
  }
}

void Pipeline::flush() {
  if (sent_ == batches_.size()) return;
  if (call_ == nullptr || !call_->opened || call_->writing || call_->finishing) {
    wanted_ = true;
    return;
  }
  Batch& batch = *batches_[sent_];
  if (!batch.sent()) batch.number = ++last_number_;
  std::string head;
  if (!call_->introduced) wire::put_bytes(head, fields::SubmitRequest::kContextId, context_id_);
  wire::put_varint(head, fields::SubmitRequest::kSequence, batch.number);
  wire::put_varint(head, fields::SubmitRequest::kAcknowledged, answered_);
  call_->introduced = call_->writing = true;
  ++call_->under_way;
  ++sent_;
  urgent_ = urgent_ && sent_ < batches_.size();
  gathering_ = wanted_ = false;
  ACLNN_TSAN_RELEASE(kWritten);
  call_->stream->Write(batch.message(head), kWritten);
}

// --- the thread that reads answers -------------------------------------------

void Pipeline::run() {
  while (connect()) {
    void* tag = nullptr;
    bool ok = false;
    bool over = false;
    while (!over && queue_->Next(&tag, &ok)) {
      ACLNN_TSAN_ACQUIRE(kWritten);
      take_note(tag, ok);
      over = finished();
    }
  }
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

// Opens the call, when it is time to; false where it never will be.
bool Pipeline::connect() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, open_at_, [this] { return closing_; });
  if (closing_ && !broken_) {
    lock.unlock();
    end_all(closed_connection());
    lock.lock();
  }
  if (broken_) return false;
  call_ = std::make_unique<Call>();
  channel_.prepare(&call_->context);
  grpc::GenericStub stub(channel_.grpc_channel());
  call_->stream = stub.PrepareCall(&call_->context, kMethod, queue_.get());
  ++call_->under_way;
  call_->stream->StartCall(kOpened);
  return true;
}

void Pipeline::take_note(void* tag, bool ok) {
  std::unique_lock<std::mutex> lock(mutex_);
  Call& call = *call_;
  --call.under_way;
  if (tag == kFinished) {
    call.ended = true;
  } else if (tag == kWritten) {
    call.writing = false;  // where it failed, reading will as well
    if (ok && (wanted_ || worth_sending())) flush();
  } else if (!ok) {
    begin_finishing();
  } else if (tag == kOpened) {
    call.opened = true;
    begin_reading();
    flush();
  } else {
    lock.unlock();
    take_answer();
  }
}

void Pipeline::begin_reading() {
  ++call_->under_way;
  call_->incoming.Clear();
  call_->stream->Read(&call_->incoming, kReceived);
}

void Pipeline::begin_finishing() {
  if (call_->finishing) return;
  call_->finishing = true;
  ++call_->under_way;
  call_->stream->Finish(&call_->status, kFinished);
}

// Only this thread takes batches away, so the oldest one stays where it is without the mutex.
void Pipeline::take_answer() {
  std::unique_lock<std::mutex> lock(mutex_);
  Batch* const asked = sent_ == 0 ? nullptr : batches_.front().get();
  lock.unlock();
  BatchAnswer answer;
  if (asked == nullptr || !answer.read(call_->incoming, *asked)) {
    end_all({ACL_ERROR_INTERNAL_ERROR, "the server's answers do not fit what was asked"});
    call_->context.TryCancel();
    lock.lock();
    begin_finishing();
    return;
  }
  lock.lock();
  const std::unique_ptr<Batch> batch = std::move(batches_.front());
  batches_.pop_front();
  --sent_;
  answered_ = batch->number;
  attempts_ = 0;
  outstanding_commands_ -= batch->pendings().size();
  outstanding_bytes_ -= batch->weight();
  begin_reading();
  if (sent_ < kBusyRequests || worth_sending()) flush();
  lock.unlock();
  changed_.notify_all();
  answer.finish(*batch);
}

// Whether the call is over; then decides whether another one is to be made.
bool Pipeline::finished() {
  std::unique_lock<std::mutex> lock(mutex_);
  Call& call = *call_;
  if (!call.ended || call.under_way != 0) return false;
  const grpc::Status status = call.status;
  call_.reset();
  sent_ = 0;
  if (broken_) return true;
  Error error = channel_.named(from_grpc(status.error_code(), status.error_message(),
                                         status.error_details(), "running commands"));
  if (status.ok()) error = {ACL_ERROR_RT_SOCKET_CLOSE, "the server ended the call"};
  if (closing_) error = closed_connection();
  if (!status.ok() && !closing_ && worth_another_call(error)) {
    const auto pause = attempts_ == 0 ? std::chrono::milliseconds(0)
                                      : kFirstPause * (1 << std::min(attempts_ - 1, 5));
    open_at_ = Clock::now() + std::min(pause, kLongestPause);
    ++attempts_;
    return true;
  }
  if (attempts_ != 0 && error.code == ACL_ERROR_RT_SOCKET_CLOSE) {
    error.text = "the connection broke, and could not be made again: " + error.text;
  }
  lock.unlock();
  end_all(error);
  return true;
}

bool Pipeline::worth_another_call(const Error& error) {
  if (error.code != ACL_ERROR_RT_SOCKET_CLOSE) return false;
  for (const char* words : {"nothing listens there", "there is no such socket"}) {
    if (error.text.find(words) != std::string::npos) return false;
  }
  if (attempts_ == 0) broken_at_ = Clock::now();
  return Clock::now() - broken_at_ < kResumeLimit;
}

void Pipeline::end_all(const Error& error) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!broken_) broken_ = error;
  std::deque<std::unique_ptr<Batch>> left;
  left.swap(batches_);
  sent_ = 0;
  outstanding_commands_ = outstanding_bytes_ = 0;
  lock.unlock();
  changed_.notify_all();
  for (const auto& batch : left) {
    for (const Pending& pending : batch->pendings()) pending.finish({error, {}});
  }
}

void Pipeline::close() {
  std::unique_lock<std::mutex> lock(mutex_);
  closing_ = true;
  if (call_ != nullptr) call_->context.TryCancel();
  lock.unlock();
  changed_.notify_all();
  gathered_.notify_all();
  if (reader_.joinable()) reader_.join();
  if (watcher_.joinable()) watcher_.join();
  queue_.reset();
}

}  // namespace aclnn::runtime
