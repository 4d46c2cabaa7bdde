#compdef lasthop

autoload -U is-at-least

_lasthop() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow]:SHARE:_default' \
'--budget=[Time for the whole run (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial \[default\: the experiment'\''s, mostly 50 ms, or longer for slow replies\]]:TIME:_default' \
'--warm-up=[Length of the warm-up before each trial \[default\: a tenth of the trial, at least 10 ms and two slow replies\]]:TIME:_default' \
'--settle=[Time to load the servers after each start, before anything is measured \[default\: the experiment'\''s, mostly none\]]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round \[default\: chosen by what a start costs\]]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: requests per second for each case]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'(--aa --rate --precision --blocks --fail-if --driver --cross-check --explain)--overload=[Offer each case multiples of its capacity]::TIMES,…:_default' \
'--driver=[Drive with a classic tool instead\: wrk, ab, httperf, h2load, psql, pgbench, sysbench or redis-benchmark. You can add flags for the tool (\`'\''wrk -t2 -c10 -d5s'\''\`). Trials then last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Measure every case with this classic tool too, and report whether it agrees with lasthop'\''s load generator]:TOOL:_default' \
'--driver-at=[Run the driver elsewhere\: \`netns\:new\` (a network namespace that lasthop creates), \`netns\:NAME\`, or \`ssh\:\[USER@\]HOST\[\:PORT\]\` (lasthop copies itself there and removes the copy afterwards)]:PLACE:_default' \
'*--ssh-option=[Option for ssh (\`-o\`), such as \`IdentityFile=…\`]:KEY=VALUE:_default' \
'--ssh-config=[Configuration file for ssh (\`-F\`)]:FILE:_files' \
'--driver-program=[Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture]:PATH:_default' \
'--listen=[Address of this machine on which services listen for a driver on another host]:ADDRESS:_default' \
'--layers=[Your own layers, or lines of layers for functions that have none\: a file like lasthop'\''s \`layers.toml\`]:FILE:_files' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'*--label=[Say in the record what machine this is, for \`report\` of several runs\: \`machine=NAME\` names it, other labels are its kind (\`instance=m7g.large\`)]:NAME=VALUE:_default' \
'--aa[Compare each reference case with itself]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'--explain[Also say where the CPU time goes]' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print a line every ten seconds instead of one that replaces itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lasthop_commands" \
"*::: :->lasthop" \
&& ret=0
    case $state in
    (lasthop)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lasthop-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow]:SHARE:_default' \
'--budget=[Time for the whole run (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial \[default\: the experiment'\''s, mostly 50 ms, or longer for slow replies\]]:TIME:_default' \
'--warm-up=[Length of the warm-up before each trial \[default\: a tenth of the trial, at least 10 ms and two slow replies\]]:TIME:_default' \
'--settle=[Time to load the servers after each start, before anything is measured \[default\: the experiment'\''s, mostly none\]]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round \[default\: chosen by what a start costs\]]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: requests per second for each case]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'(--aa --rate --precision --blocks --fail-if --driver --cross-check --explain)--overload=[Offer each case multiples of its capacity]::TIMES,…:_default' \
'--driver=[Drive with a classic tool instead\: wrk, ab, httperf, h2load, psql, pgbench, sysbench or redis-benchmark. You can add flags for the tool (\`'\''wrk -t2 -c10 -d5s'\''\`). Trials then last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Measure every case with this classic tool too, and report whether it agrees with lasthop'\''s load generator]:TOOL:_default' \
'--driver-at=[Run the driver elsewhere\: \`netns\:new\` (a network namespace that lasthop creates), \`netns\:NAME\`, or \`ssh\:\[USER@\]HOST\[\:PORT\]\` (lasthop copies itself there and removes the copy afterwards)]:PLACE:_default' \
'*--ssh-option=[Option for ssh (\`-o\`), such as \`IdentityFile=…\`]:KEY=VALUE:_default' \
'--ssh-config=[Configuration file for ssh (\`-F\`)]:FILE:_files' \
'--driver-program=[Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture]:PATH:_default' \
'--listen=[Address of this machine on which services listen for a driver on another host]:ADDRESS:_default' \
'--layers=[Your own layers, or lines of layers for functions that have none\: a file like lasthop'\''s \`layers.toml\`]:FILE:_files' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'*--label=[Say in the record what machine this is, for \`report\` of several runs\: \`machine=NAME\` names it, other labels are its kind (\`instance=m7g.large\`)]:NAME=VALUE:_default' \
'(--only --set --aa --rate --arrivals --driver --cross-check --driver-at --ssh-option --ssh-config --driver-program --listen --program --engine --label --precision --margin --trial --warm-up --settle --blocks --seed --no-headroom --rounds --placement)--again[Make a recorded run again, with its cases and settings]' \
'--aa[Compare each reference case with itself]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'--explain[Also say where the CPU time goes]' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print a line every ten seconds instead of one that replaces itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::experiment -- An experiment (`lasthop list`), or the folder of your own:_default' \
&& ret=0
;;
(resume)
_arguments "${_arguments_options[@]}" : \
'--budget=[More time for the run, including the starts of services \[default\: the rest of its budget\]]:TIME:_default' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'--trust-record[Execute what the record names (hosts, ssh commands, programs, its experiment'\''s folder) without asking, even if the record is not proven to be your own]' \
'--remote[Put load on other machines again; of a comparison only]' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print a line every ten seconds instead of one that replaces itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::run -- A run\: its name or part of its name, its directory, or `last`:_default' \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
'--all[Also show experiments that are not ready, and what they miss]' \
'--versions[Also ask each program for its version, which takes a second\: without this, one that is too old counts as there]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'(--only --set --aa)*--files=[List its files and those of its recipes instead, or print one (\`--files nginx.conf.j2\`)]::FILE:_files' \
'--aa[Compare each reference case with itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
':subject -- Name of an experiment, or the folder of your own experiment. Or a run, as for `report`\: its configurations, the winner'\''s first, and what must be true to use them:_default' \
&& ret=0
;;
(answers)
_arguments "${_arguments_options[@]}" : \
'--format=[Format\: terminal, json, csv or markdown]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::stack -- An experiment, a server or a group\: `redis`, `nginx`, `databases`; all in a line or two each without it:_default' \
&& ret=0
;;
(load)
_arguments "${_arguments_options[@]}" : \
'(--warm-up)-n+[Send this many requests, then stop; \`--duration\` is still the limit. There is no warm-up, but a few requests come before, which verify the endpoint and teach the expected reply]:N:_default' \
'(--warm-up)--number=[Send this many requests, then stop; \`--duration\` is still the limit. There is no warm-up, but a few requests come before, which verify the endpoint and teach the expected reply]:N:_default' \
'-d+[Length of the measurement]:TIME:_default' \
'--duration=[Length of the measurement]:TIME:_default' \
'--warm-up=[Length of the warm-up before it, which is not counted]:TIME:_default' \
'--seed=[Seed for Poisson arrivals, for \`--order random\`, and for random variables of \`--requests\`]:N:_default' \
'(-X --method --body --expect)--requests=[Send the requests of this file (\`.http\`)]:FILE:_files' \
'--order=[Order of the requests of \`--requests\`]:ORDER:((given\:"As in the file, over and over"
random\:"Drawn by their weights"))' \
'-c+[Number of concurrent connections]:N:_default' \
'--connections=[Number of concurrent connections]:N:_default' \
'-t+[Threads of the load generator]:N:_default' \
'--threads=[Threads of the load generator]:N:_default' \
'-R+[Open loop\: requests per second]:PER SECOND:_default' \
'--rate=[Open loop\: requests per second]:PER SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'-P+[Requests at once on a connection]:DEPTH:_default' \
'--pipeline=[Requests at once on a connection]:DEPTH:_default' \
'--requests-per-connection=[With \`--reuse per-request\`\: requests to send one after the other on a connection before closing it. They are timed together, including the connect]:N:_default' \
'--reuse=[A connection after a reply]:REUSE:((keep-alive\:"Keep it open for the next request"
per-request\:"Close it; each request opens a new one"))' \
'--engine=[How to wait for sockets; blocking needs one thread per connection]:ENGINE:((auto\:"Blocking if there is one connection per thread, otherwise epoll"
blocking\:""
epoll\:""))' \
'--spin=[Busy-poll for this long before sleeping; 0 never does \[default\: 50us before an open loop'\''s request is due, else 0\]]:TIME:_default' \
'--timeout=[Timeout for each of\: connect, TLS handshake, authentication, reply]:TIME:_default' \
'--connect-timeout=[Timeout for each of\: connect, TLS handshake \[default\: the value of --timeout\]]:TIME:_default' \
'--nodelay=[Set TCP_NODELAY]:BOOL:(true false)' \
'--send-buffer=[SO_SNDBUF in bytes]:BYTES:_default' \
'--receive-buffer=[SO_RCVBUF in bytes]:BYTES:_default' \
'--authority=[PEM file with the certificate authorities to trust, instead of the system'\''s]:FILE:_files' \
'--server-name=[Name that the server'\''s certificate must have, instead of the URL'\''s host]:NAME:_default' \
'-X+[Request method]:METHOD:_default' \
'--method=[Request method]:METHOD:_default' \
'*-H+[Header to add (gRPC\: metadata), or @FILE with headers]:NAME: VALUE:_default' \
'*--header=[Header to add (gRPC\: metadata), or @FILE with headers]:NAME: VALUE:_default' \
'--body=[Body of the request, or @FILE with it]:TEXT:_default' \
'--expect-status=[Expected status \[default\: 200\]]:STATUS:_default' \
'--command=[Redis and memcached\: command, the same for every request, for example "GET key" or "mg key v" \[default\: PING; get lasthop\]]:WORDS:_default' \
'--query=[PostgreSQL and MySQL\: query \[default\: select 1\]]:SQL:_default' \
'*--parameter=[PostgreSQL and MySQL\: value of \$1, \$2, …, or of each ?; may be repeated]:TEXT:_default' \
'--send=[Bytes to send with each request; with WebSocket and gRPC, the message. \\0, \\r, \\n, \\xff and the other escapes of C stand for what cannot be typed; \`@FILE\` takes the bytes of a file as they are, \`@-\` those of standard input]:BYTES|@FILE:_default' \
'*--greet=[Bytes to send once on each connection before, with WebSocket a message, none ('\'''\'') where the server speaks first, and await a reply. May be repeated]:BYTES|@FILE:_default' \
'*--greet-until=[Replies to \`--greet\` end with these bytes, not as others do; '\'''\'' awaits none. May be repeated, for each \`--greet\` one; the last is for all others]:BYTES:_default' \
'(--greet-until)*--greet-bytes=[Replies to \`--greet\` have so many bytes; 0 awaits none. May be repeated in the same way]:N:_default' \
'--until=[A reply ends with these bytes, the first time that they come]:BYTES:_default' \
'--then=[With \`--until\`\: so many bytes follow them, whatever they are, before the reply ends]:N:_default' \
'--bytes=[A reply has so many bytes]:N:_default' \
'--length-prefix=[A reply tells its length, in WIDTH bytes behind OFFSET others, most significant first, or least with \`le\`. It has REST bytes more than that \[default\: WIDTH + OFFSET\]. 4@0 counts what follows it, 4@0+0 also itself]:WIDTH@OFFSET[le][+REST]:_default' \
'--size=[echo and WebSocket\: bytes per message; stream\: bytes per transfer \[default\: 64\]; gRPC\: bytes of the message'\''s field 1 \[default\: 0\]]:BYTES:_default' \
'--expect=[Expected reply]:TEXT:_default' \
'--format=[Format of the figures]:FORMAT:((terminal\:""
json\:""
csv\:"One row, below its header"))' \
'-o+[Write the figures to a file instead of standard output]:FILE:_files' \
'--output=[Write the figures to a file instead of standard output]:FILE:_files' \
'--headroom[Also load a server that does nothing, in turn with this one, to show how many times more requests the generator can send]' \
'(--authority --server-name)--insecure[Accept any certificate, from a server on this machine]' \
'--resumption[Offer TLS session resumption on later connections]' \
'(--http2)--http1.0[Speak HTTP/1.0]' \
'--http2[Speak HTTP/2\: within TLS, or in plain with prior knowledge (h2c). --pipeline is then how many streams a connection has at once]' \
'--simple[PostgreSQL and MySQL\: simple queries (the default)]' \
'--extended[PostgreSQL\: parse, bind and execute with every request]' \
'--prepared[PostgreSQL and MySQL\: prepare once per connection, execute with every request]' \
'--binary[WebSocket\: send binary messages. Those that are not UTF-8 always are]' \
'--until-close[A reply ends when the peer closes the connection]' \
'(--expect)--no-reference[Check only the form and status of replies; do not compare them with the first ones]' \
'-q[Show no progress]' \
'--quiet[Show no progress]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
':url -- Endpoint to load, such as http\://HOST/ or http+unix\:/PATH\:/:_default' \
&& ret=0
;;
(compare)
_arguments "${_arguments_options[@]}" : \
'--restart=[Command that restarts the servers between rounds]:COMMAND:_default' \
'*--pid=[Measure the CPU time of this process and those that it started, where lasthop cannot find the server by itself]:ROLE=PID:_default' \
'-c+[Number of concurrent connections]:N:_default' \
'--connections=[Number of concurrent connections]:N:_default' \
'-t+[Threads of the load generator]:N:_default' \
'--threads=[Threads of the load generator]:N:_default' \
'-R+[Open loop\: requests per second]:PER SECOND:_default' \
'--rate=[Open loop\: requests per second]:PER SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'-P+[Requests at once on a connection]:DEPTH:_default' \
'--pipeline=[Requests at once on a connection]:DEPTH:_default' \
'--requests-per-connection=[With \`--reuse per-request\`\: requests to send one after the other on a connection before closing it. They are timed together, including the connect]:N:_default' \
'--reuse=[A connection after a reply]:REUSE:((keep-alive\:"Keep it open for the next request"
per-request\:"Close it; each request opens a new one"))' \
'--engine=[How to wait for sockets; blocking needs one thread per connection]:ENGINE:((auto\:"Blocking if there is one connection per thread, otherwise epoll"
blocking\:""
epoll\:""))' \
'--spin=[Busy-poll for this long before sleeping; 0 never does \[default\: 50us before an open loop'\''s request is due, else 0\]]:TIME:_default' \
'--timeout=[Timeout for each of\: connect, TLS handshake, authentication, reply]:TIME:_default' \
'--connect-timeout=[Timeout for each of\: connect, TLS handshake \[default\: the value of --timeout\]]:TIME:_default' \
'--nodelay=[Set TCP_NODELAY]:BOOL:(true false)' \
'--send-buffer=[SO_SNDBUF in bytes]:BYTES:_default' \
'--receive-buffer=[SO_RCVBUF in bytes]:BYTES:_default' \
'--authority=[PEM file with the certificate authorities to trust, instead of the system'\''s]:FILE:_files' \
'--server-name=[Name that the server'\''s certificate must have, instead of the URL'\''s host]:NAME:_default' \
'-X+[Request method]:METHOD:_default' \
'--method=[Request method]:METHOD:_default' \
'*-H+[Header to add (gRPC\: metadata), or @FILE with headers]:NAME: VALUE:_default' \
'*--header=[Header to add (gRPC\: metadata), or @FILE with headers]:NAME: VALUE:_default' \
'--body=[Body of the request, or @FILE with it]:TEXT:_default' \
'--expect-status=[Expected status \[default\: 200\]]:STATUS:_default' \
'--command=[Redis and memcached\: command, the same for every request, for example "GET key" or "mg key v" \[default\: PING; get lasthop\]]:WORDS:_default' \
'--query=[PostgreSQL and MySQL\: query \[default\: select 1\]]:SQL:_default' \
'*--parameter=[PostgreSQL and MySQL\: value of \$1, \$2, …, or of each ?; may be repeated]:TEXT:_default' \
'--send=[Bytes to send with each request; with WebSocket and gRPC, the message. \\0, \\r, \\n, \\xff and the other escapes of C stand for what cannot be typed; \`@FILE\` takes the bytes of a file as they are, \`@-\` those of standard input]:BYTES|@FILE:_default' \
'*--greet=[Bytes to send once on each connection before, with WebSocket a message, none ('\'''\'') where the server speaks first, and await a reply. May be repeated]:BYTES|@FILE:_default' \
'*--greet-until=[Replies to \`--greet\` end with these bytes, not as others do; '\'''\'' awaits none. May be repeated, for each \`--greet\` one; the last is for all others]:BYTES:_default' \
'(--greet-until)*--greet-bytes=[Replies to \`--greet\` have so many bytes; 0 awaits none. May be repeated in the same way]:N:_default' \
'--until=[A reply ends with these bytes, the first time that they come]:BYTES:_default' \
'--then=[With \`--until\`\: so many bytes follow them, whatever they are, before the reply ends]:N:_default' \
'--bytes=[A reply has so many bytes]:N:_default' \
'--length-prefix=[A reply tells its length, in WIDTH bytes behind OFFSET others, most significant first, or least with \`le\`. It has REST bytes more than that \[default\: WIDTH + OFFSET\]. 4@0 counts what follows it, 4@0+0 also itself]:WIDTH@OFFSET[le][+REST]:_default' \
'--size=[echo and WebSocket\: bytes per message; stream\: bytes per transfer \[default\: 64\]; gRPC\: bytes of the message'\''s field 1 \[default\: 0\]]:BYTES:_default' \
'--expect=[Expected reply]:TEXT:_default' \
'--precision=[Stop once every interval is this narrow]:SHARE:_default' \
'--budget=[Time for the whole run (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial \[default\: the experiment'\''s, mostly 50 ms, or longer for slow replies\]]:TIME:_default' \
'--warm-up=[Length of the warm-up before each trial \[default\: a tenth of the trial, at least 10 ms and two slow replies\]]:TIME:_default' \
'--settle=[Time to load the servers after each start, before anything is measured \[default\: the experiment'\''s, mostly none\]]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round \[default\: chosen by what a start costs\]]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--layers=[Your own layers, or lines of layers for functions that have none\: a file like lasthop'\''s \`layers.toml\`]:FILE:_files' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'--differing[Compare endpoints that do not answer alike]' \
'--remote[Put load on other machines, too]' \
'(--authority --server-name)--insecure[Accept any certificate, from a server on this machine]' \
'--resumption[Offer TLS session resumption on later connections]' \
'(--http2)--http1.0[Speak HTTP/1.0]' \
'--http2[Speak HTTP/2\: within TLS, or in plain with prior knowledge (h2c). --pipeline is then how many streams a connection has at once]' \
'--simple[PostgreSQL and MySQL\: simple queries (the default)]' \
'--extended[PostgreSQL\: parse, bind and execute with every request]' \
'--prepared[PostgreSQL and MySQL\: prepare once per connection, execute with every request]' \
'--binary[WebSocket\: send binary messages. Those that are not UTF-8 always are]' \
'--until-close[A reply ends when the peer closes the connection]' \
'(--expect)--no-reference[Check only the form and status of replies; do not compare them with the first ones]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'--explain[Also say where the CPU time goes]' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print a line every ten seconds instead of one that replaces itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'*::endpoints -- Endpoints to compare; the first is the reference:_default' \
&& ret=0
;;
(survey)
_arguments "${_arguments_options[@]}" : \
'--for=[How long to watch]:TIME:_default' \
'--interval=[How often to look at the open connections]:TIME:_default' \
'*--only=[Only links with this in a name or address]:NAME:_default' \
'--budget=[Time for each run of --measure \[default\: the experiment'\''s\]]:TIME:_default' \
'--format=[Format of the result\: terminal, json, csv, markdown or html]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the result to a file instead of standard output]:FILE:_files' \
'--output=[Write the result to a file instead of standard output]:FILE:_files' \
'--measure[Run the experiments that would tell more of these links]' \
'-v[Also list links that nothing or little went over]' \
'--verbose[Also list links that nothing or little went over]' \
'-q[Do not say how long it takes, and show no progress]' \
'--quiet[Do not say how long it takes, and show no progress]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
&& ret=0
;;
(report)
_arguments "${_arguments_options[@]}" : \
'*--by=[Several runs\: what makes a kind of machine\: architecture, cpu, size (by the number of CPUs), kernel, cpus, distribution, virtualization, or labels \[default\: the first four and all labels, where they differ\]]:FACT,…:_default' \
'(--by --format -o --output -v --verbose --fail-if)--check=[Say instead what a check means and what to do about it, by the id that reports print in brackets (\`driver-kept-off\`); without an id, list all checks]::ID:_default' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'*::runs -- A run\: its name or part of its name, its directory, or `last`. Several runs are reported together:_default' \
&& ret=0
;;
(diff)
_arguments "${_arguments_options[@]}" : \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
':old -- The run before\: its name or part of its name, or its directory:_default' \
'::new -- The run after:_default' \
&& ret=0
;;
(fleet)
_arguments "${_arguments_options[@]}" : \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
":: :_lasthop__subcmd__fleet_commands" \
"*::: :->fleet" \
&& ret=0

    case $state in
    (fleet)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lasthop-fleet-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
'--nodes=[Run on the ready nodes with these labels]:SELECTOR:_default' \
'(--nodes)*--node=[Run on this node, which need not be listed]:NAME:_default' \
'--per-node=[Runs on each node]:N:_default' \
'*--label=[Label of the nodes for the record, or NAME=VALUE]:LABEL:_default' \
'--image=[Image with lasthop and the servers of the experiment]:IMAGE:_default' \
'--cpus=[Whole CPUs for each Pod]:N:_default' \
'--memory=[Memory for each Pod]:QUANTITY:_default' \
'*--pods=[Compare layouts of Pods\: tcp, unix, …]::LAYOUT,…:(tcp unix service other-node)' \
'--wait=[Longest time until a Pod has started]:TIME:_default' \
'--context=[Context of the kubeconfig \[default\: its current one\]]:CONTEXT:_default' \
'-n+[Namespace \[default\: the context'\''s\]]:NAMESPACE:_default' \
'--namespace=[Namespace \[default\: the context'\''s\]]:NAMESPACE:_default' \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow]:SHARE:_default' \
'--budget=[Time for the whole run (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial \[default\: the experiment'\''s, mostly 50 ms, or longer for slow replies\]]:TIME:_default' \
'--warm-up=[Length of the warm-up before each trial \[default\: a tenth of the trial, at least 10 ms and two slow replies\]]:TIME:_default' \
'--settle=[Time to load the servers after each start, before anything is measured \[default\: the experiment'\''s, mostly none\]]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round \[default\: chosen by what a start costs\]]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: requests per second for each case]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'*--by=[What makes a kind of machine, as for \`report\`]:FACT,…:_default' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'--aa[Compare each reference case with itself]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::experiment -- An experiment (`lasthop list`), or the folder of your own:_default' \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
'*--node=[A Job for the node of this name \[default\: one Job, for any node\]]:NAME:_default' \
'*--label=[Label for the record]:NAME=VALUE:_default' \
'--image=[Image with lasthop and the servers of the experiment]:IMAGE:_default' \
'--cpus=[Whole CPUs for each Pod]:N:_default' \
'--memory=[Memory for each Pod]:QUANTITY:_default' \
'*--pods=[Compare layouts of Pods\: tcp, unix, …]::LAYOUT,…:(tcp unix service other-node)' \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow]:SHARE:_default' \
'--budget=[Time for the whole run (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial \[default\: the experiment'\''s, mostly 50 ms, or longer for slow replies\]]:TIME:_default' \
'--warm-up=[Length of the warm-up before each trial \[default\: a tenth of the trial, at least 10 ms and two slow replies\]]:TIME:_default' \
'--settle=[Time to load the servers after each start, before anything is measured \[default\: the experiment'\''s, mostly none\]]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round \[default\: chosen by what a start costs\]]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: requests per second for each case]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'--aa[Compare each reference case with itself]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::experiment -- An experiment (`lasthop list`), or the folder of your own:_default' \
&& ret=0
;;
(collect)
_arguments "${_arguments_options[@]}" : \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'*::logs -- Saved logs \[default\: standard input\]:_files' \
&& ret=0
;;
(worker)
_arguments "${_arguments_options[@]}" : \
'--linger=[How long to wait for the reader of the log]:TIME:_default' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'*::arguments:_default' \
&& ret=0
;;
(drive)
_arguments "${_arguments_options[@]}" : \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow]:SHARE:_default' \
'--budget=[Time for the whole run (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial \[default\: the experiment'\''s, mostly 50 ms, or longer for slow replies\]]:TIME:_default' \
'--warm-up=[Length of the warm-up before each trial \[default\: a tenth of the trial, at least 10 ms and two slow replies\]]:TIME:_default' \
'--settle=[Time to load the servers after each start, before anything is measured \[default\: the experiment'\''s, mostly none\]]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round \[default\: chosen by what a start costs\]]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: requests per second for each case]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'*--label=[]:NAME=VALUE:_default' \
'--format=[Format\: json, html, …]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-o+[Write the report to a file]:FILE:_files' \
'--output=[Write the report to a file]:FILE:_files' \
'*--fail-if=[Exit with 3 beyond a limit ('\''unix slower > 5%'\'')]:LIMIT:_default' \
'--aa[Compare each reference case with itself]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'-v[Also show costs, reasons and the environment]' \
'--verbose[Also show costs, reasons and the environment]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print a line every ten seconds instead of one that replaces itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
':given -- The endpoints, as JSON:_files' \
&& ret=0
;;
        esac
    ;;
esac
;;
(runs)
_arguments "${_arguments_options[@]}" : \
'--format=[Format of the list\: terminal, json, csv, markdown, or html, which also says where each run was made and what changed since the one before]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'(--remove)-o+[Write the list to a file instead of standard output; as html to a folder, with the page of each run beside it]:FILE:_files' \
'(--remove)--output=[Write the list to a file instead of standard output; as html to a folder, with the page of each run beside it]:FILE:_files' \
'(--format)*--remove=[Remove these runs for good\: names, parts of names, or \`last\`]:RUN:_default' \
'-y[Remove without asking]' \
'--yes[Remove without asking]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
&& ret=0
;;
(repro)
_arguments "${_arguments_options[@]}" : \
'--budget=[Time to measure a study by lasthop'\''s method. The study'\''s parts share it, and each gets at least one whole round. The study'\''s own method is shortened to take about as long at most]:TIME:_default' \
'--into=[Folder for records, results and the book \[default\: lasthop'\''s data folder\]]:FOLDER:_files' \
'--seed=[Seed for the order of cases and for the bootstrap]:N:_default' \
'(--all)--format=[Format of the table of one study\: terminal, markdown, html or json]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'()--all[Repeat every study that is not finished, and write a book of all of them as Markdown and JSON]' \
'--again[Repeat finished studies too]' \
'--explain[Also say by which layers of CPU time the conditions of a study differ]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::study -- Name of a study; leave it out to list the studies:_default' \
&& ret=0
;;
(selftest)
_arguments "${_arguments_options[@]}" : \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'--runs=[Number of runs]:N:_default' \
'--budget=[Time for all runs together \[default\: 2m\]]:TIME:_default' \
'--plant=[Cost to plant in a second reading of each run, as a share of a request]:SHARE:_default' \
'--format=[Format of the result\: terminal, markdown, html or json]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
trials\:"One row per trial, to make your own statistics (tidy CSV)"
markdown\:"To paste into an issue"
html\:"A page with plots, in one file"
svg\:"The ratios with their intervals, as a picture"))' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::experiment -- Name of an experiment, or the folder of your own experiment:_default' \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--measure[Also measure for a dozen seconds which differences this machine can see\: a short selftest of the experiment, or of \`sockets\`]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::experiment -- Check only what this experiment needs:_default' \
&& ret=0
;;
(setup)
_arguments "${_arguments_options[@]}" : \
'()--all[Install what the built-in experiments need, and the classic tools]' \
'--tools[Install the classic tools\: wrk, ab, httperf, h2load, psql, pgbench, sysbench, redis-benchmark]' \
'-y[Run the commands without asking]' \
'--yes[Run the commands without asking]' \
'(-y --yes)--dry-run[Show the commands and stop]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
'::experiment -- Name of an experiment, or the folder of your own experiment:_default' \
&& ret=0
;;
(new)
_arguments "${_arguments_options[@]}" : \
'--from=[Copy this experiment, with the recipes that it uses, instead of the smallest one]:EXPERIMENT:_default' \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels, also ones off by default]:FACTOR=LEVEL,…:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'(--from)--driver[Make one with a driver of your own, in Python and in Node, for a protocol that lasthop does not speak]' \
'(--from --driver)--check[Report all errors of an experiment, then ask each of its cases for two seconds]' \
'--no-run[Check only the files, and start nothing]' \
'--aa[Compare each reference case with itself]' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
':name -- Name of the experiment, and of the folder to create; with --check, of an experiment or the folder of your own:_default' \
&& ret=0
;;
(clean)
_arguments "${_arguments_options[@]}" : \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
':shell:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(serve)
_arguments "${_arguments_options[@]}" : \
'--pattern=[What to do on a connection\: echo, hello, stream, …]:PATTERN:((hello\:"Says a text and closes it"
echo\:"Says every message again"
stream\:"Sends as many bytes as it is asked for"
statsd\:"Counts the metrics in whole messages and says nothing"))' \
'--unix=[Path of a Unix socket]:PATH:_files' \
'--channel=[Hand out pipe, socketpair, shm or shm-spin]:CHANNEL:_default' \
'--abstract=[Name of an abstract Unix socket]:NAME:_default' \
'--tcp=[Address and port]:ADDRESS:PORT:_default' \
'--unixgram=[Path of a Unix datagram socket]:PATH:_files' \
'--seqpacket=[Path of a Unix socket that keeps the boundaries of messages]:PATH:_files' \
'--udp=[Address and port for UDP]:ADDRESS:PORT:_default' \
'--counter=[Where to tell by HTTP how many metrics were received (pattern statsd)]:ADDRESS:PORT:_default' \
'--pause=[How long to sleep after each message (pattern statsd), such as 1ms]:TIME:_default' \
'--certificate=[PEM file of the certificate; makes the server speak TLS]:FILE:_files' \
'--key=[PEM file of its private key]:FILE:_files' \
'--nodelay=[TCP_NODELAY on accepted connections]:NODELAY:(true false)' \
'--backlog=[Length of the accept queue]:BACKLOG:_default' \
'-h[Print help; with --all, everything]' \
'--help[Print help; with --all, everything]' \
&& ret=0
;;
        esac
    ;;
esac
}

(( $+functions[_lasthop_commands] )) ||
_lasthop_commands() {
    local commands; commands=(
'run:Run an experiment and report its result' \
'resume:Continue a run that was cut off, or that used up its budget' \
'list:List the experiments' \
'show:Show an experiment, or how the servers of a run were configured' \
'answers:Print what lasthop found on another machine; runs nothing' \
'load:Load a single endpoint and print its figures' \
'compare:Compare endpoints that are there already, such as your servers' \
'survey:Say who talks to whom here, and what a Unix socket would save' \
'report:Print a recorded run in any format, or several runs together' \
'diff:Show what changed from one run to another, with intervals' \
'fleet:Ask several machines\: does the answer depend on the machine?' \
'runs:List the recorded runs with their sizes, or remove some' \
'repro:Repeat published studies by their own method and by lasthop'\''s' \
'selftest:Compare cases with themselves\: what can this machine tell?' \
'doctor:Say what this machine can run, and what makes the rest ready' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Create your own experiment, or check one' \
'clean:Remove what a killed run left behind' \
'completions:Print a completion script for your shell' \
'serve:Start lasthop'\''s own server, for echo, hello and stream URLs' \
    )
    _describe -t commands 'lasthop commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__answers_commands] )) ||
_lasthop__subcmd__answers_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop answers commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__clean_commands] )) ||
_lasthop__subcmd__clean_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop clean commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__compare_commands] )) ||
_lasthop__subcmd__compare_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop compare commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__completions_commands] )) ||
_lasthop__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop completions commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__diff_commands] )) ||
_lasthop__subcmd__diff_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop diff commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__doctor_commands] )) ||
_lasthop__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop doctor commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__fleet_commands] )) ||
_lasthop__subcmd__fleet_commands() {
    local commands; commands=(
'run:Run an experiment on nodes of a Kubernetes cluster, and report it' \
'export:Print the Job that \`fleet run\` would make' \
'collect:Make a record of a Pod'\''s log' \
'worker:What a Pod of a fleet run executes. Internal' \
'drive:What it executes to compare layouts of Pods. Internal' \
    )
    _describe -t commands 'lasthop fleet commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__fleet__subcmd__collect_commands] )) ||
_lasthop__subcmd__fleet__subcmd__collect_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop fleet collect commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__fleet__subcmd__drive_commands] )) ||
_lasthop__subcmd__fleet__subcmd__drive_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop fleet drive commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__fleet__subcmd__export_commands] )) ||
_lasthop__subcmd__fleet__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop fleet export commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__fleet__subcmd__run_commands] )) ||
_lasthop__subcmd__fleet__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop fleet run commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__fleet__subcmd__worker_commands] )) ||
_lasthop__subcmd__fleet__subcmd__worker_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop fleet worker commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__list_commands] )) ||
_lasthop__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop list commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__load_commands] )) ||
_lasthop__subcmd__load_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop load commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__new_commands] )) ||
_lasthop__subcmd__new_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop new commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__report_commands] )) ||
_lasthop__subcmd__report_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop report commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__repro_commands] )) ||
_lasthop__subcmd__repro_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop repro commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__resume_commands] )) ||
_lasthop__subcmd__resume_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop resume commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__run_commands] )) ||
_lasthop__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop run commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__runs_commands] )) ||
_lasthop__subcmd__runs_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop runs commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__selftest_commands] )) ||
_lasthop__subcmd__selftest_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop selftest commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__serve_commands] )) ||
_lasthop__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop serve commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__setup_commands] )) ||
_lasthop__subcmd__setup_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop setup commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__show_commands] )) ||
_lasthop__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop show commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__survey_commands] )) ||
_lasthop__subcmd__survey_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop survey commands' commands "$@"
}

if [ "$funcstack[1]" = "_lasthop" ]; then
    _lasthop "$@"
else
    compdef _lasthop lasthop
fi
