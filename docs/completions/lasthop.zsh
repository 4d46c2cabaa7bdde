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
'*--set=[Run these levels of a factor, including levels that are off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow\: half its width, as a share of the ratio]:SHARE:_default' \
'--budget=[Time for the whole run, including the starts of services (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Apart if there is a CPU for each process of the case, otherwise free"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: send this many requests per second in total to each case, and compare response times instead of throughput. 0 restores the closed loop]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'--driver=[Drive with a classic tool instead\: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark. You can add flags for the tool (\`'\''wrk -t2 -c10 -d5s'\''\`). Trials then last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Measure every case with this classic tool too, and report whether it agrees with lasthop'\''s load generator]:TOOL:_default' \
'--driver-at=[Run the driver elsewhere\: \`netns\:new\` (a network namespace that lasthop creates), \`netns\:NAME\`, or \`ssh\:\[USER@\]HOST\[\:PORT\]\` (lasthop copies itself there and removes the copy afterwards)]:PLACE:_default' \
'*--ssh-option=[Option for ssh (\`-o\`), such as \`IdentityFile=…\`]:KEY=VALUE:_default' \
'--ssh-config=[Configuration file for ssh (\`-F\`)]:FILE:_files' \
'--driver-program=[Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture]:PATH:_default' \
'--listen=[Address of this machine on which services listen for a driver on another host]:ADDRESS:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--images=[How to build container images]:IMAGES:((auto\:"From the experiment'\''s Containerfile, or from this machine'\''s packages if its base image cannot be pulled"
containerfile\:"Only from the experiment'\''s Containerfile"
packages\:"From this machine'\''s Debian packages, without a registry"))' \
'--format=[Format of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report to a file instead of standard output]:FILE:_files' \
'--output=[Write the report to a file instead of standard output]:FILE:_files' \
'--aa[Compare each reference case with itself, to see the smallest difference that this machine can resolve]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print one line per round instead of a progress bar]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
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
'*--set=[Run these levels of a factor, including levels that are off by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop once every interval is this narrow\: half its width, as a share of the ratio]:SHARE:_default' \
'--budget=[Time for the whole run, including the starts of services (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Treat cases that differ by less than this share as equivalent]:SHARE:_default' \
'--trial=[Length of one trial]:TIME:_default' \
'--blocks=[Blocks per round; services restart after each round]:N:_default' \
'--seed=[Seed for the order of cases and for the bootstrap \[default\: random, and recorded\]]:N:_default' \
'--rounds=[Stop after this many rounds; each round starts all services afresh]:N:_default' \
'--placement=[CPUs that the driver and the services may use]:PLACEMENT:((auto\:"Apart if there is a CPU for each process of the case, otherwise free"
apart\:"The driver on its own CPU, the services on the others"
same\:"Driver and services on one CPU"
free\:"Any CPU, as the scheduler decides"))' \
'--rate=[Open loop\: send this many requests per second in total to each case, and compare response times instead of throughput. 0 restores the closed loop]:PER_SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests \[default\: the experiment'\''s, else constant\]]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'--driver=[Drive with a classic tool instead\: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark. You can add flags for the tool (\`'\''wrk -t2 -c10 -d5s'\''\`). Trials then last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Measure every case with this classic tool too, and report whether it agrees with lasthop'\''s load generator]:TOOL:_default' \
'--driver-at=[Run the driver elsewhere\: \`netns\:new\` (a network namespace that lasthop creates), \`netns\:NAME\`, or \`ssh\:\[USER@\]HOST\[\:PORT\]\` (lasthop copies itself there and removes the copy afterwards)]:PLACE:_default' \
'*--ssh-option=[Option for ssh (\`-o\`), such as \`IdentityFile=…\`]:KEY=VALUE:_default' \
'--ssh-config=[Configuration file for ssh (\`-F\`)]:FILE:_files' \
'--driver-program=[Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture]:PATH:_default' \
'--listen=[Address of this machine on which services listen for a driver on another host]:ADDRESS:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--images=[How to build container images]:IMAGES:((auto\:"From the experiment'\''s Containerfile, or from this machine'\''s packages if its base image cannot be pulled"
containerfile\:"Only from the experiment'\''s Containerfile"
packages\:"From this machine'\''s Debian packages, without a registry"))' \
'--format=[Format of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report to a file instead of standard output]:FILE:_files' \
'--output=[Write the report to a file instead of standard output]:FILE:_files' \
'--aa[Compare each reference case with itself, to see the smallest difference that this machine can resolve]' \
'--no-headroom[Skip the calibration of the load generator against a server that does nothing]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print one line per round instead of a progress bar]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::experiment -- Name of an experiment (see `lasthop list`), or the folder of your own experiment:_default' \
&& ret=0
;;
(resume)
_arguments "${_arguments_options[@]}" : \
'--budget=[More time for the run, including the starts of services \[default\: the rest of its budget\]]:TIME:_default' \
'--format=[Format of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report to a file instead of standard output]:FILE:_files' \
'--output=[Write the report to a file instead of standard output]:FILE:_files' \
'--trust-record[Execute what the record names (hosts, ssh commands, programs, its experiment'\''s folder) without asking, even if the record is not one of your own]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'--no-progress[Print one line per round instead of a progress bar]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::run -- A run\: its name or part of its name, its directory, or `last`:_default' \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'*--only=[Run only these of a factor'\''s default levels]:FACTOR=LEVEL,…:_default' \
'*--set=[Run these levels of a factor, including levels that are off by default]:FACTOR=LEVEL,…:_default' \
'--aa[Compare each reference case with itself, to see the smallest difference that this machine can resolve]' \
'-h[Print help]' \
'--help[Print help]' \
':experiment -- Name of an experiment, or the folder of your own experiment:_default' \
&& ret=0
;;
(load)
_arguments "${_arguments_options[@]}" : \
'-c+[Number of concurrent connections]:N:_default' \
'--connections=[Number of concurrent connections]:N:_default' \
'-d+[Length of the measurement]:TIME:_default' \
'--duration=[Length of the measurement]:TIME:_default' \
'--warm-up=[Length of the warm-up before it, which is not counted]:TIME:_default' \
'-t+[Number of threads of the load generator]:N:_default' \
'--threads=[Number of threads of the load generator]:N:_default' \
'-R+[Open loop\: send this many requests per second in total, on schedule, without waiting for replies]:PER SECOND:_default' \
'--rate=[Open loop\: send this many requests per second in total, on schedule, without waiting for replies]:PER SECOND:_default' \
'--arrivals=[Spacing of an open loop'\''s requests]:ARRIVALS:((constant\:"The same gap between any two requests"
poisson\:"Random and independent, as if from many users"))' \
'--seed=[Seed for Poisson arrivals]:N:_default' \
'-P+[Requests to send at once on a connection before waiting for their replies]:DEPTH:_default' \
'--pipeline=[Requests to send at once on a connection before waiting for their replies]:DEPTH:_default' \
'--requests-per-connection=[With \`--reuse per-request\`\: requests to send one after the other on a connection before closing it. They are timed together, including the connect]:N:_default' \
'--reuse=[What to do with a connection after a reply]:REUSE:((keep-alive\:"Keep it open for the next request"
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
'*-H+[Header to add, \`Name\: value\`. \`@FILE\` reads headers from a file, one per line, so that no other user can see them; \`@-\` reads them from standard input]:NAME: VALUE|@FILE:_default' \
'*--header=[Header to add, \`Name\: value\`. \`@FILE\` reads headers from a file, one per line, so that no other user can see them; \`@-\` reads them from standard input]:NAME: VALUE|@FILE:_default' \
'--body=[Body of the request. \`@FILE\` reads it from a file, \`@-\` from standard input]:TEXT|@FILE:_default' \
'--expect-status=[Expected status \[default\: 200\]]:STATUS:_default' \
'--command=[Redis and memcached\: command, for example "GET key" \[default\: PING; get lasthop\]]:WORDS:_default' \
'--query=[PostgreSQL\: query \[default\: select 1\]]:SQL:_default' \
'*--parameter=[PostgreSQL\: value of \$1, \$2, …]:TEXT:_default' \
'--size=[echo\: bytes per message; stream\: bytes per transfer \[default\: 64\]]:BYTES:_default' \
'--expect=[Expected reply. HTTP\: the body; Redis and memcached\: the value; PostgreSQL\: the first column of the first row]:TEXT:_default' \
'--format=[Format of the figures]:FORMAT:(terminal json)' \
'-o+[Write the figures to a file instead of standard output]:FILE:_files' \
'--output=[Write the figures to a file instead of standard output]:FILE:_files' \
'--headroom[Also load a server that does nothing, to show how many times more requests the generator can send]' \
'--resumption[Offer TLS session resumption on later connections]' \
'--http1.0[Speak HTTP/1.0]' \
'--simple[PostgreSQL\: simple query protocol (the default)]' \
'--extended[PostgreSQL\: parse, bind and execute with every request]' \
'--prepared[PostgreSQL\: parse once per connection, bind and execute with every request]' \
'(--expect)--no-reference[Check only the form and status of replies; do not compare them with the first one]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':url -- Endpoint to load; see URLs below:_default' \
&& ret=0
;;
(report)
_arguments "${_arguments_options[@]}" : \
'--format=[Format of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report to a file instead of standard output]:FILE:_files' \
'--output=[Write the report to a file instead of standard output]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::run -- A run\: its name or part of its name, its directory, or `last`:_default' \
&& ret=0
;;
(runs)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(repro)
_arguments "${_arguments_options[@]}" : \
'--budget=[Time to measure a study by lasthop'\''s method. The study'\''s parts share it, and each gets at least one whole round. The study'\''s own method is shortened to take about as long at most]:TIME:_default' \
'--into=[Folder for records, results and the book \[default\: lasthop'\''s data folder\]]:FOLDER:_files' \
'--seed=[Seed for the order of cases and for the bootstrap]:N:_default' \
'--format=[Format of the table of one study]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result, for programs (schema lasthop/1)"
csv\:"One row per case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--images=[How to build container images]:IMAGES:((auto\:"From the experiment'\''s Containerfile, or from this machine'\''s packages if its base image cannot be pulled"
containerfile\:"Only from the experiment'\''s Containerfile"
packages\:"From this machine'\''s Debian packages, without a registry"))' \
'()--all[Repeat every study that is not finished, and write a book of all of them as Markdown and JSON]' \
'--again[Repeat finished studies too]' \
'--cross-check[Measure with the study'\''s tool too (pgbench for psql), and report whether it agrees with lasthop'\''s load generator within 5 %. Adds the time of one more measurement by lasthop'\''s method]' \
'-q[Show warnings but no progress]' \
'--quiet[Show warnings but no progress]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::study -- Name of a study; leave it out to list the studies:_default' \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
'--case=[Export this case instead of the winner]:CASE:_default' \
'--into=[Write files to a folder instead of standard output]:FOLDER:_files' \
'--force[Overwrite existing files]' \
'--kubernetes[Export a Pod as YAML for \`podman kube play\` and Kubernetes. All services of the case must have run in containers]' \
'-h[Print help]' \
'--help[Print help]' \
'::run -- A run (its name or part of its name, its directory, or `last`), or an experiment, for its last run:_default' \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Container engine \[default\: the first that works\]]:ENGINE:(podman docker)' \
'--images=[How to build container images]:IMAGES:((auto\:"From the experiment'\''s Containerfile, or from this machine'\''s packages if its base image cannot be pulled"
containerfile\:"Only from the experiment'\''s Containerfile"
packages\:"From this machine'\''s Debian packages, without a registry"))' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::experiment -- Check only what this experiment needs:_default' \
&& ret=0
;;
(setup)
_arguments "${_arguments_options[@]}" : \
'()--all[Install what the built-in experiments need, and the classic tools]' \
'--tools[Install the classic tools\: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark]' \
'-y[Run the commands without asking]' \
'--yes[Run the commands without asking]' \
'(-y --yes)--dry-run[Show the commands and stop]' \
'-h[Print help]' \
'--help[Print help]' \
'::experiment -- Name of an experiment, or the folder of your own experiment:_default' \
&& ret=0
;;
(new)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':name -- Name of the experiment, and of the folder to create:_default' \
&& ret=0
;;
(clean)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(path)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':address -- `127.0.0.1\:8080`, `8080`, a URL, `unix\:/run/app.sock` or `unix\:@name`:_default' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':shell:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(drive)
_arguments "${_arguments_options[@]}" : \
'--foreign=[A tool as JSON\: choice, program, version, scratch]:JSON:_default' \
'--hang-up[Exit as soon as standard input closes]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(guard)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'*::arguments:_default' \
&& ret=0
;;
(hold)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(enter)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':namespace:_files' \
'*::command:_default' \
&& ret=0
;;
(null)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(serve)
_arguments "${_arguments_options[@]}" : \
'--pattern=[]:PATTERN:(hello echo stream)' \
'--unix=[Path of a Unix socket]:PATH:_files' \
'--abstract=[Name of an abstract Unix socket]:NAME:_default' \
'--tcp=[Address and port]:ADDRESS:PORT:_default' \
'--certificate=[PEM file of the certificate; makes the server speak TLS]:CERTIFICATE:_files' \
'--key=[]:KEY:_files' \
'--nodelay=[TCP_NODELAY on accepted connections]:NODELAY:(true false)' \
'--backlog=[Length of the accept queue]:BACKLOG:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lasthop__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lasthop-help-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(resume)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(load)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(report)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(runs)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(repro)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(setup)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(new)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(clean)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(path)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(drive)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(guard)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(hold)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(enter)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(null)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(serve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
}

(( $+functions[_lasthop_commands] )) ||
_lasthop_commands() {
    local commands; commands=(
'run:Run an experiment and report its result' \
'resume:Continue a run that was interrupted or killed, or that used up its budget' \
'list:List the experiments' \
'show:Show an experiment\: its question, services, factors and cases' \
'load:Load a single endpoint and print its figures' \
'report:Print the report of a recorded run, in any format' \
'runs:List the recorded runs' \
'repro:Repeat published studies by their own method and by lasthop'\''s, and explain why the figures differ' \
'export:Print the winner'\''s configuration to copy, and the conditions under which it holds' \
'doctor:Check what this machine can run, what is missing, and what makes it noisy' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Create your own experiment\: a folder of data that runs as it is' \
'clean:Remove what a killed run left behind' \
'path:Show the hops on the way to a server on this machine\: proxies, DNAT, bridges, namespaces' \
'completions:Print a completion script for your shell' \
'drive:The load generator as a process\: JSON lines in, JSON lines out' \
'guard:The process that starts servers and ends them when lasthop dies' \
'hold:Hold a new network namespace until the input ends' \
'enter:Run a command in a network namespace' \
'null:A server that sends one fixed reply to every request' \
'serve:The server of the experiment \`sockets\`' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lasthop commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__clean_commands] )) ||
_lasthop__subcmd__clean_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop clean commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__completions_commands] )) ||
_lasthop__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop completions commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__doctor_commands] )) ||
_lasthop__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop doctor commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__drive_commands] )) ||
_lasthop__subcmd__drive_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop drive commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__enter_commands] )) ||
_lasthop__subcmd__enter_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop enter commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__export_commands] )) ||
_lasthop__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop export commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__guard_commands] )) ||
_lasthop__subcmd__guard_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop guard commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help_commands] )) ||
_lasthop__subcmd__help_commands() {
    local commands; commands=(
'run:Run an experiment and report its result' \
'resume:Continue a run that was interrupted or killed, or that used up its budget' \
'list:List the experiments' \
'show:Show an experiment\: its question, services, factors and cases' \
'load:Load a single endpoint and print its figures' \
'report:Print the report of a recorded run, in any format' \
'runs:List the recorded runs' \
'repro:Repeat published studies by their own method and by lasthop'\''s, and explain why the figures differ' \
'export:Print the winner'\''s configuration to copy, and the conditions under which it holds' \
'doctor:Check what this machine can run, what is missing, and what makes it noisy' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Create your own experiment\: a folder of data that runs as it is' \
'clean:Remove what a killed run left behind' \
'path:Show the hops on the way to a server on this machine\: proxies, DNAT, bridges, namespaces' \
'completions:Print a completion script for your shell' \
'drive:The load generator as a process\: JSON lines in, JSON lines out' \
'guard:The process that starts servers and ends them when lasthop dies' \
'hold:Hold a new network namespace until the input ends' \
'enter:Run a command in a network namespace' \
'null:A server that sends one fixed reply to every request' \
'serve:The server of the experiment \`sockets\`' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lasthop help commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__clean_commands] )) ||
_lasthop__subcmd__help__subcmd__clean_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help clean commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__completions_commands] )) ||
_lasthop__subcmd__help__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help completions commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__doctor_commands] )) ||
_lasthop__subcmd__help__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help doctor commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__drive_commands] )) ||
_lasthop__subcmd__help__subcmd__drive_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help drive commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__enter_commands] )) ||
_lasthop__subcmd__help__subcmd__enter_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help enter commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__export_commands] )) ||
_lasthop__subcmd__help__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help export commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__guard_commands] )) ||
_lasthop__subcmd__help__subcmd__guard_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help guard commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__help_commands] )) ||
_lasthop__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help help commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__hold_commands] )) ||
_lasthop__subcmd__help__subcmd__hold_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help hold commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__list_commands] )) ||
_lasthop__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help list commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__load_commands] )) ||
_lasthop__subcmd__help__subcmd__load_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help load commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__new_commands] )) ||
_lasthop__subcmd__help__subcmd__new_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help new commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__null_commands] )) ||
_lasthop__subcmd__help__subcmd__null_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help null commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__path_commands] )) ||
_lasthop__subcmd__help__subcmd__path_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help path commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__report_commands] )) ||
_lasthop__subcmd__help__subcmd__report_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help report commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__repro_commands] )) ||
_lasthop__subcmd__help__subcmd__repro_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help repro commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__resume_commands] )) ||
_lasthop__subcmd__help__subcmd__resume_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help resume commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__run_commands] )) ||
_lasthop__subcmd__help__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help run commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__runs_commands] )) ||
_lasthop__subcmd__help__subcmd__runs_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help runs commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__serve_commands] )) ||
_lasthop__subcmd__help__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help serve commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__setup_commands] )) ||
_lasthop__subcmd__help__subcmd__setup_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help setup commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__show_commands] )) ||
_lasthop__subcmd__help__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help show commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__hold_commands] )) ||
_lasthop__subcmd__hold_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop hold commands' commands "$@"
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
(( $+functions[_lasthop__subcmd__null_commands] )) ||
_lasthop__subcmd__null_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop null commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__path_commands] )) ||
_lasthop__subcmd__path_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop path commands' commands "$@"
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

if [ "$funcstack[1]" = "_lasthop" ]; then
    _lasthop "$@"
else
    compdef _lasthop lasthop
fi
