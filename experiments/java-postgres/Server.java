// GET /N sends a query N times, one after the other, and sends what it read. Arguments: HOST PORT.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;

public class Server {
    static final String DSN = "{{ postgres.dsn }}";
    static final BlockingQueue<Connection> POOL = new ArrayBlockingQueue<>({{ pool }});

    // The driver knows TCP sockets only. junixsocket gives it others, and the driver insists on the name of a host.
    static Connection connect() throws SQLException {
        var further = new Properties();
        var folder = Pattern.compile("host=(/[^&]*)&").matcher(DSN);
        if (folder.find()) {
            further.put("socketFactory", "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg");
            further.put("socketFactoryArg", folder.group(1) + "/.s.PGSQL.5432");
        }
        return DriverManager.getConnection("jdbc:" + folder.replaceFirst("").replace("///", "//localhost/"), further);
    }

    static String read(int statements) throws SQLException, InterruptedException {
        var text = new StringBuilder();
        var connection = POOL.take();
        try {
            for (; statements > 0; statements--) {
                try (var query = connection.prepareStatement("SELECT 1"); var rows = query.executeQuery()) {
                    if (!rows.next() || rows.getInt(1) != 1 || rows.next()) throw new SQLException("SELECT 1 answered not 1");
                    text.append(1);
                }
            }
        } finally {
            POOL.put(connection);
        }
        return text.toString();
    }

    static void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            var body = read(Integer.parseInt(exchange.getRequestURI().getPath().substring(1))).getBytes();
            exchange.getResponseHeaders().set("Content-Type", "text/plain");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (SQLException | InterruptedException | RuntimeException error) {
            error.printStackTrace();
            exchange.sendResponseHeaders(500, -1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        while (POOL.remainingCapacity() > 0) POOL.put(connect());
        var address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        var server = HttpServer.create(address, 1024);
        server.createContext("/", Server::answer);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.start();
    }
}
