module berth.dev/dev/kind-node-image/runtime

go 1.26.0
