complete --keep-order --exclusive --command lasthop --arguments "(LASTHOP_COMPLETE=fish lasthop -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
