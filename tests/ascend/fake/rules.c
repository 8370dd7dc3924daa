/* Rules and what the tests ask for: misuse, counted and failing calls, texts of errors. */
#include "fake.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void fakeMisuse(const char *function, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "fake CANN: %s: ", function);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

/* --- texts of errors ---------------------------------------------------------------------------- */

static _Thread_local char latest[2048];
static _Thread_local char taken[2048];

int32_t fakeError(int32_t code, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* In the form of the real one, with a process id, a time, and places in somebody's source tree. */
    snprintf(latest, sizeof latest,
             "[PID:%d] 2026-01-02-03:04:05.678.901 AclNN_Parameter_Error(EZ1001): %s\n"
             "        TraceBack (most recent call last):\n"
             "        [Check][Param]failed.[FUNC:Check][FILE:/usr1/build/op_api/check.cpp][LINE:42] at %p\n",
             (int)getpid(), text, (void *)latest);
    return code;
}

const char *aclGetRecentErrMsg(void)
{
    if (latest[0] == '\0') {
        return NULL;
    }
    memcpy(taken, latest, sizeof taken);
    latest[0] = '\0';
    return taken;
}

/* --- counted and failing calls ------------------------------------------------------------------ */

enum { MAX_NAMES = 256 };

typedef struct {
    const char *name;
    int64_t calls;
    int64_t fail_in; /* calls until the one that fails; 0: none */
    int32_t code;
} Counter;

static Counter counters[MAX_NAMES];
static int counter_count;
static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;

static Counter *counterOf(const char *name)
{
    for (int i = 0; i < counter_count; i++) {
        if (counters[i].name == name || strcmp(counters[i].name, name) == 0) {
            return &counters[i];
        }
    }
    if (counter_count == MAX_NAMES) {
        fakeMisuse(name, "the double has no room for another name");
    }
    counters[counter_count].name = strdup(name);
    return &counters[counter_count++];
}

static int32_t countCall(const char *name)
{
    int32_t code = 0;
    pthread_mutex_lock(&counter_lock);
    Counter *counter = counterOf(name);
    counter->calls++;
    if (counter->fail_in > 0 && --counter->fail_in == 0) {
        code = counter->code;
    }
    pthread_mutex_unlock(&counter_lock);
    return code;
}

int32_t fakeCall(const char *function, int needs)
{
    if (needs >= NEEDS_INIT && !fakeInitialised()) {
        fakeMisuse(function, "called before aclInit or after aclFinalize");
    }
    if (needs >= NEEDS_DEVICE && fakeDevice() < 0) {
        fakeMisuse(function, "called from a thread without context: it never called aclrtSetDevice");
    }
    int32_t code = countCall(function);
    return code == 0 ? 0 : fakeError(code, "%s fails because the test asked for it", function);
}

int fakeTakeTaskFailure(int32_t *code)
{
    *code = countCall("task");
    return *code != 0;
}

int64_t fakeCalls(const char *name)
{
    pthread_mutex_lock(&counter_lock);
    int64_t calls = counterOf(name)->calls;
    pthread_mutex_unlock(&counter_lock);
    return calls;
}

void fakeFail(const char *name, int64_t n, int32_t code)
{
    pthread_mutex_lock(&counter_lock);
    Counter *counter = counterOf(name);
    counter->fail_in = n;
    counter->code = code;
    pthread_mutex_unlock(&counter_lock);
}

int fakeFailPending(const char *name)
{
    pthread_mutex_lock(&counter_lock);
    int pending = counterOf(name)->fail_in > 0;
    pthread_mutex_unlock(&counter_lock);
    return pending;
}
