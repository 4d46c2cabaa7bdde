/* The floor of an open loop: a constant request whenever one is due, by the connection that has been free for longest; never
 * asleep. What it keeps is how late each request left, which is what it is for. */

#include <math.h>

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Nanoseconds in which this thread was ready to run and something else had its CPU. */
static uint64_t run_delay_ns(void) {
  unsigned long long delay = 0;
  FILE *file = fopen("/proc/thread-self/schedstat", "r");
  if (!file || fscanf(file, "%*u %llu", &delay) != 1) fail("schedstat");
  fclose(file);
  return delay;
}

/* Sends at `rate` a second for `seconds`, after a quarter of that as warm-up, and prints what became of the schedule. */
static void paced(const int *fds, int connections, double rate, int poisson, double seconds) {
  int epoll = epoll_create1(0), *free_ones = calloc((size_t)connections, sizeof *free_ones);
  size_t *have = calloc((size_t)connections, sizeof *have);
  struct epoll_event *ready = calloc((size_t)connections, sizeof *ready);
  double *late = calloc((size_t)(2 * rate * seconds) + 1000, sizeof *late), interval = 1e9 / rate, due = 0;
  size_t count = 0, head = 0, waiting = (size_t)connections, width = (size_t)connections;
  for (int i = 0; i < connections; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event)) fail("epoll_ctl");
    free_ones[i] = i;
  }
  double opens = seconds * 0.25e9, ends = opens + seconds * 1e9;
  unsigned short random[3] = {1, 2, (unsigned short)getpid()};
  uint64_t begin = now_ns(), delay = 0, cold = 1;
  for (;;) {
    double now = (double)(now_ns() - begin);
    if (cold && now >= opens) delay = run_delay_ns(), cold = 0;
    if (now >= ends) break;
    while (due <= now && waiting) {
      int fd = fds[free_ones[head]];
      head = (head + 1) % width, waiting--;
      if (due >= opens) late[count++] = now - due;
      if (send(fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) fail("send");
      due += poisson ? -log(1 - erand48(random)) * interval : interval;
      now = (double)(now_ns() - begin);
    }
    int events = epoll_wait(epoll, ready, connections, 0);
    for (int at = 0; at < events; at++) {
      int i = (int)ready[at].data.u32;
      ssize_t got = recv(fds[i], reply, BUFFER, 0);
      if (got <= 0) fail("recv");
      have[i] += (size_t)got;
      if (have[i] < reply_length) continue;
      have[i] = 0;
      free_ones[(head + waiting++) % width] = i;
    }
  }
  delay = run_delay_ns() - delay;
  /* What is still due was late by at least so much. */
  for (; due < ends; due += interval) late[count++] = ends - due;
  if (!count) fail("nothing was due");
  qsort(late, count, sizeof *late, by_size);
  printf("{\"requests\":%zu,\"lag_ns\":{\"p50\":%.0f,\"p99\":%.0f},\"driver_run_delay_seconds\":%.9f}\n", count,
         late[count / 2], late[count * 99 / 100], (double)delay / 1e9);
}
