"""GET /N reads a value N times, one after the other, and sends what it read."""

import redis

# A connection for a request at a time; more requests wait for one.
pool = redis.BlockingConnectionPool.from_url("{{ redis.url }}", max_connections={{ pool }}, timeout=10)
client = redis.Redis(connection_pool=pool)


def application(environ, start_response):
    values = []
    for _ in range(int(environ["PATH_INFO"][1:])):
        value = client.get("lasthop")
        if value != b"xxx":
            raise ValueError(f"GET lasthop answered {value!r}")
        values.append(value)
    body = b"".join(values)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
