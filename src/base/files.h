// files.h: files and folders, such that a crash or a full disk loses nothing that was written before.
//
//   SAMESTEP_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));       // beside, fsync, rename
//   SAMESTEP_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
//   SAMESTEP_ASSIGN_OR_RETURN(FileWriter out, FileWriter::Create(path));   // for large files: Write...,
//   Commit SAMESTEP_ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(run_folder));
//
// Determinism: ListFolder sorts bytewise; nothing here depends on time, locale or the order of a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace samestep {

// The whole file. kNotFound or kIo; kInvalid if it is larger than `limit` bytes.
Result<std::string> ReadFile(const std::string& path, uint64_t limit = uint64_t{1} << 32);
bool FileExists(const std::string& path);
bool IsFolder(const std::string& path);
Result<uint64_t> FileSize(const std::string& path);
Status MakeFolders(const std::string& path);
// Names (not paths) in the folder, sorted bytewise.
Result<std::vector<std::string>> ListFolder(const std::string& path);
// Renames within one file system and makes the rename durable (fsync of the folder).
Status RenameDurably(const std::string& from, const std::string& to);
// Two files or folders change names in one step.
Status ExchangeDurably(const std::string& a, const std::string& b);
Status RemoveTree(const std::string& path);
std::string JoinPath(std::string_view folder, std::string_view name);

// Where output for `path` goes: symbolic links followed. kInvalid for what exists and is no regular file,
// since a rename would replace it (a device, a pipe, a folder).
Result<std::string> ResolveOutput(const std::string& path);

Status WriteFileAtomically(const std::string& path, std::string_view bytes);

// A file that is written under `path` + ".partial" and takes its name in Commit, after an fsync. If it is
// dropped without Commit, the partial file is removed and what stood at `path` before is untouched. Two
// writers of one path: the second gets kConflict.
class FileWriter {
 public:
  static Result<FileWriter> Create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  ~FileWriter();
  Status Write(const void* data, size_t bytes);  // buffered
  Status WriteAt(uint64_t offset, const void* data,
                 size_t bytes);  // after a flush; thread-safe against other WriteAt
  uint64_t position() const { return position_; }
  Status Commit();

 private:
  FileWriter() = default;
  Status Flush();
  std::string path_;
  int descriptor_ = -1;
  uint64_t position_ = 0;
  std::vector<char> buffer_;
};

// Read-only map of a whole file.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// One process at a time in a folder, by an flock on `folder`/.lock that ends with the process.
class FolderLock {
 public:
  static Result<FolderLock> Take(const std::string& folder);  // kConflict names the holder's process id
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  FolderLock() = default;
  int descriptor_ = -1;
};

}  // namespace samestep
