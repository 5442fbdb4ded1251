# Ends the processes that its starter left behind. Reads "guard <pid> <signal>", "forget <pid>" and
# "remove <folder>" from standard input, which closes when the starter dies, in whatever way. The last one started
# is ended first; each has five seconds for it, then it is killed.
trap '' INT TERM HUP PIPE

# A process that has ended stays in the table until its new parent asks for it, and would still take signals.
is_running() {
  kill -0 "$1" 2>/dev/null || return 1
  [ -r "/proc/$1/stat" ] || return 0
  read -r _ _ state _ <"/proc/$1/stat" || return 1
  [ "$state" != Z ]
}

guarded=
while read -r action subject signal; do
  case $action in
    guard) guarded="$subject:$signal $guarded" ;;
    remove) set -- "$@" "$subject" ;;
    forget)
      kept=
      for entry in $guarded; do
        [ "${entry%%:*}" = "$subject" ] || kept="$kept$entry "
      done
      guarded=$kept
      ;;
  esac
done
for entry in $guarded; do
  pid=${entry%%:*}
  kill -s "${entry#*:}" "$pid" 2>/dev/null
  tenths=50
  while [ "$tenths" -gt 0 ] && is_running "$pid"; do
    sleep 0.1
    tenths=$((tenths - 1))
  done
  is_running "$pid" && kill -s KILL "$pid" 2>/dev/null
done
[ $# -eq 0 ] || rm -rf "$@"
