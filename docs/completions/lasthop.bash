_lasthop() {
    mapfile -t COMPREPLY < <(LASTHOP_COMPLETE=bash command lasthop -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    [[ ${COMPREPLY-} != *[=/] ]] || compopt -o nospace 2>/dev/null
}
complete -o bashdefault -o nosort -F _lasthop lasthop 2>/dev/null || complete -o bashdefault -F _lasthop lasthop
