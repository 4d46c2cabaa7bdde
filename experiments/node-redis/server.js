// GET /N reads a value N times, one after the other, and sends what it read. Arguments: HOST PORT.
'use strict';

const fs = require('fs');
const http = require('http');
const { createClient } = require('{{ packages.npm }}/node_modules/redis');

const url = new URL('{{ redis.url }}');
const given = (key) => url.searchParams.get(key) ?? undefined;

// Its URLs know neither Unix sockets nor authorities.
const options =
  url.protocol === 'unix:'
    ? { socket: { path: url.pathname }, username: given('username'), password: given('password') }
    : { url: url.href, ...(given('ssl_ca_certs') && { socket: { tls: true, ca: fs.readFileSync(given('ssl_ca_certs')) } }) };

// Requests share the connections: one that waits for a reply takes more commands.
const clients = Array.from({ length: {{ pool }} }, () => createClient(options).on('error', console.error));
let requests = 0;

async function answer(request, response) {
  const client = clients[(requests += 1) % clients.length];
  let text = '';
  for (let left = Number(request.url.slice(1)); left > 0; left -= 1) {
    const value = await client.get('lasthop');
    if (value !== 'xxx') throw new Error(`GET lasthop answered ${value}`);
    text += value;
  }
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': text.length });
  response.end(text);
}

const server = http.createServer((request, response) =>
  answer(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end();
  })
);
server.keepAliveTimeout = 0;

const [host, port] = process.argv.slice(2);
Promise.all(clients.map((client) => client.connect())).then(() => server.listen({ host, port: Number(port), backlog: 1024 }));
process.on('SIGTERM', () => process.exit(0));
