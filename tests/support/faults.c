// Lets one call to the system fail: preloaded into the program under test by tests/faults.rs.
//
//   FAULT_AT=N    the N-th call that is counted fails; 0 only counts
//   FAULT_STAYS=1 and all later ones of its class: a disk that is full stays full
//   FAULT_LOG=F   at the end F holds "COUNT CLASS": how many were counted, and the class of the one that failed
//
// Processes that the program starts are left alone. Calls of at least 256 KB of memory count as well.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long calls;
static long wanted;
static int stays;
static const char *volatile failed = "none";
static char log_path[4096];
static pid_t owner;

static int fails(const char *class, int error) {
    if (owner == 0 || getpid() != owner) return 0;
    long number = atomic_fetch_add(&calls, 1) + 1;
    int again = stays && wanted > 0 && number > wanted && strcmp(class, failed) == 0;
    if (number != wanted && !again) return 0;
    failed = class;
    errno = error;
    return 1;
}

// Whatever ends the process: _exit of a handler, too, comes here.
static void report(void) {
    char text[128];
    if (owner == 0 || getpid() != owner || log_path[0] == 0) return;
    int length = snprintf(text, sizeof text, "%ld %s\n", atomic_load(&calls), failed);
    long file = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0) {
        syscall(SYS_write, file, text, length);
        syscall(SYS_close, file);
    }
}

__attribute__((constructor)) static void start(void) {
    const char *at = getenv("FAULT_AT"), *path = getenv("FAULT_LOG");
    if (at == NULL || path == NULL) return;
    wanted = atol(at);
    strncpy(log_path, path, sizeof log_path - 1);
    stays = getenv("FAULT_STAYS") != NULL;
    unsetenv("LD_PRELOAD");
    unsetenv("FAULT_AT");
    owner = getpid();
}

__attribute__((destructor)) static void finish(void) { report(); }

#define REAL(result, name, types) \
    static result(*real) types;   \
    if (real == NULL) real = (result(*) types)dlsym(RTLD_NEXT, #name)

#define CALL(result, failure, class, error, name, types, args) \
    result name types {                                        \
        REAL(result, name, types);                             \
        if (fails(class, error)) return failure;               \
        return real args;                                      \
    }

void _exit(int status) {
    report();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

#define OPEN(name)                                                       \
    int name(const char *path, int flags, ...) {                         \
        va_list list;                                                    \
        va_start(list, flags);                                           \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; \
        va_end(list);                                                    \
        REAL(int, name, (const char *, int, ...));                       \
        if (fails("open", EMFILE)) return -1;                            \
        return real(path, flags, mode);                                  \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                     \
    int name(int folder, const char *path, int flags, ...) {             \
        va_list list;                                                    \
        va_start(list, flags);                                           \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; \
        va_end(list);                                                    \
        REAL(int, name, (int, const char *, int, ...));                  \
        if (fails("open", EMFILE)) return -1;                            \
        return real(folder, path, flags, mode);                          \
    }
OPENAT(openat)
OPENAT(openat64)

int fcntl64(int file, int what, ...) {
    va_list list;
    va_start(list, what);
    void *value = va_arg(list, void *);
    va_end(list);
    REAL(int, fcntl64, (int, int, ...));
    if ((what == F_DUPFD_CLOEXEC || what == F_DUPFD) && fails("open", EMFILE)) return -1;
    return real(file, what, value);
}
int fcntl(int file, int what, ...) {
    va_list list;
    va_start(list, what);
    void *value = va_arg(list, void *);
    va_end(list);
    REAL(int, fcntl, (int, int, ...));
    if ((what == F_DUPFD_CLOEXEC || what == F_DUPFD) && fails("open", EMFILE)) return -1;
    return real(file, what, value);
}

CALL(ssize_t, -1, "read", EIO, read, (int file, void *to, size_t size), (file, to, size))
CALL(ssize_t, -1, "read", EIO, readv, (int file, const struct iovec *to, int count), (file, to, count))
CALL(ssize_t, -1, "read", EIO, pread64, (int file, void *to, size_t size, off_t at), (file, to, size, at))
CALL(ssize_t, -1, "read", EIO, readlink, (const char *path, char *to, size_t size), (path, to, size))
CALL(ssize_t, -1, "write", ENOSPC, write, (int file, const void *from, size_t size), (file, from, size))
CALL(ssize_t, -1, "write", ENOSPC, writev, (int file, const struct iovec *from, int count), (file, from, count))
CALL(int, -1, "sync", EIO, fsync, (int file), (file))
CALL(int, -1, "sync", EIO, fdatasync, (int file), (file))
CALL(int, -1, "rename", EIO, rename, (const char *from, const char *to), (from, to))
CALL(int, -1, "rename", EIO, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
CALL(int, -1, "rename", EIO, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
CALL(int, -1, "rename", EIO, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
CALL(int, -1, "make", ENOSPC, mkdir, (const char *path, mode_t mode), (path, mode))
CALL(int, -1, "mode", EPERM, chmod, (const char *path, mode_t mode), (path, mode))
CALL(int, -1, "mode", EPERM, fchmod, (int file, mode_t mode), (file, mode))
CALL(int, -1, "lock", ENOLCK, flock, (int file, int what), (file, what))
CALL(int, -1, "remove", EIO, unlink, (const char *path), (path))
CALL(int, -1, "remove", EIO, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
CALL(int, -1, "remove", EIO, rmdir, (const char *path), (path))
CALL(DIR *, NULL, "open", EMFILE, opendir, (const char *path), (path))
CALL(DIR *, NULL, "open", ENOMEM, fdopendir, (int file), (file))
CALL(struct dirent64 *, NULL, "read", EIO, readdir64, (DIR *folder), (folder))
CALL(int, -1, "stat", EIO, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *to), (folder, path, flags, mask, to))
CALL(int, -1, "open", EMFILE, pipe2, (int files[2], int flags), (files, flags))
CALL(int, -1, "open", EMFILE, socketpair, (int a, int b, int c, int files[2]), (a, b, c, files))
// Files only: Rust's runtime maps a stack for signals when a thread starts, and gives up where it cannot.
#define MAP(name)                                                                              \
    void *name(void *at, size_t size, int a, int b, int file, off_t from) {                    \
        REAL(void *, name, (void *, size_t, int, int, int, off_t));                            \
        return file >= 0 && fails("memory", ENOMEM) ? MAP_FAILED : real(at, size, a, b, file, from); \
    }
MAP(mmap)
MAP(mmap64)
CALL(pid_t, -1, "spawn", EAGAIN, fork, (void), ())

int pthread_create(pthread_t *to, const pthread_attr_t *with, void *(*work)(void *), void *on) {
    REAL(int, pthread_create, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *));
    return fails("thread", EAGAIN) ? EAGAIN : real(to, with, work, on);
}
#define SPAWN(name)                                                                                                  \
    int name(pid_t *to, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *with,  \
             char *const *args, char *const *env) {                                                                  \
        REAL(int, name, (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,       \
                         char *const *, char *const *));                                                             \
        return fails("spawn", EAGAIN) ? EAGAIN : real(to, path, actions, with, args, env);                           \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
#define LARGE (256 << 10)
void *malloc(size_t size) {
    return size >= LARGE && fails("memory", ENOMEM) ? NULL : __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    return count * size >= LARGE && fails("memory", ENOMEM) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    return size >= LARGE && fails("memory", ENOMEM) ? NULL : __libc_realloc(old, size);
}
