#include "train/supervise.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

extern char** environ;

namespace samestep {
namespace {

volatile std::sig_atomic_t child_to_signal = 0;
volatile std::sig_atomic_t asked_to_stop = 0;
volatile std::sig_atomic_t first_signal = SIGTERM;

// Asked once, the child saves and ends; asked again, it ends.
void PassOn(int signal) {
  const int pass = asked_to_stop != 0 ? signal : first_signal;
  asked_to_stop = 1;
  if (child_to_signal > 0) ::kill(child_to_signal, pass);
}

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = PassOn;
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &action, nullptr);
}

bool AnotherTryMayHelp(int code) { return code != 0 && code != 1 && code != 3 && code != 4; }

// Whether the process has children and all of them are dead. Mpirun of Open MPI 4.1 sometimes never notices:
// it waits for a lock of its own for good.
bool HasOnlyDeadChildren(pid_t process) {
  bool any = false;
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) {
      std::string stat;
      std::getline(std::ifstream(fmt::format("/proc/{}/stat", child)), stat);
      const size_t name_end = stat.rfind(')');  // "PID (NAME) STATE …"
      if (name_end == std::string::npos || stat.substr(name_end, 3) != ") Z") return false;
      any = true;
    }
  }
  return any;
}

// The child's state for waitpid; one that hangs after all of its own children died is killed.
Result<int> WaitFor(pid_t child, const std::string& name) {
  constexpr int kTicksASecond = 10, kPatience = 30 * kTicksASecond;
  for (int dead_ticks = 0;;) {
    int state = 0;
    const pid_t ended = ::waitpid(child, &state, WNOHANG);
    if (ended == child) return state;
    if (ended < 0 && errno != EINTR) return IoError("waiting for {}: {}", name, std::strerror(errno));
    dead_ticks = HasOnlyDeadChildren(child) ? dead_ticks + 1 : 0;
    if (dead_ticks == kPatience) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kTicksASecond));
  }
}

Result<int> RunOnce(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0) {
    return NotFoundError("cannot start {}: {}; is the launcher of --launch installed?", command[0],
                         std::strerror(error));
  }
  child_to_signal = child;
  Result<int> waited = WaitFor(child, command[0]);
  child_to_signal = 0;
  SAMESTEP_ASSIGN_OR_RETURN(const int state, std::move(waited));
  return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

}  // namespace

Result<int> Supervise(const std::vector<std::string>& command, int restarts, int stop_signal,
                      const std::function<void(const std::string&)>& report) {
  first_signal = stop_signal;
  CatchSignals();
  for (int left = restarts;; --left) {
    SAMESTEP_ASSIGN_OR_RETURN(const int code, RunOnce(command));
    if (!AnotherTryMayHelp(code) || asked_to_stop != 0) return code;
    const std::string how =
        code > 128 ? fmt::format("was ended by signal {} ({})", code - 128, ::strsignal(code - 128))
                   : fmt::format("ended with exit code {}", code);
    if (left == 0) {
      report(fmt::format("the training {}; {} restarts are used up", how, restarts));
      return code;
    }
    report(fmt::format("the training {}; beginning again from its last checkpoint ({} of {} restarts left)",
                       how, left - 1, restarts));
  }
}

}  // namespace samestep
