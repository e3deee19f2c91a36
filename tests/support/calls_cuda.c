/* A job that calls the library of counted_cuda.c. Each line of its input is a command, and each answer a line:
   `calls L C A W US`  makes so many launches, copies, allocations, and waits of so many microseconds; says what was counted so far
   `rate PER_S S US`   launches so often while it has a CPU, for so many seconds, and each 10 ms waits for so many microseconds; between two
                       launches it does always the same work, and says how often it did
   Last in each answer are the nanoseconds in which the thread had a CPU.
   `fork` and `exec`   do that: the child ends at once, the program begins anew */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern atomic_long counted[5];
int cudaLaunchKernel(void);
int cudaMemcpyAsync(void);
int cudaMalloc(void);
int cudaStreamSynchronize(long nanoseconds);

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *calls(void *text) {
    long launches = 0, copies = 0, allocations = 0, waits = 0, us = 0;
    sscanf(text, "%ld %ld %ld %ld %ld", &launches, &copies, &allocations, &waits, &us);
    while (launches-- > 0) cudaLaunchKernel();
    while (copies-- > 0) cudaMemcpyAsync();
    while (allocations-- > 0) cudaMalloc();
    while (waits-- > 0) cudaStreamSynchronize(us * 1000);
    return 0;
}

/* Work between two launches: so many rounds take as long as `rate` asks for. */
static volatile unsigned sink;
static void work(long rounds) {
    for (long round = 0; round < rounds; round++) sink += round;
}

static long rate(double per_s, double seconds, long us) {
    static double a_second = 0;
    if (a_second == 0) {
        double begun = now(CLOCK_THREAD_CPUTIME_ID);
        work(100000000);
        a_second = 1e8 / (now(CLOCK_THREAD_CPUTIME_ID) - begun);
    }
    long rounds = a_second / per_s, done = 0;
    double begun = now(CLOCK_MONOTONIC), wait_at = begun;
    for (double time = begun; time < begun + seconds; done++) {
        work(rounds);
        cudaLaunchKernel();
        if (done % 64 == 0) time = now(CLOCK_MONOTONIC);
        if (us > 0 && time >= wait_at) {
            cudaStreamSynchronize(us * 1000);
            wait_at = time + 0.01;
        }
    }
    return done;
}

int main(int count, char **arguments) {
    char line[256];
    (void)count;
    while (fgets(line, sizeof line, stdin)) {
        double per_s = 0, seconds = 0;
        long us = 0, done = 0;
        if (sscanf(line, "rate %lf %lf %ld", &per_s, &seconds, &us) >= 2) {
            done = rate(per_s, seconds, us);
        } else if (!strncmp(line, "thread ", 7)) {
            pthread_t thread;
            pthread_create(&thread, 0, calls, line + 7);
            pthread_join(thread, 0);
        } else if (!strncmp(line, "calls ", 6)) {
            calls(line + 6);
        } else if (!strncmp(line, "fork", 4)) {
            pid_t child = fork();
            if (child == 0) {
                for (int call = 0; call < 100; call++) cudaLaunchKernel();
                sleep(1);
                for (int call = 0; call < 100; call++) cudaLaunchKernel();
                _exit(0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            done = status;
        } else if (!strncmp(line, "exec", 4)) {
            execv("/proc/self/exe", arguments);
        }
        printf("%ld %ld %ld %ld %ld %ld ", done, counted[0], counted[1], counted[2], counted[3], counted[4]);
        printf("%.0f\n", now(CLOCK_THREAD_CPUTIME_ID) * 1e9);
        fflush(stdout);
    }
    return 0;
}
