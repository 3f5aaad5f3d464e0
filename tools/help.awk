# `make help`: the targets of a Makefile with what they are for, by reader. A target says both: `target: needs ## reader: text`.
BEGIN {
    split("try install operate plugin work", readers)
    heading["try"] = "Try it"
    heading["install"] = "Install it on a cluster"
    heading["operate"] = "Operate it"
    heading["plugin"] = "Write a plugin"
    heading["work"] = "Work on it"
}
match($0, /^[a-z-]+:.*## [a-z]+: /) {
    target = substr($0, 1, index($0, ":") - 1)
    said = substr($0, RLENGTH + 1)
    reader = substr($0, 1, RLENGTH - 2)
    sub(/.*## /, "", reader)
    list[reader] = list[reader] sprintf("  make %-18s %s\n", target, said)
}
END {
    for (number = 1; number in readers; number++)
        printf("%s:\n%s\n", heading[readers[number]], list[readers[number]])
}
