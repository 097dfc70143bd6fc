// A program that starts slowly: it computes its memory before it listens. Then it has threads that count, a timer of each
// kind, and a loop that waits for all events with epoll. It answers each connection with one line: a random number of
// this start, the sum of its memory, and how far it has counted.
//
// usage: slow_starts MEBIBYTES THREADS STEPS PORT

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64

static atomic_ulong counts[MOST_THREADS];
static atomic_ulong alarms;
static int wakes;

static void failed(const char *what) {
    perror(what);
    exit(1);
}

static int checked(int result, const char *what) {
    if (result < 0) failed(what);
    return result;
}

static void *count(void *counter) {
    const struct timespec millisecond = {.tv_nsec = 1000000};
    for (;;) {
        nanosleep(&millisecond, NULL);
        if (atomic_fetch_add((atomic_ulong *)counter, 1) % 100 == 0) eventfd_write(wakes, 1);
    }
}

static void on_alarm(int number) {
    (void)number;
    atomic_fetch_add(&alarms, 1);
}

// Each word is the result of STEPS steps of a random number generator.
static void compute(uint64_t *memory, size_t words, uint64_t start, unsigned long steps) {
    for (size_t i = 0; i < words; i++) {
        uint64_t word = start + i;
        for (unsigned long step = 0; step < steps; step++) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
        }
        memory[i] = word;
    }
}

static void watch(int loop, int file) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    checked(epoll_ctl(loop, EPOLL_CTL_ADD, file, &event), "epoll_ctl");
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    size_t words = strtoul(argv[1], NULL, 10) * (1 << 20) / sizeof(uint64_t);
    unsigned long threads = strtoul(argv[2], NULL, 10), steps = strtoul(argv[3], NULL, 10);
    if (threads > MOST_THREADS) return 2;

    uint64_t start = 0;
    if (getrandom(&start, sizeof start, 0) != sizeof start) failed("getrandom");
    uint64_t *memory = malloc(words * sizeof *memory);
    if (memory == NULL) failed("malloc");
    compute(memory, words, start, steps);

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    checked(sigprocmask(SIG_BLOCK, &ends, NULL), "sigprocmask");
    int signals = checked(signalfd(-1, &ends, SFD_NONBLOCK), "signalfd");
    wakes = checked(eventfd(0, EFD_NONBLOCK), "eventfd");
    int ticker = checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), "timerfd_create");
    // CRIU stops a periodic one that has expired when it is saved, so each expiry sets the next.
    const struct itimerspec once = {.it_value.tv_nsec = 10000000};
    checked(timerfd_settime(ticker, 0, &once, NULL), "timerfd_settime");

    signal(SIGRTMIN, on_alarm);
    struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    const struct itimerspec often = {{.tv_nsec = 10000000}, {.tv_nsec = 10000000}};
    timer_t timer;
    checked(timer_create(CLOCK_MONOTONIC, &by_signal, &timer), "timer_create");
    checked(timer_settime(timer, 0, &often, NULL), "timer_settime");

    for (unsigned long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, count, &counts[i]) != 0) failed("pthread_create");
    }

    int listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(strtoul(argv[4], NULL, 10))};
    checked(bind(listener, (const struct sockaddr *)&any, sizeof any), "bind");
    checked(listen(listener, 8), "listen");

    int loop = checked(epoll_create1(0), "epoll_create1");
    watch(loop, signals);
    watch(loop, wakes);
    watch(loop, ticker);
    watch(loop, listener);
    unsigned long ticks = 0, woken = 0;
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(loop, &event, 1, -1) < 1) continue;
        int file = event.data.fd;
        uint64_t times = 0;
        if (file == signals) return 0;
        if (file == ticker && read(ticker, &times, sizeof times) == sizeof times) {
            ticks += times;
            checked(timerfd_settime(ticker, 0, &once, NULL), "timerfd_settime");
        }
        if (file == wakes && read(wakes, &times, sizeof times) == sizeof times) woken += times;
        if (file != listener) continue;
        int peer = accept(listener, NULL, NULL);
        if (peer < 0) continue;
        unsigned long slowest = atomic_load(&counts[0]);
        for (unsigned long i = 1; i < threads; i++) {
            unsigned long counted = atomic_load(&counts[i]);
            if (counted < slowest) slowest = counted;
        }
        uint64_t sum = 0;
        for (size_t i = 0; i < words; i++) sum += memory[i];
        dprintf(peer, "%lu %lu %lu %lu %lu %lu\n", start, sum, slowest, ticks, woken, atomic_load(&alarms));
        close(peer);
    }
}
