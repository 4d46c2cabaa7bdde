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
'*--only=[Keep only these levels of a factor]:FACTOR=LEVEL,…:_default' \
'*--set=[Run a factor at these levels, also at such that are not run by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop when every interval is this narrow\: half its width as a share of the ratio]:SHARE:_default' \
'--budget=[Time for the whole run, starts included (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Differences within this share count as none]:SHARE:_default' \
'--trial=[Length of one trial]:TIME:_default' \
'--blocks=[Blocks between two restarts of the services]:N:_default' \
'--seed=[Seed of the order of cases and of the bootstrap; drawn and recorded if not given]:N:_default' \
'--rounds=[Stop after so many rounds (starts of all services)]:N:_default' \
'--placement=[Which CPUs driver and services may use]:PLACEMENT:((auto\:"Apart where there is a CPU for each process of the case, else free"
apart\:"The driver on a CPU of its own, the services on the others"
same\:"Driver and services on one CPU"
free\:"The scheduler decides"))' \
'--rate=[Every case at this rate, in requests per second over all its connections, whether or not replies came (open loop)\: response times are compared then, and not throughput. 0\: a closed loop, the next request after the reply]:PER_SECOND:_default' \
'--arrivals=[How the requests of an open loop are spread over time; \`constant\` if neither this nor the experiment says]:ARRIVALS:((constant\:"The same gap between any two"
poisson\:"Independent of each other"))' \
'--driver=[Make the load with a classic tool\: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own if they are given (\`'\''wrk -t2 -c10 -d5s'\''\`). Its trials last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Let a classic tool take its turn beside lasthop'\''s load generator, and say whether they agree]:TOOL:_default' \
'--driver-at=[Put the driver elsewhere\: \`netns\:new\` (a network namespace of lasthop'\''s own making), \`netns\:NAME\`, or \`ssh\:\[USER@\]HOST\[\:PORT\]\` (lasthop is copied there, and removed again)]:PLACE:_default' \
'*--ssh-option=[An option of ssh (\`-o\`), such as \`IdentityFile=…\`]:KEY=VALUE:_default' \
'--ssh-config=[Configuration file of ssh (\`-F\`)]:FILE:_files' \
'--driver-program=[lasthop on the other host, in the place of a copy\: the same version, for another architecture]:PATH:_default' \
'--listen=[Address of this machine at which services listen for a driver on another host]:ADDRESS:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'--images=[How the images of containers are made]:IMAGES:((auto\:"By the experiment'\''s Containerfile; where its base image cannot be had, of this machine'\''s packages"
containerfile\:"By the experiment'\''s Containerfile and in no other way"
packages\:"Of this machine'\''s Debian packages, without a registry"))' \
'--format=[Form of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report into a file instead of standard output]:FILE:_files' \
'--output=[Write the report into a file instead of standard output]:FILE:_files' \
'--aa[Compare each reference case with itself\: the spread is what this machine can resolve]' \
'--no-headroom[Do not calibrate the load generator against a server that does nothing]' \
'-q[Do not show progress; warnings stay]' \
'--quiet[Do not show progress; warnings stay]' \
'--no-progress[Show no progress line even on a terminal]' \
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
'*--only=[Keep only these levels of a factor]:FACTOR=LEVEL,…:_default' \
'*--set=[Run a factor at these levels, also at such that are not run by default]:FACTOR=LEVEL,…:_default' \
'--precision=[Stop when every interval is this narrow\: half its width as a share of the ratio]:SHARE:_default' \
'--budget=[Time for the whole run, starts included (\`60s\`, \`5m\`)]:TIME:_default' \
'--margin=[Differences within this share count as none]:SHARE:_default' \
'--trial=[Length of one trial]:TIME:_default' \
'--blocks=[Blocks between two restarts of the services]:N:_default' \
'--seed=[Seed of the order of cases and of the bootstrap; drawn and recorded if not given]:N:_default' \
'--rounds=[Stop after so many rounds (starts of all services)]:N:_default' \
'--placement=[Which CPUs driver and services may use]:PLACEMENT:((auto\:"Apart where there is a CPU for each process of the case, else free"
apart\:"The driver on a CPU of its own, the services on the others"
same\:"Driver and services on one CPU"
free\:"The scheduler decides"))' \
'--rate=[Every case at this rate, in requests per second over all its connections, whether or not replies came (open loop)\: response times are compared then, and not throughput. 0\: a closed loop, the next request after the reply]:PER_SECOND:_default' \
'--arrivals=[How the requests of an open loop are spread over time; \`constant\` if neither this nor the experiment says]:ARRIVALS:((constant\:"The same gap between any two"
poisson\:"Independent of each other"))' \
'--driver=[Make the load with a classic tool\: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own if they are given (\`'\''wrk -t2 -c10 -d5s'\''\`). Its trials last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Let a classic tool take its turn beside lasthop'\''s load generator, and say whether they agree]:TOOL:_default' \
'--driver-at=[Put the driver elsewhere\: \`netns\:new\` (a network namespace of lasthop'\''s own making), \`netns\:NAME\`, or \`ssh\:\[USER@\]HOST\[\:PORT\]\` (lasthop is copied there, and removed again)]:PLACE:_default' \
'*--ssh-option=[An option of ssh (\`-o\`), such as \`IdentityFile=…\`]:KEY=VALUE:_default' \
'--ssh-config=[Configuration file of ssh (\`-F\`)]:FILE:_files' \
'--driver-program=[lasthop on the other host, in the place of a copy\: the same version, for another architecture]:PATH:_default' \
'--listen=[Address of this machine at which services listen for a driver on another host]:ADDRESS:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'--images=[How the images of containers are made]:IMAGES:((auto\:"By the experiment'\''s Containerfile; where its base image cannot be had, of this machine'\''s packages"
containerfile\:"By the experiment'\''s Containerfile and in no other way"
packages\:"Of this machine'\''s Debian packages, without a registry"))' \
'--format=[Form of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report into a file instead of standard output]:FILE:_files' \
'--output=[Write the report into a file instead of standard output]:FILE:_files' \
'--aa[Compare each reference case with itself\: the spread is what this machine can resolve]' \
'--no-headroom[Do not calibrate the load generator against a server that does nothing]' \
'-q[Do not show progress; warnings stay]' \
'--quiet[Do not show progress; warnings stay]' \
'--no-progress[Show no progress line even on a terminal]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::experiment -- Name of an experiment (see `lasthop list`), or the folder of your own:_default' \
&& ret=0
;;
(resume)
_arguments "${_arguments_options[@]}" : \
'--budget=[Further time that it may take, starts included; what is left of its own if not given]:TIME:_default' \
'--format=[Form of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report into a file instead of standard output]:FILE:_files' \
'--output=[Write the report into a file instead of standard output]:FILE:_files' \
'-q[Do not show progress; warnings stay]' \
'--quiet[Do not show progress; warnings stay]' \
'--no-progress[Show no progress line even on a terminal]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::run -- A run\: its name or a part of it, its directory, or `last`:_default' \
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
'*--only=[Keep only these levels of a factor]:FACTOR=LEVEL,…:_default' \
'*--set=[Run a factor at these levels, also at such that are not run by default]:FACTOR=LEVEL,…:_default' \
'--aa[Compare each reference case with itself\: the spread is what this machine can resolve]' \
'-h[Print help]' \
'--help[Print help]' \
':experiment -- Name of an experiment, or the folder of your own:_default' \
&& ret=0
;;
(load)
_arguments "${_arguments_options[@]}" : \
'-c+[Connections held at the same time]:N:_default' \
'--connections=[Connections held at the same time]:N:_default' \
'-d+[Length of the measure phase]:TIME:_default' \
'--duration=[Length of the measure phase]:TIME:_default' \
'--warm-up=[Load before it that is not counted]:TIME:_default' \
'-t+[Threads of the generator]:N:_default' \
'--threads=[Threads of the generator]:N:_default' \
'-R+[Open loop\: requests per second over all connections, due at scheduled times whether or not replies came]:PER SECOND:_default' \
'--rate=[Open loop\: requests per second over all connections, due at scheduled times whether or not replies came]:PER SECOND:_default' \
'--arrivals=[How the requests of an open loop are spread over time]:ARRIVALS:((constant\:"The same gap between any two"
poisson\:"Independent of each other"))' \
'--seed=[Seed of Poisson arrivals]:N:_default' \
'-P+[Requests sent at once on a connection before their replies are awaited]:DEPTH:_default' \
'--pipeline=[Requests sent at once on a connection before their replies are awaited]:DEPTH:_default' \
'--requests-per-connection=[With \`--reuse per-request\`\: requests that a connection carries one after the other before it is closed; they are timed together, with their connect]:N:_default' \
'--reuse=[What becomes of a connection after a reply]:REUSE:((keep-alive\:"It is used again"
per-request\:"Each request has a connection of its own"))' \
'--engine=[The way to wait for sockets; blocking takes one connection per thread]:ENGINE:((auto\:"Blocking for one connection per thread, else epoll"
blocking\:""
epoll\:""))' \
'--spin=[Ask for events for so long before going to sleep, \`0\` for not at all \[default\: 50us before an open loop'\''s request is due, else 0\]]:TIME:_default' \
'--timeout=[The longest that connecting, a TLS handshake, authentication and a reply may take, each]:TIME:_default' \
'--connect-timeout=[The longest that connecting and a TLS handshake may take, each, if it is not the same]:TIME:_default' \
'--nodelay=[TCP_NODELAY]:BOOL:(true false)' \
'--send-buffer=[SO_SNDBUF in bytes]:BYTES:_default' \
'--receive-buffer=[SO_RCVBUF in bytes]:BYTES:_default' \
'--authority=[PEM file with the certificate authorities to trust, instead of the system'\''s own]:FILE:_files' \
'--server-name=[Name that the server'\''s certificate must carry, instead of the URL'\''s host]:NAME:_default' \
'-X+[Request method]:METHOD:_default' \
'--method=[Request method]:METHOD:_default' \
'*-H+[A further header, \`Name\: value\`]:NAME: VALUE:_default' \
'*--header=[A further header, \`Name\: value\`]:NAME: VALUE:_default' \
'--body=[Body of the request]:TEXT:_default' \
'--expect-status=[Status that a right reply has \[default\: 200\]]:STATUS:_default' \
'--command=[Redis\: the command, for example "GET key" \[default\: PING\]]:WORDS:_default' \
'--query=[PostgreSQL\: the query \[default\: select 1\]]:SQL:_default' \
'*--parameter=[PostgreSQL\: value of \$1, \$2, …]:TEXT:_default' \
'--size=[Bytes of an echo'\''s message, or of a stream'\''s transfer \[default\: 64\]]:BYTES:_default' \
'--expect=[HTTP\: the body that every reply has; Redis\: the value; PostgreSQL\: the first column of the first row]:TEXT:_default' \
'--format=[Form of the figures]:FORMAT:(terminal json)' \
'-o+[Write the figures into a file instead of standard output]:FILE:_files' \
'--output=[Write the figures into a file instead of standard output]:FILE:_files' \
'--headroom[Also measure a server that does nothing\: how many times more the generator could have done]' \
'--resumption[Offer TLS session resumption on later connections]' \
'--http1.0[Speak HTTP/1.0]' \
'--simple[PostgreSQL\: simple query protocol (the default)]' \
'--extended[PostgreSQL\: parse, bind and execute with every request]' \
'--prepared[PostgreSQL\: parse once for each connection, bind and execute with every request]' \
'(--expect)--no-reference[Do not hold replies against the first one\: check form and status only]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':url -- What to drive; the forms are listed below:_default' \
&& ret=0
;;
(report)
_arguments "${_arguments_options[@]}" : \
'--format=[Form of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report into a file instead of standard output]:FILE:_files' \
'--output=[Write the report into a file instead of standard output]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::run -- A run\: its name or a part of it, its directory, or `last`:_default' \
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
'--budget=[Time for lasthop'\''s own design of a study, shared by its parts, of which each has one whole round even where that takes longer; the study'\''s own method is shortened to take about as long at most]:TIME:_default' \
'--into=[Folder for records, results and the book; lasthop'\''s data folder if not given]:FOLDER:_files' \
'--seed=[Seed of the order of cases and of the bootstrap]:N:_default' \
'--format=[Form of the table of one study]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'--images=[How the images of containers are made]:IMAGES:((auto\:"By the experiment'\''s Containerfile; where its base image cannot be had, of this machine'\''s packages"
containerfile\:"By the experiment'\''s Containerfile and in no other way"
packages\:"Of this machine'\''s Debian packages, without a registry"))' \
'()--all[Every study, as a book\: one Markdown file and one JSON file. Finished studies are not repeated]' \
'--again[Repeat finished studies, too]' \
'--cross-check[Let the study'\''s tool take its turn beside lasthop'\''s load generator (pgbench for psql), and say whether they agree within 5 %; takes as long again as lasthop'\''s own design]' \
'-q[Do not show progress; warnings stay]' \
'--quiet[Do not show progress; warnings stay]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::study -- Name of a study; without it the studies are listed:_default' \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
'--case=[This case instead of the winner]:CASE:_default' \
'--into=[Write files into a folder instead of standard output]:FOLDER:_files' \
'--kubernetes[Write the Pod of a case whose services all ran in containers, as YAML for \`podman kube play\` and Kubernetes]' \
'-h[Print help]' \
'--help[Print help]' \
'::run -- A run (its name or a part of it, its directory, or `last`), or an experiment\: its last run:_default' \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'--images=[How the images of containers are made]:IMAGES:((auto\:"By the experiment'\''s Containerfile; where its base image cannot be had, of this machine'\''s packages"
containerfile\:"By the experiment'\''s Containerfile and in no other way"
packages\:"Of this machine'\''s Debian packages, without a registry"))' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::experiment -- Only what this experiment needs:_default' \
&& ret=0
;;
(setup)
_arguments "${_arguments_options[@]}" : \
'()--all[Every built-in experiment, and the classic tools]' \
'--tools[The classic tools that can drive\: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark]' \
'-y[Run the commands without asking]' \
'--yes[Run the commands without asking]' \
'(-y --yes)--dry-run[Show the commands and stop]' \
'-h[Print help]' \
'--help[Print help]' \
'::experiment -- Name of an experiment, or the folder of your own:_default' \
&& ret=0
;;
(new)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':name -- Name of the experiment and of the folder that is made:_default' \
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
'--hang-up[End at once when nobody can ask any more]' \
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
'--certificate=[PEM file; with it the server speaks TLS]:CERTIFICATE:_files' \
'--key=[]:KEY:_files' \
'--nodelay=[TCP_NODELAY on accepted connections]:NODELAY:(true false)' \
'--backlog=[Length of the accept queue]:BACKLOG:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(generate)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':directory:_files' \
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
(generate)
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
'resume:Go on with a run that was interrupted, killed, or ended by its budget' \
'list:List the experiments' \
'show:Show an experiment\: its question, services, factors and cases' \
'load:Put load on one endpoint and print its figures' \
'report:Report a recorded run again, in any format' \
'runs:List the recorded runs' \
'repro:Repeat what others published\: their method beside lasthop'\''s, and why the figures differ' \
'export:Write the winner'\''s configuration for copying, and what must be true for it' \
'doctor:Say what this machine can run, what is missing, and what makes it noisy' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Start an experiment of your own\: a folder of data that runs as it is' \
'clean:Remove what a killed run left behind' \
'path:Say over which hops a server on this machine is reached\: proxies, DNAT, bridges, namespaces' \
'completions:Write a completion script for a shell to standard output' \
'drive:The load generator as a process\: JSON lines in, JSON lines out' \
'guard:The process that starts servers and ends them when lasthop dies' \
'hold:Hold a new network namespace until the input ends' \
'enter:Run a command in a network namespace' \
'null:A server that says one reply for every request, and does nothing else' \
'serve:lasthop'\''s own server of the experiment \`sockets\`' \
'generate:Write man page, completions and schemas into a folder' \
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
(( $+functions[_lasthop__subcmd__generate_commands] )) ||
_lasthop__subcmd__generate_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop generate commands' commands "$@"
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
'resume:Go on with a run that was interrupted, killed, or ended by its budget' \
'list:List the experiments' \
'show:Show an experiment\: its question, services, factors and cases' \
'load:Put load on one endpoint and print its figures' \
'report:Report a recorded run again, in any format' \
'runs:List the recorded runs' \
'repro:Repeat what others published\: their method beside lasthop'\''s, and why the figures differ' \
'export:Write the winner'\''s configuration for copying, and what must be true for it' \
'doctor:Say what this machine can run, what is missing, and what makes it noisy' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Start an experiment of your own\: a folder of data that runs as it is' \
'clean:Remove what a killed run left behind' \
'path:Say over which hops a server on this machine is reached\: proxies, DNAT, bridges, namespaces' \
'completions:Write a completion script for a shell to standard output' \
'drive:The load generator as a process\: JSON lines in, JSON lines out' \
'guard:The process that starts servers and ends them when lasthop dies' \
'hold:Hold a new network namespace until the input ends' \
'enter:Run a command in a network namespace' \
'null:A server that says one reply for every request, and does nothing else' \
'serve:lasthop'\''s own server of the experiment \`sockets\`' \
'generate:Write man page, completions and schemas into a folder' \
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
(( $+functions[_lasthop__subcmd__help__subcmd__generate_commands] )) ||
_lasthop__subcmd__help__subcmd__generate_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help generate commands' commands "$@"
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
