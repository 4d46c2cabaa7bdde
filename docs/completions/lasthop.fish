# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_lasthop_global_optspecs
    string join \n only= set= aa precision= budget= margin= trial= blocks= seed= no-headroom rounds= placement= rate= arrivals= driver= cross-check= driver-at= ssh-option= ssh-config= driver-program= listen= program= engine= images= format= o/output= q/quiet no-progress h/help V/version
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
complete -c lasthop -n "__fish_lasthop_needs_command" -l set -d 'Run these levels of a factor, including levels that are off by default' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l precision -d 'Stop once every interval is this narrow: half its width, as a share of the ratio' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l budget -d 'Time for the whole run, including the starts of services (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l trial -d 'Length of one trial' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l blocks -d 'Blocks per round; services restart after each round' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Apart if there is a CPU for each process of the case, otherwise free'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l rate -d 'Open loop: send this many requests per second in total to each case, and compare response times instead of throughput. 0 restores the closed loop' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver -d 'Drive with a classic tool instead: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark. You can add flags for the tool (`\'wrk -t2 -c10 -d5s\'`). Trials then last whole seconds' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l cross-check -d 'Measure every case with this classic tool too, and report whether it agrees with lasthop\'s load generator' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver-at -d 'Run the driver elsewhere: `netns:new` (a network namespace that lasthop creates), `netns:NAME`, or `ssh:[USER@]HOST[:PORT]` (lasthop copies itself there and removes the copy afterwards)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l ssh-option -d 'Option for ssh (`-o`), such as `IdentityFile=…`' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l ssh-config -d 'Configuration file for ssh (`-F`)' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver-program -d 'Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l listen -d 'Address of this machine on which services listen for a driver on another host' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_needs_command" -l images -d 'How to build container images' -r -f -a "auto\t'From the experiment\'s Containerfile, or from this machine\'s packages if its base image cannot be pulled'
containerfile\t'Only from the experiment\'s Containerfile'
packages\t'From this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l format -d 'Format of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_needs_command" -s o -l output -d 'Write the report to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l aa -d 'Compare each reference case with itself, to see the smallest difference that this machine can resolve'
complete -c lasthop -n "__fish_lasthop_needs_command" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_needs_command" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_needs_command" -l no-progress -d 'Print one line per round instead of a progress bar'
complete -c lasthop -n "__fish_lasthop_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_needs_command" -s V -l version -d 'Print version'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "run" -d 'Run an experiment and report its result'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "resume" -d 'Continue a run that was interrupted or killed, or that used up its budget'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "list" -d 'List the experiments'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "show" -d 'Show an experiment: its question, services, factors and cases'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "load" -d 'Load a single endpoint and print its figures'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "report" -d 'Print the report of a recorded run, in any format'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "runs" -d 'List the recorded runs'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "repro" -d 'Repeat published studies by their own method and by lasthop\'s, and explain why the figures differ'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "export" -d 'Print the winner\'s configuration to copy, and the conditions under which it holds'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "doctor" -d 'Check what this machine can run, what is missing, and what makes it noisy'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "setup" -d 'Install what an experiment needs (shows the commands first)'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "new" -d 'Create your own experiment: a folder of data that runs as it is'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "clean" -d 'Remove what a killed run left behind'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "path" -d 'Show the hops on the way to a server on this machine: proxies, DNAT, bridges, namespaces'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "completions" -d 'Print a completion script for your shell'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "drive" -d 'The load generator as a process: JSON lines in, JSON lines out'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "guard" -d 'The process that starts servers and ends them when lasthop dies'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "hold" -d 'Hold a new network namespace until the input ends'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "enter" -d 'Run a command in a network namespace'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "null" -d 'A server that sends one fixed reply to every request'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "serve" -d 'The server of the experiment `sockets`'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l set -d 'Run these levels of a factor, including levels that are off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l precision -d 'Stop once every interval is this narrow: half its width, as a share of the ratio' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l budget -d 'Time for the whole run, including the starts of services (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l margin -d 'Treat cases that differ by less than this share as equivalent' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l trial -d 'Length of one trial' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l blocks -d 'Blocks per round; services restart after each round' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l seed -d 'Seed for the order of cases and for the bootstrap [default: random, and recorded]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l rounds -d 'Stop after this many rounds; each round starts all services afresh' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l placement -d 'CPUs that the driver and the services may use' -r -f -a "auto\t'Apart if there is a CPU for each process of the case, otherwise free'
apart\t'The driver on its own CPU, the services on the others'
same\t'Driver and services on one CPU'
free\t'Any CPU, as the scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l rate -d 'Open loop: send this many requests per second in total to each case, and compare response times instead of throughput. 0 restores the closed loop' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l arrivals -d 'Spacing of an open loop\'s requests [default: the experiment\'s, else constant]' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver -d 'Drive with a classic tool instead: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark. You can add flags for the tool (`\'wrk -t2 -c10 -d5s\'`). Trials then last whole seconds' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l cross-check -d 'Measure every case with this classic tool too, and report whether it agrees with lasthop\'s load generator' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver-at -d 'Run the driver elsewhere: `netns:new` (a network namespace that lasthop creates), `netns:NAME`, or `ssh:[USER@]HOST[:PORT]` (lasthop copies itself there and removes the copy afterwards)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l ssh-option -d 'Option for ssh (`-o`), such as `IdentityFile=…`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l ssh-config -d 'Configuration file for ssh (`-F`)' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver-program -d 'Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed for another architecture' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l listen -d 'Address of this machine on which services listen for a driver on another host' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l images -d 'How to build container images' -r -f -a "auto\t'From the experiment\'s Containerfile, or from this machine\'s packages if its base image cannot be pulled'
containerfile\t'Only from the experiment\'s Containerfile'
packages\t'From this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l format -d 'Format of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s o -l output -d 'Write the report to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l aa -d 'Compare each reference case with itself, to see the smallest difference that this machine can resolve'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l no-headroom -d 'Skip the calibration of the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l no-progress -d 'Print one line per round instead of a progress bar'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l budget -d 'More time for the run, including the starts of services [default: the rest of its budget]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l format -d 'Format of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s o -l output -d 'Write the report to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l trust-record -d 'Execute what the record names (hosts, ssh commands, programs, its experiment\'s folder) without asking, even if the record is not one of your own'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l no-progress -d 'Print one line per round instead of a progress bar'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand list" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l only -d 'Run only these of a factor\'s default levels' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l set -d 'Run these levels of a factor, including levels that are off by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l aa -d 'Compare each reference case with itself, to see the smallest difference that this machine can resolve'
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s c -l connections -d 'Number of concurrent connections' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s d -l duration -d 'Length of the measurement' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l warm-up -d 'Length of the warm-up before it, which is not counted' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s t -l threads -d 'Number of threads of the load generator' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s R -l rate -d 'Open loop: send this many requests per second in total, on schedule, without waiting for replies' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l arrivals -d 'Spacing of an open loop\'s requests' -r -f -a "constant\t'The same gap between any two requests'
poisson\t'Random and independent, as if from many users'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l seed -d 'Seed for Poisson arrivals' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s P -l pipeline -d 'Requests to send at once on a connection before waiting for their replies' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l requests-per-connection -d 'With `--reuse per-request`: requests to send one after the other on a connection before closing it. They are timed together, including the connect' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l reuse -d 'What to do with a connection after a reply' -r -f -a "keep-alive\t'Keep it open for the next request'
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
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s H -l header -d 'Header to add, `Name: value`. `@FILE` reads headers from a file, one per line, so that no other user can see them; `@-` reads them from standard input' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l body -d 'Body of the request. `@FILE` reads it from a file, `@-` from standard input' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l expect-status -d 'Expected status [default: 200]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l command -d 'Redis and memcached: command, for example "GET key" [default: PING; get lasthop]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l query -d 'PostgreSQL: query [default: select 1]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l parameter -d 'PostgreSQL: value of $1, $2, …' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l size -d 'echo: bytes per message; stream: bytes per transfer [default: 64]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l expect -d 'Expected reply. HTTP: the body; Redis and memcached: the value; PostgreSQL: the first column of the first row' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l format -d 'Format of the figures' -r -f -a "terminal\t''
json\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s o -l output -d 'Write the figures to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l headroom -d 'Also load a server that does nothing, to show how many times more requests the generator can send'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l resumption -d 'Offer TLS session resumption on later connections'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l http1.0 -d 'Speak HTTP/1.0'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l simple -d 'PostgreSQL: simple query protocol (the default)'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l extended -d 'PostgreSQL: parse, bind and execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l prepared -d 'PostgreSQL: parse once per connection, bind and execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l no-reference -d 'Check only the form and status of replies; do not compare them with the first one'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -l format -d 'Format of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s o -l output -d 'Write the report to a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l budget -d 'Time to measure a study by lasthop\'s method. The study\'s parts share it, and each gets at least one whole round. The study\'s own method is shortened to take about as long at most' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l into -d 'Folder for records, results and the book [default: lasthop\'s data folder]' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l seed -d 'Seed for the order of cases and for the bootstrap' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l format -d 'Format of the table of one study' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result, for programs (schema lasthop/1)'
csv\t'One row per case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l images -d 'How to build container images' -r -f -a "auto\t'From the experiment\'s Containerfile, or from this machine\'s packages if its base image cannot be pulled'
containerfile\t'Only from the experiment\'s Containerfile'
packages\t'From this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l all -d 'Repeat every study that is not finished, and write a book of all of them as Markdown and JSON'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l again -d 'Repeat finished studies too'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l cross-check -d 'Measure with the study\'s tool too (pgbench for psql), and report whether it agrees with lasthop\'s load generator within 5 %. Adds the time of one more measurement by lasthop\'s method'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -s q -l quiet -d 'Show warnings but no progress'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l case -d 'Export this case instead of the winner' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l into -d 'Write files to a folder instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l force -d 'Overwrite existing files'
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l kubernetes -d 'Export a Pod as YAML for `podman kube play` and Kubernetes. All services of the case must have run in containers'
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l engine -d 'Container engine [default: the first that works]' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l images -d 'How to build container images' -r -f -a "auto\t'From the experiment\'s Containerfile, or from this machine\'s packages if its base image cannot be pulled'
containerfile\t'Only from the experiment\'s Containerfile'
packages\t'From this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l all -d 'Install what the built-in experiments need, and the classic tools'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l tools -d 'Install the classic tools: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -s y -l yes -d 'Run the commands without asking'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l dry-run -d 'Show the commands and stop'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand clean" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand path" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand completions" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand drive" -l foreign -d 'A tool as JSON: choice, program, version, scratch' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand drive" -l hang-up -d 'Exit as soon as standard input closes'
complete -c lasthop -n "__fish_lasthop_using_subcommand drive" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand guard" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand hold" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand enter" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand null" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l pattern -r -f -a "hello\t''
echo\t''
stream\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l unix -d 'Path of a Unix socket' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l abstract -d 'Name of an abstract Unix socket' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l tcp -d 'Address and port' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l certificate -d 'PEM file of the certificate; makes the server speak TLS' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l key -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l nodelay -d 'TCP_NODELAY on accepted connections' -r -f -a "true\t''
false\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l backlog -d 'Length of the accept queue' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "run" -d 'Run an experiment and report its result'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "resume" -d 'Continue a run that was interrupted or killed, or that used up its budget'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "list" -d 'List the experiments'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "show" -d 'Show an experiment: its question, services, factors and cases'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "load" -d 'Load a single endpoint and print its figures'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "report" -d 'Print the report of a recorded run, in any format'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "runs" -d 'List the recorded runs'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "repro" -d 'Repeat published studies by their own method and by lasthop\'s, and explain why the figures differ'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "export" -d 'Print the winner\'s configuration to copy, and the conditions under which it holds'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "doctor" -d 'Check what this machine can run, what is missing, and what makes it noisy'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "setup" -d 'Install what an experiment needs (shows the commands first)'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "new" -d 'Create your own experiment: a folder of data that runs as it is'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "clean" -d 'Remove what a killed run left behind'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "path" -d 'Show the hops on the way to a server on this machine: proxies, DNAT, bridges, namespaces'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "completions" -d 'Print a completion script for your shell'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "drive" -d 'The load generator as a process: JSON lines in, JSON lines out'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "guard" -d 'The process that starts servers and ends them when lasthop dies'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "hold" -d 'Hold a new network namespace until the input ends'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "enter" -d 'Run a command in a network namespace'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "null" -d 'A server that sends one fixed reply to every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "serve" -d 'The server of the experiment `sockets`'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
