/* A machine with troubles, for programs that are started with this preloaded.
 * DISK_FAILS names a file: while it holds the number of an error, every write to a file fails with that error.
 * CLOCK_OFF is by how many seconds the clock is off. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int fails(int fd) {
    const char *path = getenv("DISK_FAILS");
    struct stat of;
    char text[16] = {0};
    if (!path || fd <= 2 || fstat(fd, &of) != 0 || !S_ISREG(of.st_mode))
        return 0;
    int said = open(path, O_RDONLY | O_CLOEXEC);
    if (said < 0)
        return 0;
    ssize_t length = read(said, text, sizeof text - 1);
    close(said);
    errno = length > 0 ? atoi(text) : 0;
    return errno;
}

ssize_t write(int fd, const void *from, size_t length) {
    return fails(fd) ? -1 : syscall(SYS_write, fd, from, length);
}

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t at) {
    return fails(fd) ? -1 : syscall(SYS_pwrite64, fd, from, length, at);
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t at) {
    return pwrite64(fd, from, length, at);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int told = syscall(SYS_clock_gettime, clock, now);
    const char *off = getenv("CLOCK_OFF");
    if (off && clock == CLOCK_REALTIME)
        now->tv_sec += atoi(off);
    return told;
}
