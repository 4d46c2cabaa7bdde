/* The floor's loop over io_uring in place of epoll, recv and send: one io_uring_enter for everything that became due since
 * the last one, whether there is one connection or a hundred. It is the cheapest form that the interface has: descriptors
 * registered, work of the ring done only when waited for, sends that report nothing when they succeed, and one receive
 * for each connection that stays armed and takes its buffers from a shared ring (`once`: armed anew for each reply). */

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define URING_PIECE 8192  /* bytes of a buffer: any reply of the floor's servers at depth 16 */
#define URING_GROUP 7
#define URING_SEND (1ull << 32) /* what marks a completion as that of a send; the rest is the connection's number */

struct uring {
  int fd;
  unsigned *sq_tail, *cq_head, *cq_tail, sq_mask, cq_mask, queued;
  struct io_uring_sqe *entries;
  struct io_uring_cqe *completions;
  struct io_uring_buf_ring *buffers;
  char *pieces;
  unsigned pieces_mask;
};

static unsigned power_of_two(unsigned least) {
  unsigned size = 8;
  while (size < least) size *= 2;
  return size;
}

static int uring_register(struct uring *ring, unsigned what, void *argument, unsigned count) {
  return (int)syscall(__NR_io_uring_register, ring->fd, what, argument, count);
}

static void *uring_map(int fd, size_t length, off_t offset) {
  void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, offset);
  if (at == MAP_FAILED) fail("mmap");
  return at;
}

static void uring_give_back(struct uring *ring, unsigned piece, unsigned short at) {
  struct io_uring_buf *slot = &ring->buffers->bufs[at & ring->pieces_mask];
  slot->addr = (uint64_t)(uintptr_t)(ring->pieces + (size_t)piece * URING_PIECE);
  slot->len = URING_PIECE;
  slot->bid = (unsigned short)piece;
}

static void uring_open(struct uring *ring, const int *fds, unsigned connections) {
  struct io_uring_params with = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN};
  /* A request is a send and at most a receive. */
  if ((ring->fd = (int)syscall(__NR_io_uring_setup, power_of_two(2 * connections), &with)) < 0) fail("io_uring_setup");
  char *queues = uring_map(ring->fd, with.sq_off.array + with.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  char *done_queue = uring_map(ring->fd, with.cq_off.cqes + with.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
  ring->entries = uring_map(ring->fd, with.sq_entries * sizeof *ring->entries, IORING_OFF_SQES);
  ring->sq_tail = (unsigned *)(queues + with.sq_off.tail);
  ring->sq_mask = *(unsigned *)(queues + with.sq_off.ring_mask);
  ring->cq_head = (unsigned *)(done_queue + with.cq_off.head);
  ring->cq_tail = (unsigned *)(done_queue + with.cq_off.tail);
  ring->cq_mask = *(unsigned *)(done_queue + with.cq_off.ring_mask);
  ring->completions = (struct io_uring_cqe *)(done_queue + with.cq_off.cqes);
  unsigned *order = (unsigned *)(queues + with.sq_off.array);
  for (unsigned i = 0; i < with.sq_entries; i++) order[i] = i;
  if (uring_register(ring, IORING_REGISTER_FILES, (void *)fds, connections)) fail("register files");

  unsigned pieces = power_of_two(2 * connections);
  ring->pieces_mask = pieces - 1;
  ring->pieces = uring_map(-1, (size_t)pieces * URING_PIECE, 0);
  ring->buffers = uring_map(-1, pieces * sizeof(struct io_uring_buf), 0);
  struct io_uring_buf_reg group = {
      .ring_addr = (uint64_t)(uintptr_t)ring->buffers, .ring_entries = pieces, .bgid = URING_GROUP};
  if (uring_register(ring, IORING_REGISTER_PBUF_RING, &group, 1)) fail("register buffers");
  for (unsigned i = 0; i < pieces; i++) uring_give_back(ring, i, (unsigned short)i);
  __atomic_store_n(&ring->buffers->tail, (unsigned short)pieces, __ATOMIC_RELEASE);
}

static struct io_uring_sqe *uring_queue(struct uring *ring, unsigned char what, unsigned connection) {
  unsigned tail = *ring->sq_tail;
  struct io_uring_sqe *entry = &ring->entries[tail & ring->sq_mask];
  memset(entry, 0, sizeof *entry);
  entry->opcode = what;
  entry->fd = (int)connection;
  entry->flags = IOSQE_FIXED_FILE;
  entry->user_data = connection;
  __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
  ring->queued++;
  return entry;
}

static void uring_send(struct uring *ring, unsigned connection) {
  struct io_uring_sqe *entry = uring_queue(ring, IORING_OP_SEND, connection);
  entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
  entry->user_data |= URING_SEND;
  entry->addr = (uint64_t)(uintptr_t)request;
  entry->len = (unsigned)request_length;
  entry->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
}

static void uring_receive(struct uring *ring, unsigned connection, int once) {
  struct io_uring_sqe *entry = uring_queue(ring, IORING_OP_RECV, connection);
  entry->flags |= IOSQE_BUFFER_SELECT;
  entry->buf_group = URING_GROUP;
  /* Nothing can be there yet: the request is sent in the same call. */
  entry->ioprio = IORING_RECVSEND_POLL_FIRST | (once ? 0 : IORING_RECV_MULTISHOT);
}

/* As many_connections and one_connection in floor.c. */
static uint64_t uring_connections(const int *fds, int connections, int depth, int once) {
  struct uring ring = {0};
  uring_open(&ring, fds, (unsigned)connections);
  size_t due = reply_length * (size_t)depth, *have = calloc((size_t)connections, sizeof *have);
  for (unsigned i = 0; i < (unsigned)connections; i++) {
    uring_send(&ring, i);
    uring_receive(&ring, i, once);
  }
  uint64_t requests = 0;
  unsigned head = *ring.cq_head;
  while (!done) {
    int submitted = (int)syscall(__NR_io_uring_enter, ring.fd, ring.queued, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    if (submitted < 0 && errno != EINTR) fail("io_uring_enter");
    if (submitted > 0) ring.queued -= (unsigned)submitted;
    unsigned short given = ring.buffers->tail;
    for (unsigned tail = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE); head != tail; head++) {
      struct io_uring_cqe *completion = &ring.completions[head & ring.cq_mask];
      errno = completion->res < 0 ? -completion->res : 0;
      /* Only a send that failed reports. */
      if (completion->user_data & URING_SEND) fail("send");
      if (completion->res <= 0) fail("recv");
      unsigned i = (unsigned)completion->user_data;
      uring_give_back(&ring, completion->flags >> IORING_CQE_BUFFER_SHIFT, given++);
      have[i] += (size_t)completion->res;
      int whole = have[i] >= due;
      if (whole) {
        have[i] = 0;
        requests += (uint64_t)depth;
        uring_send(&ring, i);
      }
      if (!(completion->flags & IORING_CQE_F_MORE)) uring_receive(&ring, i, once);
    }
    __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
    __atomic_store_n(&ring.buffers->tail, given, __ATOMIC_RELEASE);
  }
  return requests;
}
