<?php
// The application behind nginx: a constant answer, after a handler that sleeps or computes if the path asks for one.

function cpu_seconds(): float
{
    $used = getrusage();
    return $used["ru_utime.tv_sec"] + $used["ru_stime.tv_sec"]
        + ($used["ru_utime.tv_usec"] + $used["ru_stime.tv_usec"]) / 1e6;
}

if (preg_match('#^/(sleep|busy)-([0-9]+)ms$#', $_SERVER["REQUEST_URI"], $found)) {
    $seconds = $found[2] / 1000;
    if ($found[1] === "sleep") {
        usleep((int) ($seconds * 1e6));
    } else {
        $until = cpu_seconds() + $seconds;
        while (cpu_seconds() < $until);
    }
}

header("Content-Type: text/plain");
echo "Hello there!";
