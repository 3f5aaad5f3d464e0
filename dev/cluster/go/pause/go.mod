module berth.dev/dev/cluster/pause

go 1.26.0
