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
'--driver=[Make the load with a classic tool\: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own if they are given (\`'\''wrk -t2 -c10 -d5s'\''\`). Its trials last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Let a classic tool take its turn beside lasthop'\''s load generator, and say whether they agree]:TOOL:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'--format=[Form of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report into a file instead of standard output]:FILE:_files' \
'--output=[Write the report into a file instead of standard output]:FILE:_files' \
'--aa[Compare each reference case with itself\: the spread is what this machine can resolve]' \
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
'--driver=[Make the load with a classic tool\: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own if they are given (\`'\''wrk -t2 -c10 -d5s'\''\`). Its trials last whole seconds]:TOOL:_default' \
'(--driver)*--cross-check=[Let a classic tool take its turn beside lasthop'\''s load generator, and say whether they agree]:TOOL:_default' \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'--format=[Form of the report]:FORMAT:((terminal\:"Text for a terminal"
json\:"The whole result for programs, described by the schema of lasthop/1"
csv\:"One row a case, for spreadsheets and data frames"
markdown\:"To paste into an issue"))' \
'-o+[Write the report into a file instead of standard output]:FILE:_files' \
'--output=[Write the report into a file instead of standard output]:FILE:_files' \
'--aa[Compare each reference case with itself\: the spread is what this machine can resolve]' \
'-q[Do not show progress; warnings stay]' \
'--quiet[Do not show progress; warnings stay]' \
'--no-progress[Show no progress line even on a terminal]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::experiment -- Name of an experiment (see `lasthop list`), or the folder of your own:_default' \
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
(doctor)
_arguments "${_arguments_options[@]}" : \
'*--program=[Use this executable for a recipe]:RECIPE=PATH:_default' \
'--engine=[Run containers with this engine; the first that can be used if not given]:ENGINE:(podman docker)' \
'-h[Print help]' \
'--help[Print help]' \
'::experiment -- Only what this experiment needs:_default' \
&& ret=0
;;
(setup)
_arguments "${_arguments_options[@]}" : \
'()--all[Every built-in experiment]' \
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
(list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
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
'list:List the experiments' \
'show:Show an experiment\: its question, services, factors and cases' \
'report:Report a recorded run again, in any format' \
'runs:List the recorded runs' \
'doctor:Say what this machine can run, what is missing, and what makes it noisy' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Start an experiment of your own\: a folder of data that runs as it is' \
'clean:Remove what a killed run left behind' \
'path:Say over which hops a server on this machine is reached\: proxies, DNAT, bridges, namespaces' \
'completions:Write a completion script for a shell to standard output' \
'drive:The load generator as a process\: JSON lines in, JSON lines out' \
'guard:The process that starts servers and ends them when lasthop dies' \
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
'list:List the experiments' \
'show:Show an experiment\: its question, services, factors and cases' \
'report:Report a recorded run again, in any format' \
'runs:List the recorded runs' \
'doctor:Say what this machine can run, what is missing, and what makes it noisy' \
'setup:Install what an experiment needs (shows the commands first)' \
'new:Start an experiment of your own\: a folder of data that runs as it is' \
'clean:Remove what a killed run left behind' \
'path:Say over which hops a server on this machine is reached\: proxies, DNAT, bridges, namespaces' \
'completions:Write a completion script for a shell to standard output' \
'drive:The load generator as a process\: JSON lines in, JSON lines out' \
'guard:The process that starts servers and ends them when lasthop dies' \
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
(( $+functions[_lasthop__subcmd__help__subcmd__list_commands] )) ||
_lasthop__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help list commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__help__subcmd__new_commands] )) ||
_lasthop__subcmd__help__subcmd__new_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop help new commands' commands "$@"
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
(( $+functions[_lasthop__subcmd__list_commands] )) ||
_lasthop__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop list commands' commands "$@"
}
(( $+functions[_lasthop__subcmd__new_commands] )) ||
_lasthop__subcmd__new_commands() {
    local commands; commands=()
    _describe -t commands 'lasthop new commands' commands "$@"
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
