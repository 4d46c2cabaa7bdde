<?php
// GET /N sends a query N times, one after the other, and sends what it read.

// PDO does not take URLs.
$url = parse_url("{{ mariadb.url }}");
parse_str($url["query"] ?? "", $given);
$dsn = "mysql:dbname=" . substr($url["path"], 1) . ";" .
    (isset($given["socket"]) ? "unix_socket=$given[socket]" : "host=$url[host];port=$url[port]");
$options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_PERSISTENT => {{ 1 if reuse == 'keep-alive' else 0 }}];
if (isset($given["ssl-ca"])) {
    $options[PDO::MYSQL_ATTR_SSL_CA] = $given["ssl-ca"];
}
$database = new PDO($dsn, $url["user"], $url["pass"], $options);

$text = "";
for ($left = (int) substr($_SERVER["REQUEST_URI"], 1); $left > 0; $left--) {
    $value = $database->query("SELECT 1")->fetchColumn();
    if ((string) $value !== "1") {
        throw new Exception("SELECT 1 answered $value");
    }
    $text .= $value;
}

header("Content-Type: text/plain");
echo $text;
