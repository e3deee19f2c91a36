/* Stands in for CUDA's runtime in tests of `trainmon profile --probe`: its functions count their own calls. A wait for the GPU is a sleep,
   whose length is measured as well. `DRIVER` is a second library, whose functions the runtime's go on into. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#ifdef DRIVER
int cuLaunchKernel(void) { return 0; }
int cuStreamSynchronize(long nanoseconds) {
    struct timespec length = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    return nanosleep(&length, 0);
}
#else
int cuLaunchKernel(void);
int cuStreamSynchronize(long nanoseconds);

/* Launches, copies, allocations, waits, and the nanoseconds in them. */
atomic_long counted[5];

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

int cudaLaunchKernel(void) {
    counted[0]++;
    return cuLaunchKernel();
}
int cudaMemcpyAsync(void) {
    counted[1]++;
    return 0;
}
int cudaMalloc(void) {
    counted[2]++;
    return 0;
}
int cudaStreamSynchronize(long nanoseconds) {
    long begun = now();
    int result = cuStreamSynchronize(nanoseconds);
    counted[3]++;
    counted[4] += now() - begun;
    return result;
}
#endif
