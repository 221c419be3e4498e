#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace samestep {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

Status SystemError(std::string_view action, const std::string& path) {
  const int error = errno;
  const char* hint = "";
  if (error == ENOSPC) hint = "; free some space or choose another folder";
  if (error == EACCES || error == EPERM) hint = "; check the permissions, or choose another folder";
  if (error == ENOENT) return NotFoundError("cannot {} {}: it does not exist", action, path);
  return IoError("cannot {} {}: {}{}", action, path, std::strerror(error), hint);
}

Status WriteFully(int descriptor, const char* data, size_t bytes, int64_t offset, const std::string& path) {
  while (bytes > 0) {
    const ssize_t n =
        offset < 0 ? ::write(descriptor, data, bytes) : ::pwrite(descriptor, data, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("write", path);
    data += n;
    bytes -= static_cast<size_t>(n);
    if (offset >= 0) offset += n;
  }
  return {};
}

// Whether `path` is still the name of the open file.
bool StillNamed(int descriptor, const std::string& path) {
  struct stat open_file, named;
  return ::fstat(descriptor, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

Status SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open the folder", folder);
  // Some file systems refuse fsync on folders (EINVAL); the rename itself has then no stronger form.
  const bool failed = ::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP;
  Status status = failed ? SystemError("sync the folder", folder) : Status();
  ::close(descriptor);
  return status;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, uint64_t limit) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path);
  std::string bytes;
  std::vector<char> chunk(kBufferBytes);
  Status status;
  while (status.ok()) {
    const ssize_t n = ::read(descriptor, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = SystemError("read", path);
    if (n <= 0) break;
    bytes.append(chunk.data(), static_cast<size_t>(n));
    if (bytes.size() > limit)
      status = InvalidError("{}: larger than the {} bytes that this kind of file may have", path, limit);
  }
  ::close(descriptor);
  if (!status.ok()) return status;
  return bytes;
}

bool FileExists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<uint64_t> FileSize(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return SystemError("examine", path);
  return static_cast<uint64_t>(info.st_size);
}

Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return IoError("cannot make the folder {}: {}; choose another folder", path, error.message());
  return {};
}

Result<std::vector<std::string>> ListFolder(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return SystemError("list the folder", path);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

Status RenameDurably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return SystemError(fmt::format("rename to {} from", to), from);
  return SyncFolderOf(to);
}

Status ExchangeDurably(const std::string& a, const std::string& b) {
  constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE; older C libraries lack the wrapper
  if (::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), kExchange) != 0) {
    return SystemError(fmt::format("exchange with {}", b), a);
  }
  return SyncFolderOf(b);
}

Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return IoError("cannot remove {}: {}", path, error.message());
  return {};
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return fmt::format("{}{}{}", folder, folder.back() == '/' ? "" : "/", name);
}

Result<std::string> ResolveOutput(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return path;
  if (!S_ISREG(info.st_mode))
    return InvalidError("{} is not a regular file; name another one to write", path);
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  SAMESTEP_ASSIGN_OR_RETURN(FileWriter out, FileWriter::Create(path));
  SAMESTEP_RETURN_IF_ERROR(out.Write(bytes.data(), bytes.size()));
  return out.Commit();
}

Result<FileWriter> FileWriter::Create(const std::string& path) {
  FileWriter writer;
  SAMESTEP_ASSIGN_OR_RETURN(writer.path_, ResolveOutput(path));
  const std::string partial = writer.path_ + ".partial";
  while (true) {
    const int descriptor = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return SystemError("create", partial);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor);
      return ConflictError("{} is being written by another process; wait for it, or name another file", path);
    }
    if (StillNamed(descriptor, partial)) {
      writer.descriptor_ = descriptor;
      break;
    }
    ::close(descriptor);  // its writer has just renamed it: this is a finished file
  }
  if (::ftruncate(writer.descriptor_, 0) != 0) return SystemError("empty", partial);
  return writer;
}

FileWriter::FileWriter(FileWriter&& other) noexcept { *this = std::move(other); }

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(position_, other.position_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink((path_ + ".partial").c_str());
}

Status FileWriter::Write(const void* data, size_t bytes) {
  position_ += bytes;
  if (bytes >= kBufferBytes) {
    SAMESTEP_RETURN_IF_ERROR(Flush());
    return WriteFully(descriptor_, static_cast<const char*>(data), bytes, -1, path_);
  }
  const char* first = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), first, first + bytes);
  return buffer_.size() >= kBufferBytes ? Flush() : Status();
}

Status FileWriter::WriteAt(uint64_t offset, const void* data, size_t bytes) {
  return WriteFully(descriptor_, static_cast<const char*>(data), bytes, static_cast<int64_t>(offset), path_);
}

Status FileWriter::Flush() {
  SAMESTEP_RETURN_IF_ERROR(WriteFully(descriptor_, buffer_.data(), buffer_.size(), -1, path_));
  buffer_.clear();
  return {};
}

Status FileWriter::Commit() {
  SAMESTEP_RETURN_IF_ERROR(Flush());
  if (::fsync(descriptor_) != 0) return SystemError("sync", path_);
  SAMESTEP_RETURN_IF_ERROR(RenameDurably(path_ + ".partial", path_));  // while the lock is held
  ::close(std::exchange(descriptor_, -1));
  return {};
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path);
  struct stat info;
  MappedFile file;
  file.path_ = path;
  Status status;
  if (::fstat(descriptor, &info) != 0) {
    status = SystemError("examine", path);
  } else if (!S_ISREG(info.st_mode)) {
    status = InvalidError("{}: not a regular file", path);
  } else if (info.st_size > 0) {
    file.size_ = static_cast<size_t>(info.st_size);
    void* map = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED) {
      status = SystemError("map", path);
      file.size_ = 0;
    } else {
      file.data_ = static_cast<const std::byte*>(map);
    }
  }
  ::close(descriptor);
  if (!status.ok()) return status;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<FolderLock> FolderLock::Take(const std::string& folder) {
  const std::string path = JoinPath(folder, ".lock");
  FolderLock lock;
  lock.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock.descriptor_ < 0) return SystemError("open", path);
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    if (::read(lock.descriptor_, holder, sizeof holder - 1) < 0) holder[0] = 0;
    return ConflictError("{} is in use by process {}; wait for it to end, or name another folder", folder,
                         holder[0] ? holder : "unknown");
  }
  const std::string me = std::to_string(::getpid());
  if (::ftruncate(lock.descriptor_, 0) != 0) return SystemError("write", path);
  SAMESTEP_RETURN_IF_ERROR(WriteFully(lock.descriptor_, me.data(), me.size(), 0, path));
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept { *this = std::move(other); }

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace samestep
