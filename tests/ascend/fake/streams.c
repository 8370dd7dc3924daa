/* Streams: work in order, done later on a thread of the stream's own. What the host has not waited for
   counts as not done, however quick the thread was: so a missing wait is found at every run. */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    FakeRange range;
    uint64_t number;
} Use;

typedef struct Stream {
    FakeHandle handle;
    struct Stream *next;
    pthread_t thread;
    FakeTask *first, *last;
    uint64_t queued, done, observed;
    int32_t failure;
    bool ending;
    Use *uses; /* of work that the host has not seen the end of */
    size_t use_count, use_room;
} Stream;

typedef struct {
    FakeHandle handle;
    Stream *stream; /* of the latest recording */
    uint64_t number;
    bool passed;
    struct timespec time;
    int pending; /* tasks that still need the event */
} Event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Stream *streams;
static bool held;

/* --- tasks -------------------------------------------------------------------------------------- */

FakeTask *fakeTask(const char *function, int32_t (*run)(void *), void (*drop)(void *), void *data)
{
    FakeTask *task = calloc(1, sizeof *task);
    task->function = function;
    task->run = run;
    task->drop = drop;
    task->data = data;
    return task;
}

void fakeTaskUses(FakeTask *task, const void *data, size_t size, bool written)
{
    if (task->range_count == MAX_RANGES) {
        fakeMisuse(task->function, "the double has no room for another range of memory");
    }
    task->ranges[task->range_count++] = (FakeRange){data, size, written};
}

static void noteUses(Stream *stream, const FakeTask *task)
{
    for (int i = 0; i < task->range_count; i++) {
        if (stream->use_count == stream->use_room) {
            stream->use_room = stream->use_room == 0 ? 64 : stream->use_room * 2;
            stream->uses = realloc(stream->uses, stream->use_room * sizeof *stream->uses);
        }
        stream->uses[stream->use_count++] = (Use){task->ranges[i], task->number};
    }
}

/* The host has seen that work up to a number is done. Under the lock. */
static void observe(Stream *stream, uint64_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < stream->use_count; i++) {
        if (stream->uses[i].number > number) {
            stream->uses[kept++] = stream->uses[i];
        }
    }
    stream->use_count = kept;
    stream->observed = number > stream->observed ? number : stream->observed;
}

void fakeCheckUnused(const char *function, const char *why, const void *data, size_t size, bool only_written)
{
    const char *begin = data, *end = begin + size;
    pthread_mutex_lock(&lock);
    for (Stream *stream = streams; stream != NULL; stream = stream->next) {
        for (size_t i = 0; i < stream->use_count; i++) {
            FakeRange range = stream->uses[i].range;
            if (range.data < end && begin < range.data + range.size && (range.written || !only_written)) {
                fakeMisuse(function, "%s", why);
            }
        }
    }
    pthread_mutex_unlock(&lock);
}

static void dropTask(FakeTask *task)
{
    if (task->drop != NULL) {
        task->drop(task->data);
    }
    free(task);
}

/* --- the stream's thread ------------------------------------------------------------------------ */

static int32_t passEvent(void *data);
static int32_t awaitEvent(void *data);

static FakeTask *takeTask(Stream *stream)
{
    while (stream->first == NULL || held) {
        if (stream->first == NULL && stream->ending) {
            return NULL;
        }
        pthread_cond_wait(&changed, &lock);
    }
    FakeTask *task = stream->first;
    stream->first = task->next;
    return task;
}

static void *work(void *given)
{
    Stream *stream = given;
    pthread_mutex_lock(&lock);
    for (FakeTask *task = takeTask(stream); task != NULL; task = takeTask(stream)) {
        pthread_mutex_unlock(&lock);
        int32_t failure = 0;
        bool mark = task->run == passEvent || task->run == awaitEvent;
        if (mark || !fakeTakeTaskFailure(&failure)) {
            failure = task->run(task->data);
        }
        pthread_mutex_lock(&lock);
        stream->failure = failure != 0 ? failure : stream->failure;
        stream->done++;
        dropTask(task);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static Stream *useStream(const char *function, aclrtStream given)
{
    Stream *stream = fakeUse(function, given, KIND_STREAM);
    if (stream->handle.device != fakeDevice()) {
        fakeMisuse(function, "stream of device %d on a thread of device %d", stream->handle.device, fakeDevice());
    }
    return stream;
}

void fakeQueue(FakeTask *task, aclrtStream given)
{
    Stream *stream = useStream(task->function, given);
    pthread_mutex_lock(&lock);
    task->number = ++stream->queued;
    noteUses(stream, task);
    if (stream->first == NULL) {
        stream->first = task;
    } else {
        stream->last->next = task;
    }
    stream->last = task;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fakeHold(int hold)
{
    pthread_mutex_lock(&lock);
    held = hold != 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* --- streams, as the caller sees them ----------------------------------------------------------- */

aclError aclrtCreateStream(aclrtStream *created)
{
    FAKE_CALL(NEEDS_DEVICE);
    Stream *stream = fakeNew(KIND_STREAM, sizeof *stream);
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&stream->thread, NULL, work, stream) != 0) {
        fakeMisuse(__func__, "this machine has no room for another thread");
    }
    *created = stream;
    return ACL_SUCCESS;
}

static void endStream(const char *function, aclrtStream given, bool drop)
{
    Stream *stream = useStream(function, given);
    fakeEnd(function, stream, KIND_STREAM);
    pthread_mutex_lock(&lock);
    while (drop && stream->first != NULL) {
        FakeTask *task = stream->first;
        stream->first = task->next;
        stream->done++;
        dropTask(task);
    }
    stream->ending = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&lock);
    observe(stream, stream->queued);
    for (Stream **place = &streams; *place != NULL; place = &(*place)->next) {
        if (*place == stream) {
            *place = stream->next;
            break;
        }
    }
    free(stream->uses);
    pthread_mutex_unlock(&lock);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    FAKE_CALL(NEEDS_DEVICE);
    endStream(__func__, stream, false);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    FAKE_CALL(NEEDS_DEVICE);
    endStream(__func__, stream, true);
    return ACL_SUCCESS;
}

aclError aclrtStreamQuery(aclrtStream given, aclrtStreamStatus *status)
{
    FAKE_CALL(NEEDS_DEVICE);
    Stream *stream = useStream(__func__, given);
    pthread_mutex_lock(&lock);
    bool complete = stream->done == stream->queued;
    if (complete) {
        observe(stream, stream->queued);
    }
    pthread_mutex_unlock(&lock);
    *status = complete ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream given)
{
    FAKE_CALL(NEEDS_DEVICE);
    Stream *stream = useStream(__func__, given);
    pthread_mutex_lock(&lock);
    uint64_t queued = stream->queued;
    while (stream->done < queued) {
        pthread_cond_wait(&changed, &lock);
    }
    observe(stream, queued);
    int32_t failure = stream->failure;
    stream->failure = 0;
    pthread_mutex_unlock(&lock);
    return failure == 0 ? ACL_SUCCESS : fakeError(failure, "the work of a stream failed on the device");
}

/* --- events ------------------------------------------------------------------------------------- */

aclError aclrtCreateEvent(aclrtEvent *created)
{
    FAKE_CALL(NEEDS_DEVICE);
    *created = fakeNew(KIND_EVENT, sizeof(Event));
    return ACL_SUCCESS;
}

aclError aclrtDestroyEvent(aclrtEvent given)
{
    FAKE_CALL(NEEDS_DEVICE);
    Event *event = fakeEnd(__func__, given, KIND_EVENT);
    pthread_mutex_lock(&lock);
    if (event->pending != 0) {
        fakeMisuse(__func__, "queued work still needs the event");
    }
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

static int32_t passEvent(void *data)
{
    Event *event = data;
    pthread_mutex_lock(&lock);
    event->passed = true;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    event->pending--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent given, aclrtStream stream)
{
    FAKE_CALL(NEEDS_DEVICE);
    Event *event = fakeUse(__func__, given, KIND_EVENT);
    pthread_mutex_lock(&lock);
    if (event->pending != 0) {
        fakeMisuse(__func__, "recorded again while queued work needs the event");
    }
    event->stream = useStream(__func__, stream);
    event->number = event->stream->queued + 1;
    event->passed = false;
    event->pending++;
    pthread_mutex_unlock(&lock);
    fakeQueue(fakeTask(__func__, passEvent, NULL, event), stream);
    return ACL_SUCCESS;
}

static int32_t awaitEvent(void *data)
{
    Event *event = data;
    pthread_mutex_lock(&lock);
    while (!event->passed) {
        pthread_cond_wait(&changed, &lock);
    }
    event->pending--;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent given)
{
    FAKE_CALL(NEEDS_DEVICE);
    Event *event = fakeUse(__func__, given, KIND_EVENT);
    pthread_mutex_lock(&lock);
    if (event->stream == NULL) {
        fakeMisuse(__func__, "the event was never recorded");
    }
    event->pending++;
    pthread_mutex_unlock(&lock);
    fakeQueue(fakeTask(__func__, awaitEvent, NULL, event), stream);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent given, aclrtEventRecordedStatus *status)
{
    FAKE_CALL(NEEDS_DEVICE);
    Event *event = fakeUse(__func__, given, KIND_EVENT);
    pthread_mutex_lock(&lock);
    if (event->stream == NULL) {
        fakeMisuse(__func__, "the event was never recorded");
    }
    if (event->passed && event->stream->handle.live) {
        observe(event->stream, event->number);
    }
    *status = event->passed ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    FAKE_CALL(NEEDS_DEVICE);
    Event *start = fakeUse(__func__, startEvent, KIND_EVENT);
    Event *end = fakeUse(__func__, endEvent, KIND_EVENT);
    if (!start->passed || !end->passed) {
        return fakeError(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "an event has not been passed");
    }
    *ms = (float)((double)(end->time.tv_sec - start->time.tv_sec) * 1e3 +
                  (double)(end->time.tv_nsec - start->time.tv_nsec) * 1e-6);
    return ACL_SUCCESS;
}
