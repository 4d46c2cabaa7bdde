// Servers whose latencies are known by arithmetic: node slow.js CASE PORT SOCKET
const http = require('http');
const [kind, port, socket] = process.argv.slice(2);
const after = (ms, reply) => setTimeout(() => reply.end('ok'), ms);
const pool = (workers, ms) => {
  const free = Array(workers).fill(Promise.resolve());
  let next = 0;
  return (request, reply) => {
    const turn = next++ % workers;
    free[turn] = free[turn].then(() => new Promise(done => setTimeout(() => { reply.end('ok'); done(); }, ms)));
  };
};
const counted = pick => { let count = 0; return (request, reply) => after(pick(count++), reply); };
const cases = {
  'one-worker': () => pool(1, 20),                             // 20 ms each, one after the other
  'four-workers': () => pool(4, 100),                          // 100 ms each, four at a time
  'two-percent': () => counted(at => at % 50 ? 0 : 300),       // every 50th takes 300 ms
  stall: () => counted(at => at === 1000 ? 2500 : 1),          // one takes 2.5 s, the others about 1 ms
};
for (const place of [{ host: '127.0.0.1', port: +port }, socket]) http.createServer(cases[kind]()).listen(place);
