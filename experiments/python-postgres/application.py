"""GET /N sends a query N times, one after the other, and sends what it read."""

from psycopg_pool import ConnectionPool

# Autocommit, as frameworks do: otherwise BEGIN and COMMIT are two more statements for each request.
pool = ConnectionPool(
    "{{ postgres.dsn }}", min_size={{ pool }}, max_size={{ pool }}, kwargs={"autocommit": True}, timeout=10, open=True
)
pool.wait(timeout=10)


def application(environ, start_response):
    values = []
    with pool.connection() as connection:
        for _ in range(int(environ["PATH_INFO"][1:])):
            row = connection.execute("SELECT 1").fetchone()
            if row != (1,):
                raise ValueError(f"SELECT 1 answered {row!r}")
            values.append(str(row[0]))
    body = "".join(values).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
