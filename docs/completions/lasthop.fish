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

complete -c lasthop -n "__fish_lasthop_needs_command" -l only -d 'Keep only these levels of a factor' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l set -d 'Run a factor at these levels, also at such that are not run by default' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l precision -d 'Stop when every interval is this narrow: half its width as a share of the ratio' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l budget -d 'Time for the whole run, starts included (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l margin -d 'Differences within this share count as none' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l trial -d 'Length of one trial' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l blocks -d 'Blocks between two restarts of the services' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l seed -d 'Seed of the order of cases and of the bootstrap; drawn and recorded if not given' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l rounds -d 'Stop after so many rounds (starts of all services)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l placement -d 'Which CPUs driver and services may use' -r -f -a "auto\t'Apart where there is a CPU for each process of the case, else free'
apart\t'The driver on a CPU of its own, the services on the others'
same\t'Driver and services on one CPU'
free\t'The scheduler decides'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l rate -d 'Every case at this rate, in requests per second over all its connections, whether or not replies came (open loop): response times are compared then, and not throughput. 0: a closed loop, the next request after the reply' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l arrivals -d 'How the requests of an open loop are spread over time; `constant` if neither this nor the experiment says' -r -f -a "constant\t'The same gap between any two'
poisson\t'Independent of each other'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver -d 'Make the load with a classic tool: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own if they are given (`\'wrk -t2 -c10 -d5s\'`). Its trials last whole seconds' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l cross-check -d 'Let a classic tool take its turn beside lasthop\'s load generator, and say whether they agree' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver-at -d 'Put the driver elsewhere: `netns:new` (a network namespace of lasthop\'s own making), `netns:NAME`, or `ssh:[USER@]HOST[:PORT]` (lasthop is copied there, and removed again)' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l ssh-option -d 'An option of ssh (`-o`), such as `IdentityFile=…`' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l ssh-config -d 'Configuration file of ssh (`-F`)' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l driver-program -d 'lasthop on the other host, in the place of a copy: the same version, for another architecture' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l listen -d 'Address of this machine at which services listen for a driver on another host' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_needs_command" -l engine -d 'Run containers with this engine; the first that can be used if not given' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_needs_command" -l images -d 'How the images of containers are made' -r -f -a "auto\t'By the experiment\'s Containerfile; where its base image cannot be had, of this machine\'s packages'
containerfile\t'By the experiment\'s Containerfile and in no other way'
packages\t'Of this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_needs_command" -l format -d 'Form of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result for programs, described by the schema of lasthop/1'
csv\t'One row a case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_needs_command" -s o -l output -d 'Write the report into a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_needs_command" -l aa -d 'Compare each reference case with itself: the spread is what this machine can resolve'
complete -c lasthop -n "__fish_lasthop_needs_command" -l no-headroom -d 'Do not calibrate the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_needs_command" -s q -l quiet -d 'Do not show progress; warnings stay'
complete -c lasthop -n "__fish_lasthop_needs_command" -l no-progress -d 'Show no progress line even on a terminal'
complete -c lasthop -n "__fish_lasthop_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_needs_command" -s V -l version -d 'Print version'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "run" -d 'Run an experiment and report its result'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "resume" -d 'Go on with a run that was interrupted, killed, or ended by its budget'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "list" -d 'List the experiments'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "show" -d 'Show an experiment: its question, services, factors and cases'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "load" -d 'Put load on one endpoint and print its figures'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "report" -d 'Report a recorded run again, in any format'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "runs" -d 'List the recorded runs'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "repro" -d 'Repeat what others published: their method beside lasthop\'s, and why the figures differ'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "export" -d 'Write the winner\'s configuration for copying, and what must be true for it'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "doctor" -d 'Say what this machine can run, what is missing, and what makes it noisy'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "setup" -d 'Install what an experiment needs (shows the commands first)'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "new" -d 'Start an experiment of your own: a folder of data that runs as it is'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "clean" -d 'Remove what a killed run left behind'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "path" -d 'Say over which hops a server on this machine is reached: proxies, DNAT, bridges, namespaces'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "completions" -d 'Write a completion script for a shell to standard output'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "drive" -d 'The load generator as a process: JSON lines in, JSON lines out'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "guard" -d 'The process that starts servers and ends them when lasthop dies'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "hold" -d 'Hold a new network namespace until the input ends'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "enter" -d 'Run a command in a network namespace'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "null" -d 'A server that says one reply for every request, and does nothing else'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "serve" -d 'lasthop\'s own server of the experiment `sockets`'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "generate" -d 'Write man page, completions and schemas into a folder'
complete -c lasthop -n "__fish_lasthop_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l only -d 'Keep only these levels of a factor' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l set -d 'Run a factor at these levels, also at such that are not run by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l precision -d 'Stop when every interval is this narrow: half its width as a share of the ratio' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l budget -d 'Time for the whole run, starts included (`60s`, `5m`)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l margin -d 'Differences within this share count as none' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l trial -d 'Length of one trial' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l blocks -d 'Blocks between two restarts of the services' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l seed -d 'Seed of the order of cases and of the bootstrap; drawn and recorded if not given' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l rounds -d 'Stop after so many rounds (starts of all services)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l placement -d 'Which CPUs driver and services may use' -r -f -a "auto\t'Apart where there is a CPU for each process of the case, else free'
apart\t'The driver on a CPU of its own, the services on the others'
same\t'Driver and services on one CPU'
free\t'The scheduler decides'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l rate -d 'Every case at this rate, in requests per second over all its connections, whether or not replies came (open loop): response times are compared then, and not throughput. 0: a closed loop, the next request after the reply' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l arrivals -d 'How the requests of an open loop are spread over time; `constant` if neither this nor the experiment says' -r -f -a "constant\t'The same gap between any two'
poisson\t'Independent of each other'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver -d 'Make the load with a classic tool: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own if they are given (`\'wrk -t2 -c10 -d5s\'`). Its trials last whole seconds' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l cross-check -d 'Let a classic tool take its turn beside lasthop\'s load generator, and say whether they agree' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver-at -d 'Put the driver elsewhere: `netns:new` (a network namespace of lasthop\'s own making), `netns:NAME`, or `ssh:[USER@]HOST[:PORT]` (lasthop is copied there, and removed again)' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l ssh-option -d 'An option of ssh (`-o`), such as `IdentityFile=…`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l ssh-config -d 'Configuration file of ssh (`-F`)' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l driver-program -d 'lasthop on the other host, in the place of a copy: the same version, for another architecture' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l listen -d 'Address of this machine at which services listen for a driver on another host' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l engine -d 'Run containers with this engine; the first that can be used if not given' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l images -d 'How the images of containers are made' -r -f -a "auto\t'By the experiment\'s Containerfile; where its base image cannot be had, of this machine\'s packages'
containerfile\t'By the experiment\'s Containerfile and in no other way'
packages\t'Of this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l format -d 'Form of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result for programs, described by the schema of lasthop/1'
csv\t'One row a case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s o -l output -d 'Write the report into a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l aa -d 'Compare each reference case with itself: the spread is what this machine can resolve'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l no-headroom -d 'Do not calibrate the load generator against a server that does nothing'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s q -l quiet -d 'Do not show progress; warnings stay'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -l no-progress -d 'Show no progress line even on a terminal'
complete -c lasthop -n "__fish_lasthop_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l budget -d 'Further time that it may take, starts included; what is left of its own if not given' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l format -d 'Form of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result for programs, described by the schema of lasthop/1'
csv\t'One row a case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s o -l output -d 'Write the report into a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s q -l quiet -d 'Do not show progress; warnings stay'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -l no-progress -d 'Show no progress line even on a terminal'
complete -c lasthop -n "__fish_lasthop_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand list" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l only -d 'Keep only these levels of a factor' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l set -d 'Run a factor at these levels, also at such that are not run by default' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -l aa -d 'Compare each reference case with itself: the spread is what this machine can resolve'
complete -c lasthop -n "__fish_lasthop_using_subcommand show" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s c -l connections -d 'Connections held at the same time' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s d -l duration -d 'Length of the measure phase' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l warm-up -d 'Load before it that is not counted' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s t -l threads -d 'Threads of the generator' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s R -l rate -d 'Open loop: requests per second over all connections, due at scheduled times whether or not replies came' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l arrivals -d 'How the requests of an open loop are spread over time' -r -f -a "constant\t'The same gap between any two'
poisson\t'Independent of each other'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l seed -d 'Seed of Poisson arrivals' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s P -l pipeline -d 'Requests sent at once on a connection before their replies are awaited' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l requests-per-connection -d 'With `--reuse per-request`: requests that a connection carries one after the other before it is closed; they are timed together, with their connect' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l reuse -d 'What becomes of a connection after a reply' -r -f -a "keep-alive\t'It is used again'
per-request\t'Each request has a connection of its own'"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l engine -d 'The way to wait for sockets; blocking takes one connection per thread' -r -f -a "auto\t'Blocking for one connection per thread, else epoll'
blocking\t''
epoll\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l spin -d 'Ask for events for so long before going to sleep, `0` for not at all [default: 50us before an open loop\'s request is due, else 0]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l timeout -d 'The longest that connecting, a TLS handshake, authentication and a reply may take, each' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l connect-timeout -d 'The longest that connecting and a TLS handshake may take, each, if it is not the same' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l nodelay -d 'TCP_NODELAY' -r -f -a "true\t''
false\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l send-buffer -d 'SO_SNDBUF in bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l receive-buffer -d 'SO_RCVBUF in bytes' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l authority -d 'PEM file with the certificate authorities to trust, instead of the system\'s own' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l server-name -d 'Name that the server\'s certificate must carry, instead of the URL\'s host' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s X -l method -d 'Request method' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s H -l header -d 'A further header, `Name: value`' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l body -d 'Body of the request' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l expect-status -d 'Status that a right reply has [default: 200]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l command -d 'Redis: the command, for example "GET key" [default: PING]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l query -d 'PostgreSQL: the query [default: select 1]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l parameter -d 'PostgreSQL: value of $1, $2, …' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l size -d 'Bytes of an echo\'s message, or of a stream\'s transfer [default: 64]' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l expect -d 'HTTP: the body that every reply has; Redis: the value; PostgreSQL: the first column of the first row' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l format -d 'Form of the figures' -r -f -a "terminal\t''
json\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s o -l output -d 'Write the figures into a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l headroom -d 'Also measure a server that does nothing: how many times more the generator could have done'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l resumption -d 'Offer TLS session resumption on later connections'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l http1.0 -d 'Speak HTTP/1.0'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l simple -d 'PostgreSQL: simple query protocol (the default)'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l extended -d 'PostgreSQL: parse, bind and execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l prepared -d 'PostgreSQL: parse once for each connection, bind and execute with every request'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -l no-reference -d 'Do not hold replies against the first one: check form and status only'
complete -c lasthop -n "__fish_lasthop_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -l format -d 'Form of the report' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result for programs, described by the schema of lasthop/1'
csv\t'One row a case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s o -l output -d 'Write the report into a file instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand runs" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l budget -d 'Time for lasthop\'s own design of a study, shared by its parts, of which each has one whole round even where that takes longer; the study\'s own method is shortened to take about as long at most' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l into -d 'Folder for records, results and the book; lasthop\'s data folder if not given' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l seed -d 'Seed of the order of cases and of the bootstrap' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l format -d 'Form of the table of one study' -r -f -a "terminal\t'Text for a terminal'
json\t'The whole result for programs, described by the schema of lasthop/1'
csv\t'One row a case, for spreadsheets and data frames'
markdown\t'To paste into an issue'"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l engine -d 'Run containers with this engine; the first that can be used if not given' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l images -d 'How the images of containers are made' -r -f -a "auto\t'By the experiment\'s Containerfile; where its base image cannot be had, of this machine\'s packages'
containerfile\t'By the experiment\'s Containerfile and in no other way'
packages\t'Of this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l all -d 'Every study, as a book: one Markdown file and one JSON file. Finished studies are not repeated'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l again -d 'Repeat finished studies, too'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -l cross-check -d 'Let the study\'s tool take its turn beside lasthop\'s load generator (pgbench for psql), and say whether they agree within 5 %; takes as long again as lasthop\'s own design'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -s q -l quiet -d 'Do not show progress; warnings stay'
complete -c lasthop -n "__fish_lasthop_using_subcommand repro" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l case -d 'This case instead of the winner' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l into -d 'Write files into a folder instead of standard output' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -l kubernetes -d 'Write the Pod of a case whose services all ran in containers, as YAML for `podman kube play` and Kubernetes'
complete -c lasthop -n "__fish_lasthop_using_subcommand export" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l program -d 'Use this executable for a recipe' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l engine -d 'Run containers with this engine; the first that can be used if not given' -r -f -a "podman\t''
docker\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -l images -d 'How the images of containers are made' -r -f -a "auto\t'By the experiment\'s Containerfile; where its base image cannot be had, of this machine\'s packages'
containerfile\t'By the experiment\'s Containerfile and in no other way'
packages\t'Of this machine\'s Debian packages, without a registry'"
complete -c lasthop -n "__fish_lasthop_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l all -d 'Every built-in experiment, and the classic tools'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l tools -d 'The classic tools that can drive: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -s y -l yes -d 'Run the commands without asking'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -l dry-run -d 'Show the commands and stop'
complete -c lasthop -n "__fish_lasthop_using_subcommand setup" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand new" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand clean" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand path" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand completions" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand drive" -l foreign -d 'A tool as JSON: choice, program, version, scratch' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand drive" -l hang-up -d 'End at once when nobody can ask any more'
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
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l certificate -d 'PEM file; with it the server speaks TLS' -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l key -r -F
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l nodelay -d 'TCP_NODELAY on accepted connections' -r -f -a "true\t''
false\t''"
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -l backlog -d 'Length of the accept queue' -r
complete -c lasthop -n "__fish_lasthop_using_subcommand serve" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand generate" -s h -l help -d 'Print help'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "run" -d 'Run an experiment and report its result'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "resume" -d 'Go on with a run that was interrupted, killed, or ended by its budget'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "list" -d 'List the experiments'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "show" -d 'Show an experiment: its question, services, factors and cases'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "load" -d 'Put load on one endpoint and print its figures'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "report" -d 'Report a recorded run again, in any format'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "runs" -d 'List the recorded runs'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "repro" -d 'Repeat what others published: their method beside lasthop\'s, and why the figures differ'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "export" -d 'Write the winner\'s configuration for copying, and what must be true for it'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "doctor" -d 'Say what this machine can run, what is missing, and what makes it noisy'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "setup" -d 'Install what an experiment needs (shows the commands first)'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "new" -d 'Start an experiment of your own: a folder of data that runs as it is'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "clean" -d 'Remove what a killed run left behind'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "path" -d 'Say over which hops a server on this machine is reached: proxies, DNAT, bridges, namespaces'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "completions" -d 'Write a completion script for a shell to standard output'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "drive" -d 'The load generator as a process: JSON lines in, JSON lines out'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "guard" -d 'The process that starts servers and ends them when lasthop dies'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "hold" -d 'Hold a new network namespace until the input ends'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "enter" -d 'Run a command in a network namespace'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "null" -d 'A server that says one reply for every request, and does nothing else'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "serve" -d 'lasthop\'s own server of the experiment `sockets`'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "generate" -d 'Write man page, completions and schemas into a folder'
complete -c lasthop -n "__fish_lasthop_using_subcommand help; and not __fish_seen_subcommand_from run resume list show load report runs repro export doctor setup new clean path completions drive guard hold enter null serve generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
