/* mpi_guard.c: loaded before a program (LD_PRELOAD), it stands between the program and MPI.
 *
 *   SAMESTEP_MPI_COUNTS=counts.jsonl SAMESTEP_MPI_PRELOAD=build/release/bin/samestep_mpi_guard.so \
 *     tests/mpi/run_mpi.sh 4 build/release/bin/samestep train recipe.toml --run run
 *
 * 1. A reduction by MPI of anything but predefined integers, or by an operation of the program's own, ends
 * all processes with a message that names the call: the order of a float sum would be MPI's.
 * 2. It counts. At MPI_Finalize each process appends a line of JSON to the file that SAMESTEP_MPI_COUNTS
 * names: rank, ranks, p2p_messages and p2p_bytes (sent to other ranks by sends and all-to-alls),
 *    collective_calls and collective_bytes (what this process gave to reductions, gathers and broadcasts).
 *    Calls that it does not count (persistent, partitioned and one-sided ones) end the program as well.
 *
 * Determinism: passes everything on unchanged. Calls by the main thread only, as MPI_THREAD_FUNNELED has it.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long long p2p_messages, p2p_bytes, collective_calls, collective_bytes;

static void refuse(const char* call, const char* why) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "mpi_guard: rank %d: %s %s\n", rank, call, why);
  fflush(stderr);
  PMPI_Abort(MPI_COMM_WORLD, 86);
  _exit(86);
}

static int is_integer(MPI_Datatype type) {
  const MPI_Datatype integers[] = {
      MPI_BYTE,           MPI_CHAR,     MPI_SIGNED_CHAR,   MPI_UNSIGNED_CHAR,
      MPI_SHORT,          MPI_INT,      MPI_LONG,          MPI_LONG_LONG,
      MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
      MPI_INT8_T,         MPI_INT16_T,  MPI_INT32_T,       MPI_INT64_T,
      MPI_UINT8_T,        MPI_UINT16_T, MPI_UINT32_T,      MPI_UINT64_T,
      MPI_C_BOOL,         MPI_2INT,     MPI_AINT,          MPI_OFFSET,
      MPI_COUNT};
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; ++i) {
    if (type == integers[i]) return 1;
  }
  return 0;
}

static void check(const char* call, MPI_Datatype type) {
  if (!is_integer(type))
    refuse(call, "reduces a type that is no predefined integer: floats must be added by kernels");
}

static unsigned long long size_of(MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return (unsigned long long)size;
}

static int ranks_of(MPI_Comm comm) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  return size;
}

static int rank_in(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

static void count_message(MPI_Aint count, MPI_Datatype type) {
  ++p2p_messages;
  p2p_bytes += (unsigned long long)count * size_of(type);
}

static void count_collective(MPI_Aint count, MPI_Datatype type) {
  ++collective_calls;
  collective_bytes += (unsigned long long)count * size_of(type);
}

/* --- reductions: checked and counted --- */
#define REDUCTION(NAME, COUNT, PARAMETERS, ARGUMENTS) \
  int NAME PARAMETERS {                               \
    check(#NAME, type);                               \
    count_collective(COUNT, type);                    \
    return P##NAME ARGUMENTS;                         \
  }
#define SCANLIKE(NAME)                                                                           \
  REDUCTION(NAME, count,                                                                         \
            (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
            (in, out, count, type, op, comm))
#define ISCANLIKE(NAME)                                                                                    \
  REDUCTION(                                                                                               \
      NAME, count,                                                                                         \
      (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* r), \
      (in, out, count, type, op, comm, r))
SCANLIKE(MPI_Allreduce)
SCANLIKE(MPI_Scan)
SCANLIKE(MPI_Exscan)
ISCANLIKE(MPI_Iallreduce)
ISCANLIKE(MPI_Iscan)
ISCANLIKE(MPI_Iexscan)
REDUCTION(MPI_Reduce, count,
          (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
          (in, out, count, type, op, root, comm))
REDUCTION(MPI_Ireduce, count,
          (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
           MPI_Request* r),
          (in, out, count, type, op, root, comm, r))
REDUCTION(MPI_Reduce_local, 0, (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op),
          (in, out, count, type, op))
REDUCTION(MPI_Reduce_scatter_block, (MPI_Aint)count* ranks_of(comm),
          (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
          (in, out, count, type, op, comm))
REDUCTION(MPI_Ireduce_scatter_block, (MPI_Aint)count* ranks_of(comm),
          (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* r),
          (in, out, count, type, op, comm, r))

static MPI_Aint sum_of(const int* counts, MPI_Comm comm) {
  MPI_Aint sum = 0;
  for (int i = 0; i < ranks_of(comm); ++i) sum += counts[i];
  return sum;
}
REDUCTION(MPI_Reduce_scatter, sum_of(counts, comm),
          (const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
          (in, out, counts, type, op, comm))
REDUCTION(MPI_Ireduce_scatter, sum_of(counts, comm),
          (const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
           MPI_Request* r),
          (in, out, counts, type, op, comm, r))

int MPI_Op_create(MPI_User_function* function, int commute, MPI_Op* op) {
  (void)function, (void)commute, (void)op;
  refuse("MPI_Op_create", "makes an operation of the program's own: what it adds cannot be seen");
  return MPI_ERR_OTHER;
}

/* --- messages: counted --- */
#define SEND(NAME)                                                                             \
  int NAME(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) { \
    count_message(count, type);                                                                \
    return P##NAME(data, count, type, peer, tag, comm);                                        \
  }
#define ISEND(NAME)                                                                          \
  int NAME(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, \
           MPI_Request* r) {                                                                 \
    count_message(count, type);                                                              \
    return P##NAME(data, count, type, peer, tag, comm, r);                                   \
  }
SEND(MPI_Send)
SEND(MPI_Ssend)
SEND(MPI_Bsend)
SEND(MPI_Rsend)
ISEND(MPI_Isend)
ISEND(MPI_Issend)
ISEND(MPI_Ibsend)
ISEND(MPI_Irsend)

int MPI_Sendrecv(const void* out, int count, MPI_Datatype type, int to, int send_tag, void* in, int in_count,
                 MPI_Datatype in_type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  count_message(count, type);
  return PMPI_Sendrecv(out, count, type, to, send_tag, in, in_count, in_type, from, tag, comm, status);
}
int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int send_tag, int from, int tag,
                         MPI_Comm comm, MPI_Status* status) {
  count_message(count, type);
  return PMPI_Sendrecv_replace(data, count, type, to, send_tag, from, tag, comm, status);
}

static void count_all_to_all(int count, MPI_Datatype type, MPI_Comm comm) {
  for (int i = 1; i < ranks_of(comm); ++i) count_message(count, type);
}
static void count_all_to_all_v(const int* counts, MPI_Datatype type, MPI_Comm comm) {
  for (int i = 0; i < ranks_of(comm); ++i) {
    if (i != rank_in(comm)) count_message(counts[i], type);
  }
}
int MPI_Alltoall(const void* out, int count, MPI_Datatype type, void* in, int in_count, MPI_Datatype in_type,
                 MPI_Comm comm) {
  count_all_to_all(count, type, comm);
  return PMPI_Alltoall(out, count, type, in, in_count, in_type, comm);
}
int MPI_Ialltoall(const void* out, int count, MPI_Datatype type, void* in, int in_count, MPI_Datatype in_type,
                  MPI_Comm comm, MPI_Request* r) {
  count_all_to_all(count, type, comm);
  return PMPI_Ialltoall(out, count, type, in, in_count, in_type, comm, r);
}
int MPI_Alltoallv(const void* out, const int* counts, const int* starts, MPI_Datatype type, void* in,
                  const int* in_counts, const int* in_starts, MPI_Datatype in_type, MPI_Comm comm) {
  count_all_to_all_v(counts, type, comm);
  return PMPI_Alltoallv(out, counts, starts, type, in, in_counts, in_starts, in_type, comm);
}
int MPI_Ialltoallv(const void* out, const int* counts, const int* starts, MPI_Datatype type, void* in,
                   const int* in_counts, const int* in_starts, MPI_Datatype in_type, MPI_Comm comm,
                   MPI_Request* r) {
  count_all_to_all_v(counts, type, comm);
  return PMPI_Ialltoallv(out, counts, starts, type, in, in_counts, in_starts, in_type, comm, r);
}

/* --- gathers and broadcasts: counted; in place, what this process gives is its part of the output --- */
static void count_gather(const void* in, int count, MPI_Datatype type, int out_count, MPI_Datatype out_type) {
  if (in == MPI_IN_PLACE) {
    count_collective(out_count, out_type);
  } else {
    count_collective(count, type);
  }
}
int MPI_Allgather(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                  MPI_Datatype out_type, MPI_Comm comm) {
  count_gather(in, count, type, out_count, out_type);
  return PMPI_Allgather(in, count, type, out, out_count, out_type, comm);
}
int MPI_Iallgather(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request* r) {
  count_gather(in, count, type, out_count, out_type);
  return PMPI_Iallgather(in, count, type, out, out_count, out_type, comm, r);
}
int MPI_Allgatherv(const void* in, int count, MPI_Datatype type, void* out, const int* counts,
                   const int* starts, MPI_Datatype out_type, MPI_Comm comm) {
  count_gather(in, count, type, counts[rank_in(comm)], out_type);
  return PMPI_Allgatherv(in, count, type, out, counts, starts, out_type, comm);
}
int MPI_Iallgatherv(const void* in, int count, MPI_Datatype type, void* out, const int* counts,
                    const int* starts, MPI_Datatype out_type, MPI_Comm comm, MPI_Request* r) {
  count_gather(in, count, type, counts[rank_in(comm)], out_type);
  return PMPI_Iallgatherv(in, count, type, out, counts, starts, out_type, comm, r);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  count_collective(rank_in(comm) == root ? count : 0, type);
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* r) {
  count_collective(rank_in(comm) == root ? count : 0, type);
  return PMPI_Ibcast(data, count, type, root, comm, r);
}

/* --- what would pass by uncounted or unchecked: refused. The arguments do not matter. --- */
#define REFUSED(NAME)                                                         \
  int NAME##_refused(void) {                                                  \
    refuse(#NAME, "is not known to the guard: extend tests/mpi/mpi_guard.c"); \
    return MPI_ERR_OTHER;                                                     \
  }                                                                           \
  __asm__(".globl " #NAME "\n.type " #NAME ", @function\n.set " #NAME ", " #NAME "_refused");
REFUSED(MPI_Accumulate)
REFUSED(MPI_Raccumulate)
REFUSED(MPI_Get_accumulate)
REFUSED(MPI_Rget_accumulate)
REFUSED(MPI_Fetch_and_op)
REFUSED(MPI_Compare_and_swap)
REFUSED(MPI_Put)
REFUSED(MPI_Rput)
REFUSED(MPI_Get)
REFUSED(MPI_Rget)
REFUSED(MPI_Send_init)
REFUSED(MPI_Ssend_init)
REFUSED(MPI_Bsend_init)
REFUSED(MPI_Rsend_init)
REFUSED(MPI_Psend_init)
REFUSED(MPI_Isendrecv)
REFUSED(MPI_Isendrecv_replace)
REFUSED(MPI_Allreduce_init)
REFUSED(MPI_Reduce_init)
REFUSED(MPI_Reduce_scatter_init)
REFUSED(MPI_Reduce_scatter_block_init)
REFUSED(MPI_Scan_init)
REFUSED(MPI_Exscan_init)
REFUSED(MPI_Alltoallw)
REFUSED(MPI_Ialltoallw)
REFUSED(MPI_Gather)
REFUSED(MPI_Igather)
REFUSED(MPI_Gatherv)
REFUSED(MPI_Igatherv)
REFUSED(MPI_Scatter)
REFUSED(MPI_Iscatter)
REFUSED(MPI_Scatterv)
REFUSED(MPI_Iscatterv)
REFUSED(MPI_Neighbor_alltoall)
REFUSED(MPI_Neighbor_alltoallv)
REFUSED(MPI_Neighbor_allgather)
REFUSED(MPI_Neighbor_allgatherv)
/* The forms of MPI 4 with large counts. */
REFUSED(MPI_Allreduce_c)
REFUSED(MPI_Iallreduce_c)
REFUSED(MPI_Reduce_c)
REFUSED(MPI_Ireduce_c)
REFUSED(MPI_Reduce_local_c)
REFUSED(MPI_Reduce_scatter_c)
REFUSED(MPI_Ireduce_scatter_c)
REFUSED(MPI_Reduce_scatter_block_c)
REFUSED(MPI_Ireduce_scatter_block_c)
REFUSED(MPI_Scan_c)
REFUSED(MPI_Iscan_c)
REFUSED(MPI_Exscan_c)
REFUSED(MPI_Iexscan_c)
REFUSED(MPI_Accumulate_c)
REFUSED(MPI_Raccumulate_c)
REFUSED(MPI_Get_accumulate_c)
REFUSED(MPI_Rget_accumulate_c)
REFUSED(MPI_Op_create_c)
REFUSED(MPI_Send_c)
REFUSED(MPI_Isend_c)
REFUSED(MPI_Alltoall_c)
REFUSED(MPI_Alltoallv_c)
REFUSED(MPI_Ialltoall_c)
REFUSED(MPI_Ialltoallv_c)

static void append_counts(void) {
  const char* path = getenv("SAMESTEP_MPI_COUNTS");
  if (path == NULL || *path == '\0') return;
  char line[512];
  const int length = snprintf(line, sizeof line,
                              "{\"rank\": %d, \"ranks\": %d, \"p2p_messages\": %llu, \"p2p_bytes\": %llu, "
                              "\"collective_calls\": %llu, "
                              "\"collective_bytes\": %llu}\n",
                              rank_in(MPI_COMM_WORLD), ranks_of(MPI_COMM_WORLD), p2p_messages, p2p_bytes,
                              collective_calls, collective_bytes);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0 || write(file, line, (size_t)length) != length) {
    perror("mpi_guard: SAMESTEP_MPI_COUNTS");
    PMPI_Abort(MPI_COMM_WORLD, 87);
  }
  close(file);
}

int MPI_Finalize(void) {
  append_counts();
  return PMPI_Finalize();
}
