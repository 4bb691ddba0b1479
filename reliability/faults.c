/* A disk that fails: put before libc (LD_PRELOAD), it lets the n-th call of one kind on files of one folder go wrong, whoever makes it:
   Python, Rust's safetensors or DuckDB. Nothing happens before fault_arm. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, OPEN, WRITE, SYNC, RENAME };
enum { SHORT = -1 };

static char folder[4096];
static int kind, at, what, sticky;
static atomic_int count, armed, failed;

/* `what` is an errno, or SHORT: half of what was to be written is. A sticky fault stays: a disk that is full is full for the next call too. */
void fault_arm(const char *where, int which, int when, int error, int stays) {
    strncpy(folder, where, sizeof folder - 1);
    kind = which, at = when, what = error, sticky = stays;
    count = 0;
    failed = 0;
    armed = 1;
}
int fault_count(void) { return count; }
int fault_happened(void) { return failed; }

static int is_ours(const char *path) { return path && strncmp(path, folder, strlen(folder)) == 0; }

static int is_our_file(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

/* Whether this call is the one. */
static int hits(int which) {
    if (which != kind) return 0;
    int number = atomic_fetch_add(&count, 1);
    int hit = number == at || (sticky && number > at);
    if (hit) failed = 1;
    return hit;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define FAIL_IF(condition) do { int before = errno; if (armed && (condition)) { errno = what; return -1; } errno = before; } while (0)

#define OPENS (flags & (O_CREAT | O_WRONLY | O_RDWR))
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE REAL(open); FAIL_IF(OPENS && is_ours(path) && hits(OPEN)); return real(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE REAL(open64); FAIL_IF(OPENS && is_ours(path) && hits(OPEN)); return real(path, flags, mode); }
int openat(int at_, const char *path, int flags, ...) { MODE REAL(openat); FAIL_IF(OPENS && is_ours(path) && hits(OPEN)); return real(at_, path, flags, mode); }
int openat64(int at_, const char *path, int flags, ...) { MODE REAL(openat64); FAIL_IF(OPENS && is_ours(path) && hits(OPEN)); return real(at_, path, flags, mode); }

#define WRITES(call_half) int before = errno; if (armed && kind == WRITE && is_our_file(file) && hits(WRITE)) { if (what == SHORT) { if (size > 1) return call_half; } else { errno = what; return -1; } } errno = before
ssize_t write(int file, const void *data, size_t size) { REAL(write); WRITES(real(file, data, size / 2)); return real(file, data, size); }
ssize_t pwrite(int file, const void *data, size_t size, off_t place) { REAL(pwrite); WRITES(real(file, data, size / 2, place)); return real(file, data, size, place); }
ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) { REAL(pwrite64); WRITES(real(file, data, size / 2, place)); return real(file, data, size, place); }
ssize_t writev(int file, const struct iovec *parts, int size) { REAL(writev); WRITES(real(file, parts, size / 2)); return real(file, parts, size); }

int fsync(int file) { REAL(fsync); FAIL_IF(kind == SYNC && is_our_file(file) && hits(SYNC)); return real(file); }
int fdatasync(int file) { REAL(fdatasync); FAIL_IF(kind == SYNC && is_our_file(file) && hits(SYNC)); return real(file); }

int rename(const char *from, const char *to) { REAL(rename); FAIL_IF(is_ours(to) && hits(RENAME)); return real(from, to); }
int renameat(int a, const char *from, int b, const char *to) { REAL(renameat); FAIL_IF(is_ours(to) && hits(RENAME)); return real(a, from, b, to); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { REAL(renameat2); FAIL_IF(is_ours(to) && hits(RENAME)); return real(a, from, b, to, flags); }
