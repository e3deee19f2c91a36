#!/bin/sh
# A stand-in for py-spy. What it does is told by the folder that it is called from (through a link), where it also
# leaves its PID and finds what it is to write. Root runs no scripts: there fake_py_spy.rs, a binary, becomes it.
here=${0%/*}
mode=${here##*/}
if [ "$1" = --version ]; then
    case $mode in
        old) echo "py-spy 0.2.2" ;;
        newer) echo "py-spy 1.12.0-rc1" ;;
        other) echo "Python 3.11.7" ;;
        mute) exec sleep 600 ;;
        broken) echo "pyenv: py-spy: command not found" >&2; exit 127 ;;
        *) echo "py-spy 0.4.3" ;;
    esac
    exit
fi
echo $$ > "$here/pid"
echo "$@" > "$here/arguments"
while [ $# -gt 0 ]; do
    [ "$1" = --output ] && output=$2
    shift
done
case $mode in
    document) echo "py-spy> Wrote it"; cat "$here/document" > "$output" ;;
    busy) # Some tenths of a second of CPU time.
        i=0
        while [ $i -lt 1500000 ]; do i=$((i + 1)); done
        cat "$here/document" > "$output"
        ;;
    nothing) ;;
    words) cat "$here/document" >&2; exit 1 ;;
    hang) exec sleep 600 ;;
    wrapper) trap '' TERM INT HUP; sleep 600 & echo $! > "$here/inner"; wait ;;
    daemon*)
        (setsid sh -c 'echo $$ > "$1/inner"; exec sleep 600' sh "$here" >/dev/null 2>&1 &)
        while [ ! -s "$here/inner" ]; do sleep 0.01; done
        [ "$mode" = daemon ] || exec sleep 600
        cat "$here/document" > "$output"
        ;;
    crash) kill -SEGV $$ ;;
    flood) head -c 100000000 /dev/zero > "$output" ;;
    chatter) head -c 100000000 /dev/zero >&2 ;;
    stopper) sed 's/ S / T /' "$here/stat" > "$here/proc/7/stat" && cat "$here/document" > "$output" ;;
esac
