// What concerns the process as a whole: start and end, the server's absence, forks, breaks. Each
// test is a process of its own, named by the first argument.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "harness.h"

namespace {

using namespace aclnn::tests;
using Values = std::vector<int64_t>;

// --- start and end -----------------------------------------------------------

void acl_starts_and_ends() {
  uint64_t left = 9;
  EXPECT_REFUSED(aclFinalize(), ACL_ERROR_UNINITIALIZE, "aclFinalize without aclInit");
  EXPECT_EQ(aclInit(nullptr), 0);
  EXPECT_REFUSED(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE, "initialized already");
  EXPECT_EQ(aclFinalizeReference(&left), 0);
  EXPECT_EQ(left, 1U);
  MUST(aclrtSetDevice(0));
  EXPECT_EQ(aclFinalize(), 0);
  int32_t device = 0;
  EXPECT_REFUSED(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
  EXPECT_REFUSED(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE, "finalized already");
  EXPECT_EQ(aclInit(nullptr), 0);
  MUST(aclrtSetDevice(0));
  Numbers numbers({1});
  EXPECT(numbers.read() == Values{1});
  EXPECT_EQ(aclrtResetDeviceForce(0), 0);
  EXPECT_EQ(aclFinalizeReference(nullptr), 0);
  std::_Exit(failures);  // the numbers' memory has ended with the device
}

std::string file_with(const std::string& text) {
  char path[] = "/tmp/aclnn-config-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << text;
  return path;
}

int init_with(const std::string& text) {
  const std::string path = file_with(text);
  const int code = aclInit(path.c_str());
  unlink(path.c_str());
  if (code == 0) MUST(aclFinalize());
  return code;
}

void a_configuration_is_read() {
  EXPECT_REFUSED(aclInit("/nowhere/acl.json"), ACL_ERROR_INVALID_FILE,
                 "configPath is '/nowhere/acl.json', which cannot be read");
  for (const char* good : {"{}", " { } \n", "", R"({"dump": {"a": [1, -2.5e3, true, null]}})",
                           R"({"text": "a \"quoted\" \\ text A"})"}) {
    EXPECT_EQ(init_with(good), 0);
  }
  for (const char* bad : {"{", "[]", "{\"a\" 1}", "{\"a\": 1,}", "{\"a\": tru}", "{} {}",
                          "{\"a\": \"", "{\"a\": 1.2.3}", "{\"a\": \"\\x\"}"}) {
    EXPECT_REFUSED(init_with(bad), ACL_ERROR_PARSE_FILE, "which is no JSON object");
  }
  const std::string path =
      file_with(R"({"defaultDevice": {"default_device": "1"}, "err_msg_mode": "1"})");
  MUST(aclInit(path.c_str()));
  unlink(path.c_str());
  int32_t device = 7;
  MUST(aclrtGetDevice(&device));
  EXPECT_EQ(device, 1);
  std::thread([] { EXPECT_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM); }).join();
  EXPECT_EQ(recent_text(), "devPtr is null");  // texts are the process's
  MUST(aclFinalize());
}

void the_library_tells_what_it_is() {
  int32_t major = 0, minor = 0, patch = 0, number = 0;
  MUST(aclrtGetVersion(&major, &minor, &patch));
  EXPECT_EQ(major, ACL_MAJOR_VERSION);
  aclCANNPackageVersion version;
  std::memset(&version, 'x', sizeof version);
  MUST(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  EXPECT_EQ(std::string(version.version), "8.3.RC1");
  EXPECT_EQ(std::string(version.majorVersion) + "|" + version.minorVersion + "|" +
                version.releaseVersion + "|" + version.patchVersion,
            "8|3|RC1|");
  char name[] = "runtime", text[ACL_PKG_VERSION_MAX_SIZE];
  MUST(aclsysGetVersionStr(name, text));
  EXPECT_EQ(std::string(text), "8.3.RC1");
  MUST(aclsysGetVersionNum(name, &number));
  EXPECT_EQ(number, 80300000);
  EXPECT_EQ(std::string(aclrtGetSocName()), "Ascend910B2");
  aclrtRunMode mode = ACL_DEVICE;
  MUST(aclrtGetRunMode(&mode));
  EXPECT_EQ(mode, ACL_HOST);
  aclAppLog(ACL_WARNING, "function", "file.cc", 12, "%d of %s", 3, "these");
  aclAppLog(ACL_INFO, "function", "file.cc", 13, "nothing");
}

// The driver looks whether the server has forgotten everything.
void a_process_that_just_ends_leaves_nothing_behind() {
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  auto* const numbers = new Numbers({1});
  MUST(plus(*numbers, 1, *numbers, nullptr));
  std::exit(failures);
}

// --- no server ---------------------------------------------------------------

// The address and the code are the driver's choice. What the library prints it prints once.
void there_is_no_server(int code, const char* text) {
  uint32_t count = 0;
  MUST(aclInit(nullptr));
  EXPECT_REFUSED(aclrtSetDevice(0), code, text);
  EXPECT_REFUSED(aclrtGetDeviceCount(&count), code, text);
  EXPECT_EQ(aclrtGetSocName(), static_cast<const char*>(nullptr));
  EXPECT_EQ(recent_text().find(text) != std::string::npos, true);
  MUST(aclFinalize());
}

void the_server_is_killed() {
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  void *kept = nullptr, *more = nullptr;
  char bytes[8];
  MUST(aclrtMalloc(&kept, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  ask_driver("kill");
  const int sent = aclrtMemsetAsync(kept, 8, 1, 8, nullptr);  // before or after it is noticed
  EXPECT(sent == 0 || sent == ACL_ERROR_RT_SOCKET_CLOSE);
  recent_text();
  for (int i = 0; i < 2; ++i) {
    EXPECT_REFUSED(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_SOCKET_CLOSE,
                   "nothing listens there");
  }
  EXPECT_REFUSED(aclrtSynchronizeDevice(), ACL_ERROR_RT_SOCKET_CLOSE, "nothing listens there");
  EXPECT_REFUSED(aclrtMemcpy(bytes, 8, kept, 8, ACL_MEMCPY_DEVICE_TO_HOST),
                 ACL_ERROR_RT_SOCKET_CLOSE, "nothing listens there");
  EXPECT_REFUSED(aclrtMalloc(&more, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_SOCKET_CLOSE,
                 "nothing listens there");
  EXPECT_EQ(aclrtResetDevice(0), 0);
  EXPECT_REFUSED(aclrtSetDevice(0), ACL_ERROR_RT_SOCKET_CLOSE, "nothing listens there");
  EXPECT_EQ(aclFinalize(), 0);
}

// --- forks -------------------------------------------------------------------

int code_of_child(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) std::exit(act());  // with everything that happens at exit
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void a_child_of_a_process_that_is_connected_is_refused() {
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  Numbers numbers({1});
  EXPECT_EQ(code_of_child([&] {
              void* memory = nullptr;
              const int before = failures;
              EXPECT_REFUSED(aclrtMalloc(&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST),
                             ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                             "forked from one that uses a device");
              EXPECT_EQ(aclrtSetDevice(0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
              EXPECT_EQ(plus(numbers, 1, numbers, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
              EXPECT_EQ(aclFinalize(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
              return failures - before;
            }),
            0);
  MUST(plus(numbers, 1, numbers, nullptr));
  EXPECT(numbers.read() == Values{2});
  std::exit(failures);
}

void a_child_may_connect_where_its_parent_has_not() {
  MUST(aclInit(nullptr));
  EXPECT_EQ(code_of_child([] {
              MUST(aclrtSetDevice(0));
              Numbers numbers({1});
              MUST(plus(numbers, 1, numbers, nullptr));
              EXPECT(numbers.read() == Values{2});
              return failures;
            }),
            0);
  MUST(aclrtSetDevice(0));
  MUST(aclFinalize());
}

// --- connections that break --------------------------------------------------

void everything_is_applied_once_over_broken_connections() {
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  std::vector<int64_t> values(2 << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i);
  for (const std::string way : {"up ", "down "}) {
    int kind = 0;
    for (const std::string bytes : {"0", "9", "30", "100", "200", "400"}) {
      const std::string kinds[] = {"fault cut ", "fault reset "};
      Numbers number({0});
      MUST(append(1, number, nullptr));
      MUST(aclrtSynchronizeStream(nullptr));
      ask_driver(kinds[kind++ % 2] + way + bytes);
      for (int digit = 2; digit < 4; ++digit) MUST(append(digit, number, nullptr));
      EXPECT(number.read() == Values{123});
    }
    for (const std::string bytes : {"100", "1000000", "7000000"}) {
      ask_driver("fault cut " + way + bytes);
      EXPECT(Numbers(values).read() == values);
    }
  }
  MUST(aclFinalize());
}

void threads_go_on_over_broken_connections() {
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      MUST(aclrtSetDevice(0));
      {
        Numbers number({0});
        for (int digit = 1; digit < 10; ++digit) {
          MUST(append(digit, number, nullptr));
          if (digit % 3 == 0) number.read();
        }
        EXPECT(number.read() == Values{123456789});
      }
      MUST(aclrtResetDevice(0));
    });
  }
  for (int i = 0; i < 10; ++i) ask_driver("cut");
  for (std::thread& thread : threads) thread.join();
  MUST(aclFinalize());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string text = argc > 3 ? argv[3] : "";
  const int code = argc > 2 ? std::atoi(argv[2]) : 0;
  const Tests tests = {
      {"acl_starts_and_ends", acl_starts_and_ends},
      {"a_configuration_is_read", a_configuration_is_read},
      {"the_library_tells_what_it_is", the_library_tells_what_it_is},
      {"a_process_that_just_ends_leaves_nothing_behind",
       a_process_that_just_ends_leaves_nothing_behind},
      {"there_is_no_server", [&] { there_is_no_server(code, text.c_str()); }},
      {"the_server_is_killed", the_server_is_killed},
      {"a_child_of_a_process_that_is_connected_is_refused",
       a_child_of_a_process_that_is_connected_is_refused},
      {"a_child_may_connect_where_its_parent_has_not",
       a_child_may_connect_where_its_parent_has_not},
      {"everything_is_applied_once_over_broken_connections",
       everything_is_applied_once_over_broken_connections},
      {"threads_go_on_over_broken_connections", threads_go_on_over_broken_connections}};
  return argc < 2 ? 2 : run_tests(tests, 2, argv);
}
