// Sends each message back. Arguments: PATH or HOST PORT.
'use strict';

const http = require('http');
const { WebSocketServer } = require('{{ packages.npm }}/node_modules/ws');

const server = http.createServer();
new WebSocketServer({ server }).on('connection', (socket) => {
  socket.on('message', (message, binary) => socket.send(message, { binary }));
  socket.on('error', console.error);
});

const [place, port] = process.argv.slice(2);
server.listen(port ? { host: place, port: Number(port), backlog: 1024 } : { path: place, backlog: 1024 });
process.on('SIGTERM', () => process.exit(0));
