// Answers "Hello there!", after it has slept or computed if the path asks for that. /connection tells which connection a
// request came over. Arguments: PATH or HOST PORT.
'use strict';

const http = require('http');

const FAMILIES = { IPv4: 'inet', IPv6: 'inet6' };
const connections = new WeakMap();
let accepted = 0;

function answer(response, text) {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': Buffer.byteLength(text) });
  response.end(text);
}

const server = http.createServer((request, response) => {
  const [, kind, milliseconds] = /^\/(sleep|busy)-(\d+)ms$/.exec(request.url) || [];
  if (kind === 'sleep') {
    setTimeout(answer, Number(milliseconds), response, 'Hello there!');
    return;
  }
  if (kind === 'busy') {
    // CPU time of this process, however long it takes to get it.
    const since = process.cpuUsage();
    const used = () => {
      const { user, system } = process.cpuUsage(since);
      return user + system;
    };
    while (used() < milliseconds * 1000);
  }
  if (request.url === '/connection') {
    // FAMILY IDENTITY of the accepted socket: a Unix socket has no family here, and connections are counted.
    const family = FAMILIES[request.socket.localFamily] || 'unix';
    answer(response, `${family} ${process.pid}-${connections.get(request.socket)}`);
    return;
  }
  answer(response, 'Hello there!');
});

server.on('connection', (socket) => connections.set(socket, (accepted += 1)));
// The proxy decides how long a connection lives.
server.keepAliveTimeout = 0;

const [place, port] = process.argv.slice(2);
server.listen(port ? { host: place, port: Number(port), backlog: 1024 } : { path: place, backlog: 1024 });
process.on('SIGTERM', () => process.exit(0));
