# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_lasthop_global_optspecs
    string join \n only= set= aa precision= budget= margin= trial= warm-up= settle= blocks= seed= no-headroom rounds= placement= rate= arrivals= overload= driver= cross-check= driver-at= ssh-option= ssh-config= driver-program= listen= explain layers= program= engine= format= o/output= v/verbose fail-if= label= q/quiet no-progress h/help V/version
end

function __fish_lasthop_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_lasthop_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_lasthop_using_subcommand
    set -l cmd (__fish_lasthop_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c lasthop -n "__fish_lasthop_needs_command" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l precision -d 'Stop once every interval is this narrow' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l budget -d 'Time for the whole run (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l trial -d 'Length of one trial [default: the experiment\'s, mostly 50 ms, or longer for slow replies]' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l warm-up -d 'Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l settle -d 'Time to load the servers after each start, before anything is measured [default: the experiment\'s, mostly none]' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l blocks -d 'Blocks per round; services restart after each round [default: chosen by what a start costs]' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l rate -d 'Open loop: requests per second for each case' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l overload -d 'Offer each case multiples of its capacity' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver -d 'Drive with a classic tool instead: wrk, ab, httperf, h2load, psql, pgbench, sysbench or redis-benchmark. You can add flags for the tool (`\'wrk -t2 -c10 -d5s\'`). Trials then last whole seconds' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l cross-check -d 'Measure every case with this classic tool too, and report whether it agrees with lasthop\'s load generator' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver-at -d 'Run the driver elsewhere: `netns:new` (a network namespace that lasthop creates), `netns:NAME`, or `ssh:[USER@]HOST[:PORT]` (lasthop copies itself there and removes the copy afterwards)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l ssh-option -d 'Option for ssh (`-o`), such as `IdentityFile=…`' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l ssh-config -d 'Configuration file for ssh (`-F`)' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver-program -d 'Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l listen -d 'Address of this machine on which services listen for a driver on another host' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l layers -d 'Your own layers, or lines of layers for functions that have none: a file like lasthop\'s `layers.toml`' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_needs_command" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_needs_command" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l label -d 'Say in the record what machine this is, for `report` of several runs: `machine=NAME` names it, other labels are its kind (`instance=m7g.large`)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_needs_command" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_needs_command" -l explain -d 'Also say where the CPU time goes'
complete -c lasthop -n "__fish_lasthop_needs_command" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_needs_command" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_needs_command" -l no-progress -d 'Print a line every ten seconds instead of one that replaces itself'
complete -c lasthop -n "__fish_lasthop_needs_command" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_needs_command" -s V -l version -d 'Print version'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "run" -d 'Run an experiment and report its result'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "resume" -d 'Continue a run that was cut off, or that used up its budget'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "list" -d 'List the experiments'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "show" -d 'Show an experiment, or how the servers of a run were configured'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "answers" -d 'Print what lasthop found on another machine; runs nothing'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "load" -d 'Load a single endpoint and print its figures'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "compare" -d 'Compare endpoints that are there already, such as your servers'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "survey" -d 'Say who talks to whom here, and what a Unix socket would save'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "report" -d 'Print a recorded run in any format, or several runs together'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "diff" -d 'Show what changed from one run to another, with intervals'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "fleet" -d 'Ask several machines: does the answer depend on the machine?'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "runs" -d 'List the recorded runs with their sizes, or remove some'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "repro" -d 'Repeat published studies by their own method and by lasthop\'s'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "selftest" -d 'Compare cases with themselves: what can this machine tell?'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "doctor" -d 'Say what this machine can run, and what makes the rest ready'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "setup" -d 'Install what an experiment needs (shows the commands first)'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "new" -d 'Create your own experiment, or check one'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "clean" -d 'Remove what a killed run left behind'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "completions" -d 'Print a completion script for your shell'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "serve" -d 'Start lasthop\'s own server, for echo, hello and stream URLs'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l precision -d 'Stop once every interval is this narrow' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l budget -d 'Time for the whole run (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l trial -d 'Length of one trial [default: the experiment\'s, mostly 50 ms, or longer for slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l warm-up -d 'Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l settle -d 'Time to load the servers after each start, before anything is measured [default: the experiment\'s, mostly none]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l blocks -d 'Blocks per round; services restart after each round [default: chosen by what a start costs]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l rate -d 'Open loop: requests per second for each case' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l overload -d 'Offer each case multiples of its capacity' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver -d 'Drive with a classic tool instead: wrk, ab, httperf, h2load, psql, pgbench, sysbench or redis-benchmark. You can add flags for the tool (`\'wrk -t2 -c10 -d5s\'`). Trials then last whole seconds' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l cross-check -d 'Measure every case with this classic tool too, and report whether it agrees with lasthop\'s load generator' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver-at -d 'Run the driver elsewhere: `netns:new` (a network namespace that lasthop creates), `netns:NAME`, or `ssh:[USER@]HOST[:PORT]` (lasthop copies itself there and removes the copy afterwards)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l ssh-option -d 'Option for ssh (`-o`), such as `IdentityFile=…`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l ssh-config -d 'Configuration file for ssh (`-F`)' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver-program -d 'Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l listen -d 'Address of this machine on which services listen for a driver on another host' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l layers -d 'Your own layers, or lines of layers for functions that have none: a file like lasthop\'s `layers.toml`' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l label -d 'Say in the record what machine this is, for `report` of several runs: `machine=NAME` names it, other labels are its kind (`instance=m7g.large`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l again -d 'Make a recorded run again, with its cases and settings'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l explain -d 'Also say where the CPU time goes'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l no-progress -d 'Print a line every ten seconds instead of one that replaces itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l budget -d 'More time for the run, including the starts of services [default: the rest of its budget]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l trust-record -d 'Execute what the record names (hosts, ssh commands, programs, its experiment\'s folder) without asking, even if the record is not proven to be your own'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l remote -d 'Put load on other machines again; of a comparison only'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l no-progress -d 'Print a line every ten seconds instead of one that replaces itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand list" -l all -d 'Also show experiments that are not ready, and what they miss'
complete -c lasthop -n "__fish_lasthop_using_subcommand list" -l versions -d 'Also ask each program for its version, which takes a second: without this, one that is too old counts as there'
complete -c lasthop -n "__fish_lasthop_using_subcommand list" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l files -d 'List its files and those of its recipes instead, or print one (`--files nginx.conf.j2`)' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand answers" -l format -d 'Format: terminal, json, csv or markdown' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand answers" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s n -l number -d 'Send this many requests, then stop; `--duration` is still the limit. There is no warm-up, but a few requests come before, which verify the endpoint and teach the expected reply' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s d -l duration -d 'Length of the measurement' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l warm-up -d 'Length of the warm-up before it, which is not counted' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l seed -d 'Seed for Poisson arrivals, for `--order random`, and for random variables of `--requests`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l requests -d 'Send the requests of this file (`.http`)' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l order -d 'Order of the requests of `--requests`' -r -f -a "given\t'As in the file, over and over'
random\t'Drawn by their weights'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s c -l connections -d 'Number of concurrent connections' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s t -l threads -d 'Threads of the load generator' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s R -l rate -d 'Open loop: requests per second' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l arrivals -d 'Spacing of an open loop\'s requests' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s P -l pipeline -d 'Requests at once on a connection' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l requests-per-connection -d 'With `--reuse per-request`: requests to send one after the other on a connection before closing it. They are timed together, including the connect' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l reuse -d 'A connection after a reply' -r -f -a "keep-alive\t'Keep it open for the next request'
per-request\t'Close it; each request opens a new one'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l engine -d 'How to wait for sockets; blocking needs one thread per connection' -r -f -a "auto\t'Blocking if there is one connection per thread, otherwise epoll'
blocking\t''
epoll\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l spin -d 'Busy-poll for this long before sleeping; 0 never does [default: 50us before an open loop\'s request is due, else 0]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l timeout -d 'Timeout for each of: connect, TLS handshake, authentication, reply' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l connect-timeout -d 'Timeout for each of: connect, TLS handshake [default: the value of --timeout]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l nodelay -d 'Set TCP_NODELAY' -r -f -a "true\t''
false\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l send-buffer -d 'SO_SNDBUF in bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l receive-buffer -d 'SO_RCVBUF in bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l authority -d 'PEM file with the certificate authorities to trust, instead of the system\'s' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l server-name -d 'Name that the server\'s certificate must have, instead of the URL\'s host' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s X -l method -d 'Request method' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s H -l header -d 'Header to add (gRPC: metadata), or @FILE with headers' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l body -d 'Body of the request, or @FILE with it' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l expect-status -d 'Expected status [default: 200]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l command -d 'Redis and memcached: command, the same for every request, for example "GET key" or "mg key v" [default: PING; get lasthop]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l query -d 'PostgreSQL and MySQL: query [default: select 1]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l parameter -d 'PostgreSQL and MySQL: value of $1, $2, …, or of each ?; may be repeated' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l send -d 'Bytes to send with each request; with WebSocket and gRPC, the message. \\0, \\r, \\n, \\xff and the other escapes of C stand for what cannot be typed; `@FILE` takes the bytes of a file as they are, `@-` those of standard input' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l greet -d 'Bytes to send once on each connection before, with WebSocket a message, none (\'\') where the server speaks first, and await a reply. May be repeated' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l greet-until -d 'Replies to `--greet` end with these bytes, not as others do; \'\' awaits none. May be repeated, for each `--greet` one; the last is for all others' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l greet-bytes -d 'Replies to `--greet` have so many bytes; 0 awaits none. May be repeated in the same way' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l until -d 'A reply ends with these bytes, the first time that they come' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l then -d 'With `--until`: so many bytes follow them, whatever they are, before the reply ends' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l bytes -d 'A reply has so many bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l length-prefix -d 'A reply tells its length, in WIDTH bytes behind OFFSET others, most significant first, or least with `le`. It has REST bytes more than that [default: WIDTH + OFFSET]. 4@0 counts what follows it, 4@0+0 also itself' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l size -d 'echo and WebSocket: bytes per message; stream: bytes per transfer [default: 64]; gRPC: bytes of the message\'s field 1 [default: 0]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l expect -d 'Expected reply' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l format -d 'Format of the figures' -r -f -a "terminal\t''
json\t''
csv\t'One row, below its header'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s o -l output -d 'Write the figures to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l headroom -d 'Also load a server that does nothing, in turn with this one, to show how many times more requests the generator can send'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l insecure -d 'Accept any certificate, from a server on this machine'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l resumption -d 'Offer TLS session resumption on later connections'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l http1.0 -d 'Speak HTTP/1.0'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l http2 -d 'Speak HTTP/2: within TLS, or in plain with prior knowledge (h2c). --pipeline is then how many streams a connection has at once'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l simple -d 'PostgreSQL and MySQL: simple queries (the default)'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l extended -d 'PostgreSQL: parse, bind and execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l prepared -d 'PostgreSQL and MySQL: prepare once per connection, execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l binary -d 'WebSocket: send binary messages. Those that are not UTF-8 always are'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l until-close -d 'A reply ends when the peer closes the connection'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l no-reference -d 'Check only the form and status of replies; do not compare them with the first ones'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s q -l quiet -d 'Show no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l restart -d 'Command that restarts the servers between rounds' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l pid -d 'Measure the CPU time of this process and those that it started, where lasthop cannot find the server by itself' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s c -l connections -d 'Number of concurrent connections' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s t -l threads -d 'Threads of the load generator' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s R -l rate -d 'Open loop: requests per second' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l arrivals -d 'Spacing of an open loop\'s requests' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s P -l pipeline -d 'Requests at once on a connection' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l requests-per-connection -d 'With `--reuse per-request`: requests to send one after the other on a connection before closing it. They are timed together, including the connect' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l reuse -d 'A connection after a reply' -r -f -a "keep-alive\t'Keep it open for the next request'
per-request\t'Close it; each request opens a new one'"
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l engine -d 'How to wait for sockets; blocking needs one thread per connection' -r -f -a "auto\t'Blocking if there is one connection per thread, otherwise epoll'
blocking\t''
epoll\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l spin -d 'Busy-poll for this long before sleeping; 0 never does [default: 50us before an open loop\'s request is due, else 0]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l timeout -d 'Timeout for each of: connect, TLS handshake, authentication, reply' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l connect-timeout -d 'Timeout for each of: connect, TLS handshake [default: the value of --timeout]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l nodelay -d 'Set TCP_NODELAY' -r -f -a "true\t''
false\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l send-buffer -d 'SO_SNDBUF in bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l receive-buffer -d 'SO_RCVBUF in bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l authority -d 'PEM file with the certificate authorities to trust, instead of the system\'s' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l server-name -d 'Name that the server\'s certificate must have, instead of the URL\'s host' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s X -l method -d 'Request method' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s H -l header -d 'Header to add (gRPC: metadata), or @FILE with headers' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l body -d 'Body of the request, or @FILE with it' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l expect-status -d 'Expected status [default: 200]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l command -d 'Redis and memcached: command, the same for every request, for example "GET key" or "mg key v" [default: PING; get lasthop]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l query -d 'PostgreSQL and MySQL: query [default: select 1]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l parameter -d 'PostgreSQL and MySQL: value of $1, $2, …, or of each ?; may be repeated' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l send -d 'Bytes to send with each request; with WebSocket and gRPC, the message. \\0, \\r, \\n, \\xff and the other escapes of C stand for what cannot be typed; `@FILE` takes the bytes of a file as they are, `@-` those of standard input' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l greet -d 'Bytes to send once on each connection before, with WebSocket a message, none (\'\') where the server speaks first, and await a reply. May be repeated' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l greet-until -d 'Replies to `--greet` end with these bytes, not as others do; \'\' awaits none. May be repeated, for each `--greet` one; the last is for all others' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l greet-bytes -d 'Replies to `--greet` have so many bytes; 0 awaits none. May be repeated in the same way' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l until -d 'A reply ends with these bytes, the first time that they come' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l then -d 'With `--until`: so many bytes follow them, whatever they are, before the reply ends' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l bytes -d 'A reply has so many bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l length-prefix -d 'A reply tells its length, in WIDTH bytes behind OFFSET others, most significant first, or least with `le`. It has REST bytes more than that [default: WIDTH + OFFSET]. 4@0 counts what follows it, 4@0+0 also itself' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l size -d 'echo and WebSocket: bytes per message; stream: bytes per transfer [default: 64]; gRPC: bytes of the message\'s field 1 [default: 0]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l expect -d 'Expected reply' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l precision -d 'Stop once every interval is this narrow' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l budget -d 'Time for the whole run (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l trial -d 'Length of one trial [default: the experiment\'s, mostly 50 ms, or longer for slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l warm-up -d 'Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l settle -d 'Time to load the servers after each start, before anything is measured [default: the experiment\'s, mostly none]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l blocks -d 'Blocks per round; services restart after each round [default: chosen by what a start costs]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l layers -d 'Your own layers, or lines of layers for functions that have none: a file like lasthop\'s `layers.toml`' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l differing -d 'Compare endpoints that do not answer alike'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l remote -d 'Put load on other machines, too'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l insecure -d 'Accept any certificate, from a server on this machine'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l resumption -d 'Offer TLS session resumption on later connections'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l http1.0 -d 'Speak HTTP/1.0'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l http2 -d 'Speak HTTP/2: within TLS, or in plain with prior knowledge (h2c). --pipeline is then how many streams a connection has at once'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l simple -d 'PostgreSQL and MySQL: simple queries (the default)'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l extended -d 'PostgreSQL: parse, bind and execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l prepared -d 'PostgreSQL and MySQL: prepare once per connection, execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l binary -d 'WebSocket: send binary messages. Those that are not UTF-8 always are'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l until-close -d 'A reply ends when the peer closes the connection'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l no-reference -d 'Check only the form and status of replies; do not compare them with the first ones'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l explain -d 'Also say where the CPU time goes'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -l no-progress -d 'Print a line every ten seconds instead of one that replaces itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand compare" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -l for -d 'How long to watch' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -l interval -d 'How often to look at the open connections' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -l only -d 'Only links with this in a name or address' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -l budget -d 'Time for each run of --measure [default: the experiment\'s]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -l format -d 'Format of the result: terminal, json, csv, markdown or html' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -s o -l output -d 'Write the result to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -l measure -d 'Run the experiments that would tell more of these links'
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -s v -l verbose -d 'Also list links that nothing or little went over'
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -s q -l quiet -d 'Do not say how long it takes, and show no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand survey" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -l by -d 'Several runs: what makes a kind of machine: architecture, cpu, size (by the number of CPUs), kernel, cpus, distribution, virtualization, or labels [default: the first four and all labels, where they differ]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -l check -d 'Say instead what a check means and what to do about it, by the id that reports print in brackets (`driver-kept-off`); without an id, list all checks' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand diff" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand diff" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand diff" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand diff" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand diff" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and not __fish_seen_subcommand_from run export collect worker drive" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and not __fish_seen_subcommand_from run export collect worker drive" -f -a "run" -d 'Run an experiment on nodes of a Kubernetes cluster, and report it'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and not __fish_seen_subcommand_from run export collect worker drive" -f -a "export" -d 'Print the Job that `fleet run` would make'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and not __fish_seen_subcommand_from run export collect worker drive" -f -a "collect" -d 'Make a record of a Pod\'s log'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and not __fish_seen_subcommand_from run export collect worker drive" -f -a "worker" -d 'What a Pod of a fleet run executes. Internal'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and not __fish_seen_subcommand_from run export collect worker drive" -f -a "drive" -d 'What it executes to compare layouts of Pods. Internal'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l nodes -d 'Run on the ready nodes with these labels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l node -d 'Run on this node, which need not be listed' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l per-node -d 'Runs on each node' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l label -d 'Label of the nodes for the record, or NAME=VALUE' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l image -d 'Image with lasthop and the servers of the experiment' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l cpus -d 'Whole CPUs for each Pod' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l memory -d 'Memory for each Pod' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l pods -d 'Compare layouts of Pods: tcp, unix, …' -r -f -a "tcp\t''
unix\t''
service\t''
other-node\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l wait -d 'Longest time until a Pod has started' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -s n -l namespace -d 'Namespace [default: the context\'s]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l precision -d 'Stop once every interval is this narrow' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l budget -d 'Time for the whole run (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l trial -d 'Length of one trial [default: the experiment\'s, mostly 50 ms, or longer for slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l warm-up -d 'Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l settle -d 'Time to load the servers after each start, before anything is measured [default: the experiment\'s, mostly none]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l blocks -d 'Blocks per round; services restart after each round [default: chosen by what a start costs]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l rate -d 'Open loop: requests per second for each case' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l by -d 'What makes a kind of machine, as for `report`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l node -d 'A Job for the node of this name [default: one Job, for any node]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l label -d 'Label for the record' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l image -d 'Image with lasthop and the servers of the experiment' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l cpus -d 'Whole CPUs for each Pod' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l memory -d 'Memory for each Pod' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l pods -d 'Compare layouts of Pods: tcp, unix, …' -r -f -a "tcp\t''
unix\t''
service\t''
other-node\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l precision -d 'Stop once every interval is this narrow' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l budget -d 'Time for the whole run (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l trial -d 'Length of one trial [default: the experiment\'s, mostly 50 ms, or longer for slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l warm-up -d 'Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l settle -d 'Time to load the servers after each start, before anything is measured [default: the experiment\'s, mostly none]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l blocks -d 'Blocks per round; services restart after each round [default: chosen by what a start costs]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l rate -d 'Open loop: requests per second for each case' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from collect" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from worker" -l linger -d 'How long to wait for the reader of the log' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from worker" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l precision -d 'Stop once every interval is this narrow' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l budget -d 'Time for the whole run (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l trial -d 'Length of one trial [default: the experiment\'s, mostly 50 ms, or longer for slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l warm-up -d 'Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l settle -d 'Time to load the servers after each start, before anything is measured [default: the experiment\'s, mostly none]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l blocks -d 'Blocks per round; services restart after each round [default: chosen by what a start costs]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l rate -d 'Open loop: requests per second for each case' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l label -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l format -d 'Format: json, html, …' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -s o -l output -d 'Write the report to a file' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l fail-if -d 'Exit with 3 beyond a limit (\'unix slower > 5%\')' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -s v -l verbose -d 'Also show costs, reasons and the environment'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -l no-progress -d 'Print a line every ten seconds instead of one that replaces itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand fleet; and __fish_seen_subcommand_from drive" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -l format -d 'Format of the list: terminal, json, csv, markdown, or html, which also says where each run was made and what changed since the one before' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -s o -l output -d 'Write the list to a file instead of standard output; as html to a folder, with the page of each run beside it' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -l remove -d 'Remove these runs for good: names, parts of names, or `last`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -s y -l yes -d 'Remove without asking'
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l budget -d 'Time to measure a study by lasthop\'s method. The study\'s parts share it, and each gets at least one whole round. The study\'s own method is shortened to take about as long at most' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l into -d 'Folder for records, results and the book [default: lasthop\'s data folder]' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l seed -d 'Seed for the order of cases and for the bootstrap' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l format -d 'Format of the table of one study: terminal, markdown, html or json' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l all -d 'Repeat every study that is not finished, and write a book of all of them as Markdown and JSON'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l again -d 'Repeat finished studies too'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l explain -d 'Also say by which layers of CPU time the conditions of a study differ'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -l runs -d 'Number of runs' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -l budget -d 'Time for all runs together [default: 2m]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -l plant -d 'Cost to plant in a second reading of each run, as a share of a request' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -l format -d 'Format of the result: terminal, markdown, html or json' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
trials\t'One row per trial, to make your own statistics (tidy CSV)'
markdown\t'To paste into an issue'
html\t'A page with plots, in one file'
svg\t'The ratios with their intervals, as a picture'"
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand selftest" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l measure -d 'Also measure for a dozen seconds which differences this machine can see: a short selftest of the experiment, or of `sockets`'
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l all -d 'Install what the built-in experiments need, and the classic tools'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l tools -d 'Install the classic tools: wrk, ab, httperf, h2load, psql, pgbench, sysbench, redis-benchmark'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -s y -l yes -d 'Run the commands without asking'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l dry-run -d 'Show the commands and stop'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l from -d 'Copy this experiment, with the recipes that it uses, instead of the smallest one' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l set -d 'Run these levels, also ones off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l driver -d 'Make one with a driver of your own, in Python and in Node, for a protocol that lasthop does not speak'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l check -d 'Report all errors of an experiment, then ask each of its cases for two seconds'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l no-run -d 'Check only the files, and start nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -l aa -d 'Compare each reference case with itself'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand clean" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand completions" -s h -l help -d 'Print help; with --all, everything'
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l pattern -d 'What to do on a connection: echo, hello, stream, …' -r -f -a "hello\t'Says a text and closes it'
echo\t'Says every message again'
stream\t'Sends as many bytes as it is asked for'
statsd\t'Counts the metrics in whole messages and says nothing'"
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l unix -d 'Path of a Unix socket' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l channel -d 'Hand out pipe, socketpair, shm or shm-spin' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l abstract -d 'Name of an abstract Unix socket' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l tcp -d 'Address and port' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l unixgram -d 'Path of a Unix datagram socket' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l seqpacket -d 'Path of a Unix socket that keeps the boundaries of messages' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l udp -d 'Address and port for UDP' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l counter -d 'Where to tell by HTTP how many metrics were received (pattern statsd)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l pause -d 'How long to sleep after each message (pattern statsd), such as 1ms' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l certificate -d 'PEM file of the certificate; makes the server speak TLS' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l key -d 'PEM file of its private key' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l nodelay -d 'TCP_NODELAY on accepted connections' -r -f -a "true\t''
false\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l backlog -d 'Length of the accept queue' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -s h -l help -d 'Print help; with --all, everything'
