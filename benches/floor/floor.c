/* The physical limit of a client: a constant request, its reply, nothing else.
 *
 *   floor echo|http|postgres|mysql|redis|memcached  unix:PATH | tcp:HOST:PORT | pipe:PATH  [key=value ...]
 *   floor statsd  unixgram:PATH  [key=value ...]
 *
 *   connections=N  seconds=S  pipeline=D  size=BYTES (echo)  path=/URI (http)  user=NAME database=NAME (postgres, mysql)
 *   engine=plain|uring|uring-once  rate=REQUESTS_PER_SECOND  arrivals=constant|poisson
 *
 * pipe: two pipes that `lasthop serve --channel pipe` hands out at PATH; echo on one connection only.
 * statsd: one way, a metric in each datagram; what is sent is what counts, because a Unix socket loses nothing.
 * One connection: blocking send and recv. Several: one epoll_wait for what is ready, then one recv and one send each.
 * engine=uring tries the same over io_uring (uring.h); rate= makes it an open loop (paced.h).
 * A reply is as long as the first one was; its content is looked at once, before the clock starts. No clock is read, no
 * histogram kept, no error sorted: what a real client needs beyond this loop is what it pays for.
 *
 * Prints one JSON object: requests, seconds, CPU seconds (user, system), of the measuring loop alone. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUFFER (1 << 20)

static char request[BUFFER], reply[BUFFER];
static size_t request_length, reply_length;
static volatile sig_atomic_t done;

static void fail(const char *what) {
  fprintf(stderr, "floor: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
  exit(1);
}

static void on_alarm(int signal) {
  (void)signal;
  done = 1;
}

static int dial(const char *address) {
  int fd;
  int datagrams = !strncmp(address, "unixgram:", 9);
  if (datagrams || !strncmp(address, "unix:", 5)) {
    const char *path = strchr(address, ':') + 1;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path) fail("socket path too long");
    strcpy(to.sun_path, path);
    fd = socket(AF_UNIX, datagrams ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail(address);
    return fd;
  }
  char host[64];
  unsigned port;
  if (sscanf(address, "tcp:%63[^:]:%u", host, &port) != 2) fail("address: unix:PATH or tcp:HOST:PORT");
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (inet_pton(AF_INET, host, &to.sin_addr) != 1) fail(host);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail(address);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  return fd;
}

/* The two pipes that the server at a Unix socket hands out: the one to read from, the one to write to. */
static void take_pipes(int control, int pipes[2]) {
  char byte;
  union {
    char space[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
  } rights;
  struct iovec into = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = rights.space, .msg_controllen = sizeof rights.space};
  if (recvmsg(control, &message, 0) != 1) fail("recvmsg");
  struct cmsghdr *first = CMSG_FIRSTHDR(&message);
  if (!first || first->cmsg_len != CMSG_LEN(2 * sizeof(int))) fail("not two pipes");
  memcpy(pipes, CMSG_DATA(first), 2 * sizeof(int));
}

static uint64_t one_pair(const int pipes[2]) {
  uint64_t requests = 0;
  while (!done) {
    if (write(pipes[1], request, request_length) != (ssize_t)request_length) fail("write");
    for (size_t have = 0; have < reply_length;) {
      ssize_t got = read(pipes[0], reply, BUFFER);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("read");
      have += (size_t)got;
    }
    requests++;
  }
  return requests;
}

static void send_all(int fd, const char *data, size_t length) {
  while (length) {
    ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
    if (sent <= 0) fail("send");
    data += sent;
    length -= (size_t)sent;
  }
}

static void put32(char *at, uint32_t value) {
  value = htonl(value);
  memcpy(at, &value, 4);
}

/* PostgreSQL: start-up with trust authentication, until ReadyForQuery. */
static void postgres_start(int fd, const char *user, const char *database) {
  char start[256];
  int n = 8;
  n += sprintf(start + n, "user") + 1;
  n += snprintf(start + n, 80, "%s", user) + 1;
  n += sprintf(start + n, "database") + 1;
  n += snprintf(start + n, 80, "%s", database) + 1;
  start[n++] = 0;
  put32(start, (uint32_t)n);
  put32(start + 4, 196608);
  send_all(fd, start, (size_t)n);
  size_t have = 0;
  for (;;) {
    ssize_t got = recv(fd, reply + have, BUFFER - have, 0);
    if (got <= 0 || reply[0] == 'E') fail("PostgreSQL start-up");
    have += (size_t)got;
    if (have >= 6 && reply[have - 6] == 'Z') return;
  }
}

/* A packet of MySQL, whole, at the begin of `reply`: three bytes of length, lowest first, and a number precede it. */
static void mysql_packet(int fd) {
  size_t have = 0;
  while (have < 4 || have < 4 + ((size_t)(unsigned char)reply[0] | (size_t)(unsigned char)reply[1] << 8)) {
    ssize_t got = recv(fd, reply + have, BUFFER - have, 0);
    if (got <= 0) fail("MySQL start-up");
    have += (size_t)got;
  }
}

/* MySQL: the server's handshake, an answer without a password, OK. The flags are those that lasthop asks for. */
static void mysql_start(int fd, const char *user, const char *database) {
  static const unsigned char flags[] = {0x0d, 0xa2, 0x2e, 0x01, 0, 0, 0, 0x40, 45};
  char start[256] = {0};
  int n = 4;
  memcpy(start + n, flags, sizeof flags);
  n += 32;
  n += snprintf(start + n, 80, "%s", user) + 1;
  n++; /* no bytes of a proof */
  n += snprintf(start + n, 80, "%s", database) + 1;
  n += sprintf(start + n, "mysql_native_password") + 1;
  start[0] = (char)(n - 4);
  start[3] = 1;
  mysql_packet(fd);
  send_all(fd, start, (size_t)n);
  mysql_packet(fd);
  if (reply[4]) fail("MySQL start-up");
}

/* The first reply, whole: sent once, then read until nothing comes for 200 ms. */
static void learn_reply(int fd) {
  send_all(fd, request, request_length);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 200000}, sizeof(struct timeval))) fail("timeout");
  ssize_t got;
  while ((got = recv(fd, reply + reply_length, BUFFER - reply_length, 0)) > 0) reply_length += (size_t)got;
  if (!reply_length) fail("no reply");
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0}, sizeof(struct timeval));
}

static void check_reply(const char *protocol) {
  errno = 0;
  if (!strcmp(protocol, "http") && strncmp(reply, "HTTP/1.1 200", 12)) fail("not HTTP/1.1 200");
  if (!strcmp(protocol, "echo") && (reply_length != request_length || memcmp(reply, request, reply_length))) fail("not an echo");
  if (!strcmp(protocol, "postgres") && reply[0] != 'T') fail("no row description");
  if (!strcmp(protocol, "mysql") && reply[4] != 1) fail("not one column");
  if (!strcmp(protocol, "redis") && reply[0] != '$') fail("no bulk string");
  if (!strcmp(protocol, "memcached") && strncmp(reply, "VALUE key ", 10)) fail("no value");
}

static uint64_t one_way(int fd) {
  uint64_t requests = 0;
  while (!done) {
    ssize_t sent = send(fd, request, request_length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent != (ssize_t)request_length) fail("send");
    requests++;
  }
  return requests;
}

static uint64_t one_connection(int fd, int depth) {
  uint64_t requests = 0;
  size_t due = reply_length * (size_t)depth;
  while (!done) {
    if (send(fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) fail("send");
    for (size_t have = 0; have < due;) {
      ssize_t got = recv(fd, reply, BUFFER, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("recv");
      have += (size_t)got;
    }
    requests += (uint64_t)depth;
  }
  return requests;
}

static uint64_t many_connections(const int *fds, int connections, int depth) {
  int epoll = epoll_create1(0);
  size_t due = reply_length * (size_t)depth, *have = calloc((size_t)connections, sizeof *have);
  struct epoll_event *ready = calloc((size_t)connections, sizeof *ready);
  for (int i = 0; i < connections; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event)) fail("epoll_ctl");
    send_all(fds[i], request, request_length);
  }
  uint64_t requests = 0;
  while (!done) {
    int count = epoll_wait(epoll, ready, connections, -1);
    if (count < 0 && errno != EINTR) fail("epoll_wait");
    for (int at = 0; at < count; at++) {
      int i = (int)ready[at].data.u32;
      ssize_t got = recv(fds[i], reply, BUFFER, 0);
      if (got <= 0) fail("recv");
      have[i] += (size_t)got;
      if (have[i] < due) continue;
      have[i] = 0;
      requests += (uint64_t)depth;
      if (send(fds[i], request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) fail("send");
    }
  }
  return requests;
}

#include "paced.h"
#include "uring.h"

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

int main(int argc, char **argv) {
  if (argc < 3) fail("floor PROTOCOL ADDRESS [key=value ...]");
  const char *protocol = argv[1], *path = "/", *user = "postgres", *database = "postgres", *engine = "plain";
  const char *arrivals = "constant";
  int connections = 1, depth = 1, size = 64;
  double seconds = 1, rate = 0;
  for (int i = 3; i < argc; i++) {
    char *value = strchr(argv[i], '=');
    if (!value) fail(argv[i]);
    *value++ = 0;
    if (!strcmp(argv[i], "connections")) connections = atoi(value);
    else if (!strcmp(argv[i], "pipeline")) depth = atoi(value);
    else if (!strcmp(argv[i], "seconds")) seconds = atof(value);
    else if (!strcmp(argv[i], "size")) size = atoi(value);
    else if (!strcmp(argv[i], "path")) path = value;
    else if (!strcmp(argv[i], "user")) user = value;
    else if (!strcmp(argv[i], "database")) database = value;
    else if (!strcmp(argv[i], "engine")) engine = value;
    else if (!strcmp(argv[i], "rate")) rate = atof(value);
    else if (!strcmp(argv[i], "arrivals")) arrivals = value;
    else fail(argv[i]);
  }
  int plain = !strcmp(engine, "plain"), once = !strcmp(engine, "uring-once");
  if (!plain && !once && strcmp(engine, "uring")) fail(engine);
  if (!strcmp(protocol, "echo")) {
    /* lasthop's echo frame: length and sequence number, then a pattern; any echo server returns it. */
    request_length = (size_t)size;
    memset(request, 'x', request_length);
    uint32_t length = (uint32_t)size, sequence = 0;
    memcpy(request, &length, 4);
    memcpy(request + 4, &sequence, 4);
  } else if (!strcmp(protocol, "http")) {
    request_length = (size_t)snprintf(request, BUFFER, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
  } else if (!strcmp(protocol, "postgres")) {
    memcpy(request, "Q\0\0\0\rselect 1", 14);
    request_length = 14; /* with the terminating NUL of the query */
  } else if (!strcmp(protocol, "mysql")) {
    memcpy(request, "\x09\0\0\0\x03select 1", 13);
    request_length = 13;
  } else if (!strcmp(protocol, "statsd")) {
    request_length = (size_t)snprintf(request, BUFFER, "lasthop.load:1|c");
  } else if (!strcmp(protocol, "redis")) {
    request_length = (size_t)snprintf(request, BUFFER, "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
  } else if (!strcmp(protocol, "memcached")) {
    request_length = (size_t)snprintf(request, BUFFER, "get key\r\n");
  } else {
    fail(protocol);
  }
  int silent = !strcmp(protocol, "statsd");
  if (silent && (strncmp(argv[2], "unixgram:", 9) || connections != 1 || depth != 1 || rate > 0 || !plain)) fail("statsd: one socket of datagrams");
  int pipes[2] = {-1, -1}, piped = !strncmp(argv[2], "pipe:", 5);
  if (piped && (strcmp(protocol, "echo") || connections != 1 || depth != 1 || rate > 0 || !plain)) fail("a pipe: echo on one connection");
  /* The place where a channel is handed out is a Unix socket. */
  if (piped) memcpy(argv[2], "unix:", 5);
  int *fds = calloc((size_t)connections, sizeof *fds);
  for (int i = 0; i < connections; i++) {
    fds[i] = dial(argv[2]);
    if (!strcmp(protocol, "postgres")) postgres_start(fds[i], user, database);
    if (!strcmp(protocol, "mysql")) mysql_start(fds[i], user, database);
  }
  if (piped) {
    take_pipes(fds[0], pipes);
    reply_length = request_length; /* Anything else would leave the loop waiting. */
  } else if (!silent) {
    learn_reply(fds[0]);
    check_reply(protocol);
  }
  for (int i = 1; i < depth; i++) memcpy(request + (size_t)i * request_length, request, request_length);
  request_length *= (size_t)depth;
  if (rate > 0) {
    paced(fds, connections, rate, !strcmp(arrivals, "poisson"), seconds);
    return 0;
  }

  struct itimerval timer = {.it_value = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
  struct sigaction action = {.sa_handler = on_alarm};
  struct rusage before, after;
  struct timespec begin, end;
  sigaction(SIGALRM, &action, NULL);
  getrusage(RUSAGE_SELF, &before);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  setitimer(ITIMER_REAL, &timer, NULL);
  uint64_t requests = silent             ? one_way(fds[0])
                      : piped            ? one_pair(pipes)
                      : !plain           ? uring_connections(fds, connections, depth, once)
                      : connections == 1 ? one_connection(fds[0], depth) : many_connections(fds, connections, depth);
  clock_gettime(CLOCK_MONOTONIC, &end);
  getrusage(RUSAGE_SELF, &after);
  printf("{\"requests\":%llu,\"seconds\":%.6f,\"user\":%.6f,\"system\":%.6f}\n", (unsigned long long)requests,
         (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9,
         seconds_of(after.ru_utime) - seconds_of(before.ru_utime), seconds_of(after.ru_stime) - seconds_of(before.ru_stime));
  return 0;
}
