#!/bin/sh
# Records what ptxas says about every case of cases.txt, as ptxinspect runs it: from a folder of its own, the input called
# input.ptx, -v -lineinfo first (no -lineinfo with -g).
# usage: testdata/logs/record.sh VERSION=/path/to/ptxas ...
set -eu
cd "$(dirname "$0")"
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for pair in "$@"; do
    version=${pair%%=*}
    ptxas=${pair#*=}
    mkdir -p "$here/$version"
    grep -v '^#' "$here/cases.txt" | while read -r name source oldest flags; do
        newest_first=$(printf '%s\n%s\n' "$version" "$oldest" | sort -V | tail -n 1)
        [ "$newest_first" = "$version" ] || continue
        cp "$here/src/$source" input.ptx
        lineinfo=-lineinfo
        case " $flags " in *" -g "*) lineinfo= ;; esac
        # shellcheck disable=SC2086
        "$ptxas" -v $lineinfo $flags -o output.cubin input.ptx >log 2>&1 </dev/null || true
        # Some ptxas crash on wrong input; that line is the shell's.
        sed '/^Segmentation fault/d' log >"$here/$version/$name.txt"
        [ -s "$here/$version/$name.txt" ] || rm "$here/$version/$name.txt"
        rm -f output.cubin log
    done
done
